//! The body of a request, read within bounds: of its own, and of all bodies together.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// For how long the next bytes of a body may take to come, by default.
pub const CHUNK_TIME_MAX: Duration = Duration::from_secs(10);

/// The bytes that all bodies may have in memory, by default: a few large components at a time, or
/// sixty of the largest payloads.
pub const BUDGET_BYTES: usize = 256 << 20;

/// What bodies may take: the memory of all of them, and the time between two pieces of one. Clones
/// share it.
#[derive(Debug, Clone)]
pub struct Budget {
    bytes: Arc<Semaphore>,
    chunk_time_max: Duration,
}

impl Budget {
    /// That many bytes.
    pub fn new(bytes: usize) -> Self {
        let bytes = Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS)));
        Self { bytes, chunk_time_max: CHUNK_TIME_MAX }
    }

    /// With another time than [`CHUNK_TIME_MAX`] for the next piece of a body to come.
    pub fn chunk_time_max(self, chunk_time_max: Duration) -> Self {
        Self { chunk_time_max, ..self }
    }

    /// How many bytes are free.
    pub fn free_bytes(&self) -> usize {
        self.bytes.available_permits()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BUDGET_BYTES)
    }
}

/// Bytes of the budget, given back when this is dropped.
#[derive(Debug)]
pub struct BudgetShare {
    permit: Option<OwnedSemaphorePermit>,
}

impl BudgetShare {
    fn take_more(&mut self, budget: &Budget, bytes: usize) -> Result<(), BodyError> {
        let bytes = u32::try_from(bytes).map_err(|_| BodyError::Busy)?;
        let more = Arc::clone(&budget.bytes).try_acquire_many_owned(bytes);
        let more = more.map_err(|_| BodyError::Busy)?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        Ok(())
    }
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than it may be.
    #[error("the body is too large")]
    TooLarge,
    /// It, or a part of it, took too long.
    #[error("the body arrives too slowly")]
    TooSlow,
    /// The connection ended before the body did.
    #[error("the body was cut off")]
    Broken,
    /// The bodies of other requests take all the memory that there is for bodies.
    #[error("request bodies take too much memory")]
    Busy,
}

/// Reads a body. One whose announced length is too large is refused unread. Bytes are counted as
/// they come, so a sender that is slow, or lies about the length, holds only what it has sent. They
/// are copied: a piece of a connection's buffer would hold the whole buffer.
pub async fn read<B: Body<Data = Bytes> + Unpin>(
    mut incoming: B,
    bytes_max: usize,
    time_max: Duration,
    budget: &Budget,
) -> Result<(Bytes, BudgetShare), BodyError> {
    let hint = incoming.size_hint();
    if usize::try_from(hint.lower()).map_or(true, |bytes| bytes > bytes_max) {
        return Err(BodyError::TooLarge);
    }
    let announced = hint.exact().and_then(|bytes| usize::try_from(bytes).ok());
    // The first chunk allocates what it needs, and a whole body that is announced fits exactly.
    let capacity_max = announced.unwrap_or(bytes_max);
    let deadline = Instant::now() + time_max;
    let mut collected = Vec::new();
    let mut held = BudgetShare { permit: None };
    loop {
        let until = deadline.min(Instant::now() + budget.chunk_time_max);
        let frame = timeout_at(until, incoming.frame()).await.map_err(|_| BodyError::TooSlow)?;
        let Some(frame) = frame else { break };
        // Trailers: no path reads them.
        let Ok(bytes) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        let needed = collected.len() + bytes.len();
        if needed > bytes_max {
            return Err(BodyError::TooLarge);
        }
        if needed > collected.capacity() {
            // Doubled, so that a body of many small pieces is not copied for each of them.
            let capacity = needed.max(capacity_max.min(collected.capacity() * 2));
            held.take_more(budget, capacity - collected.capacity())?;
            collected.reserve_exact(capacity - collected.len());
        }
        collected.extend_from_slice(&bytes);
    }
    Ok((Bytes::from(collected), held))
}
