//! From journals to spans: what each kind of step becomes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use indelible_http::Response;
use indelible_journal::*;
use indelible_server::traces::spans::{EVENTS_MAX, Kind, Span, Status, Value, spans};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn root() -> ExecutionId {
    ExecutionId::root_of(RootHash::from_bytes([7; 32]))
}

fn promise(number: u32) -> PromiseId {
    root().child(number)
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000).unwrap()
}

fn started(key: &JournalKey, trace_parent: Option<&str>) -> Event {
    Event::ExecutionStarted(Box::new(Started {
        component_digest: ComponentDigest::of(b"a component"),
        function_name: FunctionName::new("order").unwrap(),
        input: Payload::json("{}"),
        parent_id: None,
        idempotency_key: None,
        attempts: key.attempts().clone(),
        limits: Limits { memory_bytes_max: 1, stack_bytes_max: 1, table_elements_max: 1 },
        retry_policy: None,
        trace_parent: trace_parent.map(|text| TraceParent::new(text).unwrap()),
    }))
}

fn scheduled(number: u32, kind: InvokeKind, name: &str) -> Event {
    Event::InvokeScheduled {
        promise_id: promise(number),
        kind,
        function_name: FunctionName::new(name).unwrap(),
        input: Payload::empty(),
        retry_policy: Arc::default(),
    }
}

fn completed(number: u32, result: Outcome, attempt: u32) -> Event {
    let attempt = Attempt::new(attempt).unwrap();
    Event::InvokeCompleted { promise_id: promise(number), result, attempt }
}

fn retrying(number: u32, attempt: u32) -> Event {
    Event::InvokeRetrying {
        promise_id: promise(number),
        failed_attempt: Attempt::new(attempt).unwrap(),
        cause: RetryCause::Failed,
        error: Box::new(Failure::new(ErrorKind::Transient, "not now")),
        retry_at: at(0),
    }
}

fn awaiting(kind: AwaitKind) -> Event {
    Event::ExecutionAwaiting { waiting_on: WaitSet::new(&root(), []).unwrap(), kind }
}

fn go() -> SignalName {
    SignalName::new("go").unwrap()
}

fn received(number: u32) -> Event {
    Event::SignalReceived {
        promise_id: promise(number),
        signal_name: go(),
        payload: Payload::empty(),
        delivery_id: DeliveryId::FIRST,
    }
}

fn ends() -> Event {
    Event::ExecutionCompleted { result: Payload::json("1") }
}

/// A journal: each event a second after the one before, the first at second 0.
fn journal(events: Vec<Event>) -> Vec<Record> {
    let place = |(place, event)| {
        let place = place as u64;
        Record { sequence: Sequence::new(place), timestamp: at(place), event }
    };
    events.into_iter().enumerate().map(place).collect()
}

fn of_root(between: Vec<Event>) -> Vec<Span> {
    let key = JournalKey::first(root());
    let mut events = vec![started(&key, Some(CALLER))];
    events.extend(between);
    events.push(ends());
    let records = journal(events);
    let made = spans(&key, &records, 100);
    assert_eq!(made, spans(&key, &records, 100), "the same records make the same spans");
    made
}

fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|(own, _)| *own == name);
    match found.map(|(_, value)| value) {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        None => String::new(),
    }
}

#[test]
fn an_execution_is_a_span_under_its_caller() {
    let made = of_root(vec![]);
    let [span] = &made[..] else { panic!("{made:?}") };
    assert_eq!(span.trace_id.to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span.parent.to_string(), "b7ad6b7169203331");
    assert_eq!(span.span_id, SpanId::of_execution(&JournalKey::first(root())));
    assert_eq!((span.name.as_str(), span.kind), ("order", Kind::Internal));
    assert_eq!((span.start, span.end, &span.status), (at(0), at(1), &Status::Unset));
    assert_eq!(attribute(span, "indelible.outcome"), "Ok");
}

#[test]
fn a_call_and_its_callee_join() {
    let made = of_root(vec![
        scheduled(0, InvokeKind::Function, "charge"),
        completed(0, Outcome::Ok(Payload::json("1")), 1),
    ]);
    let call = &made[1];
    assert_eq!((call.name.as_str(), call.start, call.end), ("call charge", at(1), at(2)));
    assert_eq!(call.parent, made[0].span_id);
    let child = JournalKey::first(ExecutionId::new(promise(0)).unwrap());
    let inner = spans(&child, &journal(vec![started(&child, Some(CALLER)), ends()]), 100);
    assert_eq!((inner[0].parent, inner[0].trace_id), (call.span_id, call.trace_id));
}

#[test]
fn a_request_has_its_status_and_its_retries() {
    let answer = |status| {
        let response = Response { status, headers: vec![], body: "".into() };
        Outcome::Ok(Payload::new(Codec::HTTP, response.encode()))
    };
    let made = of_root(vec![
        scheduled(0, InvokeKind::Http, "POST https://a.b/c"),
        retrying(0, 1),
        completed(0, answer(201), 2),
        scheduled(1, InvokeKind::Http, "GET https://a.b/d"),
        completed(1, answer(404), 1),
    ]);
    let (good, bad) = (&made[1], &made[2]);
    assert_eq!((good.name.as_str(), good.kind), ("POST", Kind::Client));
    assert_eq!((good.start, good.end), (at(1), at(3)));
    assert_eq!(attribute(good, "indelible.label"), "POST https://a.b/c");
    assert_eq!(attribute(good, "http.response.status_code"), "201");
    assert_eq!(attribute(good, "indelible.attempt"), "2");
    assert_eq!(attribute(good, "indelible.promise_id"), promise(0).to_string());
    assert_eq!((good.events.len(), good.events[0].name, good.events[0].at), (1, "retry", at(2)));
    assert_eq!(good.status, Status::Unset);
    assert_eq!(bad.status, Status::Error(String::new()));
    assert_eq!(good.span_id, SpanId::of_step(&promise(0), &Attempts::first(0)));
}

#[test]
fn failures_are_errors() {
    let failure = Failure::new(ErrorKind::Indeterminate, "ä".repeat(2_000));
    let made = of_root(vec![
        scheduled(0, InvokeKind::Function, "charge"),
        completed(0, failure.into(), 1),
    ]);
    let Status::Error(message) = &made[1].status else { panic!("{made:?}") };
    assert!(message.starts_with('ä') && message.len() <= 512, "{}", message.len());
    assert_eq!(attribute(&made[1], "error.type"), "Indeterminate");
    assert_eq!(attribute(&made[1], "indelible.outcome"), "Indeterminate");
    let key = JournalKey::first(root());
    let failed = Event::ExecutionFailed { error: Box::new(Failure::new(ErrorKind::Trap, "oh")) };
    let cancelled = Event::ExecutionCancelled { reason: "oh".to_owned() };
    for (end, outcome) in [(failed, "Trap"), (cancelled, "Cancelled")] {
        let made = spans(&key, &journal(vec![started(&key, Some(CALLER)), end]), 100);
        assert_eq!(made[0].status, Status::Error("oh".to_owned()));
        assert_eq!(attribute(&made[0], "indelible.outcome"), outcome);
    }
}

#[test]
fn sleeps_and_signals_take_as_long_as_they_took() {
    let (duration, fire_at) = (Micros::from_secs(1), at(2));
    let signal_or = || AwaitKind::SignalOr { name: go(), promise_id: promise(3) };
    let made = of_root(vec![
        Event::TimerScheduled { promise_id: promise(0), duration, fire_at },
        Event::TimerFired { promise_id: promise(0) },
        awaiting(AwaitKind::Signal { name: go(), promise_id: promise(1) }),
        Event::ExecutionResumed,
        received(1),
        // One that was there already.
        received(2),
        // Something else came first, and it is waited for again.
        awaiting(signal_or()),
        Event::ExecutionResumed,
        awaiting(signal_or()),
        received(3),
    ]);
    let times: Vec<_> = made.iter().map(|span| (&*span.name, span.start, span.end)).collect();
    assert_eq!(
        times,
        [
            ("order", at(0), at(11)),
            ("sleep", at(1), at(2)),
            ("signal go", at(3), at(5)),
            ("signal go", at(6), at(6)),
            ("signal go", at(9), at(10)),
        ]
    );
}

#[test]
fn what_is_left_behind_ends_with_its_execution() {
    let made = of_root(vec![scheduled(0, InvokeKind::Http, "GET https://a.b/")]);
    assert_eq!((made[1].end, &*attribute(&made[1], "indelible.outcome")), (at(2), "Open"));
}

#[test]
fn nobody_records_nothing_is_told() {
    let key = JournalKey::first(root());
    let not_sampled = CALLER.replace("-01", "-00");
    for trace_parent in [None, Some("nonsense"), Some(not_sampled.as_str())] {
        let records = journal(vec![started(&key, trace_parent), ends()]);
        assert_eq!(spans(&key, &records, 100), [], "{trace_parent:?}");
    }
    assert_eq!(spans(&key, &[], 100), []);
    // Without an end there is no span: it would say less than the same one later.
    assert_eq!(spans(&key, &journal(vec![started(&key, Some(CALLER))]), 100), []);
}

#[test]
fn steps_and_events_are_bounded() {
    let key = JournalKey::first(root());
    let mut events = vec![started(&key, Some(CALLER))];
    for number in 0..5 {
        events.push(scheduled(number, InvokeKind::Function, "f"));
        events.extend((1..=40).map(|attempt| retrying(number, attempt)));
        events.push(completed(number, Outcome::Ok(Payload::empty()), 41));
    }
    events.push(ends());
    let made = spans(&key, &journal(events), 3);
    assert_eq!(made.len(), 4);
    assert_eq!(attribute(&made[0], "indelible.steps_without_span"), "2");
    assert_eq!((made[1].events.len(), made[1].events_dropped), (EVENTS_MAX, 8));
}

#[test]
fn no_span_ends_before_it_begins() {
    let key = JournalKey::first(root());
    let mut records = journal(vec![
        started(&key, Some(CALLER)),
        scheduled(0, InvokeKind::Function, "f"),
        completed(0, Outcome::Ok(Payload::empty()), 1),
        ends(),
    ]);
    for (record, second) in records.iter_mut().zip([9, 8, 1, 0]) {
        record.timestamp = at(second);
    }
    assert!(spans(&key, &records, 100).iter().all(|span| span.start <= span.end));
}
