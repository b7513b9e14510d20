//! An effect whose outcome is unknown, as it is shown to clients (D5).

use indelible_journal::{Attempt, JournalKey, PromiseId, Timestamp};
use indelible_records::unresolved::{Effect, State, Unresolved};

/// An effect whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnresolvedEffect {
    /// Its promise, by which a person resolves it.
    pub promise: PromiseId,
    /// The execution that it belongs to, and which attempt at that.
    pub execution: JournalKey,
    /// The attempt at the effect whose outcome is unknown.
    pub attempt: Attempt,
    /// Since when it is unknown.
    pub since: Timestamp,
    /// Method and address.
    pub label: String,
    /// Why the outcome is unknown.
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
