//! An effect of which nobody knows whether it happened, as others are shown it (D5).

use indelible_journal::{Attempt, JournalKey, PromiseId, Timestamp};
use indelible_records::unresolved::{Effect, State, Unresolved};

/// An effect of which nobody knows whether it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnresolvedEffect {
    /// Its promise: what is resolved.
    pub promise: PromiseId,
    /// The execution that it belongs to, and which attempt at that.
    pub execution: JournalKey,
    /// Which attempt at the effect nobody knows of.
    pub attempt: Attempt,
    /// Since when.
    pub since: Timestamp,
    /// What it is: method and address.
    pub label: String,
    /// Why nobody knows.
    pub why: String,
    /// Whether it waits for a person; else its reconciler is being asked.
    pub held: bool,
}

impl UnresolvedEffect {
    /// An effect as it is stored.
    pub fn new(effect: Effect, known: Unresolved) -> Self {
        let Effect { key, child } = effect;
        Self {
            promise: key.execution_id().child(child),
            execution: key,
            attempt: known.attempt,
            since: known.since,
            label: known.label,
            why: known.why,
            held: known.state == State::Held,
        }
    }
}
