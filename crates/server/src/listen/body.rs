//! Reading a body: within its own bound, within the budget of all of them together, and in time.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for the bytes of bodies, of all requests together. It is taken as bytes arrive, so that
/// whoever only promises them takes none.
#[derive(Debug, Clone)]
pub struct Budget {
    room: Arc<Semaphore>,
    bytes_max: usize,
}

impl Budget {
    /// Room for so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(bytes_max)), bytes_max }
    }

    /// How many bytes are taken.
    pub fn readings(&self) -> usize {
        self.bytes_max - self.room.available_permits()
    }

    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.room).try_acquire_many_owned(bytes).ok()
    }
}

/// The room that a body has, until it is dropped.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is held")] Option<OwnedSemaphorePermit>);

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than it may be.
    #[error("the body is too large")]
    TooLarge,
    /// It did not come in time.
    #[error("the body came too slowly")]
    TooSlow,
    /// It broke off, or made no sense.
    #[error("the body broke off")]
    Broken,
    /// There are too many bytes of others.
    #[error("there is no room for the body")]
    Busy,
}

/// Reads a body.
pub async fn read(
    incoming: Incoming,
    bytes_max: usize,
    time_max: Duration,
    budget: &Budget,
) -> Result<(Bytes, Held), BodyError> {
    // What says that it is too large need not be read.
    if incoming.size_hint().lower() > bytes_max as u64 {
        return Err(BodyError::TooLarge);
    }
    let collected = tokio::time::timeout(time_max, collect(incoming, bytes_max, budget)).await;
    collected.unwrap_or(Err(BodyError::TooSlow))
}

async fn collect(
    mut incoming: Incoming,
    bytes_max: usize,
    budget: &Budget,
) -> Result<(Bytes, Held), BodyError> {
    let mut held: Option<OwnedSemaphorePermit> = None;
    let mut first = Bytes::new();
    let mut rest: Option<BytesMut> = None;
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        // Trailers say nothing that is heeded.
        let Ok(data) = frame.into_data() else { continue };
        let length = rest.as_ref().map_or(first.len(), BytesMut::len) + data.len();
        if length > bytes_max {
            return Err(BodyError::TooLarge);
        }
        let more = budget.take(data.len()).ok_or(BodyError::Busy)?;
        match &mut held {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        // Most bodies come in one piece, which is passed on as it is.
        match &mut rest {
            Some(rest) => rest.extend_from_slice(&data),
            None if first.is_empty() => first = data,
            None => {
                let mut both = BytesMut::with_capacity(length * 2);
                both.extend_from_slice(&first);
                both.extend_from_slice(&data);
                rest = Some(both);
            }
        }
    }
    Ok((rest.map_or(first, BytesMut::freeze), Held(held)))
}
