//! Tells the exporter of executions that are over, and somebody else of everything.

use std::sync::Arc;

use indelible_journal::{Failure, JournalKey};
use indelible_records::executions::Standing;
use indelible_runtime::UnresolvedEffect;
use indelible_runtime::world::{LogLine, Observer, Then};

use super::Exporter;

/// An observer that also queues what is over for the exporter. It never waits.
pub struct TracingObserver {
    /// Told everything.
    pub inner: Arc<dyn Observer>,
    /// Told what is over.
    pub exporter: Arc<Exporter>,
}

impl Observer for TracingObserver {
    fn logged(&self, line: LogLine<'_>) {
        self.inner.logged(line);
    }

    fn attempt_failed(&self, key: &JournalKey, failure: &Failure, then: Then) {
        // Its journal has no end yet. It is told of with the last attempt.
        self.inner.attempt_failed(key, failure, then);
    }

    fn ended(&self, key: &JournalKey, standing: Standing) {
        self.exporter.queue(key);
        self.inner.ended(key, standing);
    }

    fn held(&self, key: &JournalKey, why: &str) {
        self.inner.held(key, why);
    }

    fn unresolved(&self, effect: &UnresolvedEffect) {
        self.inner.unresolved(effect);
    }

    fn trouble(&self, what: &str) {
        self.inner.trouble(what);
    }
}
