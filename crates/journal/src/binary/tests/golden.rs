//! Rows that were written once and must be read for ever (D12). A change that breaks these tests
//! breaks the journals of every deployed server: it belongs in a new version, beside this one.

use super::*;
use crate::event::{Limits, Started};
use crate::ids::{Attempts, ComponentDigest, JoinSetId};
use crate::names::{DeliveryId, Namespace, OperationId, OperationKey, SignalName, TraceParent};
use crate::payload::{Codec, ErrorKind, Failure};
use crate::policy::{Backoff, OnUnknown, Reconciler, RetryBound, RetryCause, RetryClass};
use crate::time::Micros;

const ROOT_ROW: &[u8] = include_bytes!("../../../tests/fixtures/journal-v1.bin");
const ROOT_TEXT: &str = include_str!("../../../tests/fixtures/journal-v1.txt");
const CHILD_ROW: &[u8] = include_bytes!("../../../tests/fixtures/journal-v1-child.bin");
const CHILD_TEXT: &str = include_str!("../../../tests/fixtures/journal-v1-child.txt");
const FORMAT: &str = include_str!("../../../../../docs/formats/journal-binary.md");

fn function(name: &str) -> FunctionName {
    FunctionName::new(name).unwrap()
}

fn signal(name: &str) -> SignalName {
    SignalName::new(name).unwrap()
}

/// A root, and a start that its journal would accept.
pub(super) fn started() -> (ExecutionId, Event) {
    let component_digest = ComponentDigest::of(b"order.wasm");
    let key = OperationKey {
        namespace: Namespace::new("shop").unwrap(),
        operation_id: OperationId::new("0199c0de-0000-7000-8000-000000000001").unwrap(),
    };
    let root = RootHash::derive(&component_digest, None, &key);
    let started = Started {
        component_digest,
        function_name: function("order"),
        input: Payload::json(r#"{"total":42}"#),
        parent_id: None,
        idempotency_key: Some(key),
        attempts: Attempts::first(0),
        limits: Limits {
            memory_bytes_max: 64 << 20,
            stack_bytes_max: 1 << 20,
            table_elements_max: 10_000,
        },
        retry_policy: Some(Arc::new(RetryPolicy::default())),
        trace_parent: None,
    };
    (ExecutionId::root_of(root), Event::ExecutionStarted(Box::new(started)))
}

/// The usual policy, one with every flag, and those between that have a byte of their own.
fn policies() -> Vec<RetryPolicy> {
    let usual = RetryPolicy::default();
    let unbounded = RetryPolicy {
        class: RetryClass::PERSIST_IDEM,
        bound: RetryBound::Unbounded,
        ..usual.clone()
    };
    let not_processed = RetryPolicy {
        class: RetryClass::VOLATILE,
        not_processed: [429, 503].into_iter().collect(),
        ..usual.clone()
    };
    let callee =
        RetryPolicy { callee: Some(ComponentDigest::from_bytes([0xc0; 32])), ..usual.clone() };
    let all = RetryPolicy {
        class: RetryClass::VOLATILE_IDEM,
        bound: RetryBound::Bounded(u32::MAX),
        backoff: Backoff { base: Micros::from_millis(50), cap: Micros::from_secs(3_600) },
        deadline: Some(Micros::from_secs(86_400)),
        attempt_timeout: Some(Micros::from_secs(30)),
        reconciler: Some(Reconciler {
            function: function("was-it-charged"),
            settle: Micros::from_secs(120),
        }),
        on_unknown: OnUnknown::Hold,
        not_processed: [0, 429, u16::MAX].into_iter().collect(),
        callee: Some(ComponentDigest::from_bytes([0xca; 32])),
        no_answer: None,
    };
    vec![usual, unbounded, not_processed, callee, all]
}

/// Every event, and everything that an event can say, in the order of the tags.
fn events(own: &ExecutionId) -> Vec<Event> {
    let child = |number| own.child(number);
    let set = |number| JoinSetId::at(own.child(number));
    let attempt = |number| Attempt::new(number).unwrap();
    let failure =
        |kind, message: &str, detail| Box::new(Failure { kind, message: message.into(), detail });
    let mut events = vec![
        Event::ExecutionCompleted { result: Payload::new(Codec::CBOR, vec![0xf6]) },
        Event::ExecutionFailed { error: failure(ErrorKind::Trap, "unreachable", None) },
        Event::CancelRequested { reason: "der Kunde möchte nicht mehr".into() },
        Event::ExecutionCancelled { reason: String::new() },
    ];
    for (number, policy) in (0..).zip(policies()) {
        events.push(Event::InvokeScheduled {
            promise_id: child(number),
            kind: if number % 2 == 0 { InvokeKind::Http } else { InvokeKind::Function },
            function_name: function("charge-card"),
            input: Payload::new(Codec::HTTP, format!("POST /{number}")),
            retry_policy: Arc::new(policy),
        });
    }
    events.push(Event::InvokeStarted { promise_id: child(0), attempt: Attempt::FIRST });
    events.push(Event::InvokeCompleted {
        promise_id: child(0),
        result: Outcome::Ok(Payload::new(Codec::from_number(200), "done")),
        attempt: attempt(300),
    });
    for (number, kind) in (128..).zip(ErrorKind::ALL) {
        let detail = (number % 2 == 0).then(|| Payload::json("null"));
        events.push(Event::InvokeCompleted {
            promise_id: child(number),
            result: Outcome::Err(failure(kind, &kind.to_string(), detail)),
            attempt: attempt(2),
        });
    }
    for (number, cause) in (1..).zip(RetryCause::ALL) {
        events.push(Event::InvokeRetrying {
            promise_id: child(u32::MAX),
            failed_attempt: attempt(number),
            cause,
            error: failure(ErrorKind::Transient, "try again", None),
            retry_at: time(1_790_000_060_000_000),
        });
    }
    let waits = [
        (AwaitKind::Single, vec![6]),
        (AwaitKind::Any, vec![0, 1, 2, 4, 7, 8, u32::MAX]),
        (AwaitKind::All, (10..160).collect()),
        (AwaitKind::Signal { name: signal("approve"), promise_id: child(20) }, vec![20]),
        (AwaitKind::SignalOr { name: signal("approve"), promise_id: child(20) }, vec![6, 20]),
        (AwaitKind::All, vec![]),
    ];
    let own_time = time(1_790_000_000_000_000 + 1_000 * (1 + events.len() as u64 + 1));
    let (duration, longest) = (Micros::from_secs(5), Micros::new(u64::MAX));
    events.extend([
        Event::RandomGenerated { promise_id: child(5), value: vec![0, 0xff, 0x7f].into() },
        Event::TimeRecorded { promise_id: child(6), time: own_time },
        Event::TimerScheduled {
            promise_id: child(7),
            duration,
            fire_at: time(own_time.as_micros() + 1_000).saturating_add(duration),
        },
        Event::TimerScheduled { promise_id: child(8), duration: longest, fire_at: Timestamp::MAX },
        Event::TimerFired { promise_id: child(7) },
        Event::SignalDelivered {
            signal_name: signal("approve"),
            payload: Payload::new(Codec::TEXT, "ja"),
            delivery_id: DeliveryId::FIRST,
        },
        Event::SignalReceived {
            promise_id: child(20),
            signal_name: signal("approve"),
            payload: Payload::empty(),
            delivery_id: DeliveryId::new(u64::MAX).unwrap(),
        },
    ]);
    events.extend(waits.map(|(kind, numbers)| Event::ExecutionAwaiting {
        waiting_on: WaitSet::of_numbers(own, numbers).unwrap(),
        kind,
    }));
    events.extend([
        Event::ExecutionResumed,
        Event::JoinSetCreated { join_set_id: set(30) },
        Event::JoinSetSubmitted { join_set_id: set(30), promise_id: child(31) },
        Event::ExecutionAwaiting {
            waiting_on: WaitSet::rest_of(&set(30)).unwrap(),
            kind: AwaitKind::Any,
        },
        Event::JoinSetAwaited {
            join_set_id: set(30),
            promise_id: child(31),
            result: Outcome::Ok(Payload::json("31")),
        },
        Event::JoinSetAwaited {
            join_set_id: set(30),
            promise_id: child(32),
            result: Failure::new(ErrorKind::Indeterminate, "nobody knows").into(),
        },
    ]);
    events
}

/// All of them, and at the end what a root begins with that another execution started.
fn root_records() -> (ExecutionId, Vec<Record>) {
    let (own, start) = started();
    let Event::ExecutionStarted(mut by_another) = start.clone() else { panic!("it is a start") };
    by_another.parent_id = Some(child_records().0);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    by_another.trace_parent = Some(TraceParent::new(trace).unwrap());
    let last = Event::ExecutionStarted(by_another);
    let records = records(0, [start].into_iter().chain(events(&own)).chain([last]));
    (own, records)
}

/// The start of a child deep in a tree, far into a journal. Its id implies its caller, and how
/// many attempts there are.
fn child_records() -> (ExecutionId, Vec<Record>) {
    let path = [0, 1, 300, u32::MAX, 5];
    let promise = crate::PromiseId::new(RootHash::from_bytes([0x5e; 32]), &path).unwrap();
    let own = ExecutionId::new(promise).unwrap();
    let Event::ExecutionStarted(mut start) = started().1 else { panic!("it is a start") };
    start.parent_id = own.parent();
    start.idempotency_key = None;
    start.retry_policy = None;
    start.attempts =
        Attempts::new(&[1, 2, 1, 300, 1, 7].map(|n| Attempt::new(n).unwrap())).unwrap();
    let fired = Event::TimerFired { promise_id: own.child(0) };
    (own, records(100_000, [Event::ExecutionStarted(start), fired]))
}

fn text(records: &[Record]) -> String {
    let lines = records
        .iter()
        .map(|record| format!("{} {} {:?}\n", record.sequence, record.timestamp, record.event));
    lines.collect()
}

fn check_fixture(execution_id: &ExecutionId, expected: &[Record], row: &'static [u8], lines: &str) {
    let read = decode(execution_id, Bytes::from_static(row)).expect("version 1 is readable");
    assert_eq!(text(&read), lines);
    assert_eq!(read, expected);
    assert_eq!(encode_records(execution_id, &read).expect("it was just read"), row);
}

/// C-38, J-5: every event and everything it can say, as version 1 has it.
#[test]
fn every_event() {
    let (own, records) = root_records();
    check_fixture(&own, &records, ROOT_ROW, ROOT_TEXT);
    let mut names: Vec<_> = records.iter().map(|record| record.event.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 20);
}

/// C-32: what an execution's id implies is not stored, and comes back.
#[test]
fn a_child() {
    let (own, records) = child_records();
    check_fixture(&own, &records, CHILD_ROW, CHILD_TEXT);
    // The caller's hash is in no row of its child.
    assert!(!CHILD_ROW.windows(32).any(|bytes| bytes == own.root().as_bytes()));
}

/// The worked example of `docs/formats/journal-binary.md` is what is written.
#[test]
fn the_documented_example() {
    let (_, example) = FORMAT.split_once("```hex\n").expect("the example is there");
    let (example, _) = example.split_once("```").expect("the example ends");
    // Two spaces end the bytes of a line and begin their explanation.
    let digits: String =
        example.lines().flat_map(|line| line.split("  ").next()).flat_map(str::chars).collect();
    let row =
        data_encoding::HEXLOWER.decode(digits.replace(' ', "").as_bytes()).expect("it is hex");

    let scheduled = Event::InvokeScheduled {
        promise_id: root().child(2),
        kind: InvokeKind::Http,
        function_name: function("charge-card"),
        input: Payload::json(r#"{"eur":42}"#),
        retry_policy: Arc::new(RetryPolicy {
            not_processed: [429].into_iter().collect(),
            attempt_timeout: Some(Micros::from_secs(30)),
            ..RetryPolicy::default()
        }),
    };
    let started = Event::InvokeStarted { promise_id: root().child(2), attempt: Attempt::FIRST };
    let awaiting = Event::ExecutionAwaiting {
        waiting_on: WaitSet::of_numbers(&root(), vec![0, 2, 3, 4]).unwrap(),
        kind: AwaitKind::Any,
    };
    let records = records(300, [scheduled, started, awaiting]);
    assert_eq!(check(&root(), &records), row);
}
