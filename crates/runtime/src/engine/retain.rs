//! Letting go of what is past its time (C-3).

use indelible_store::retention::{Retention, SweepError, Swept, sweep_keeping};

use super::Engine;
use crate::retention;

impl Engine {
    /// From now on, what is past its time goes: finished trees as `retention` says, and records of
    /// operations and keys a day after the end of their window
    /// ([`Options::operation_window`](crate::Options::operation_window)). In the background, in small
    /// steps, until the engine stops; what cannot be read or written is told, and tried again.
    ///
    /// Whoever repeats a request whose tree is gone is told what came of it, as long as its operation
    /// is remembered.
    pub fn retain(&mut self, retention: Retention) -> std::io::Result<()> {
        // One at a time: the one before ends first.
        self.retention = None;
        self.retention = Some(retention::start(&self.shared, retention)?);
        Ok(())
    }

    /// A step of that, now: up to so many rows of finished trees.
    pub async fn sweep(&self, retention: &Retention, rows_max: usize) -> Result<Swept, SweepError> {
        let (store, now) = (&self.shared.store, self.shared.clock.now());
        sweep_keeping(store, now, retention, rows_max, &retention::keep).await
    }
}
