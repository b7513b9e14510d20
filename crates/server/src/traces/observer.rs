//! An observer that queues finished executions for the exporter, and passes everything on to
//! another observer.

use std::sync::Arc;

use indelible_journal::{Failure, JournalKey};
use indelible_records::executions::Standing;
use indelible_runtime::UnresolvedEffect;
use indelible_runtime::world::{AfterFailure, LogLine, Observer, Trouble};

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

    fn attempt_failed(&self, key: &JournalKey, failure: &Failure, then: AfterFailure) {
        // Its journal has no end yet; it is exported with the last attempt.
        self.inner.attempt_failed(key, failure, then);
    }

    fn ended(&self, key: &JournalKey, standing: Standing) {
        self.exporter.queue(key);
        self.inner.ended(key, standing);
    }

    fn stuck(&self, key: &JournalKey, why: &str) {
        self.inner.stuck(key, why);
    }

    fn unresolved(&self, effect: &UnresolvedEffect) {
        self.inner.unresolved(effect);
    }

    fn trouble(&self, trouble: &Trouble<'_>) {
        self.inner.trouble(trouble);
    }
}
