//! From a line to the domain. The input is not trusted: every error is a [`ParseError`], none a
//! panic, and nothing here recurses with the input's depth (nested JSON is only skipped over, which
//! `serde_json` does in a loop) or keeps more than the input's size.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::{self, Deserialize, DeserializeSeed as _, Deserializer};
use serde_json::value::RawValue;

use super::parts::{Base64, MembersOf, Object, Text};
use super::{LAST_TO_READ_1, ParseError, VERSION, wire};
use crate::event::{Event, Limits, Record, Sequence, Started};
use crate::ids::{Attempt, ExecutionId, JournalKey};
use crate::names::{DeliveryId, OperationKey};
use crate::payload::{Codec, Failure, Outcome, Payload};
use crate::policy::{Backoff, Reconciler, RetryBound, RetryClass, RetryPolicy};
use crate::time::Micros;
use crate::wait::{AwaitKind, WaitSet};

/// How much of a message is kept: it may quote a field of many megabytes.
const MESSAGE_CHARS_MAX: usize = 200;

/// Reads the line of one event, with or without its line break.
pub fn parse_line(line: &str) -> Result<(JournalKey, Record), ParseError> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let refuse = |column, message: &str| Err(ParseError { column, message: message.into() });
    if line.starts_with('\u{feff}') {
        return refuse(1, "the line starts with a byte order mark; JSON Lines has none");
    }
    if line.trim().is_empty() {
        return refuse(1, "the line is blank; every line is one event");
    }
    if let Some(at) = line.find('\n') {
        return refuse(at + 1, "a line break inside an event; every event is one line");
    }
    let parsed: wire::Line<'_, &RawValue> = match (Part { line, text: line }).read() {
        Ok(parsed) => parsed,
        // The fields of another version are not known: the version is reported before any of them.
        Err(error) => return Err(other_version(line).unwrap_or(error)),
    };
    if parsed.v != VERSION {
        return Err(other_version(line).unwrap_or_else(|| version_error(1, parsed.v)));
    }
    let key = parsed.execution.0;
    let data = Part { line, text: parsed.data.get() };
    let event = match event(&parsed.event, data, key.execution_id())? {
        Some(event) => event,
        None => {
            let column = event_column(line).unwrap_or(1);
            let message = printable(&format!("unknown event `{}`", parsed.event));
            return Err(ParseError { column, message });
        }
    };
    let (sequence, timestamp) = (Sequence::new(parsed.sequence), parsed.timestamp.0);
    Ok((key, Record { sequence, timestamp, event }))
}

/// The error, if the line is of a version that is not read.
fn other_version(line: &str) -> Option<ParseError> {
    let Object(wire::Version { v }) = serde_json::from_str(line).ok()?;
    let version: u64 = v.get().parse().ok()?;
    (version != VERSION).then(|| version_error(column_of(line, v.get()).unwrap_or(1), version))
}

/// Where the event's name begins: a name with escapes is read as a copy, which has no place.
fn event_column(line: &str) -> Option<usize> {
    let Object(wire::EventName { event }) = serde_json::from_str(line).ok()?;
    column_of(line, event.get()).map(|quote| quote + 1)
}

fn version_error(column: usize, version: u64) -> ParseError {
    let mut message = format!("unsupported version {version}; this build reads version {VERSION}");
    if version == 1 {
        message.push_str(&format!(". Use a build of commit {LAST_TO_READ_1} to read version 1"));
    }
    ParseError { column, message }
}

/// A part of a line that is read by itself; errors have the line's columns.
#[derive(Clone, Copy)]
struct Part<'a> {
    line: &'a str,
    text: &'a str,
}

impl<'a> Part<'a> {
    fn read<T: Deserialize<'a>>(self) -> Result<T, ParseError> {
        serde_json::from_str(self.text)
            .map(|Object(value)| value)
            .map_err(|error| self.error(&error))
    }

    fn read_wait_set(self, execution: &ExecutionId) -> Result<WaitSet, ParseError> {
        let mut deserializer = serde_json::Deserializer::from_str(self.text);
        MembersOf(execution).deserialize(&mut deserializer).map_err(|error| self.error(&error))
    }

    fn error(self, error: &serde_json::Error) -> ParseError {
        let start = column_of(self.line, self.text).unwrap_or(1);
        // Line 0: the error has no place of its own.
        let column = if error.line() == 0 { start } else { start + error.column().max(1) - 1 };
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = printable(message.strip_suffix(&place).unwrap_or(&message));
        ParseError { column: column.min(self.line.len() + 1), message }
    }
}

/// Where `part` starts, if it is a slice of `line`.
fn column_of(line: &str, part: &str) -> Option<usize> {
    let offset = (part.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    (offset <= line.len()).then_some(offset + 1)
}

/// One short line that cannot rewrite a terminal: messages quote the input.
fn printable(message: &str) -> String {
    let mut text = String::new();
    for (index, c) in message.chars().enumerate() {
        if index == MESSAGE_CHARS_MAX {
            text.push('…');
            break;
        }
        if crate::describe::rewrites_the_line(c) {
            text.extend(c.escape_unicode());
        } else {
            text.push(c);
        }
    }
    text
}

/// The event of this name; none if there is no such event.
fn event(name: &str, data: Part<'_>, own: &ExecutionId) -> Result<Option<Event>, ParseError> {
    let event = match name {
        "ExecutionStarted" => Event::ExecutionStarted(Box::new(started(data.read()?))),
        "ExecutionCompleted" => {
            let data: wire::ExecutionCompleted = data.read()?;
            Event::ExecutionCompleted { result: data.result.0 }
        }
        "ExecutionFailed" => {
            let data: wire::ExecutionFailed<'_> = data.read()?;
            Event::ExecutionFailed { error: failure(data.error) }
        }
        "CancelRequested" => {
            let data: wire::Reason<'_> = data.read()?;
            Event::CancelRequested { reason: data.reason.into_owned() }
        }
        "ExecutionCancelled" => {
            let data: wire::Reason<'_> = data.read()?;
            Event::ExecutionCancelled { reason: data.reason.into_owned() }
        }
        "InvokeScheduled" => {
            let data: wire::InvokeScheduled = data.read()?;
            Event::InvokeScheduled {
                promise_id: data.promise_id.0,
                kind: data.kind.into(),
                function_name: data.function_name.0,
                input: data.input.0,
                retry_policy: policy(data.retry_policy),
            }
        }
        "InvokeStarted" => {
            let data: wire::InvokeStarted = data.read()?;
            Event::InvokeStarted { promise_id: data.promise_id.0, attempt: attempt(data.attempt) }
        }
        "InvokeCompleted" => {
            let data: wire::InvokeCompleted<'_> = data.read()?;
            Event::InvokeCompleted {
                promise_id: data.promise_id.0,
                result: outcome(data.result),
                attempt: attempt(data.attempt),
            }
        }
        "InvokeRetrying" => {
            let data: wire::InvokeRetrying<'_> = data.read()?;
            Event::InvokeRetrying {
                promise_id: data.promise_id.0,
                failed_attempt: attempt(data.failed_attempt),
                cause: data.cause.into(),
                error: failure(data.error),
                retry_at: data.retry_at.0,
            }
        }
        "RandomGenerated" => {
            let data: wire::RandomGenerated = data.read()?;
            Event::RandomGenerated { promise_id: data.promise_id.0, value: data.value.0 }
        }
        "TimeRecorded" => {
            let data: wire::TimeRecorded = data.read()?;
            Event::TimeRecorded { promise_id: data.promise_id.0, time: data.time.0 }
        }
        "TimerScheduled" => {
            let data: wire::TimerScheduled = data.read()?;
            Event::TimerScheduled {
                promise_id: data.promise_id.0,
                duration: Micros::new(data.duration_us),
                fire_at: data.fire_at.0,
            }
        }
        "TimerFired" => {
            let data: wire::TimerFired = data.read()?;
            Event::TimerFired { promise_id: data.promise_id.0 }
        }
        "SignalDelivered" => {
            let data: wire::SignalDelivered = data.read()?;
            Event::SignalDelivered {
                signal_name: data.signal_name.0,
                payload: data.payload.0,
                delivery_id: delivery(data.delivery_id),
            }
        }
        "SignalReceived" => {
            let data: wire::SignalReceived = data.read()?;
            Event::SignalReceived {
                promise_id: data.promise_id.0,
                signal_name: data.signal_name.0,
                payload: data.payload.0,
                delivery_id: delivery(data.delivery_id),
            }
        }
        "ExecutionAwaiting" => {
            let awaiting: wire::ExecutionAwaiting<&RawValue> = data.read()?;
            let members = Part { line: data.line, text: awaiting.waiting_on.get() };
            Event::ExecutionAwaiting {
                waiting_on: members.read_wait_set(own)?,
                kind: await_kind(awaiting.kind),
            }
        }
        "ExecutionResumed" => {
            let wire::ExecutionResumed {} = data.read()?;
            Event::ExecutionResumed
        }
        "JoinSetCreated" => {
            let data: wire::JoinSetCreated = data.read()?;
            Event::JoinSetCreated { join_set_id: data.join_set_id.0 }
        }
        "JoinSetSubmitted" => {
            let data: wire::JoinSetSubmitted = data.read()?;
            Event::JoinSetSubmitted {
                join_set_id: data.join_set_id.0,
                promise_id: data.promise_id.0,
            }
        }
        "JoinSetAwaited" => {
            let data: wire::JoinSetAwaited<'_> = data.read()?;
            Event::JoinSetAwaited {
                join_set_id: data.join_set_id.0,
                promise_id: data.promise_id.0,
                result: outcome(data.result),
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(event))
}

fn started(wire: wire::ExecutionStarted) -> Started {
    let Object(limits) = wire.limits;
    Started {
        component_digest: wire.component_digest.0,
        function_name: wire.function_name.0,
        input: wire.input.0,
        parent_id: wire.parent_id.map(|Text(parent)| parent),
        idempotency_key: wire.idempotency_key.map(|Object(key)| OperationKey {
            namespace: key.namespace.0,
            operation_id: key.operation_id.0,
        }),
        attempts: wire.attempts.0,
        limits: Limits {
            memory_bytes_max: limits.memory_bytes_max,
            stack_bytes_max: limits.stack_bytes_max,
            table_elements_max: limits.table_elements_max,
        },
        retry_policy: wire.retry_policy.map(policy),
        trace_parent: wire.trace_parent.map(|Text(trace_parent)| trace_parent),
    }
}

fn policy(Object(wire): Object<wire::RetryPolicy>) -> Arc<RetryPolicy> {
    let (Object(class), Object(backoff)) = (wire.class, wire.backoff);
    Arc::new(RetryPolicy {
        class: RetryClass {
            durability: class.durability.into(),
            idempotency: class.idempotency.into(),
        },
        bound: match wire.bound {
            wire::RetryBound::Bounded(retries) => RetryBound::Bounded(retries),
            wire::RetryBound::Unbounded => RetryBound::Unbounded,
        },
        backoff: Backoff { base: Micros::new(backoff.base_us), cap: Micros::new(backoff.cap_us) },
        deadline: wire.deadline_us.map(Micros::new),
        attempt_timeout: wire.attempt_timeout_us.map(Micros::new),
        reconciler: wire.reconciler.map(|Object(reconciler)| Reconciler {
            function: reconciler.function.0,
            settle: Micros::new(reconciler.settle_us),
        }),
        on_unknown: wire.on_unknown.into(),
        not_processed: wire.not_processed.into_iter().collect(),
        no_answer: wire.no_answer.map(|statuses| statuses.into_iter().collect()),
        callee: wire.callee.map(|Text(digest)| digest),
    })
}

fn await_kind(wire: wire::AwaitKind) -> AwaitKind {
    match wire {
        wire::AwaitKind::Single => AwaitKind::Single,
        wire::AwaitKind::Any => AwaitKind::Any,
        wire::AwaitKind::All => AwaitKind::All,
        wire::AwaitKind::Signal(Object(signal)) => {
            AwaitKind::Signal { name: signal.name.0, promise_id: signal.promise_id.0 }
        }
        wire::AwaitKind::SignalOr(Object(signal)) => {
            AwaitKind::SignalOr { name: signal.name.0, promise_id: signal.promise_id.0 }
        }
    }
}

fn outcome(wire: wire::Outcome<'_>) -> Outcome {
    match wire {
        wire::Outcome::Ok(payload) => Outcome::Ok(payload.0),
        wire::Outcome::Err(error) => Outcome::Err(failure(error)),
    }
}

fn failure(Object(wire): Object<wire::Failure<'_>>) -> Box<Failure> {
    Box::new(Failure {
        kind: wire.kind.into(),
        message: wire.message.into_owned(),
        detail: wire.detail.map(|payload| payload.0),
    })
}

fn attempt(number: std::num::NonZeroU32) -> Attempt {
    Attempt::new(number.get()).expect("attempts count from 1, and so does this")
}

fn delivery(number: std::num::NonZeroU64) -> DeliveryId {
    DeliveryId::new(number.get()).expect("deliveries count from 1, and so does this")
}

/// Any form that fits the codec is read, also where the export would choose another: the bytes
/// are what counts.
impl<'de> Deserialize<'de> for wire::Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object(form) = Object::<wire::PayloadForm<'de>>::deserialize(deserializer)?;
        let Text(codec) = form.codec;
        let bytes = match (form.value, form.text, form.base64) {
            (Some(value), None, None) if codec == Codec::JSON => {
                Bytes::copy_from_slice(value.get().as_bytes())
            }
            (None, Some(text), None) if [Codec::JSON, Codec::TEXT].contains(&codec) => {
                text.into_owned().into()
            }
            (None, None, Some(Base64(bytes))) => bytes,
            (Some(_), None, None) => {
                return Err(de::Error::custom(format_args!(
                    "a payload of codec {codec} has no `value`; only json has"
                )));
            }
            (None, Some(_), None) => {
                return Err(de::Error::custom(format_args!(
                    "a payload of codec {codec} has no `text`; only json and text have"
                )));
            }
            _ => {
                return Err(de::Error::custom(
                    "a payload must have exactly one of `value`, `text` and `base64`",
                ));
            }
        };
        Ok(Self(Payload { codec, bytes }))
    }
}
