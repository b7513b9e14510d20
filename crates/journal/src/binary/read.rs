//! Reads a batch. The row is not trusted: it may come from a broken disk or a foreign backup.
//! Whatever it holds, reading it ends in records or an error, in memory that the row's size and
//! [`WAIT_MEMBERS_MAX`] bound, and only the one encoding of a batch is accepted.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::cursor::{Cursor, Memo};
use super::error::DecodeError;
use super::number::wait_set::LISTED;
use super::number::{await_kind, outcome, started, tag};
use super::{VERSION, WAIT_MEMBERS_MAX, policy};
use crate::event::{Event, Limits, Record, Sequence, Started};
use crate::ids::{Attempt, Attempts, ComponentDigest, ExecutionId, JoinSetId, PromiseId, RootHash};
use crate::names::{
    DeliveryId, FunctionName, Namespace, OperationId, OperationKey, SignalName, TraceParent,
};
use crate::payload::{Codec, Failure, Outcome, Payload};
use crate::policy::RetryPolicy;
use crate::time::Timestamp;
use crate::wait::{AwaitKind, WaitSet};

/// The fewest bytes of an event: its tag and its time.
const EVENT_BYTES_MIN: usize = 2;

/// The fewest bytes of a run: its gap and its length.
const RUN_BYTES_MIN: usize = 2;

/// The most events that memory is reserved for before they are read. An event in memory is many
/// times its two bytes, so a row that only claims to be full of events would otherwise cost as if
/// it were.
const RESERVED_EVENTS_MAX: usize = 1_024;

/// All events of a row.
pub(super) fn batch(execution_id: &ExecutionId, row: &Bytes) -> Result<Vec<Record>, DecodeError> {
    let mut cursor = Cursor::new(row);
    let version = cursor.byte()?;
    if version != VERSION {
        return Err(DecodeError::unknown_version(version));
    }
    let offset = cursor.offset();
    let malformed = |what| DecodeError::Malformed { offset, what };
    let first = cursor.varint()?;
    let count = cursor.count(EVENT_BYTES_MIN)?;
    let more = (count as u64).checked_sub(1).ok_or(malformed("a batch has an event"))?;
    let last = first.checked_add(more).ok_or(malformed("the last sequence is not 64 bits"))?;

    let mut records = Vec::with_capacity(count.min(RESERVED_EVENTS_MAX));
    let mut reader = Reader::new(execution_id, cursor);
    for sequence in first..=last {
        records.push(reader.record(Sequence::new(sequence))?);
    }
    reader.cursor.finish()?;
    Ok(records)
}

/// The batch that is being read.
struct Reader<'a> {
    cursor: Cursor<'a>,
    execution_id: &'a ExecutionId,
    /// The time of the event before.
    timestamp: Timestamp,
    /// How many members the wait sets that follow may have in all.
    waiting_left: u64,
    functions: Memo<'a, FunctionName>,
    signals: Memo<'a, SignalName>,
    policies: Memo<'a, Arc<RetryPolicy>>,
}

impl<'a> Reader<'a> {
    fn new(execution_id: &'a ExecutionId, cursor: Cursor<'a>) -> Self {
        Self {
            cursor,
            execution_id,
            timestamp: Timestamp::EPOCH,
            waiting_left: WAIT_MEMBERS_MAX as u64,
            functions: Memo::EMPTY,
            signals: Memo::EMPTY,
            policies: Memo::EMPTY,
        }
    }

    fn record(&mut self, sequence: Sequence) -> Result<Record, DecodeError> {
        let tag_at = self.cursor.offset();
        let tag = self.cursor.byte()?;
        let offset = self.cursor.offset();
        let since = self.cursor.varint()?;
        let micros = self.timestamp.as_micros().saturating_add(since);
        self.timestamp = Timestamp::from_micros(micros).ok_or(PAST_TIME.at(offset))?;
        let event = self.event(tag_at, tag)?;
        Ok(Record { sequence, timestamp: self.timestamp, event })
    }

    fn event(&mut self, tag_at: usize, tag: u8) -> Result<Event, DecodeError> {
        Ok(match tag {
            tag::EXECUTION_STARTED => Event::ExecutionStarted(Box::new(self.started()?)),
            tag::EXECUTION_COMPLETED => Event::ExecutionCompleted { result: self.payload()? },
            tag::EXECUTION_FAILED => Event::ExecutionFailed { error: self.failure()? },
            tag::CANCEL_REQUESTED => {
                Event::CancelRequested { reason: self.cursor.text()?.to_owned() }
            }
            tag::EXECUTION_CANCELLED => {
                Event::ExecutionCancelled { reason: self.cursor.text()?.to_owned() }
            }
            tag::INVOKE_SCHEDULED => Event::InvokeScheduled {
                promise_id: self.promise()?,
                kind: self.cursor.numbered()?,
                function_name: self.function()?,
                retry_policy: self.policy()?,
                input: self.payload()?,
            },
            tag::INVOKE_STARTED => {
                Event::InvokeStarted { promise_id: self.promise()?, attempt: self.attempt()? }
            }
            tag::INVOKE_COMPLETED => Event::InvokeCompleted {
                promise_id: self.promise()?,
                attempt: self.attempt()?,
                result: self.outcome()?,
            },
            tag::INVOKE_RETRYING => Event::InvokeRetrying {
                promise_id: self.promise()?,
                failed_attempt: self.attempt()?,
                cause: self.cursor.numbered()?,
                retry_at: self.time()?,
                error: self.failure()?,
            },
            tag::RANDOM_GENERATED => {
                Event::RandomGenerated { promise_id: self.promise()?, value: self.cursor.bytes()? }
            }
            tag::TIME_RECORDED => {
                Event::TimeRecorded { promise_id: self.promise()?, time: self.timestamp }
            }
            tag::TIMER_SCHEDULED => {
                let promise_id = self.promise()?;
                let duration = self.cursor.micros()?;
                let fire_at = self.timestamp.saturating_add(duration);
                Event::TimerScheduled { promise_id, duration, fire_at }
            }
            tag::TIMER_FIRED => Event::TimerFired { promise_id: self.promise()? },
            tag::SIGNAL_DELIVERED => Event::SignalDelivered {
                delivery_id: self.delivery()?,
                signal_name: self.signal()?,
                payload: self.payload()?,
            },
            tag::SIGNAL_RECEIVED => Event::SignalReceived {
                promise_id: self.promise()?,
                delivery_id: self.delivery()?,
                signal_name: self.signal()?,
                payload: self.payload()?,
            },
            tag::EXECUTION_AWAITING => {
                Event::ExecutionAwaiting { kind: self.await_kind()?, waiting_on: self.wait_set()? }
            }
            tag::EXECUTION_RESUMED => Event::ExecutionResumed,
            tag::JOIN_SET_CREATED => Event::JoinSetCreated { join_set_id: self.join_set()? },
            tag::JOIN_SET_SUBMITTED => Event::JoinSetSubmitted {
                join_set_id: self.join_set()?,
                promise_id: self.promise()?,
            },
            tag::JOIN_SET_AWAITED => Event::JoinSetAwaited {
                join_set_id: self.join_set()?,
                promise_id: self.promise()?,
                result: self.outcome()?,
            },
            _ => return Err(Wrong("an unknown event").at(tag_at)),
        })
    }

    fn started(&mut self) -> Result<Started, DecodeError> {
        let flags_at = self.cursor.offset();
        let flags = self.cursor.byte()?;
        if flags & !started::KNOWN != 0 {
            return Err(Wrong("a reserved flag of ExecutionStarted is set").at(flags_at));
        }
        if flags & started::PARENT != 0 && !self.execution_id.is_root() {
            return Err(Wrong("a child's parent is left out").at(flags_at));
        }
        let component_digest = ComponentDigest::from_bytes(self.cursor.hash()?);
        let function_name = self.function()?;
        let attempts = self.attempts()?;
        let limits = Limits {
            memory_bytes_max: self.cursor.varint()?,
            stack_bytes_max: self.cursor.varint()?,
            table_elements_max: self.cursor.varint()?,
        };
        let parent_id = match flags & started::PARENT {
            0 => self.execution_id.parent(),
            _ => Some(self.starter()?),
        };
        let idempotency_key = match flags & started::IDEMPOTENCY_KEY {
            0 => None,
            _ => Some(OperationKey {
                namespace: self.cursor.name(Namespace::new)?,
                operation_id: self.cursor.name(OperationId::new)?,
            }),
        };
        let retry_policy = match flags & started::RETRY_POLICY {
            0 => None,
            _ => Some(self.policy()?),
        };
        let trace_parent = match flags & started::TRACE_PARENT {
            0 => None,
            _ => Some(self.cursor.name(TraceParent::new)?),
        };
        let input = self.payload()?;
        Ok(Started {
            component_digest,
            function_name,
            input,
            parent_id,
            idempotency_key,
            attempts,
            limits,
            retry_policy,
            trace_parent,
        })
    }

    /// The execution that started a root.
    fn starter(&mut self) -> Result<ExecutionId, DecodeError> {
        let root = RootHash::from_bytes(self.cursor.hash()?);
        let offset = self.cursor.offset();
        let mut promise = PromiseId::root_of(root);
        for _ in 0..self.cursor.count(1)? {
            let number = self.cursor.u32()?;
            promise = promise.child(number).map_err(|_| TOO_DEEP.at(offset))?;
        }
        ExecutionId::new(promise).map_err(|_| TOO_DEEP.at(offset))
    }

    /// One attempt for each call from the root down to this execution; its id says how many.
    fn attempts(&mut self) -> Result<Attempts, DecodeError> {
        let attempts = (0..=self.execution_id.depth())
            .map(|_| self.attempt())
            .collect::<Result<SmallVec<[Attempt; 8]>, _>>()?;
        Ok(Attempts::new(&attempts).expect("an execution is less deep than calls nest"))
    }

    fn promise(&mut self) -> Result<PromiseId, DecodeError> {
        Ok(self.execution_id.child(self.cursor.u32()?))
    }

    fn join_set(&mut self) -> Result<JoinSetId, DecodeError> {
        self.promise().map(JoinSetId::at)
    }

    fn attempt(&mut self) -> Result<Attempt, DecodeError> {
        let offset = self.cursor.offset();
        let number = self.cursor.u32()?;
        Attempt::new(number).ok_or(Wrong("attempts count from 1").at(offset))
    }

    fn delivery(&mut self) -> Result<DeliveryId, DecodeError> {
        let offset = self.cursor.offset();
        let number = self.cursor.varint()?;
        DeliveryId::new(number).ok_or(Wrong("deliveries count from 1").at(offset))
    }

    fn time(&mut self) -> Result<Timestamp, DecodeError> {
        let offset = self.cursor.offset();
        let micros = self.cursor.varint()?;
        Timestamp::from_micros(micros).ok_or(PAST_TIME.at(offset))
    }

    fn function(&mut self) -> Result<FunctionName, DecodeError> {
        self.functions.read(&mut self.cursor, |cursor| cursor.name(FunctionName::new))
    }

    fn signal(&mut self) -> Result<SignalName, DecodeError> {
        self.signals.read(&mut self.cursor, |cursor| cursor.name(SignalName::new))
    }

    fn policy(&mut self) -> Result<Arc<RetryPolicy>, DecodeError> {
        self.policies.read(&mut self.cursor, |cursor| policy::read(cursor).map(Arc::new))
    }

    fn payload(&mut self) -> Result<Payload, DecodeError> {
        let codec = Codec::from_number(self.cursor.byte()?);
        Ok(Payload { codec, bytes: self.cursor.bytes()? })
    }

    fn outcome(&mut self) -> Result<Outcome, DecodeError> {
        let offset = self.cursor.offset();
        match self.cursor.byte()? {
            outcome::OK => self.payload().map(Outcome::Ok),
            outcome::ERR => self.failure().map(Outcome::Err),
            _ => Err(Wrong("an unknown outcome").at(offset)),
        }
    }

    fn failure(&mut self) -> Result<Box<Failure>, DecodeError> {
        let kind = self.cursor.numbered()?;
        let message = self.cursor.text()?.to_owned();
        let offset = self.cursor.offset();
        let detail = match self.cursor.byte()? {
            0 => None,
            1 => Some(self.payload()?),
            _ => return Err(Wrong("a failure has a detail (1) or has none (0)").at(offset)),
        };
        Ok(Box::new(Failure { kind, message, detail }))
    }

    fn await_kind(&mut self) -> Result<AwaitKind, DecodeError> {
        let offset = self.cursor.offset();
        Ok(match self.cursor.byte()? {
            await_kind::SINGLE => AwaitKind::Single,
            await_kind::ANY => AwaitKind::Any,
            await_kind::ALL => AwaitKind::All,
            await_kind::SIGNAL => {
                AwaitKind::Signal { promise_id: self.promise()?, name: self.signal()? }
            }
            await_kind::SIGNAL_OR => {
                AwaitKind::SignalOr { promise_id: self.promise()?, name: self.signal()? }
            }
            _ => return Err(Wrong("an unknown kind of await").at(offset)),
        })
    }

    fn wait_set(&mut self) -> Result<WaitSet, DecodeError> {
        let offset = self.cursor.offset();
        let Some(runs) = self.cursor.varint()?.checked_sub(LISTED) else {
            let join_set = self.join_set()?;
            return Ok(WaitSet::rest_of(&join_set).expect("it is a child of this execution"));
        };
        let runs = self.cursor.room_for(runs, RUN_BYTES_MIN, offset)?;
        let mut numbers = Vec::new();
        let mut least = 0_u64;
        for _ in 0..runs {
            let offset = self.cursor.offset();
            let (gap, more) = (self.cursor.varint()?, self.cursor.varint()?);
            let child = |number: Option<u64>| {
                let number = number.and_then(|number| u32::try_from(number).ok());
                number.ok_or(Wrong("a member of a wait set is not 32 bits").at(offset))
            };
            let first = child(least.checked_add(gap))?;
            let last = child(u64::from(first).checked_add(more))?;
            // A few bytes may stand for all possible numbers: over all sets of a row only so many
            // are accepted.
            self.waiting_left = self
                .waiting_left
                .checked_sub(more + 1)
                .ok_or(Wrong("the wait sets of a batch are too large").at(offset))?;
            numbers.extend(first..=last);
            least = u64::from(last) + 2;
        }
        Ok(WaitSet::of_numbers(self.execution_id, numbers)
            .expect("every run begins after the one before it"))
    }
}

/// What is wrong, before its offset is known.
#[derive(Clone, Copy)]
struct Wrong(&'static str);

const PAST_TIME: Wrong = Wrong("a time is past the year 9999");
const TOO_DEEP: Wrong = Wrong("a parent is deeper than calls nest");

impl Wrong {
    fn at(self, offset: usize) -> DecodeError {
        DecodeError::Malformed { offset, what: self.0 }
    }
}
