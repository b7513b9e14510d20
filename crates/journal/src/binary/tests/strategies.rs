//! Arbitrary batches of arbitrary executions: everything the types can say that an accepted
//! journal could, in any order.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::Statuses;
use crate::event::{Event, InvokeKind, Limits, Record, Sequence, Started};
use crate::ids::{
    Attempt, Attempts, ComponentDigest, DEPTH_MAX, ExecutionId, JoinSetId, PromiseId, RootHash,
};
use crate::names::{DeliveryId, FunctionName, Namespace, OperationId, OperationKey, SignalName};
use crate::payload::{Codec, ErrorKind, Failure, Outcome, Payload};
use crate::policy::{
    Backoff, Durability, Idempotency, OnUnknown, Reconciler, RetryBound, RetryCause, RetryClass,
    RetryPolicy,
};
use crate::time::{Micros, Timestamp};
use crate::wait::{AwaitKind, WaitSet};

/// Numbers of every length on disk, not mostly the longest.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0_u64..4,
        4 => (0_u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits),
        1 => Just(u64::MAX),
    ]
}

fn number_u32() -> impl Strategy<Value = u32> {
    number()
        .prop_map(|value| u32::try_from(value >> 32).unwrap_or(u32::MAX))
        .prop_flat_map(|wide| prop_oneof![3 => 0_u32..300, 1 => Just(wide)])
}

fn micros() -> impl Strategy<Value = Micros> {
    number().prop_map(Micros::new)
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    number().prop_map(|micros| Timestamp::EPOCH.saturating_add(Micros::new(micros)))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z0-9 ]{0,20}", ".{0,20}"]
}

/// Any text that is a name: the pattern's first character is never blank.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,3}", "[a-zäß漢][a-z0-9 ./äß漢-]{0,40}", "x{255}"]
}

fn function() -> impl Strategy<Value = FunctionName> {
    name().prop_map(|name| FunctionName::new(&name).unwrap())
}

fn signal() -> impl Strategy<Value = SignalName> {
    name().prop_map(|name| SignalName::new(&name).unwrap())
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![vec(any::<u8>(), 0..8), vec(any::<u8>(), 0..300)].prop_map(Bytes::from)
}

fn payload() -> impl Strategy<Value = Payload> {
    let codec = prop_oneof![0_u8..8, any::<u8>()].prop_map(Codec::from_number);
    (codec, bytes()).prop_map(|(codec, bytes)| Payload { codec, bytes })
}

fn failure() -> impl Strategy<Value = Box<Failure>> {
    (select(&ErrorKind::ALL[..]), text(), option::of(payload()))
        .prop_map(|(kind, message, detail)| Box::new(Failure { kind, message, detail }))
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![payload().prop_map(Outcome::Ok), failure().prop_map(Outcome::Err)]
}

fn attempt() -> impl Strategy<Value = Attempt> {
    number_u32().prop_map(|number| Attempt::new(number).unwrap_or(Attempt::FIRST))
}

fn delivery() -> impl Strategy<Value = DeliveryId> {
    number().prop_map(|number| DeliveryId::new(number).unwrap_or(DeliveryId::FIRST))
}

fn digest() -> impl Strategy<Value = ComponentDigest> {
    any::<[u8; 32]>().prop_map(ComponentDigest::from_bytes)
}

fn policy() -> impl Strategy<Value = Arc<RetryPolicy>> {
    let class = select(vec![
        RetryClass { durability: Durability::Persist, idempotency: Idempotency::NonIdem },
        RetryClass { durability: Durability::Persist, idempotency: Idempotency::Idem },
        RetryClass { durability: Durability::Volatile, idempotency: Idempotency::NonIdem },
        RetryClass { durability: Durability::Volatile, idempotency: Idempotency::Idem },
    ]);
    let bound =
        prop_oneof![number_u32().prop_map(RetryBound::Bounded), Just(RetryBound::Unbounded)];
    let backoff = prop_oneof![
        Just(RetryPolicy::default().backoff),
        (micros(), micros()).prop_map(|(base, cap)| Backoff { base, cap }),
    ];
    let reconciler =
        (function(), micros()).prop_map(|(function, settle)| Reconciler { function, settle });
    let on_unknown = select(vec![OnUnknown::Indeterminate, OnUnknown::Hold]);
    let statuses = prop_oneof![
        Just(Statuses::default()),
        btree_set(any::<u16>(), 0..4).prop_map(Statuses::from_iter)
    ];
    let parts = (
        (class, bound, backoff, option::of(micros()), option::of(micros())),
        (option::weighted(0.3, reconciler), on_unknown, statuses, option::weighted(0.3, digest())),
    );
    let any = parts.prop_map(|((class, bound, backoff, deadline, attempt_timeout), rest)| {
        let (reconciler, on_unknown, not_processed, callee) = rest;
        RetryPolicy {
            class,
            bound,
            backoff,
            deadline,
            attempt_timeout,
            reconciler,
            on_unknown,
            not_processed,
            callee,
        }
    });
    // Often the same one, so that the sharing of equal ones is tried too.
    prop_oneof![Just(RetryPolicy::default()), any].prop_map(Arc::new)
}

/// An execution at any depth, mostly shallow.
pub(super) fn execution() -> impl Strategy<Value = ExecutionId> {
    let depth = prop_oneof![3 => Just(0), 4 => 1..6_usize, 1 => Just(DEPTH_MAX - 1)];
    let path = depth.prop_flat_map(|depth| vec(number_u32(), depth));
    (any::<[u8; 32]>(), path).prop_map(|(root, path)| {
        let promise = PromiseId::new(RootHash::from_bytes(root), &path).unwrap();
        ExecutionId::new(promise).unwrap()
    })
}

fn started(own: &ExecutionId) -> impl Strategy<Value = Event> + use<> {
    // Only a root may have been started by somebody who is not its caller.
    let parent = match own.parent() {
        Some(parent) => Just(Some(parent)).boxed(),
        None => option::of(execution()).boxed(),
    };
    let key = (name(), name()).prop_map(|(namespace, operation_id)| OperationKey {
        namespace: Namespace::new(&namespace).unwrap(),
        operation_id: OperationId::new(&operation_id).unwrap(),
    });
    let limits = [number(), number(), number()].prop_map(|[memory, stack, tables]| Limits {
        memory_bytes_max: memory,
        stack_bytes_max: stack,
        table_elements_max: tables,
    });
    let attempts = vec(attempt(), own.depth() + 1).prop_map(|all| Attempts::new(&all).unwrap());
    (
        (digest(), function(), payload(), parent),
        (option::of(key), attempts, limits, option::of(policy())),
    )
        .prop_map(|((component_digest, function_name, input, parent_id), rest)| {
            let (idempotency_key, attempts, limits, retry_policy) = rest;
            Event::ExecutionStarted(Box::new(Started {
                component_digest,
                function_name,
                input,
                parent_id,
                idempotency_key,
                attempts,
                limits,
                retry_policy,
            }))
        })
}

fn awaiting(own: &ExecutionId) -> impl Strategy<Value = Event> + use<> {
    let (own, signalled) = (own.clone(), own.clone());
    let run = (number_u32(), 0_u32..200);
    let members = vec(run, 0..4).prop_map(|runs| {
        let mut numbers: Vec<u32> =
            runs.into_iter().flat_map(|(from, more)| from..=from.saturating_add(more)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    });
    let kind = (0..5, signal(), number_u32()).prop_map(move |(kind, name, number)| {
        let promise_id = signalled.child(number);
        match kind {
            0 => AwaitKind::Single,
            1 => AwaitKind::Any,
            2 => AwaitKind::All,
            3 => AwaitKind::Signal { name, promise_id },
            _ => AwaitKind::SignalOr { name, promise_id },
        }
    });
    (members, kind).prop_map(move |(members, kind)| {
        let waiting_on = WaitSet::of_numbers(&own, members).unwrap();
        Event::ExecutionAwaiting { waiting_on, kind }
    })
}

fn invoke(own: &ExecutionId) -> impl Strategy<Value = Event> + use<> {
    let child = {
        let own = own.clone();
        number_u32().prop_map(move |number| own.child(number)).boxed()
    };
    let kind = select(vec![InvokeKind::Function, InvokeKind::Http]);
    prop_oneof![
        (child.clone(), kind, function(), payload(), policy()).prop_map(
            |(promise_id, kind, function_name, input, retry_policy)| Event::InvokeScheduled {
                promise_id,
                kind,
                function_name,
                input,
                retry_policy
            }
        ),
        (child.clone(), attempt())
            .prop_map(|(promise_id, attempt)| Event::InvokeStarted { promise_id, attempt }),
        (child.clone(), outcome(), attempt()).prop_map(|(promise_id, result, attempt)| {
            Event::InvokeCompleted { promise_id, result, attempt }
        }),
        (child, attempt(), select(&RetryCause::ALL[..]), failure(), timestamp()).prop_map(
            |(promise_id, failed_attempt, cause, error, retry_at)| Event::InvokeRetrying {
                promise_id,
                failed_attempt,
                cause,
                error,
                retry_at
            }
        ),
    ]
}

/// An event of `own`, written at a time that it may depend on.
fn event(own: &ExecutionId, at: Timestamp) -> impl Strategy<Value = Event> + use<> {
    let child = {
        let own = own.clone();
        number_u32().prop_map(move |number| own.child(number)).boxed()
    };
    let set = child.clone().prop_map(JoinSetId::at).boxed();
    let control = prop_oneof![
        (child.clone(), bytes())
            .prop_map(|(promise_id, value)| Event::RandomGenerated { promise_id, value }),
        child.clone().prop_map(move |promise_id| Event::TimeRecorded { promise_id, time: at }),
        (child.clone(), micros()).prop_map(move |(promise_id, duration)| {
            Event::TimerScheduled { promise_id, duration, fire_at: at.saturating_add(duration) }
        }),
        child.clone().prop_map(|promise_id| Event::TimerFired { promise_id }),
        (signal(), payload(), delivery()).prop_map(|(signal_name, payload, delivery_id)| {
            Event::SignalDelivered { signal_name, payload, delivery_id }
        }),
        (child.clone(), signal(), payload(), delivery()).prop_map(
            |(promise_id, signal_name, payload, delivery_id)| Event::SignalReceived {
                promise_id,
                signal_name,
                payload,
                delivery_id
            }
        ),
    ];
    let join = prop_oneof![
        set.clone().prop_map(|join_set_id| Event::JoinSetCreated { join_set_id }),
        (set.clone(), child.clone()).prop_map(|(join_set_id, promise_id)| {
            Event::JoinSetSubmitted { join_set_id, promise_id }
        }),
        (set, child, outcome()).prop_map(|(join_set_id, promise_id, result)| {
            Event::JoinSetAwaited { join_set_id, promise_id, result }
        }),
    ];
    prop_oneof![
        2 => started(own),
        1 => payload().prop_map(|result| Event::ExecutionCompleted { result }),
        1 => failure().prop_map(|error| Event::ExecutionFailed { error }),
        1 => text().prop_map(|reason| Event::CancelRequested { reason }),
        1 => text().prop_map(|reason| Event::ExecutionCancelled { reason }),
        1 => Just(Event::ExecutionResumed),
        4 => invoke(own),
        4 => control,
        2 => awaiting(own),
        3 => join,
    ]
}

/// An execution, and consecutive records of it.
pub(crate) fn any_batch() -> impl Strategy<Value = (ExecutionId, Vec<Record>)> {
    let steps = vec(number(), 1..8);
    (execution(), number(), steps).prop_flat_map(|(own, first, steps)| {
        let first = first.min(u64::MAX - 8);
        let mut at = Timestamp::EPOCH;
        let records: Vec<_> = steps
            .into_iter()
            .enumerate()
            .map(|(index, step)| {
                at = at.saturating_add(Micros::new(step));
                let (sequence, timestamp) = (Sequence::new(first + index as u64), at);
                event(&own, at).prop_map(move |event| Record { sequence, timestamp, event })
            })
            .collect();
        (Just(own), records)
    })
}
