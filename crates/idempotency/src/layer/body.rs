//! Bodies, read whole and within a bound.

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError};

use crate::store::BoxError;

/// Right: a body as it came. Left: one that the middleware has read whole or made itself.
pub type GuardedBody<B> = Either<Full<Bytes>, B>;

pub(super) enum ReadError {
    TooLarge,
    Unreadable(BoxError),
}

/// All bytes of a body. Trailers are left out.
pub(super) async fn read<B>(body: B, bytes_max: usize) -> Result<Bytes, ReadError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    // With a content-length this is known before anything is read.
    if usize::try_from(body.size_hint().lower()).map_or(true, |least| least > bytes_max) {
        return Err(ReadError::TooLarge);
    }
    let mut body = pin!(body);
    // One buffer, not a list of frames: a caller may send a byte at a time.
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreadable(error.into()))?;
        if let Ok(data) = frame.into_data() {
            if data.len() > bytes_max - bytes.len() {
                return Err(ReadError::TooLarge);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

fn unreadable(error: BoxError) -> ReadError {
    // A bound that an outer layer has set.
    if error.is::<LengthLimitError>() { ReadError::TooLarge } else { ReadError::Unreadable(error) }
}
