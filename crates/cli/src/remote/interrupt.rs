//! Ctrl-C while something is asked for: what may have begun is named, so that the same again is done
//! once.

use std::future::Future;

use indelible_client::Identity;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::name::flag;
use crate::failure::{Exit, Failure};

/// Hears Ctrl-C from now on: what ends the process otherwise.
pub(super) struct Interrupts(Option<Signal>);

/// Somebody pressed Ctrl-C.
pub(super) struct Interrupted;

impl Interrupts {
    /// Within a runtime. Made before anything is sent.
    pub(super) fn listen() -> Self {
        // Without it, the system ends the process as it always does.
        Self(signal(SignalKind::interrupt()).ok())
    }

    /// Waits for something, or for Ctrl-C.
    pub(super) async fn or<F: Future>(&mut self, future: F) -> Result<F::Output, Interrupted> {
        let Some(interrupts) = &mut self.0 else { return Ok(future.await) };
        tokio::select! {
            biased;
            output = future => Ok(output),
            _ = interrupts.recv() => Err(Interrupted),
        }
    }
}

/// Nobody waited for the answer: it may have begun, and this is how to come back to it. `again`
/// says what the same command does then.
pub(super) fn unanswered(identity: &Identity, again: &str) -> Failure {
    Failure::new("interrupted; it may have begun, and then it goes on")
        .hint(format!("the same with {} {again}", flag(identity)))
        .exit(Exit::Interrupted)
}
