//! An effect or a lost call whose outcome is unknown, in brief (D5).

use indelible_journal::{Attempt, JournalKey, PromiseId, Timestamp};
use indelible_records::doubts::{Doubt, DoubtId, DoubtState, Place};

/// An effect or a lost call whose outcome is unknown.
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
    /// Method and address, or the function that was called.
    pub label: String,
    /// Why the outcome is unknown.
    pub why: String,
    /// What has become of it.
    pub state: DoubtState,
    /// The idempotency key that the other side got; none of a call.
    pub sent_key: Option<String>,
}

impl UnresolvedEffect {
    /// A doubt in brief.
    pub fn new(id: &DoubtId, doubt: &Doubt) -> Self {
        let request = doubt.evidence.request.as_ref();
        Self {
            promise: id.promise(),
            execution: id.key.clone(),
            attempt: doubt.attempt,
            since: doubt.since,
            label: doubt.label.clone(),
            why: doubt.why.clone(),
            state: doubt.state.clone(),
            sent_key: request.map(|request| request.idempotency_key.clone()),
        }
    }

    /// Its place in the order of doubts.
    pub fn place(&self) -> Option<Place> {
        let child = self.promise.number_in(self.execution.execution_id())?;
        let settled = matches!(self.state, DoubtState::Settled(_));
        let id = DoubtId { key: self.execution.clone(), child };
        Some(Place { settled, since: self.since, id })
    }

    /// Whether it waits for a person; else its reconciler is being asked, or it has ended.
    pub fn is_held(&self) -> bool {
        self.state == DoubtState::Held
    }
}
