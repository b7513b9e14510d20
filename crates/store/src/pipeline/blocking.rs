//! `block_on`: waits for a future on the thread at hand. For threads that are not async: the
//! store has two futures, and neither needs a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future. `drive` does some of the work that the future waits for; `false` means that
/// it has none to do, and another thread will wake this one.
pub(super) fn block_on_driving<F: Future>(future: F, mut drive: impl FnMut() -> bool) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending if drive() => {}
            // A wake-up before the park makes it return at once.
            Poll::Pending => thread::park(),
        }
    }
}
