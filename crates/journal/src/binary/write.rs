//! Writes a batch. It first checks what the format leaves out, so that no event ever comes back
//! different from how it was accepted.

use super::error::EncodeError;
use super::number::wait_set::{LISTED, REST_OF};
use super::number::{Numbered, await_kind, outcome, started, tag_of};
use super::{VERSION, WAIT_MEMBERS_MAX, varint};
use crate::event::{Event, Record, Sequence, Started};
use crate::ids::{ExecutionId, JoinSetId, PromiseId};
use crate::payload::{Failure, Outcome, Payload};
use crate::time::Timestamp;
use crate::wait::{AwaitKind, WaitSet};

/// Appends one batch to `out`; after an error, `out` may hold a part of it.
pub(super) fn batch<'r>(
    out: &mut Vec<u8>,
    execution_id: &ExecutionId,
    records: impl ExactSizeIterator<Item = &'r Record>,
) -> Result<(), EncodeError> {
    let count = records.len() as u64;
    let mut records = records.peekable();
    let first = records.peek().ok_or(EncodeError::Empty)?.sequence;
    out.push(VERSION);
    varint::write(out, first.get());
    varint::write(out, count);
    let mut writer = Writer { out, execution_id, sequence: first, waiting: 0 };
    let mut before: Option<&Record> = None;
    for record in records {
        writer.record(before, record)?;
        before = Some(record);
    }
    Ok(())
}

/// The batch that is being written.
pub(super) struct Writer<'a> {
    pub(super) out: &'a mut Vec<u8>,
    execution_id: &'a ExecutionId,
    /// The event that is being written.
    sequence: Sequence,
    /// Members of all wait sets so far.
    waiting: usize,
}

impl Writer<'_> {
    #[cold]
    pub(super) fn unstorable(&self, what: &'static str) -> EncodeError {
        EncodeError::Unstorable { sequence: self.sequence, what }
    }

    fn record(&mut self, before: Option<&Record>, record: &Record) -> Result<(), EncodeError> {
        if let Some(before) = before
            && before.sequence.get().checked_add(1) != Some(record.sequence.get())
        {
            let (after, found) = (before.sequence, record.sequence);
            return Err(EncodeError::NotConsecutive { after, found });
        }
        self.sequence = record.sequence;
        let earlier = before.map_or(Timestamp::EPOCH, |before| before.timestamp);
        if record.timestamp < earlier {
            return Err(self.unstorable("its time is before that of the event before it (C-19)"));
        }
        self.out.push(tag_of(&record.event));
        varint::write(self.out, record.timestamp.saturating_since(earlier).get());
        self.event(record.timestamp, &record.event)
    }

    fn event(&mut self, timestamp: Timestamp, event: &Event) -> Result<(), EncodeError> {
        match event {
            Event::ExecutionStarted(started) => self.started(started)?,
            Event::ExecutionCompleted { result } => self.payload(result),
            Event::ExecutionFailed { error } => self.failure(error),
            Event::CancelRequested { reason } | Event::ExecutionCancelled { reason } => {
                self.bytes(reason.as_bytes());
            }
            Event::InvokeScheduled { promise_id, kind, function_name, input, retry_policy } => {
                self.promise(promise_id)?;
                self.out.push(kind.number());
                self.bytes(function_name.as_str().as_bytes());
                self.policy(retry_policy);
                self.payload(input);
            }
            Event::InvokeStarted { promise_id, attempt } => {
                self.promise(promise_id)?;
                varint::write(self.out, attempt.get().into());
            }
            Event::InvokeCompleted { promise_id, result, attempt } => {
                self.promise(promise_id)?;
                varint::write(self.out, attempt.get().into());
                self.outcome(result);
            }
            Event::InvokeRetrying { promise_id, failed_attempt, cause, error, retry_at } => {
                self.promise(promise_id)?;
                varint::write(self.out, failed_attempt.get().into());
                self.out.push(cause.number());
                varint::write(self.out, retry_at.as_micros());
                self.failure(error);
            }
            Event::RandomGenerated { promise_id, value } => {
                self.promise(promise_id)?;
                self.bytes(value);
            }
            Event::TimeRecorded { promise_id, time } => {
                if *time != timestamp {
                    return Err(self.unstorable("the time it recorded is not its own (C-19)"));
                }
                self.promise(promise_id)?;
            }
            Event::TimerScheduled { promise_id, duration, fire_at } => {
                if *fire_at != timestamp.saturating_add(*duration) {
                    return Err(self.unstorable("its timer does not fire after its duration"));
                }
                self.promise(promise_id)?;
                varint::write(self.out, duration.get());
            }
            Event::TimerFired { promise_id } => self.promise(promise_id)?,
            Event::SignalDelivered { signal_name, payload, delivery_id } => {
                varint::write(self.out, delivery_id.get());
                self.bytes(signal_name.as_str().as_bytes());
                self.payload(payload);
            }
            Event::SignalReceived { promise_id, signal_name, payload, delivery_id } => {
                self.promise(promise_id)?;
                varint::write(self.out, delivery_id.get());
                self.bytes(signal_name.as_str().as_bytes());
                self.payload(payload);
            }
            Event::ExecutionAwaiting { waiting_on, kind } => {
                self.await_kind(kind)?;
                self.wait_set(waiting_on)?;
            }
            Event::ExecutionResumed => {}
            Event::JoinSetCreated { join_set_id } => self.join_set(join_set_id)?,
            Event::JoinSetSubmitted { join_set_id, promise_id } => {
                self.join_set(join_set_id)?;
                self.promise(promise_id)?;
            }
            Event::JoinSetAwaited { join_set_id, promise_id, result } => {
                self.join_set(join_set_id)?;
                self.promise(promise_id)?;
                self.outcome(result);
            }
        }
        Ok(())
    }

    fn started(&mut self, started: &Started) -> Result<(), EncodeError> {
        let Started {
            component_digest,
            function_name,
            input,
            parent_id,
            idempotency_key,
            attempts,
            limits,
            retry_policy,
            trace_parent,
        } = started;
        let caller = self.execution_id.parent();
        if caller.is_some() && *parent_id != caller {
            return Err(self.unstorable("its parent is not the execution's caller (C-32)"));
        }
        if attempts.as_slice().len() != self.execution_id.depth() + 1 {
            return Err(self.unstorable("it has not one attempt for each call down to it (C-32)"));
        }
        // The id of a child implies its caller.
        let starter = parent_id.as_ref().filter(|_| caller.is_none());
        let mut flags = 0;
        if starter.is_some() {
            flags |= started::PARENT;
        }
        if idempotency_key.is_some() {
            flags |= started::IDEMPOTENCY_KEY;
        }
        if retry_policy.is_some() {
            flags |= started::RETRY_POLICY;
        }
        if trace_parent.is_some() {
            flags |= started::TRACE_PARENT;
        }
        self.out.push(flags);
        self.out.extend_from_slice(component_digest.as_bytes());
        self.bytes(function_name.as_str().as_bytes());
        for attempt in attempts.as_slice() {
            varint::write(self.out, attempt.get().into());
        }
        varint::write(self.out, limits.memory_bytes_max);
        varint::write(self.out, limits.stack_bytes_max);
        varint::write(self.out, limits.table_elements_max);
        if let Some(starter) = starter {
            self.out.extend_from_slice(starter.root().as_bytes());
            varint::write(self.out, starter.path().len() as u64);
            for segment in starter.path() {
                varint::write(self.out, (*segment).into());
            }
        }
        if let Some(key) = idempotency_key {
            self.bytes(key.namespace.as_str().as_bytes());
            self.bytes(key.operation_id.as_str().as_bytes());
        }
        if let Some(policy) = retry_policy {
            self.policy(policy);
        }
        if let Some(trace_parent) = trace_parent {
            self.bytes(trace_parent.as_str().as_bytes());
        }
        self.payload(input);
        Ok(())
    }

    fn promise(&mut self, promise: &PromiseId) -> Result<(), EncodeError> {
        match promise.number_in(self.execution_id) {
            Some(number) => {
                varint::write(self.out, number.into());
                Ok(())
            }
            None => Err(self.unstorable("it names a promise that is not the execution's child")),
        }
    }

    fn join_set(&mut self, set: &JoinSetId) -> Result<(), EncodeError> {
        self.promise(set.place())
    }

    /// Bytes with their length before them.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        varint::write(self.out, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn payload(&mut self, payload: &Payload) {
        self.out.push(payload.codec.number());
        self.bytes(&payload.bytes);
    }

    fn outcome(&mut self, result: &Outcome) {
        match result {
            Outcome::Ok(payload) => {
                self.out.push(outcome::OK);
                self.payload(payload);
            }
            Outcome::Err(failure) => {
                self.out.push(outcome::ERR);
                self.failure(failure);
            }
        }
    }

    fn failure(&mut self, failure: &Failure) {
        self.out.push(failure.kind.number());
        self.bytes(failure.message.as_bytes());
        self.out.push(failure.detail.is_some().into());
        if let Some(detail) = &failure.detail {
            self.payload(detail);
        }
    }

    fn await_kind(&mut self, kind: &AwaitKind) -> Result<(), EncodeError> {
        let (number, signal) = match kind {
            AwaitKind::Single => (await_kind::SINGLE, None),
            AwaitKind::Any => (await_kind::ANY, None),
            AwaitKind::All => (await_kind::ALL, None),
            AwaitKind::Signal { name, promise_id } => {
                (await_kind::SIGNAL, Some((name, promise_id)))
            }
            AwaitKind::SignalOr { name, promise_id } => {
                (await_kind::SIGNAL_OR, Some((name, promise_id)))
            }
        };
        self.out.push(number);
        if let Some((name, promise_id)) = signal {
            self.promise(promise_id)?;
            self.bytes(name.as_str().as_bytes());
        }
        Ok(())
    }

    fn wait_set(&mut self, set: &WaitSet) -> Result<(), EncodeError> {
        if set.execution_id() != self.execution_id {
            return Err(self.unstorable("it waits on promises of another execution (C-26)"));
        }
        if let Some(join_set) = set.join_set() {
            varint::write(self.out, REST_OF);
            return self.join_set(&join_set);
        }
        let numbers = set.listed().unwrap_or_default();
        self.waiting = self.waiting.saturating_add(numbers.len());
        if self.waiting > WAIT_MEMBERS_MAX {
            return Err(EncodeError::TooManyWaiting { sequence: self.sequence });
        }
        // The set is ascending, so only the last number can be `u32::MAX`.
        let runs = || numbers.chunk_by(|number, next| number + 1 == *next);
        varint::write(self.out, LISTED + runs().count() as u64);
        let mut least = 0;
        for run in runs() {
            let (first, more) = (u64::from(run[0]), run.len() as u64 - 1);
            varint::write(self.out, first - least);
            varint::write(self.out, more);
            // Between two runs is a number that is in neither, or they would be one.
            least = first + more + 2;
        }
        Ok(())
    }
}
