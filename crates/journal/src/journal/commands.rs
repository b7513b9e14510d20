//! Commands of the engine: each makes the ids, attempts, delivery numbers and times itself, so that
//! the engine cannot get them wrong, and appends one event.
//!
//! `now` is the engine's clock. The timestamp written is never before the last event's (C-19): a
//! clock that was set back is no violation.

use std::sync::Arc;

use bytes::Bytes;

use super::Journal;
use super::index::Phase;
use crate::event::{Entry, Event, InvokeKind, Started};
use crate::ids::{Attempt, JoinSetId, JournalKey, PromiseId};
use crate::names::{DeliveryId, FunctionName, SignalName};
use crate::payload::{Failure, Outcome, Payload};
use crate::policy::{RetryCause, RetryPolicy};
use crate::time::{Micros, Timestamp};
use crate::violation::Violation;

/// A call to schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoke {
    /// Whether it is a function or an effect.
    pub kind: InvokeKind,
    /// The function, or the label of an HTTP effect.
    pub function_name: FunctionName,
    /// Its argument, or the HTTP request.
    pub input: Payload,
    /// What may be done if it fails.
    pub retry_policy: Arc<RetryPolicy>,
}

impl Journal {
    /// Starts an execution (J-35).
    pub fn start(
        key: JournalKey,
        now: Timestamp,
        started: Started,
    ) -> Result<(Self, Entry), Violation> {
        let mut journal = Self::new(key);
        let entry = journal.append(now, Event::ExecutionStarted(Box::new(started)))?;
        Ok((journal, entry))
    }

    /// The function returned.
    pub fn complete(&mut self, now: Timestamp, result: Payload) -> Result<Entry, Violation> {
        self.stamp(now, Event::ExecutionCompleted { result })
    }

    /// The function failed, or the runtime ended it.
    pub fn fail(&mut self, now: Timestamp, error: Failure) -> Result<Entry, Violation> {
        self.stamp(now, Event::ExecutionFailed { error: Box::new(error) })
    }

    /// A cancel is requested. None if one was requested before (C-22), or the execution is over.
    pub fn request_cancel(
        &mut self,
        now: Timestamp,
        reason: impl Into<String>,
    ) -> Result<Option<Entry>, Violation> {
        if self.cancel.is_some() || self.ending.is_some() {
            return Ok(None);
        }
        self.stamp(now, Event::CancelRequested { reason: reason.into() }).map(Some)
    }

    /// The cancellation is final.
    pub fn cancel(
        &mut self,
        now: Timestamp,
        reason: impl Into<String>,
    ) -> Result<Entry, Violation> {
        self.stamp(now, Event::ExecutionCancelled { reason: reason.into() })
    }

    /// Schedules a call as the next child.
    pub fn schedule_invoke(
        &mut self,
        now: Timestamp,
        invoke: Invoke,
    ) -> Result<(PromiseId, Entry), Violation> {
        let promise_id = self.next_promise();
        let Invoke { kind, function_name, input, retry_policy } = invoke;
        let event = Event::InvokeScheduled {
            promise_id: promise_id.clone(),
            kind,
            function_name,
            input,
            retry_policy,
        };
        Ok((promise_id, self.stamp(now, event)?))
    }

    /// Starts the attempt that is due.
    pub fn start_invoke(
        &mut self,
        now: Timestamp,
        promise: &PromiseId,
    ) -> Result<(Attempt, Entry), Violation> {
        // If no attempt is due, the check refuses any number.
        let attempt = match self.invoke(promise).map(|invoke| &invoke.phase) {
            Some(Phase::Retrying(failed, _)) => failed.next().unwrap_or(*failed),
            _ => Attempt::FIRST,
        };
        let event = Event::InvokeStarted { promise_id: promise.clone(), attempt };
        Ok((attempt, self.stamp(now, event)?))
    }

    /// Completes a call at the attempt in flight.
    pub fn complete_invoke(
        &mut self,
        now: Timestamp,
        promise: &PromiseId,
        result: Outcome,
    ) -> Result<Entry, Violation> {
        let attempt = self.attempt_in_flight(promise);
        self.stamp(now, Event::InvokeCompleted { promise_id: promise.clone(), result, attempt })
    }

    /// Completes a call whether or not an attempt is in flight: an operator ends a retry, a
    /// deadline passes between two attempts, a request may not be sent at all. If none is in
    /// flight, the attempt that is due is started first, because nothing completes unstarted
    /// (SE-2). Both entries must be in one commit: a crash between them would make the outcome
    /// unknown of a call that never happened. The call counts as started from then on (see C-32).
    pub fn settle_invoke(
        &mut self,
        now: Timestamp,
        promise: &PromiseId,
        result: Outcome,
    ) -> Result<Vec<Entry>, Violation> {
        let mut entries = Vec::new();
        let phase = self.invoke(promise).map(|invoke| &invoke.phase);
        if matches!(phase, Some(Phase::Scheduled | Phase::Retrying(..))) {
            entries.push(self.start_invoke(now, promise)?.1);
        }
        entries.push(self.complete_invoke(now, promise, result)?);
        Ok(entries)
    }

    /// Records that the attempt in flight is over and when the next is due.
    pub fn retry_invoke(
        &mut self,
        now: Timestamp,
        promise: &PromiseId,
        cause: RetryCause,
        error: Failure,
        retry_at: Timestamp,
    ) -> Result<Entry, Violation> {
        let failed_attempt = self.attempt_in_flight(promise);
        let (promise_id, error) = (promise.clone(), Box::new(error));
        let event = Event::InvokeRetrying { promise_id, failed_attempt, cause, error, retry_at };
        self.stamp(now, event)
    }

    /// The attempt in flight; if there is none, the check refuses any number.
    fn attempt_in_flight(&self, promise: &PromiseId) -> Attempt {
        match self.invoke(promise).map(|invoke| &invoke.phase) {
            Some(Phase::Started(attempt, _) | Phase::Retrying(attempt, _)) => *attempt,
            _ => Attempt::FIRST,
        }
    }

    /// Captures random bytes as the next child.
    pub fn generate_random(
        &mut self,
        now: Timestamp,
        value: impl Into<Bytes>,
    ) -> Result<(PromiseId, Entry), Violation> {
        let promise_id = self.next_promise();
        let (id, value) = (promise_id.clone(), value.into());
        Ok((id, self.stamp(now, Event::RandomGenerated { promise_id, value })?))
    }

    /// Captures the time as the next child: never before the last event's (C-19).
    pub fn record_time(&mut self, now: Timestamp) -> Result<(Timestamp, Entry), Violation> {
        let time = now.max(self.last_timestamp);
        let promise_id = self.next_promise();
        Ok((time, self.append(time, Event::TimeRecorded { promise_id, time })?))
    }

    /// Schedules a timer as the next child.
    pub fn schedule_timer(
        &mut self,
        now: Timestamp,
        duration: Micros,
    ) -> Result<(PromiseId, Entry), Violation> {
        let timestamp = now.max(self.last_timestamp);
        let fire_at = timestamp.saturating_add(duration);
        let promise_id = self.next_promise();
        let id = promise_id.clone();
        let event = Event::TimerScheduled { promise_id, duration, fire_at };
        Ok((id, self.append(timestamp, event)?))
    }

    /// Fires a timer that is due: the entry's time is never before that (C-19). The engine decides
    /// whether it is due, because the clock may have been set back.
    pub fn fire_timer(&mut self, now: Timestamp, promise: &PromiseId) -> Result<Entry, Violation> {
        let due = match self.child(promise) {
            Some(super::Child::Timer(timer)) => timer.fire_at,
            _ => Timestamp::EPOCH,
        };
        self.stamp(now.max(due), Event::TimerFired { promise_id: promise.clone() })
    }

    /// Buffers a signal that arrived. None if the execution is over.
    pub fn deliver_signal(
        &mut self,
        now: Timestamp,
        name: &SignalName,
        payload: Payload,
    ) -> Result<Option<(DeliveryId, Entry)>, Violation> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let (signal_name, delivery_id) = (name.clone(), self.signals.next_delivery(name));
        let event = Event::SignalDelivered { signal_name, payload, delivery_id };
        Ok(Some((delivery_id, self.stamp(now, event)?)))
    }

    /// Creates a join set as the next child (C-15).
    pub fn create_join_set(&mut self, now: Timestamp) -> Result<(JoinSetId, Entry), Violation> {
        let join_set_id = JoinSetId::at(self.next_promise());
        let id = join_set_id.clone();
        Ok((id, self.stamp(now, Event::JoinSetCreated { join_set_id })?))
    }

    /// Puts a call into a join set.
    pub fn submit(
        &mut self,
        now: Timestamp,
        join_set: &JoinSetId,
        promise: &PromiseId,
    ) -> Result<Entry, Violation> {
        let (join_set_id, promise_id) = (join_set.clone(), promise.clone());
        self.stamp(now, Event::JoinSetSubmitted { join_set_id, promise_id })
    }

    /// Takes the result that completed first among those not taken. None if there is none. The
    /// guest gets it from [`Replay::next`](crate::Replay::next), which now finds it taken.
    pub fn take_next(
        &mut self,
        now: Timestamp,
        join_set: &JoinSetId,
    ) -> Result<Option<Entry>, Violation> {
        let ready = self.join_set(join_set).and_then(|(_, set)| set.ready.front().copied());
        let Some(number) = ready else { return Ok(None) };
        let promise_id = self.key.execution_id().child(number);
        let result = self.result(&promise_id).expect("what is ready has completed").clone();
        let join_set_id = join_set.clone();
        self.stamp(now, Event::JoinSetAwaited { join_set_id, promise_id, result }).map(Some)
    }

    /// Appends at `now`, or at the last event's time if that is later (C-19).
    pub(super) fn stamp(&mut self, now: Timestamp, event: Event) -> Result<Entry, Violation> {
        self.append(now.max(self.last_timestamp), event)
    }
}
