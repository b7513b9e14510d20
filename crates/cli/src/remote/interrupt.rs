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

/// The user pressed Ctrl-C before the server answered: the request may have been accepted. The hint
/// says how to repeat it under its name, and `then` what that does.
pub(super) fn unanswered(identity: &Identity, then: &str) -> Failure {
    Failure::new("interrupted before the server answered; the request may have been accepted")
        .hint(format!("repeat the command with {}: {then}", flag(identity)))
        .exit(Exit::Interrupted)
}
