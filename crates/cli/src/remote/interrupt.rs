//! Ctrl-C while a request is under way: the message names what may have begun, so that the user can
//! repeat it under the same key.

use std::future::Future;

use indelible_client::Identity;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::name::flag;
use crate::failure::{Exit, Failure};

/// Listens for Ctrl-C, which then no longer ends the process.
pub(super) struct Interrupts(Option<Signal>);

/// The user pressed Ctrl-C.
pub(super) struct Interrupted;

impl Interrupts {
    /// Must be called within a runtime, before anything is sent.
    pub(super) fn listen() -> Self {
        // If this fails, Ctrl-C ends the process as usual.
        Self(signal(SignalKind::interrupt()).ok())
    }

    /// Waits for the future, or for Ctrl-C.
    pub(super) async fn or<F: Future>(&mut self, future: F) -> Result<F::Output, Interrupted> {
        let Some(interrupts) = &mut self.0 else { return Ok(future.await) };
        tokio::select! {
            biased;
            output = future => Ok(output),
            _ = interrupts.recv() => Err(Interrupted),
        }
    }
}

/// The user did not wait for the answer: the call may have begun, and the hint says how to come
/// back to it. `again` says what the same command does then.
pub(super) fn unanswered(identity: &Identity, again: &str) -> Failure {
    Failure::new("interrupted; it may have begun, and then it is still running")
        .hint(format!("the same with {} {again}", flag(identity)))
        .exit(Exit::Interrupted)
}
