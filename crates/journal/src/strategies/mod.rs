//! Arbitrary events of arbitrary executions, for property tests: everything the types can express,
//! in any order.

mod parts;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use self::parts::{
    attempt, bytes, delivery, digest, failure, function, micros, name, number, number_u32, outcome,
    payload, policy, signal, text, timestamp,
};
use crate::ids::DEPTH_MAX;
use crate::*;

/// An execution at any depth, mostly shallow.
pub(crate) fn execution() -> impl Strategy<Value = ExecutionId> {
    let depth = prop_oneof![3 => Just(0), 4 => 1..6_usize, 1 => Just(DEPTH_MAX - 1)];
    let path = depth.prop_flat_map(|depth| vec(number_u32(), depth));
    (any::<[u8; 32]>(), path).prop_map(|(root, path)| {
        let promise = PromiseId::new(RootHash::from_bytes(root), &path).unwrap();
        ExecutionId::new(promise).unwrap()
    })
}

fn children(own: &ExecutionId) -> BoxedStrategy<PromiseId> {
    let own = own.clone();
    number_u32().prop_map(move |number| own.child(number)).boxed()
}

fn started(own: &ExecutionId) -> impl Strategy<Value = Event> + use<> {
    // Only a root can have a starter that is not its caller.
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
        (option::of(key), attempts, limits, option::of(policy()), option::of(name())),
    )
        .prop_map(|((component_digest, function_name, input, parent_id), rest)| {
            let (idempotency_key, attempts, limits, retry_policy, trace) = rest;
            Event::ExecutionStarted(Box::new(Started {
                component_digest,
                function_name,
                input,
                parent_id,
                idempotency_key,
                attempts,
                limits,
                retry_policy,
                trace_parent: trace.map(|trace| TraceParent::new(&trace).unwrap()),
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
    (members, option::weighted(0.2, number_u32()), kind).prop_map(move |(members, rest, kind)| {
        let waiting_on = match rest {
            Some(set) => WaitSet::rest_of(&JoinSetId::at(own.child(set))).unwrap(),
            None => WaitSet::of_numbers(&own, members).unwrap(),
        };
        Event::ExecutionAwaiting { waiting_on, kind }
    })
}

fn invoke(child: BoxedStrategy<PromiseId>) -> impl Strategy<Value = Event> {
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

/// An event of `own` about these promises, written at a time that it may depend on.
fn event(
    own: &ExecutionId,
    child: BoxedStrategy<PromiseId>,
    at: Timestamp,
) -> impl Strategy<Value = Event> + use<> {
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
        (set, child.clone(), outcome()).prop_map(|(join_set_id, promise_id, result)| {
            Event::JoinSetAwaited { join_set_id, promise_id, result }
        }),
    ];
    prop_oneof![
        2 => started(own).boxed(),
        1 => payload().prop_map(|result| Event::ExecutionCompleted { result }),
        1 => failure().prop_map(|error| Event::ExecutionFailed { error }),
        1 => text().prop_map(|reason| Event::CancelRequested { reason }),
        1 => text().prop_map(|reason| Event::ExecutionCancelled { reason }),
        1 => Just(Event::ExecutionResumed),
        4 => invoke(child).boxed(),
        4 => control.boxed(),
        2 => awaiting(own).boxed(),
        3 => join.boxed(),
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
                event(&own, children(&own), at).prop_map(move |event| Record {
                    sequence,
                    timestamp,
                    event,
                })
            })
            .collect();
        (Just(own), records)
    })
}

/// Any record of any journal, with promises of any execution: legal or not, as long as the types
/// can express it.
pub(crate) fn any_record() -> impl Strategy<Value = (JournalKey, Record)> {
    (execution(), number(), timestamp()).prop_flat_map(|(own, sequence, timestamp)| {
        let anywhere = (execution(), number_u32()).prop_map(|(other, number)| other.child(number));
        let attempts = vec(attempt(), own.depth() + 1);
        let events = event(&own, anywhere.boxed(), timestamp);
        (attempts, events).prop_map(move |(attempts, event)| {
            let attempts = Attempts::new(&attempts).unwrap();
            let key = JournalKey::new(own.clone(), attempts).unwrap();
            (key, Record { sequence: Sequence::new(sequence), timestamp, event })
        })
    })
}
