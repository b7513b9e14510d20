//! A future that is dropped half-way, as a service drops a handler whose client has gone.

use std::pin::pin;
use std::task::Poll;

/// Drives a future until it is ready, or has been looked at so many times in vain: then it is
/// dropped where it stands, and none is returned.
pub(crate) async fn abandon_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}
