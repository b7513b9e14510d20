//! Waiting and waking (J-33, J-34, J-47, J-78, C-16, C-22, C-37).

use super::Journal;
use super::index::Child;
use crate::event::{Entry, Event, Sequence};
use crate::names::SignalName;
use crate::status::Status;
use crate::time::Timestamp;
use crate::violation::Violation;
use crate::wait::{AwaitKind, Wait, WaitSet};

/// What was written because a guest waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// The signal was there, and is consumed (J-78).
    Received(Entry),
    /// The execution is blocked.
    Blocked(Entry),
    /// Nothing: an execution that is cancelling waits without saying so (C-22).
    Quiet,
}

impl Journal {
    /// Whether the present wait is satisfied (J-33); false while the execution does not wait.
    pub fn is_wait_satisfied(&self) -> bool {
        let Some(Status::Blocked { waiting_on, kind }) = &self.status else { return false };
        match kind {
            AwaitKind::Single | AwaitKind::All => self.resolved_in_wait() == waiting_on.len(),
            AwaitKind::Any | AwaitKind::Signal { .. } | AwaitKind::SignalOr { .. } => {
                self.resolved_in_wait() > 0
            }
        }
    }

    pub(super) fn resolved_in_wait(&self) -> usize {
        self.wait.as_ref().map_or(0, |wait| wait.resolved)
    }

    /// Writes what follows when a guest waits for something that
    /// [`Replay::wait`](crate::Replay::wait) found pending: a buffered signal is consumed at once,
    /// otherwise the execution blocks.
    pub fn wait(&mut self, now: Timestamp, wait: &Wait) -> Result<Waiting, Violation> {
        if let Wait::Signal(name) | Wait::SignalOr(name, _) = wait
            && self.signals.oldest(name).is_some()
            && !self.has_winner(wait)
        {
            return self.receive_signal(now, name).map(Waiting::Received);
        }
        if matches!(self.status, Some(Status::Cancelling)) {
            return Ok(Waiting::Quiet);
        }
        let (waiting_on, kind) = self.awaiting(wait);
        self.stamp(now, Event::ExecutionAwaiting { waiting_on, kind }).map(Waiting::Blocked)
    }

    /// Whether something else than the signal has ended a wait already: then the delivery stays
    /// buffered (C-37).
    fn has_winner(&self, wait: &Wait) -> bool {
        let Wait::SignalOr(_, others) = wait else { return false };
        self.resolutions(others).any(|(_, resolved_at)| resolved_at.is_some())
    }

    /// Each member of a set, and where it was resolved. Members of another execution's set never
    /// are: their numbers mean nothing here.
    pub(crate) fn resolutions(
        &self,
        set: &WaitSet,
    ) -> impl Iterator<Item = (u32, Option<Sequence>)> {
        let own = set.execution_id() == self.key.execution_id();
        set.numbers().iter().map(move |number| {
            let child = if own { self.child_at(*number) } else { None };
            (*number, child.and_then(Child::resolved_at))
        })
    }

    fn awaiting(&self, wait: &Wait) -> (WaitSet, AwaitKind) {
        match wait {
            Wait::One(promise) => (WaitSet::of_one(promise), AwaitKind::Single),
            Wait::Any(set) => (set.clone(), AwaitKind::Any),
            Wait::All(set) => (set.clone(), AwaitKind::All),
            Wait::Signal(name) => {
                let promise_id = self.next_promise();
                let waiting_on = WaitSet::of_one(&promise_id);
                (waiting_on, AwaitKind::Signal { name: name.clone(), promise_id })
            }
            Wait::SignalOr(name, others) => {
                let promise_id = self.next_promise();
                let waiting_on = others.with(self.next_child());
                (waiting_on, AwaitKind::SignalOr { name: name.clone(), promise_id })
            }
        }
    }

    /// Consumes the oldest delivery of a name (J-45).
    pub fn receive_signal(
        &mut self,
        now: Timestamp,
        name: &SignalName,
    ) -> Result<Entry, Violation> {
        let delivery_id = self.signals.next_receipt(name);
        let oldest = self.signals.oldest(name).map(|index| &self.deliveries[index].payload);
        // Without a delivery the check refuses (CF-2), whatever the payload.
        let payload = oldest.cloned().unwrap_or_else(crate::Payload::empty);
        let (promise_id, signal_name) = (self.next_promise(), name.clone());
        self.stamp(now, Event::SignalReceived { promise_id, signal_name, payload, delivery_id })
    }

    /// Writes what the last events made possible for a blocked execution: the signal it waits for
    /// is received if nothing else ended the wait, and the execution resumes if the wait is
    /// satisfied. Nothing if neither.
    pub fn wake(&mut self, now: Timestamp) -> Result<Vec<Entry>, Violation> {
        let mut entries = Vec::new();
        if let Some(Status::Blocked { kind, .. }) = &self.status
            && let AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } = kind
            && self.resolved_in_wait() == 0
            && self.signals.oldest(name).is_some()
        {
            let name = name.clone();
            entries.push(self.receive_signal(now, &name)?);
        }
        if self.is_wait_satisfied() {
            entries.push(self.stamp(now, Event::ExecutionResumed)?);
        }
        Ok(entries)
    }
}
