//! Any event at all: legal or not, as long as it can be said.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

use crate::*;

fn hash() -> impl Strategy<Value = [u8; 32]> {
    any::<[u8; 32]>()
}

fn digest() -> impl Strategy<Value = ComponentDigest> {
    hash().prop_map(ComponentDigest::from_bytes)
}

fn execution() -> impl Strategy<Value = ExecutionId> {
    (hash(), vec(any::<u32>(), 0..6)).prop_map(|(root, path)| {
        ExecutionId::new(PromiseId::new(RootHash::from_bytes(root), &path).unwrap()).unwrap()
    })
}

fn promise() -> impl Strategy<Value = PromiseId> {
    (execution(), any::<u32>()).prop_map(|(execution, number)| execution.child(number))
}

fn attempt() -> impl Strategy<Value = Attempt> {
    (1..=u32::MAX).prop_map(|number| Attempt::new(number).unwrap())
}

fn attempts() -> impl Strategy<Value = Attempts> {
    vec(attempt(), 1..7).prop_map(|attempts| Attempts::new(&attempts).unwrap())
}

fn key() -> impl Strategy<Value = JournalKey> {
    (execution(), vec(attempt(), 7)).prop_map(|(execution, attempts)| {
        let attempts = Attempts::new(&attempts[..=execution.depth()]).unwrap();
        JournalKey::new(execution, attempts).unwrap()
    })
}

/// Names with quotes, backslashes, blanks at the edges and letters of all sizes.
fn name() -> impl Strategy<Value = String> {
    r#"[ a-z"\\/{}éλ🦀\u{202e}]{0,12}[a-z_]"#
}

fn function() -> impl Strategy<Value = FunctionName> {
    name().prop_map(|name| name.parse().unwrap())
}

fn signal() -> impl Strategy<Value = SignalName> {
    name().prop_map(|name| name.parse().unwrap())
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        Just(Timestamp::EPOCH),
        Just(Timestamp::MAX),
        (0..=Timestamp::MAX.as_micros()).prop_map(|us| Timestamp::from_micros(us).unwrap()),
    ]
}

fn micros() -> impl Strategy<Value = Micros> {
    any::<u64>().prop_map(Micros::new)
}

/// Everything that an export has to keep: JSON that stands in a line and JSON that does not,
/// text, and bytes that are neither, under every codec.
fn payload() -> impl Strategy<Value = Payload> {
    let json = select(vec![
        "null",
        "true",
        "\"\"",
        "0",
        "-0.0",
        "1E400",
        "[]",
        "{}",
        "\"\\ud800\"",
        "\"é\\n\\u0000\"",
        " 1",
        "1 ",
        "{\"a\": 1, \"a\": 2}",
        "[1,\n2]",
        "[1,\r2]",
        "{",
        "",
        "nul",
        "1 2",
        "\"a\tb\"",
        "\u{feff}1",
        "[[[[[[]]]]]]",
        "{\"v\":1}",
    ]);
    let bytes = prop_oneof![
        json.prop_map(|text| Bytes::from_static(text.as_bytes())),
        any::<String>().prop_map(Bytes::from),
        vec(any::<u8>(), 0..40).prop_map(Bytes::from),
        vec(0_usize..400, 1)
            .prop_map(|n| Bytes::from(["[".repeat(n[0]), "]".repeat(n[0])].concat())),
    ];
    let codec = prop_oneof![Just(1), Just(5), any::<u8>()].prop_map(Codec::from_number);
    (codec, bytes).prop_map(|(codec, bytes)| Payload { codec, bytes })
}

fn failure() -> impl Strategy<Value = Failure> {
    (select(ErrorKind::ALL.to_vec()), any::<String>(), option::of(payload()))
        .prop_map(|(kind, message, detail)| Failure { kind, message, detail })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        payload().prop_map(Outcome::Ok),
        failure().prop_map(|failure| Outcome::Err(Box::new(failure))),
    ]
}

fn policy() -> impl Strategy<Value = Arc<RetryPolicy>> {
    let class = (
        select(vec![Durability::Persist, Durability::Volatile]),
        select(vec![Idempotency::Idem, Idempotency::NonIdem]),
    );
    let bound =
        prop_oneof![any::<u32>().prop_map(RetryBound::Bounded), Just(RetryBound::Unbounded)];
    let times = (micros(), micros(), option::of(micros()), option::of(micros()));
    let unknown = (
        option::of((function(), micros())),
        select(vec![OnUnknown::Indeterminate, OnUnknown::Hold]),
        vec(any::<u16>(), 0..4),
        option::of(digest()),
    );
    (class, bound, times, unknown).prop_map(|(class, bound, times, unknown)| {
        Arc::new(RetryPolicy {
            class: RetryClass { durability: class.0, idempotency: class.1 },
            bound,
            backoff: Backoff { base: times.0, cap: times.1 },
            deadline: times.2,
            attempt_timeout: times.3,
            reconciler: unknown.0.map(|(function, settle)| Reconciler { function, settle }),
            on_unknown: unknown.1,
            not_processed: unknown.2.into_iter().collect(),
            callee: unknown.3,
        })
    })
}

fn started() -> impl Strategy<Value = Event> {
    let operation = (name(), name()).prop_map(|(namespace, id)| OperationKey {
        namespace: namespace.parse().unwrap(),
        operation_id: id.parse().unwrap(),
    });
    let what = (digest(), function(), payload());
    let who = (option::of(execution()), option::of(operation), attempts());
    let limits = (any::<u64>(), any::<u64>(), any::<u64>());
    (what, who, limits, option::of(policy())).prop_map(|(what, who, limits, retry_policy)| {
        Event::ExecutionStarted(Box::new(Started {
            component_digest: what.0,
            function_name: what.1,
            input: what.2,
            parent_id: who.0,
            idempotency_key: who.1,
            attempts: who.2,
            limits: Limits {
                memory_bytes_max: limits.0,
                stack_bytes_max: limits.1,
                table_elements_max: limits.2,
            },
            retry_policy,
        }))
    })
}

fn await_kind() -> impl Strategy<Value = AwaitKind> {
    prop_oneof![
        Just(AwaitKind::Single),
        Just(AwaitKind::Any),
        Just(AwaitKind::All),
        (signal(), promise()).prop_map(|(name, promise_id)| AwaitKind::Signal { name, promise_id }),
        (signal(), promise())
            .prop_map(|(name, promise_id)| AwaitKind::SignalOr { name, promise_id }),
    ]
}

fn event(own: ExecutionId) -> impl Strategy<Value = Event> {
    let set = || promise().prop_map(JoinSetId::at);
    let kind = select(vec![InvokeKind::Function, InvokeKind::Http]);
    let delivery = || (1..=u64::MAX).prop_map(|number| DeliveryId::new(number).unwrap());
    Union::new(vec![
        started().boxed(),
        payload().prop_map(|result| Event::ExecutionCompleted { result }).boxed(),
        failure().prop_map(|error| Event::ExecutionFailed { error: Box::new(error) }).boxed(),
        any::<String>().prop_map(|reason| Event::CancelRequested { reason }).boxed(),
        any::<String>().prop_map(|reason| Event::ExecutionCancelled { reason }).boxed(),
        (promise(), kind, function(), payload(), policy())
            .prop_map(|(promise_id, kind, function_name, input, retry_policy)| {
                Event::InvokeScheduled { promise_id, kind, function_name, input, retry_policy }
            })
            .boxed(),
        (promise(), attempt())
            .prop_map(|(promise_id, attempt)| Event::InvokeStarted { promise_id, attempt })
            .boxed(),
        (promise(), outcome(), attempt())
            .prop_map(|(promise_id, result, attempt)| Event::InvokeCompleted {
                promise_id,
                result,
                attempt,
            })
            .boxed(),
        (promise(), attempt(), select(RetryCause::ALL.to_vec()), failure(), time())
            .prop_map(|(promise_id, failed_attempt, cause, error, retry_at)| {
                let error = Box::new(error);
                Event::InvokeRetrying { promise_id, failed_attempt, cause, error, retry_at }
            })
            .boxed(),
        (promise(), vec(any::<u8>(), 0..40))
            .prop_map(|(promise_id, value)| Event::RandomGenerated {
                promise_id,
                value: value.into(),
            })
            .boxed(),
        (promise(), time())
            .prop_map(|(promise_id, time)| Event::TimeRecorded { promise_id, time })
            .boxed(),
        (promise(), micros(), time())
            .prop_map(|(promise_id, duration, fire_at)| Event::TimerScheduled {
                promise_id,
                duration,
                fire_at,
            })
            .boxed(),
        promise().prop_map(|promise_id| Event::TimerFired { promise_id }).boxed(),
        (signal(), payload(), delivery())
            .prop_map(|(signal_name, payload, delivery_id)| Event::SignalDelivered {
                signal_name,
                payload,
                delivery_id,
            })
            .boxed(),
        (promise(), signal(), payload(), delivery())
            .prop_map(|(promise_id, signal_name, payload, delivery_id)| Event::SignalReceived {
                promise_id,
                signal_name,
                payload,
                delivery_id,
            })
            .boxed(),
        (btree_set(any::<u32>(), 0..5), await_kind())
            .prop_map(move |(numbers, kind)| Event::ExecutionAwaiting {
                waiting_on: WaitSet::of_numbers(&own, numbers.into_iter().collect()).unwrap(),
                kind,
            })
            .boxed(),
        Just(Event::ExecutionResumed).boxed(),
        set().prop_map(|join_set_id| Event::JoinSetCreated { join_set_id }).boxed(),
        (set(), promise())
            .prop_map(|(join_set_id, promise_id)| Event::JoinSetSubmitted {
                join_set_id,
                promise_id,
            })
            .boxed(),
        (set(), promise(), outcome())
            .prop_map(|(join_set_id, promise_id, result)| Event::JoinSetAwaited {
                join_set_id,
                promise_id,
                result,
            })
            .boxed(),
    ])
}

/// Any event of any journal.
pub(super) fn line() -> impl Strategy<Value = (JournalKey, Record)> {
    (key(), any::<u64>(), time()).prop_flat_map(|(key, sequence, timestamp)| {
        event(key.execution_id().clone()).prop_map(move |event| {
            let sequence = Sequence::new(sequence);
            (key.clone(), Record { sequence, timestamp, event })
        })
    })
}
