//! From the domain to a line.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64};

use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::VERSION;
use super::parts::{Base64, Members, Object, Text};
use super::wire;
use crate::event::{Event, Record, Started};
use crate::ids::{Attempt, JournalKey};
use crate::names::{DeliveryId, SignalName};
use crate::payload::{Codec, Failure, Outcome, Payload};
use crate::policy::{RetryBound, RetryPolicy};
use crate::wait::AwaitKind;

/// Appends the line of one event, with its line break.
///
/// [`super::parse_line`] gives back an equal key and record, provided that a wait set belongs to
/// the execution of `key`; a journal accepts no other (see C-26).
pub fn write_line(key: &JournalKey, record: &Record, out: &mut Vec<u8>) {
    let line = Writer { key, record, out };
    match &record.event {
        Event::ExecutionStarted(started) => line.write(&execution_started(started)),
        Event::ExecutionCompleted { result } => {
            line.write(&wire::ExecutionCompleted { result: payload(result) });
        }
        Event::ExecutionFailed { error } => {
            line.write(&wire::ExecutionFailed { error: failure(error) });
        }
        Event::CancelRequested { reason } | Event::ExecutionCancelled { reason } => {
            line.write(&wire::Reason { reason: reason.into() });
        }
        Event::InvokeScheduled { promise_id, kind, function_name, input, retry_policy } => {
            line.write(&wire::InvokeScheduled {
                promise_id: Text(promise_id.clone()),
                kind: (*kind).into(),
                function_name: Text(function_name.clone()),
                input: payload(input),
                retry_policy: policy(retry_policy),
            });
        }
        Event::InvokeStarted { promise_id, attempt } => line.write(&wire::InvokeStarted {
            promise_id: Text(promise_id.clone()),
            attempt: attempt_number(*attempt),
        }),
        Event::InvokeCompleted { promise_id, result, attempt } => {
            line.write(&wire::InvokeCompleted {
                promise_id: Text(promise_id.clone()),
                result: outcome(result),
                attempt: attempt_number(*attempt),
            });
        }
        Event::InvokeRetrying { promise_id, failed_attempt, cause, error, retry_at } => {
            line.write(&wire::InvokeRetrying {
                promise_id: Text(promise_id.clone()),
                failed_attempt: attempt_number(*failed_attempt),
                cause: (*cause).into(),
                error: failure(error),
                retry_at: Text(*retry_at),
            });
        }
        Event::RandomGenerated { promise_id, value } => line.write(&wire::RandomGenerated {
            promise_id: Text(promise_id.clone()),
            value: Base64(value.clone()),
        }),
        Event::TimeRecorded { promise_id, time } => line
            .write(&wire::TimeRecorded { promise_id: Text(promise_id.clone()), time: Text(*time) }),
        Event::TimerScheduled { promise_id, duration, fire_at } => {
            line.write(&wire::TimerScheduled {
                promise_id: Text(promise_id.clone()),
                duration_us: duration.get(),
                fire_at: Text(*fire_at),
            });
        }
        Event::TimerFired { promise_id } => {
            line.write(&wire::TimerFired { promise_id: Text(promise_id.clone()) });
        }
        Event::SignalDelivered { signal_name, payload: carried, delivery_id } => {
            line.write(&wire::SignalDelivered {
                signal_name: Text(signal_name.clone()),
                payload: payload(carried),
                delivery_id: delivery_number(*delivery_id),
            });
        }
        Event::SignalReceived { promise_id, signal_name, payload: carried, delivery_id } => {
            line.write(&wire::SignalReceived {
                promise_id: Text(promise_id.clone()),
                signal_name: Text(signal_name.clone()),
                payload: payload(carried),
                delivery_id: delivery_number(*delivery_id),
            });
        }
        Event::ExecutionAwaiting { waiting_on, kind } => line.write(&wire::ExecutionAwaiting {
            waiting_on: Members(waiting_on),
            kind: await_kind(kind),
        }),
        Event::ExecutionResumed => line.write(&wire::ExecutionResumed {}),
        Event::JoinSetCreated { join_set_id } => {
            line.write(&wire::JoinSetCreated { join_set_id: Text(join_set_id.clone()) });
        }
        Event::JoinSetSubmitted { join_set_id, promise_id } => {
            line.write(&wire::JoinSetSubmitted {
                join_set_id: Text(join_set_id.clone()),
                promise_id: Text(promise_id.clone()),
            });
        }
        Event::JoinSetAwaited { join_set_id, promise_id, result } => {
            line.write(&wire::JoinSetAwaited {
                join_set_id: Text(join_set_id.clone()),
                promise_id: Text(promise_id.clone()),
                result: outcome(result),
            });
        }
    }
}

struct Writer<'a> {
    key: &'a JournalKey,
    record: &'a Record,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn write<D: Serialize>(self, data: &D) {
        let line = wire::Line {
            v: VERSION,
            execution: Text(self.key.clone()),
            sequence: self.record.sequence.get(),
            timestamp: Text(self.record.timestamp),
            event: Cow::Borrowed(self.record.event.name()),
            data,
        };
        serde_json::to_writer(&mut *self.out, &line)
            .expect("memory can be written, and every key is a string");
        self.out.push(b'\n');
    }
}

fn execution_started(started: &Started) -> wire::ExecutionStarted {
    wire::ExecutionStarted {
        component_digest: Text(started.component_digest),
        function_name: Text(started.function_name.clone()),
        input: payload(&started.input),
        parent_id: started.parent_id.clone().map(Text),
        idempotency_key: started.idempotency_key.as_ref().map(|key| {
            Object(wire::OperationKey {
                namespace: Text(key.namespace.clone()),
                operation_id: Text(key.operation_id.clone()),
            })
        }),
        attempts: Text(started.attempts.clone()),
        limits: Object(wire::Limits {
            memory_bytes_max: started.limits.memory_bytes_max,
            stack_bytes_max: started.limits.stack_bytes_max,
            table_elements_max: started.limits.table_elements_max,
        }),
        retry_policy: started.retry_policy.as_deref().map(policy),
        trace_parent: started.trace_parent.clone().map(Text),
    }
}

fn policy(policy: &RetryPolicy) -> Object<wire::RetryPolicy> {
    Object(wire::RetryPolicy {
        class: Object(wire::RetryClass {
            durability: policy.class.durability.into(),
            idempotency: policy.class.idempotency.into(),
        }),
        bound: match policy.bound {
            RetryBound::Bounded(retries) => wire::RetryBound::Bounded(retries),
            RetryBound::Unbounded => wire::RetryBound::Unbounded,
        },
        backoff: Object(wire::Backoff {
            base_us: policy.backoff.base.get(),
            cap_us: policy.backoff.cap.get(),
        }),
        deadline_us: policy.deadline.map(crate::Micros::get),
        attempt_timeout_us: policy.attempt_timeout.map(crate::Micros::get),
        reconciler: policy.reconciler.as_ref().map(|reconciler| {
            Object(wire::Reconciler {
                function: Text(reconciler.function.clone()),
                settle_us: reconciler.settle.get(),
            })
        }),
        on_unknown: policy.on_unknown.into(),
        not_processed: policy.not_processed.as_slice().to_vec(),
        no_answer: policy.no_answer.as_ref().map(|statuses| statuses.as_slice().to_vec()),
        callee: policy.callee.map(Text),
    })
}

fn await_kind(kind: &AwaitKind) -> wire::AwaitKind {
    let signal = |name: &SignalName, promise_id: &crate::PromiseId| {
        Object(wire::SignalAwait { name: Text(name.clone()), promise_id: Text(promise_id.clone()) })
    };
    match kind {
        AwaitKind::Single => wire::AwaitKind::Single,
        AwaitKind::Any => wire::AwaitKind::Any,
        AwaitKind::All => wire::AwaitKind::All,
        AwaitKind::Signal { name, promise_id } => wire::AwaitKind::Signal(signal(name, promise_id)),
        AwaitKind::SignalOr { name, promise_id } => {
            wire::AwaitKind::SignalOr(signal(name, promise_id))
        }
    }
}

fn outcome(outcome: &Outcome) -> wire::Outcome<'_> {
    match outcome {
        Outcome::Ok(result) => wire::Outcome::Ok(payload(result)),
        Outcome::Err(error) => wire::Outcome::Err(failure(error)),
    }
}

fn failure(failure: &Failure) -> Object<wire::Failure<'_>> {
    Object(wire::Failure {
        kind: failure.kind.into(),
        message: Cow::Borrowed(&failure.message),
        detail: failure.detail.as_ref().map(payload),
    })
}

fn payload(payload: &Payload) -> wire::Payload {
    wire::Payload(payload.clone())
}

fn attempt_number(attempt: Attempt) -> NonZeroU32 {
    NonZeroU32::new(attempt.get()).expect("attempts count from 1")
}

fn delivery_number(delivery: DeliveryId) -> NonZeroU64 {
    NonZeroU64::new(delivery.get()).expect("deliveries count from 1")
}

/// The first form that fits, so that a payload has one spelling: JSON as itself, else text, else
/// base64.
impl Serialize for wire::Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Payload { codec, bytes } = &self.0;
        let text = match *codec {
            Codec::JSON | Codec::TEXT => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        let value = text.filter(|_| *codec == Codec::JSON).and_then(as_json_in_a_line);
        let (text, base64) = match (value, text) {
            (Some(_), _) => (None, None),
            (None, Some(text)) => (Some(Cow::Borrowed(text)), None),
            (None, None) => (None, Some(Base64(bytes.clone()))),
        };
        wire::PayloadForm { codec: Text(*codec), value, text, base64 }.serialize(serializer)
    }
}

/// The text as a JSON value that stands in a line and is read back byte for byte: valid, without
/// line breaks, and without the blanks around it that a reader would drop.
fn as_json_in_a_line(text: &str) -> Option<&RawValue> {
    if text.contains(['\n', '\r']) {
        return None;
    }
    let value: &RawValue = serde_json::from_str(text).ok()?;
    (value.get() == text).then_some(value)
}
