//! Short words for journals in tests: `p(0)` is the first child, `invoke(0)` schedules it, and an
//! event without a time gets the next second.
#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use indelible_journal::*;

pub fn digest() -> ComponentDigest {
    ComponentDigest::of(b"component")
}

pub fn operation() -> OperationKey {
    OperationKey {
        namespace: Namespace::new("tests").unwrap(),
        operation_id: OperationId::new("operation-1").unwrap(),
    }
}

/// The key of the root execution that all of these journals belong to.
pub fn key() -> JournalKey {
    JournalKey::first(ExecutionId::root_of(RootHash::derive(&digest(), None, &operation())))
}

pub fn own() -> ExecutionId {
    key().execution_id().clone()
}

pub fn secs(n: u64) -> Timestamp {
    Timestamp::from_micros(n * 1_000_000).unwrap()
}

pub fn p(n: u32) -> PromiseId {
    own().child(n)
}

pub fn set(n: u32) -> JoinSetId {
    JoinSetId::at(p(n))
}

pub fn payload(text: &str) -> Payload {
    Payload::new(Codec::TEXT, text.to_owned())
}

pub fn ok(text: &str) -> Outcome {
    Outcome::Ok(payload(text))
}

pub fn failure() -> Box<Failure> {
    Box::new(Failure::new(ErrorKind::Uncategorized, "it broke"))
}

pub fn attempt(n: u32) -> Attempt {
    Attempt::new(n).unwrap()
}

pub fn name(text: &str) -> SignalName {
    SignalName::new(text).unwrap()
}

pub fn function(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

pub fn limits() -> Limits {
    Limits { memory_bytes_max: 1 << 26, stack_bytes_max: 1 << 20, table_elements_max: 1 << 16 }
}

pub fn start() -> Started {
    Started {
        component_digest: digest(),
        function_name: function("workflow"),
        input: payload("in"),
        parent_id: None,
        idempotency_key: Some(operation()),
        attempts: Attempts::first(0),
        limits: limits(),
        retry_policy: None,
        trace_parent: None,
    }
}

pub fn started() -> Event {
    Event::ExecutionStarted(Box::new(start()))
}

pub fn completed() -> Event {
    Event::ExecutionCompleted { result: payload("out") }
}

pub fn failed() -> Event {
    Event::ExecutionFailed { error: failure() }
}

pub fn cancel_requested() -> Event {
    Event::CancelRequested { reason: "changed my mind".to_owned() }
}

pub fn cancelled() -> Event {
    Event::ExecutionCancelled { reason: "changed my mind".to_owned() }
}

pub fn invoke(n: u32) -> Event {
    invoke_with(n, RetryPolicy::default())
}

pub fn invoke_with(n: u32, policy: RetryPolicy) -> Event {
    Event::InvokeScheduled {
        promise_id: p(n),
        kind: InvokeKind::Http,
        function_name: function("charge"),
        input: payload("in"),
        retry_policy: Arc::new(policy),
    }
}

pub fn begin(n: u32, a: u32) -> Event {
    Event::InvokeStarted { promise_id: p(n), attempt: attempt(a) }
}

pub fn done(n: u32, a: u32) -> Event {
    Event::InvokeCompleted { promise_id: p(n), result: ok("result"), attempt: attempt(a) }
}

pub fn retry(n: u32, a: u32) -> Event {
    retry_for(n, a, RetryCause::Failed)
}

pub fn retry_for(n: u32, a: u32, cause: RetryCause) -> Event {
    Event::InvokeRetrying {
        promise_id: p(n),
        failed_attempt: attempt(a),
        cause,
        error: failure(),
        retry_at: secs(1),
    }
}

pub fn random(n: u32) -> Event {
    Event::RandomGenerated { promise_id: p(n), value: vec![1, 2, 3].into() }
}

pub fn join_set(n: u32) -> Event {
    Event::JoinSetCreated { join_set_id: set(n) }
}

pub fn submit(s: u32, n: u32) -> Event {
    Event::JoinSetSubmitted { join_set_id: set(s), promise_id: p(n) }
}

pub fn take(s: u32, n: u32) -> Event {
    Event::JoinSetAwaited { join_set_id: set(s), promise_id: p(n), result: ok("result") }
}

pub fn deliver(signal: &str, id: u64) -> Event {
    Event::SignalDelivered {
        signal_name: name(signal),
        payload: payload(&format!("{signal}-{id}")),
        delivery_id: DeliveryId::new(id).unwrap(),
    }
}

pub fn receive(n: u32, signal: &str, id: u64) -> Event {
    Event::SignalReceived {
        promise_id: p(n),
        signal_name: name(signal),
        payload: payload(&format!("{signal}-{id}")),
        delivery_id: DeliveryId::new(id).unwrap(),
    }
}

pub fn waits(numbers: &[u32]) -> WaitSet {
    WaitSet::of_numbers(&own(), numbers.to_vec()).unwrap()
}

pub fn wait(numbers: &[u32], kind: AwaitKind) -> Event {
    Event::ExecutionAwaiting { waiting_on: waits(numbers), kind }
}

pub fn wait_one(n: u32) -> Event {
    wait(&[n], AwaitKind::Single)
}

pub fn wait_signal(n: u32, signal: &str) -> Event {
    wait(&[n], AwaitKind::Signal { name: name(signal), promise_id: p(n) })
}

pub fn wait_signal_or(n: u32, signal: &str, others: &[u32]) -> Event {
    let members = [others, &[n]].concat();
    wait(&members, AwaitKind::SignalOr { name: name(signal), promise_id: p(n) })
}

pub fn resumed() -> Event {
    Event::ExecutionResumed
}

/// A timer scheduled at second `at`, due `secs` later.
pub fn timer(n: u32, at: u64, length: u64) -> Step {
    Step {
        at: Some(at),
        event: Event::TimerScheduled {
            promise_id: p(n),
            duration: Micros::from_secs(length),
            fire_at: secs(at + length),
        },
    }
}

pub fn fired(n: u32) -> Event {
    Event::TimerFired { promise_id: p(n) }
}

/// An event, and the second at which it happens.
#[derive(Debug, Clone)]
pub struct Step {
    pub at: Option<u64>,
    pub event: Event,
}

impl From<Event> for Step {
    fn from(event: Event) -> Self {
        Self { at: None, event }
    }
}

pub fn at(second: u64, event: Event) -> Step {
    Step { at: Some(second), event }
}

/// A list of steps out of events and steps.
macro_rules! steps {
    ($($step:expr),* $(,)?) => { vec![$($crate::kit::Step::from($step)),*] };
}
pub(crate) use steps;

pub fn run(journal: &mut Journal, steps: &[Step]) -> Result<Vec<Entry>, Violation> {
    let mut second = journal.last_timestamp().as_micros() / 1_000_000;
    let mut entries = Vec::new();
    for step in steps {
        second = step.at.unwrap_or(second + 1);
        entries.push(journal.append(secs(second), step.event.clone())?);
    }
    Ok(entries)
}

/// Every step is accepted, the stored status is the fold, and the events rebuild the journal.
#[allow(clippy::needless_pass_by_value, reason = "so that callers write no borrow")]
pub fn legal(steps: Vec<Step>) -> Journal {
    let mut journal = Journal::new(key());
    let entries = run(&mut journal, &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(journal.status().cloned(), Status::fold(entries.iter().map(Entry::event)));
    let records = entries.into_iter().map(Entry::into_record);
    assert_eq!(Journal::recover(key(), records).as_ref(), Ok(&journal));
    journal
}

/// All steps but the last are accepted; the last breaks this rule, and leaves no trace.
pub fn refused(mut steps: Vec<Step>, rule: Rule) {
    let last = steps.pop().expect("there is a step to refuse");
    let mut journal = Journal::new(key());
    run(&mut journal, &steps).unwrap_or_else(|violation| panic!("too early: {violation}"));
    let before = journal.clone();
    match run(&mut journal, std::slice::from_ref(&last)) {
        Ok(_) => panic!("{} was accepted; it breaks {rule}", last.event.name()),
        Err(violation) => {
            assert_eq!(violation.rule, rule, "{violation}");
            assert_eq!(violation.sequence.get(), before.len());
        }
    }
    assert_eq!(journal, before);
}
