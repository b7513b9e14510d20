//! Waiting and waking (J-33, J-34, J-47, J-78, C-16, C-22, C-37).

use super::Journal;
use super::index::Child;
use crate::event::{Entry, Event, Sequence};
use crate::names::SignalName;
use crate::status::Status;
use crate::time::Timestamp;
use crate::violation::Violation;
use crate::wait::{AwaitKind, Wait, WaitSet};

/// What was recorded when a guest waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// The signal was there, and is consumed (J-78).
    Received(Entry),
    /// The execution is blocked.
    Blocked(Entry),
    /// Nothing: it is blocked on this wait already.
    Already,
    /// Nothing: during a cancel a wait is not recorded (C-22).
    Quiet,
}

impl Journal {
    /// Whether the present wait is satisfied (J-33); false while the execution does not wait.
    pub fn is_wait_satisfied(&self) -> bool {
        let Some(Status::Blocked { waiting_on, kind }) = &self.status else { return false };
        let (resolved, all) = match waiting_on.join_set().and_then(|id| self.join_set(&id)) {
            Some((_, set)) => (set.ready_count, set.rest_count()),
            None => (self.resolved_in_wait(), waiting_on.listed().map_or(0, <[u32]>::len)),
        };
        match kind {
            AwaitKind::Single | AwaitKind::All => resolved == all,
            AwaitKind::Any | AwaitKind::Signal { .. } | AwaitKind::SignalOr { .. } => resolved > 0,
        }
    }

    /// How many listed members of the present wait are resolved.
    pub(super) fn resolved_in_wait(&self) -> usize {
        self.wait.as_ref().map_or(0, |wait| wait.resolved)
    }

    /// Records the wait of a guest that [`Replay::wait`](crate::Replay::wait) or
    /// [`Replay::next`](crate::Replay::next) found pending: a buffered signal is consumed at once,
    /// otherwise the execution blocks.
    pub fn wait(&mut self, now: Timestamp, wait: &Wait) -> Result<Waiting, Violation> {
        if self.is_blocked_on(wait) {
            return Ok(Waiting::Already);
        }
        let (waiting_on, kind) = self.awaiting(wait);
        let active = matches!(self.status, Some(Status::Running | Status::Cancelling));
        if active && let Err(refusal) = self.check_waited(&waiting_on, &kind) {
            return Err(refusal.at(self.length));
        }
        if let Some(name) = signal_of(&kind)
            && active
            && self.signals.oldest(name).is_some()
            && !self.has_winner(&waiting_on)
        {
            return self.receive_signal(now, name).map(Waiting::Received);
        }
        if matches!(self.status, Some(Status::Cancelling)) {
            return Ok(Waiting::Quiet);
        }
        self.stamp(now, Event::ExecutionAwaiting { waiting_on, kind }).map(Waiting::Blocked)
    }

    /// Whether the execution is blocked on this very wait.
    pub(crate) fn is_blocked_on(&self, wait: &Wait) -> bool {
        let Some(Status::Blocked { waiting_on, kind }) = &self.status else { return false };
        let (asked, asked_kind) = self.awaiting(wait);
        *waiting_on == asked && *kind == asked_kind
    }

    /// Whether something other than the signal has ended a wait already: then the delivery stays
    /// buffered (C-37).
    fn has_winner(&self, waiting_on: &WaitSet) -> bool {
        self.resolutions(waiting_on).any(|(_, resolved_at)| resolved_at.is_some())
    }

    /// Each listed member, and where it was resolved. Members of another execution's set never are:
    /// their numbers mean nothing here.
    pub(crate) fn resolutions(
        &self,
        set: &WaitSet,
    ) -> impl Iterator<Item = (u32, Option<Sequence>)> {
        let own = set.execution_id() == self.key.execution_id();
        set.listed().unwrap_or_default().iter().map(move |number| {
            let child = if own { self.child_at(*number) } else { None };
            (*number, child.and_then(Child::resolved_at))
        })
    }

    /// The wait as it is recorded. A signal or none of the others is a signal alone.
    fn awaiting(&self, wait: &Wait) -> (WaitSet, AwaitKind) {
        match wait {
            Wait::One(promise) => (WaitSet::of_one(promise), AwaitKind::Single),
            Wait::Any(set) => (set.clone(), AwaitKind::Any),
            Wait::All(set) => (set.clone(), AwaitKind::All),
            Wait::SignalOr(name, others) if !others.is_listing_none() => {
                let (name, promise_id) = (name.clone(), self.next_promise());
                (others.with(self.next_child()), AwaitKind::SignalOr { name, promise_id })
            }
            Wait::Signal(name) | Wait::SignalOr(name, _) => {
                let (name, promise_id) = (name.clone(), self.next_promise());
                (WaitSet::of_one(&promise_id), AwaitKind::Signal { name, promise_id })
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
        // Without a delivery the check refuses (see CF-2), whatever the payload.
        let payload = oldest.cloned().unwrap_or_else(crate::Payload::empty);
        let (promise_id, signal_name) = (self.next_promise(), name.clone());
        self.stamp(now, Event::SignalReceived { promise_id, signal_name, payload, delivery_id })
    }

    /// Records what the last events made possible for a blocked execution: it receives the signal
    /// that it waits for, if nothing else ended the wait; and it resumes, if the wait is satisfied.
    pub fn wake(&mut self, now: Timestamp) -> Result<Vec<Entry>, Violation> {
        let mut entries = Vec::new();
        if let Some(name) = self.receivable().cloned() {
            entries.push(self.receive_signal(now, &name)?);
        }
        if self.is_wait_satisfied() {
            entries.push(self.stamp(now, Event::ExecutionResumed)?);
        }
        Ok(entries)
    }

    /// Whether [`Journal::wake`] has something to write.
    pub fn can_wake(&self) -> bool {
        self.is_wait_satisfied() || self.receivable().is_some()
    }

    /// The signal that the present wait could receive.
    fn receivable(&self) -> Option<&SignalName> {
        let Some(Status::Blocked { kind, .. }) = &self.status else { return None };
        let name = signal_of(kind)?;
        (self.resolved_in_wait() == 0 && self.signals.oldest(name).is_some()).then_some(name)
    }
}

fn signal_of(kind: &AwaitKind) -> Option<&SignalName> {
    match kind {
        AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } => Some(name),
        AwaitKind::Single | AwaitKind::Any | AwaitKind::All => None,
    }
}
