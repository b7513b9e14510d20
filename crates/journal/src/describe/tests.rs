//! The examples of the specification, and hostile text.

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::event::Limits;
use crate::{
    Attempts, Codec, ComponentDigest, DeliveryId, ErrorKind, ExecutionId, Failure, JoinSetId,
    Micros, Namespace, OperationId, OperationKey, Payload, RetryCause, RetryPolicy, RootHash,
    Timestamp,
};

fn execution() -> ExecutionId {
    ExecutionId::root_of(RootHash::from_bytes([0x9c; 32]))
}

fn child(number: u32) -> PromiseId {
    execution().child(number)
}

#[track_caller]
fn check(event: &Event, expected: &str) {
    assert_eq!(event.describe().to_string(), expected);
}

fn scheduled(kind: InvokeKind, input: Payload) -> Event {
    Event::InvokeScheduled {
        promise_id: child(1),
        kind,
        function_name: "fetch_user".parse().unwrap(),
        input,
        retry_policy: Arc::new(RetryPolicy::default()),
    }
}

fn started() -> Started {
    Started {
        component_digest: ComponentDigest::from_bytes([0x1f; 32]),
        function_name: "order".parse().unwrap(),
        input: Payload::json("{}"),
        parent_id: None,
        idempotency_key: None,
        attempts: Attempts::first(0),
        limits: Limits { memory_bytes_max: 1, stack_bytes_max: 1, table_elements_max: 1 },
        retry_policy: None,
        trace_parent: None,
    }
}

#[test]
fn calls_read_like_the_specification() {
    let input = Payload::json(r#"{"id":42}"#);
    let expected = r#"InvokeScheduled("root.1", fetch_user, {"id":42})"#;
    check(&scheduled(InvokeKind::Function, input.clone()), expected);
    let expected = r#"InvokeScheduled("root.1", fetch_user, {"id":42}, Http)"#;
    check(&scheduled(InvokeKind::Http, input), expected);
    check(
        &Event::InvokeStarted { promise_id: child(1), attempt: Attempt::FIRST },
        r#"InvokeStarted("root.1", attempt=1)"#,
    );
    check(
        &Event::InvokeCompleted {
            promise_id: child(1),
            result: Outcome::Ok(Payload::json("7")),
            attempt: Attempt::FIRST,
        },
        r#"InvokeCompleted("root.1", Ok(7), attempt=1)"#,
    );
    check(
        &Event::InvokeRetrying {
            promise_id: child(3),
            failed_attempt: Attempt::FIRST,
            cause: RetryCause::Failed,
            error: Box::new(Failure::new(ErrorKind::Timeout, "no answer")),
            retry_at: Timestamp::EPOCH,
        },
        concat!(
            r#"InvokeRetrying("root.3", attempt=1, Failed: Timeout: no answer, "#,
            "retry_at=1970-01-01T00:00:00.000000Z)"
        ),
    );
}

#[test]
fn the_rest_reads_like_the_specification() {
    let name: SignalName = "user_approval".parse().unwrap();
    let set = JoinSetId::at(child(2));
    let value = Bytes::from_static(&[0x1a, 0x2b]);
    check(
        &Event::RandomGenerated { promise_id: child(0), value },
        r#"RandomGenerated("root.0", 0x1a2b)"#,
    );
    check(
        &Event::SignalDelivered {
            signal_name: name.clone(),
            payload: Payload::json("true"),
            delivery_id: DeliveryId::FIRST,
        },
        r#"SignalDelivered("user_approval", true, delivery_id=1)"#,
    );
    check(
        &Event::TimerScheduled {
            promise_id: child(5),
            duration: Micros::from_secs(30),
            fire_at: Timestamp::EPOCH,
        },
        r#"TimerScheduled("root.5", 30s, fire_at=1970-01-01T00:00:00.000000Z)"#,
    );
    check(
        &Event::ExecutionAwaiting {
            waiting_on: WaitSet::of_numbers(&execution(), vec![1]).unwrap(),
            kind: AwaitKind::Signal { name, promise_id: child(1) },
        },
        r#"ExecutionAwaiting(["root.1"], Signal("user_approval"))"#,
    );
    check(&Event::ExecutionResumed, "ExecutionResumed");
    check(
        &Event::JoinSetAwaited {
            join_set_id: set,
            promise_id: child(4),
            result: Failure::new(ErrorKind::Trap, "unreachable").into(),
        },
        r#"JoinSetAwaited("root.2", "root.4", Err(Trap: unreachable))"#,
    );
    check(&Event::CancelRequested { reason: "by ops".into() }, r#"CancelRequested("by ops")"#);
}

#[test]
fn a_start_shows_only_what_is_not_trivial() {
    let root = started();
    let expected = "ExecutionStarted(order, {}, component=1f1f1f1f)";
    check(&Event::ExecutionStarted(Box::new(root.clone())), expected);

    let attempts = Attempts::first(0).called(Attempt::new(2).unwrap());
    let child = Started { parent_id: Some(execution()), attempts, ..root.clone() };
    check(
        &Event::ExecutionStarted(Box::new(child)),
        r#"ExecutionStarted(order, {}, component=1f1f1f1f, parent="root", attempts=1.2)"#,
    );

    let key = OperationKey {
        namespace: Namespace::new("shop").unwrap(),
        operation_id: OperationId::new("1").unwrap(),
    };
    let other = Started { parent_id: Some(execution()), idempotency_key: Some(key), ..root };
    check(
        &Event::ExecutionStarted(Box::new(other)),
        "ExecutionStarted(order, {}, component=1f1f1f1f, parent=9c9c9c9c)",
    );
}

#[test]
fn long_things_are_shortened_on_a_character_boundary() {
    let exact = "é".repeat(TEXT_CHARS_MAX);
    let fits = Event::ExecutionCompleted { result: Payload::new(Codec::TEXT, exact.clone()) };
    check(&fits, &format!("ExecutionCompleted(Ok({exact}))"));
    let long = Event::ExecutionCompleted { result: Payload::new(Codec::TEXT, exact.repeat(2)) };
    check(&long, &format!("ExecutionCompleted(Ok({exact}…))"));
    check(
        &Event::RandomGenerated { promise_id: child(0), value: Bytes::from(vec![7; 17]) },
        &format!(r#"RandomGenerated("root.0", 0x{}… (17 bytes))"#, "07".repeat(16)),
    );
    check(
        &Event::ExecutionAwaiting {
            waiting_on: WaitSet::of_numbers(&execution(), (0..10_000).collect()).unwrap(),
            kind: AwaitKind::Any,
        },
        concat!(r#"ExecutionAwaiting(["root.0","root.1","root.2","root.3",… 9996 more], "#, "Any)"),
    );
}

#[test]
fn nothing_can_rewrite_the_terminal() {
    let hostile = "\u{1b}[2J\r\n\u{9b}31m\u{202e}x";
    let name: SignalName = "a\u{202e}b".parse().unwrap();
    let failure = Failure::new(ErrorKind::Trap, hostile);
    for event in [
        Event::ExecutionFailed { error: Box::new(failure) },
        Event::CancelRequested { reason: hostile.into() },
        Event::ExecutionCompleted { result: Payload::new(Codec::TEXT, hostile) },
        Event::SignalDelivered {
            signal_name: name,
            payload: Payload::json(hostile),
            delivery_id: DeliveryId::FIRST,
        },
    ] {
        let line = event.describe().to_string();
        assert!(!line.chars().any(rewrites_the_line), "{line:?}");
    }
}
