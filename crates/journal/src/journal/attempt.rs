//! The next attempt at a failed execution (C-32).

use super::{Ending, Journal};
use crate::event::{Entry, Event, Started};
use crate::names::SignalName;
use crate::payload::Payload;
use crate::time::Timestamp;

/// Why an execution has no next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NextAttemptError {
    /// Only a failed attempt is followed by another.
    #[error("the attempt has not failed")]
    NotFailed,
    /// Attempts have run out of numbers.
    #[error("there is no higher attempt number")]
    NoMoreNumbers,
}

impl Journal {
    /// Begins the next attempt's journal: started the same way, with every signal of this one in
    /// order and under its number, consumed or not, and with the cancel, if there was one (C-32).
    /// The retry policy decides whether there may be a next attempt, not this function.
    pub fn next_attempt(&self, now: Timestamp) -> Result<(Self, Vec<Entry>), NextAttemptError> {
        let (Some(Ending::Failed(_)), Some(started)) = (&self.ending, self.started()) else {
            return Err(NextAttemptError::NotFailed);
        };
        let key = self.key.next_attempt().ok_or(NextAttemptError::NoMoreNumbers)?;
        let started = Started { attempts: key.attempts().clone(), ..started.clone() };
        let now = now.max(self.last_timestamp);
        const SAME: &str = "it is legal because the attempt before was";
        let (mut next, first) = Self::start(key, now, started).expect(SAME);
        let mut entries = vec![first];
        for (name, payload) in self.deliveries() {
            let delivered = next.deliver_signal(now, name, payload.clone()).expect(SAME);
            entries.extend(delivered.map(|(_, entry)| entry));
        }
        if let Some(cancel) = &self.cancel {
            let event = Event::CancelRequested { reason: cancel.reason.clone() };
            entries.push(next.append(now, event).expect(SAME));
        }
        Ok((next, entries))
    }

    /// The signals that arrived, in order, consumed or not.
    pub fn deliveries(&self) -> impl ExactSizeIterator<Item = (&SignalName, &Payload)> {
        self.deliveries.iter().map(|delivery| (&delivery.name, &delivery.payload))
    }
}
