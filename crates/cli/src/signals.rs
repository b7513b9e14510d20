//! `Signals`: the signals that ask a process to end.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for signals, which then no longer have their default effect.
pub(crate) struct Signals(Vec<Signal>);

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen(kinds: impl IntoIterator<Item = SignalKind>) -> io::Result<Self> {
        kinds.into_iter().map(signal).collect::<io::Result<_>>().map(Self)
    }

    /// Waits for any of them.
    pub(crate) async fn any(&mut self) {
        poll_fn(|context| {
            let came = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
