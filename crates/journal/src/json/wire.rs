//! What a line looks like, version 2. A field's name and shape here are a promise to readers of
//! files: change them only together with the version.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::parts::{Base64, Object, Text, ascending, ascending_if_any, present};
use crate::ids::{Attempts, ComponentDigest, ExecutionId, JoinSetId, JournalKey, PromiseId};
use crate::names::{FunctionName, Namespace, OperationId, SignalName, TraceParent};
use crate::payload::{self, Codec};
use crate::time::Timestamp;
use crate::{event, policy};

/// A whole line; `D` is the event's fields, or their text until the event's name is known.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a, D> {
    pub(super) v: u64,
    pub(super) execution: Text<JournalKey>,
    pub(super) sequence: u64,
    pub(super) timestamp: Text<Timestamp>,
    #[serde(borrow)]
    pub(super) event: Cow<'a, str>,
    pub(super) data: D,
}

/// The one field that every version has.
#[derive(Deserialize)]
pub(super) struct Version<'a> {
    #[serde(borrow)]
    pub(super) v: &'a RawValue,
}

/// The event's name as it stands in the line.
#[derive(Deserialize)]
pub(super) struct EventName<'a> {
    #[serde(borrow)]
    pub(super) event: &'a RawValue,
}

macro_rules! data {
    ($($name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[derive(Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub(super) struct $name {
                $(pub(super) $field: $type,)*
            }
        )*
    };
}

data! {
    ExecutionCompleted { result: Payload, }
    InvokeScheduled {
        promise_id: Text<PromiseId>,
        kind: InvokeKind,
        function_name: Text<FunctionName>,
        input: Payload,
        retry_policy: Object<RetryPolicy>,
    }
    InvokeStarted { promise_id: Text<PromiseId>, attempt: NonZeroU32, }
    RandomGenerated { promise_id: Text<PromiseId>, value: Base64, }
    TimeRecorded { promise_id: Text<PromiseId>, time: Text<Timestamp>, }
    TimerScheduled {
        promise_id: Text<PromiseId>,
        duration_us: u64,
        fire_at: Text<Timestamp>,
    }
    TimerFired { promise_id: Text<PromiseId>, }
    SignalDelivered {
        signal_name: Text<SignalName>,
        payload: Payload,
        delivery_id: NonZeroU64,
    }
    SignalReceived {
        promise_id: Text<PromiseId>,
        signal_name: Text<SignalName>,
        payload: Payload,
        delivery_id: NonZeroU64,
    }
    ExecutionResumed {}
    JoinSetCreated { join_set_id: Text<JoinSetId>, }
    JoinSetSubmitted { join_set_id: Text<JoinSetId>, promise_id: Text<PromiseId>, }
    OperationKey { namespace: Text<Namespace>, operation_id: Text<OperationId>, }
    Limits { memory_bytes_max: u64, stack_bytes_max: u64, table_elements_max: u64, }
    RetryClass { durability: Durability, idempotency: Idempotency, }
    Backoff { base_us: u64, cap_us: u64, }
    Reconciler { function: Text<FunctionName>, settle_us: u64, }
    SignalAwait { name: Text<SignalName>, promise_id: Text<PromiseId>, }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecutionStarted {
    pub(super) component_digest: Text<ComponentDigest>,
    pub(super) function_name: Text<FunctionName>,
    pub(super) input: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent_id: Option<Text<ExecutionId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) idempotency_key: Option<Object<OperationKey>>,
    pub(super) attempts: Text<Attempts>,
    pub(super) limits: Object<Limits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retry_policy: Option<Object<RetryPolicy>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace_parent: Option<Text<TraceParent>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecutionFailed<'a> {
    #[serde(borrow)]
    pub(super) error: Object<Failure<'a>>,
}

/// The data of `CancelRequested` and of `ExecutionCancelled`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason<'a> {
    #[serde(borrow)]
    pub(super) reason: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InvokeCompleted<'a> {
    pub(super) promise_id: Text<PromiseId>,
    #[serde(borrow)]
    pub(super) result: Outcome<'a>,
    pub(super) attempt: NonZeroU32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InvokeRetrying<'a> {
    pub(super) promise_id: Text<PromiseId>,
    pub(super) failed_attempt: NonZeroU32,
    pub(super) cause: RetryCause,
    #[serde(borrow)]
    pub(super) error: Object<Failure<'a>>,
    pub(super) retry_at: Text<Timestamp>,
}

/// `W` is the set to export; on import it is text until its members are checked to be children of
/// this execution.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecutionAwaiting<W> {
    pub(super) waiting_on: W,
    pub(super) kind: AwaitKind,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JoinSetAwaited<'a> {
    pub(super) join_set_id: Text<JoinSetId>,
    pub(super) promise_id: Text<PromiseId>,
    #[serde(borrow)]
    pub(super) result: Outcome<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryPolicy {
    pub(super) class: Object<RetryClass>,
    pub(super) bound: RetryBound,
    pub(super) backoff: Object<Backoff>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deadline_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attempt_timeout_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reconciler: Option<Object<Reconciler>>,
    pub(super) on_unknown: OnUnknown,
    #[serde(deserialize_with = "ascending")]
    pub(super) not_processed: Vec<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) callee: Option<Text<ComponentDigest>>,
    #[serde(
        default,
        deserialize_with = "ascending_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) no_answer: Option<Vec<u16>>,
}

#[derive(Serialize, Deserialize)]
pub(super) enum RetryBound {
    Bounded(u32),
    Unbounded,
}

#[derive(Serialize, Deserialize)]
pub(super) enum AwaitKind {
    Single,
    Any,
    All,
    Signal(Object<SignalAwait>),
    SignalOr(Object<SignalAwait>),
}

#[derive(Serialize, Deserialize)]
pub(super) enum Outcome<'a> {
    #[serde(rename = "ok")]
    Ok(Payload),
    #[serde(rename = "err", borrow)]
    Err(Object<Failure<'a>>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure<'a> {
    pub(super) kind: ErrorKind,
    #[serde(borrow)]
    pub(super) message: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<Payload>,
}

/// A payload, written and read as [`PayloadForm`]: a separate type, because the form depends on the
/// bytes.
pub(super) struct Payload(pub(super) payload::Payload);

/// Exactly one of `value`, `text` and `base64` is there.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PayloadForm<'a> {
    pub(super) codec: Text<Codec>,
    #[serde(borrow, default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<Base64>,
}

/// An enum of names, the same on both sides. A new variant in the domain does not compile until it
/// has its name in files here.
macro_rules! names {
    ($($name:ident = $domain:path { $($variant:ident),* })*) => {
        $(
            #[derive(Serialize, Deserialize)]
            pub(super) enum $name {
                $($variant,)*
            }

            impl From<$domain> for $name {
                fn from(domain: $domain) -> Self {
                    type Domain = $domain;
                    match domain {
                        $(Domain::$variant => Self::$variant,)*
                    }
                }
            }

            impl From<$name> for $domain {
                fn from(wire: $name) -> Self {
                    match wire {
                        $($name::$variant => Self::$variant,)*
                    }
                }
            }
        )*
    };
}

names! {
    InvokeKind = event::InvokeKind { Function, Http }
    Durability = policy::Durability { Persist, Volatile }
    Idempotency = policy::Idempotency { Idem, NonIdem }
    OnUnknown = policy::OnUnknown { Indeterminate, Hold }
    RetryCause = policy::RetryCause { Failed, NotSent, EngineLost, ReconciledNotDone, Operator }
    ErrorKind = payload::ErrorKind {
        UserError, Transient, Trap, Timeout, Cancelled, Nondeterminism, Indeterminate,
        NotPerformed, Uncategorized
    }
}
