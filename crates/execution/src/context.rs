//! What a tree may look at while it handles an input. None of it changes meanwhile.

use std::sync::Arc;

use indelible_journal::{
    ComponentDigest, FunctionName, JournalKey, Micros, PromiseId, RetryPolicy, Timestamp,
};
use indelible_operations::retention::Retention;
use indelible_store::Read;

/// What a tree may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The wall clock's time. It may be behind timestamps in journals (C-19).
    pub now: Timestamp,
    /// The accepted rows, this tree's own among them.
    pub reads: &'a dyn Read,
    /// Deployed components, and randomness.
    pub surroundings: &'a dyn Environment,
    /// Every bound.
    pub limits: &'a Limits,
}

/// How a context is handed on.
pub(crate) type Cx<'a> = &'a Context<'a>;

impl Context<'_> {
    /// When the record of something that ends now expires. The retention clock purges the record,
    /// so its window does not begin before that clock's time: with a wall clock that is behind, the
    /// record would be purged at once.
    pub fn expires_at(&self, made: Option<Timestamp>) -> Timestamp {
        let now = self.now.max(self.surroundings.retention_time());
        self.limits.retention.after(made, now).unwrap_or(Timestamp::MAX)
    }
}

/// The surroundings of a tree.
pub trait Environment {
    /// Random bytes.
    fn fill(&self, purpose: Purpose<'_>, bytes: &mut [u8]);
    /// The time by which records are purged (C-3).
    fn retention_time(&self) -> Timestamp;
    /// The retry policy of a function that a guest of this version calls by this name, with the
    /// version that runs, if that is not the caller's own. Err: why there is no such function, for
    /// the guest.
    fn callee(
        &self,
        own: &ComponentDigest,
        function: &FunctionName,
    ) -> Result<Arc<RetryPolicy>, String>;
    /// A function of a version, and its retry policy. Err: why the version cannot be read.
    fn function(
        &self,
        version: &ComponentDigest,
        name: &str,
    ) -> Result<Option<(FunctionName, Arc<RetryPolicy>)>, String>;
    /// The names that a version was deployed under, in their order.
    fn names_of(&self, version: &ComponentDigest) -> Arc<[String]>;
}

/// What random bytes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// A guest asked for them: they are recorded under this promise.
    Guest(&'a PromiseId),
    /// The jitter of the wait before the next attempt after this one.
    Jitter(&'a JournalKey),
    /// An id that has to be unique.
    Id,
}

/// Every bound that a tree keeps.
#[derive(Debug, Clone)]
pub struct Limits {
    /// What guests may use. Pinned with each execution that begins (D6).
    pub guest: indelible_journal::Limits,
    /// The largest payload.
    pub payload_bytes_max: usize,
    /// How long an execution that is being cancelled may clean up (C-22).
    pub cleanup_max: Micros,
    /// The most events that a guest may bring into its journal.
    pub journal_events_max: u64,
    /// The most signals that an execution buffers.
    pub signals_buffered_max: usize,
    /// The most bytes of signals that an execution buffers.
    pub signals_buffered_bytes_max: usize,
    /// How long operations are remembered (C-3).
    pub retention: Retention,
}

/// Splits `component/function`; without a component it is a function of the caller's own.
pub fn split(called: &str) -> (Option<&str>, &str) {
    match called.split_once('/') {
        Some((component, function)) => (Some(component), function),
        None => (None, called),
    }
}

/// The name of a function without its component.
pub(crate) fn function_of(called: &FunctionName) -> FunctionName {
    match split(called.as_str()) {
        (None, _) => called.clone(),
        (Some(_), name) => FunctionName::new(name).expect("a part of a name is one"),
    }
}
