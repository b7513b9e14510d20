//! The end of an HTTP/1 connection whose peer may still be sending.
//!
//! An answer can be complete while the body of its request is still on its way: 413, 401, and
//! whatever else needs no body. A socket that is closed with unread bytes sends a reset, and a reset
//! discards the answer on the peer's side if the peer has not read it yet. So the write side is
//! closed first (hyper does that), then what the peer sends is read and dropped until the peer
//! closes, within bounds, and only then is the socket closed (RFC 9112, section 9.6).
//!
//! HTTP/2 needs none of this: a stream ends with RST_STREAM, and the connection goes on.

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::Bounds;

/// How much is read at once: a TLS record, and few calls for a large body.
const PIECE_BYTES: usize = 16 * 1024;

/// Reads and drops what the peer sends until the peer closes, or until one of the bounds is
/// reached.
pub(super) async fn drain(stream: &mut (impl AsyncRead + Unpin), bounds: &Bounds) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = bounds.linger_bytes_max;
    let draining = async {
        while left > 0 {
            match timeout(bounds.linger_silence_max, stream.read(&mut piece)).await {
                Ok(Ok(bytes @ 1..)) => left = left.saturating_sub(bytes),
                // The peer closed, reset, or is silent.
                _ => return,
            }
        }
    };
    drop(timeout(bounds.linger_time_max, draining).await);
}
