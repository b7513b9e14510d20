//! Clients of the engine: each is a future that the simulation polls when it likes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use indelible_http::Response;
use indelible_idempotency::{ConsumerNamespace, IdempotencyKey, parse_key};
use indelible_journal::{
    Ending, ExecutionId, Namespace, OperationId, Payload, PromiseId, SignalName,
};
use indelible_records::executions::Execution;
use indelible_records::labels::Labels;
use indelible_runtime::{
    Actor, Attribution, ControlError, Engine, EngineError, PersonDecision, Resolution, Start,
    StartRefused, StartedExecution,
};

use crate::guests::COMPONENT;
use crate::program::Program;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// A program is started, under its own operation id.
    Start(usize),
    /// A program is started, and its end waited for.
    Call(usize),
    /// A different request under the program's operation id.
    Conflict(usize),
    /// A signal with a value that no other has.
    Signal(ExecutionId, &'static str, u64),
    /// A cancel with a reason that no other has.
    Cancel(ExecutionId, String),
    /// An execution's end.
    Outcome(ExecutionId),
    /// An execution's row.
    Row(ExecutionId),
    /// A person says how an effect ended, with a number that no other has.
    Resolve(PromiseId, How, u64),
}

/// What a person says of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Happened,
    DidNotHappen,
    RunAgain,
}

/// The name of the person who resolves: a new one each time.
pub(crate) fn person(value: u64) -> String {
    format!("person-{value}")
}

/// The peer's answer, as a person reports it.
pub(crate) fn answer_of(value: u64) -> Response {
    let body = format!("{{\"person\":{value}}}").into();
    Response { status: 200, headers: Vec::new(), body }
}

/// What the answer was.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Started(StartedExecution),
    Called(StartedExecution, Ending),
    Conflict,
    Delivered(u64),
    Cancelling,
    Resolved,
    /// The execution does not accept the command.
    CommandRefusal(String),
    Outcome(Option<Ending>),
    Row(Option<Execution>),
    /// The engine is full: nothing was done.
    Busy,
    /// The engine stopped before it answered: the request may have been carried out.
    Unknown(String),
}

type Answering = Pin<Box<dyn Future<Output = Answer>>>;

/// A client that waits for an answer.
pub(crate) struct Client {
    pub(crate) request: Request,
    /// The tick in which it asked.
    pub(crate) asked_at: u64,
    future: Answering,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Client {
    /// Makes the request's future. Nothing happens before it is polled.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        programs: &[Program],
        request: Request,
        asked_at: u64,
    ) -> Self {
        let future = ask(Arc::clone(engine), programs, &request);
        Self { request, asked_at, future, woken: Arc::new(Woken(AtomicBool::new(true))) }
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }

    /// Polls for an answer. There is one thread, so every answer must have woken the client first:
    /// a client that sleeps next to its answer would hang in a real process.
    pub(crate) fn poll(&mut self) -> Result<Option<Answer>, String> {
        let woken = self.woken.0.swap(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => Ok(None),
            Poll::Ready(answer) if woken => Ok(Some(answer)),
            Poll::Ready(answer) => {
                Err(format!("nobody woke {:?} for its answer {answer:?}", self.request))
            }
        }
    }
}

fn ask(engine: Arc<Engine>, programs: &[Program], request: &Request) -> Answering {
    match request.clone() {
        Request::Start(number) => {
            let start = start(programs, number);
            Box::pin(async move { started(engine.start(start).await) })
        }
        Request::Call(number) => {
            let start = start(programs, number);
            Box::pin(async move {
                match engine.call(start).await {
                    Ok((started, ending)) => Answer::Called(started, ending),
                    Err(refused) => not_started(refused),
                }
            })
        }
        Request::Conflict(number) => {
            let mut start = start(programs, number);
            start.input = Payload::json("[]");
            Box::pin(async move { started(engine.start(start).await) })
        }
        Request::Signal(id, name, value) => Box::pin(async move {
            let name = SignalName::new(name).expect("it is a name");
            let payload = Payload::json(value.to_string());
            // Two of three are sent under a key of their own, and then repeated: the repetition
            // does nothing (C-80).
            let key = (value % 3 > 0).then(|| key_of("signal", value));
            let asked = || Attribution { key: key.clone(), ..Attribution::default() };
            let delivery = match engine.signal(&id, &name, payload.clone(), asked()).await {
                Ok(delivery) => delivery.value,
                Err(error) => return not_done(error),
            };
            if key.is_some()
                && let Ok(again) = engine.signal(&id, &name, payload, asked()).await
            {
                assert!(again.prior && again.value == delivery, "{again:?} is not {delivery}");
            }
            Answer::Delivered(delivery.get())
        }),
        Request::Cancel(id, reason) => Box::pin(async move {
            match engine.cancel(&id, Attribution::because(&reason)).await {
                Ok(_) => Answer::Cancelling,
                Err(error) => not_done(error),
            }
        }),
        Request::Outcome(id) => Box::pin(async move {
            match engine.outcome(&id).await {
                Ok(outcome) => Answer::Outcome(outcome),
                Err(error) => Answer::Unknown(error.to_string()),
            }
        }),
        Request::Resolve(promise, how, value) => Box::pin(async move {
            let resolution = match how {
                How::Happened => Resolution::Happened(answer_of(value)),
                How::DidNotHappen => Resolution::DidNotHappen,
                How::RunAgain => Resolution::RunAgain,
            };
            let decided = PersonDecision::by(Actor::new(&person(value)), "asked");
            match engine.resolve(&promise, resolution, decided).await {
                Ok(_) => Answer::Resolved,
                Err(error) => not_done(error),
            }
        }),
        Request::Row(id) => Box::pin(async move {
            match engine.execution(&id).await {
                Ok(row) => Answer::Row(row),
                Err(error) => Answer::Unknown(error.to_string()),
            }
        }),
    }
}

/// The start of a program: every other one under a key, and not under an id of its own (C-31).
pub(crate) fn start(programs: &[Program], number: usize) -> Start {
    let program = &programs[number];
    let id = || OperationId::new(&format!("op-{number}")).expect("it is a name");
    let is_keyed = number % 2 == 1;
    Start {
        namespace: Namespace::new("sim").expect("it is a name"),
        operation_id: (!is_keyed).then(id),
        idempotency_key: is_keyed.then(|| key(number)),
        component: COMPONENT.to_owned(),
        function: program.function.to_owned(),
        input: Payload::json(program.steps.to_string()),
        trace_parent: None,
        actor: None,
        labels: Labels::default(),
    }
}

fn key(number: usize) -> IdempotencyKey {
    key_of("key", number as u64)
}

fn key_of(kind: &str, number: u64) -> IdempotencyKey {
    let sim = ConsumerNamespace::new("sim").expect("it is a name");
    let key = parse_key(&sim, Some(&format!("{kind} {number}")));
    key.expect("it is well formed").expect("it is there")
}

fn started(result: Result<StartedExecution, StartRefused>) -> Answer {
    match result {
        Ok(started) => Answer::Started(started),
        Err(refused) => not_started(refused),
    }
}

fn not_started(refused: StartRefused) -> Answer {
    match refused {
        StartRefused::Conflict | StartRefused::Mismatch => Answer::Conflict,
        StartRefused::Engine(EngineError::Busy { .. }) => Answer::Busy,
        other => Answer::Unknown(other.to_string()),
    }
}

fn not_done(error: ControlError) -> Answer {
    match error {
        ControlError::CommandRefusal(why) => Answer::CommandRefusal(why.to_string()),
        ControlError::Engine(EngineError::Busy { .. }) => Answer::Busy,
        other => Answer::Unknown(other.to_string()),
    }
}
