//! Runs a function of a test: guests until they wait, requests to the test's answers, and then the
//! time, to the next thing that is due. Everything is decided by [`Tree`], which the server runs too.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use indelible_execution::guest::{GuestStart, Refusal, Run, Stop};
use indelible_execution::input::{Cancel, EffectReport, Request, Signal, Start};
use indelible_execution::operation::OperationRequest;
use indelible_execution::output::EffectSend;
use indelible_execution::{GuestCalls, Input, Tree};
use indelible_http::End;
use indelible_journal::{
    Attempt, Attempts, Ending, ErrorKind, ExecutionId, Failure, FunctionName, JournalKey, Micros,
    Namespace, OperationId, OperationKey, Payload, Replay, RootHash, SignalName, Started,
    Timestamp,
};
use indelible_machine::{CallerId, Machine as _};
use indelible_operations::Binding;
use indelible_records::labels::Labels;

use super::convert;
use super::http::{HttpAnswer, HttpRequest};
use super::machines::{Machines, not_deterministic, root_of};
use super::world::World;
use crate::bindings::indelible::guest::host::ExecutionContext;

/// How often the time moves in one run: a request that is tried again for ever is found soon.
const STEPS_MAX: u32 = 10_000;

/// A test host, shared with the function that runs in it.
pub(super) type Shared = Rc<RefCell<State>>;

/// Answers calls of one function.
pub(super) type CallHandler =
    Rc<RefCell<dyn FnMut(crate::Payload) -> Result<crate::Payload, crate::Failure>>>;

/// Answers HTTP requests.
pub(super) type HttpHandler = Box<dyn FnMut(&HttpRequest) -> HttpAnswer>;

thread_local! {
    /// The host of the function that runs on this thread.
    static CURRENT: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

/// The host of the function that runs on this thread.
pub(super) fn current() -> Option<Shared> {
    CURRENT.with_borrow(Clone::clone)
}

/// Makes a host the one of this thread, until it is dropped.
pub(super) struct Entered;

impl Entered {
    pub(super) fn enter(host: &Shared) -> Self {
        let other = CURRENT.replace(Some(Rc::clone(host)));
        assert!(other.is_none(), "`TestHost::run` was called within another `TestHost::run`");
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(host) = CURRENT.take() {
            host.borrow_mut().mode = Mode::Host;
        }
    }
}

/// Whose turn it is.
pub(super) enum Mode {
    /// The host's own.
    Host,
    /// The closure of `run`, which names the first call.
    Starting(Option<(String, Payload)>),
    /// The function of this execution.
    Guest(JournalKey),
}

/// What happens by itself at a time.
pub(super) enum Planned {
    Signal(SignalName, Payload),
    Cancel(String),
    Report(Box<EffectReport>),
}

/// Everything of a test host.
pub(super) struct State {
    machines: Machines,
    pub(super) mode: Mode,
    /// Why the function that runs is to stop.
    pub(super) stop: Option<Stop>,
    /// The function runs over a journal that is complete: nothing of it is new.
    checking: bool,
    pub(super) call_handlers: HashMap<String, CallHandler>,
    pub(super) http_handler: Option<HttpHandler>,
    /// What is due at which time after a run began; the number keeps their order.
    pub(super) script: Vec<(Micros, Planned)>,
    planned: BTreeMap<(Timestamp, usize), Planned>,
    plans: usize,
    pub(super) cancel_at_wait: Option<(u32, String)>,
    waits: u32,
    runs: u32,
    root: Option<ExecutionId>,
    pub(super) requests: Vec<HttpRequest>,
    pub(super) logs: Vec<String>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            machines: Machines::default(),
            mode: Mode::Host,
            stop: None,
            checking: false,
            call_handlers: HashMap::new(),
            http_handler: None,
            script: Vec::new(),
            planned: BTreeMap::new(),
            plans: 0,
            cancel_at_wait: None,
            waits: 0,
            runs: 0,
            root: None,
            requests: Vec::new(),
            logs: Vec::new(),
        }
    }
}

/// What a function runs: itself, or the test's answer.
enum Code {
    Own(fn(crate::Payload) -> Result<crate::Payload, crate::Failure>),
    Answer(CallHandler),
}

/// What is next.
enum Step {
    Guest(Run),
    Send(Box<EffectSend>),
    /// Nothing before the time moves.
    Rest,
}

/// Runs a function as a root, until it has ended. Err: why the test cannot go on.
pub(super) fn run(host: &Shared, function: &str, input: Payload) -> Result<Ending, String> {
    host.borrow_mut().start(function, input)?;
    for _ in 0..STEPS_MAX {
        loop {
            let step = host.borrow_mut().step()?;
            match step {
                Step::Guest(run) => run_guest(host, run),
                Step::Send(send) => answer(host, *send)?,
                Step::Rest => break,
            }
        }
        let mut state = host.borrow_mut();
        if let Some(ending) = state.ending() {
            return Ok(ending);
        }
        state.move_time()?;
    }
    Err(format!("the run has not ended after {STEPS_MAX} moves of the time"))
}

/// Runs a function until it waits or ends.
fn run_guest(host: &Shared, run: Run) {
    let Run { key, begins } = run;
    // The tree keeps the place of a guest that waits; the guest itself was dropped.
    let Some(begins) = begins.or_else(|| host.borrow_mut().machines.begin_again(&key)) else {
        return;
    };
    let code = host.borrow().code(&key, &begins);
    let ran = call(host, &key, &code, &begins.input);
    let is_own = matches!(code, Code::Own(_));
    let stopped = host.borrow_mut().stop.take();
    let stop = match (stopped, ran) {
        (Some(stop), _) => stop,
        (None, Ok(result)) => {
            if is_own && let Some(why) = check_return(host, &key, &code, &begins, &result) {
                host.borrow_mut().machines.problem.get_or_insert(why);
            }
            Stop::Returned(result)
        }
        (None, Err(panicked)) if is_own => Stop::Trapped(trapped(panicked.as_ref())),
        // An assertion of the test's own.
        (None, Err(panicked)) => panic::resume_unwind(panicked),
    };
    host.borrow_mut().stopped(&key, stop);
}

/// Calls the code of a function in its host.
fn call(
    host: &Shared,
    key: &JournalKey,
    code: &Code,
    input: &Payload,
) -> Result<Result<Payload, Failure>, Box<dyn Any + Send>> {
    let payload = convert::payload_out(input.clone());
    let input = crate::Payload { codec: payload.codec, bytes: payload.bytes };
    host.borrow_mut().mode = Mode::Guest(key.clone());
    let ran = panic::catch_unwind(AssertUnwindSafe(|| match code {
        Code::Own(run) => run(input),
        Code::Answer(handler) => (handler.borrow_mut())(input),
    }));
    host.borrow_mut().mode = Mode::Host;
    ran.map(convert::result_in)
}

/// As a server says it, without the place, which the test's output has.
fn trapped(panicked: &(dyn Any + Send)) -> Failure {
    let text = panicked.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panicked.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("panicked with a value that is not text");
    Failure::new(ErrorKind::Trap, format!("panicked: {text}"))
}

/// A function has returned: as after a crash in this moment, it runs again over all that is stored,
/// and must ask for the same and return the same. The problem, if it does not.
fn check_return(
    host: &Shared,
    key: &JournalKey,
    code: &Code,
    begins: &GuestStart,
    first: &Result<Payload, Failure>,
) -> Option<String> {
    let live = host.borrow_mut().crash(key)?;
    let stored = host.borrow().machines.length(key);
    let ran = call(host, key, code, &begins.input);
    let mut state = host.borrow_mut();
    let stop = state.stop.take();
    let asked_for = state.machines.length(key);
    if let Some(Stop::Refused) = stop {
        state.machines.handle(&root_of(key), Input::Stopped(key.clone(), Stop::Refused));
    }
    let crashed = std::mem::replace(&mut state.machines, live);
    state.checking = false;
    if crashed.problem.is_some() {
        return crashed.problem;
    }
    let differs = match (stop, ran) {
        (Some(Stop::Waiting { .. }), _) => "waits, where it had returned".to_owned(),
        (Some(Stop::Trapped(failure)), _) => {
            format!("failed, where it had returned: {}", failure.message)
        }
        (Some(stop), _) => format!("stopped, where it had returned: {stop:?}"),
        (None, Err(panicked)) => {
            format!("failed, where it had returned: {}", trapped(panicked.as_ref()).message)
        }
        (None, Ok(second)) if second != *first => {
            format!("returned {}, where it had returned {}", shown(&second), shown(first))
        }
        (None, Ok(_)) if asked_for != stored => "asked for more than before".to_owned(),
        (None, Ok(_)) => match crashed.place(key)? {
            Ok(()) => return None,
            Err(divergence) => divergence,
        },
    };
    Some(not_deterministic(&begins.function, &differs))
}

fn shown(result: &Result<Payload, Failure>) -> String {
    match result {
        Ok(payload) => String::from_utf8_lossy(&payload.bytes).into_owned(),
        Err(failure) => format!("the error `{}`", failure.message),
    }
}

/// Hands a request to the test, and its answer to the tree.
fn answer(host: &Shared, send: EffectSend) -> Result<(), String> {
    let request = HttpRequest::of(&send);
    let handler = host.borrow_mut().http_handler.take();
    let Some(mut handler) = handler else {
        return Err(format!(
            "the function sends {} {}, and this test does not answer HTTP: add `.on_http(|request| \
             …)`",
            request.method, request.url
        ));
    };
    let answered = handler(&request);
    let mut state = host.borrow_mut();
    state.http_handler = Some(handler);
    state.requests.push(request);
    let (mut end, mut after) = answered.into_end();
    if after > send.timeout {
        let why = format!("no answer within {:?}", send.timeout);
        (end, after) = (End::Unknown { why, timed_out: true }, send.timeout);
    }
    let EffectSend { key, run, child, attempt, .. } = send;
    let report = Box::new(EffectReport { key, run, child, attempt, end });
    let after = Micros::new(u64::try_from(after.as_micros()).unwrap_or(u64::MAX));
    if after == Micros::ZERO {
        state.machines.handle(&root_of(&report.key), Input::EffectReport(report));
    } else {
        state.plan(after, Planned::Report(report));
    }
    Ok(())
}

impl State {
    pub(super) fn world(&mut self) -> &mut World {
        &mut self.machines.world
    }

    pub(super) fn now(&self) -> Timestamp {
        self.machines.world.now
    }

    /// The root of the last run.
    pub(super) fn last_root(&self) -> Option<RootHash> {
        self.root.as_ref().map(|root| *root.root())
    }

    pub(super) fn journals(&self) -> Vec<(JournalKey, Vec<indelible_journal::Record>)> {
        let root = self.last_root();
        root.map(|root| self.machines.world.journals(&root)).unwrap_or_default()
    }

    /// Begins a root, and what is to happen by itself.
    fn start(&mut self, function: &str, input: Payload) -> Result<(), String> {
        self.runs += 1;
        self.waits = 0;
        self.planned.clear();
        self.machines.held.clear();
        self.machines.endings.clear();
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let operation_id = OperationId::new(&format!("run-{}", self.runs)).map_err(|e| text(&e))?;
        let namespace = Namespace::new("tests").map_err(|e| text(&e))?;
        let operation = OperationKey { namespace, operation_id };
        let digest = World::version(None);
        let root = RootHash::derive(&digest, None, &operation);
        let function_name = FunctionName::new(function).map_err(|e| text(&e))?;
        let policy =
            indelible_execution::Environment::function(&self.machines.world, &digest, function)?;
        let Some((_, policy)) = policy else {
            return Err(format!(
                "`{function}` is not a function of the component that is tested: `run` takes a \
                 call such as `|| order::call(…)`, of a function that `guest!` lists"
            ));
        };
        let binding = Binding::of(function, &input);
        let started = Started {
            component_digest: digest,
            function_name,
            input,
            parent_id: None,
            idempotency_key: Some(operation.clone()),
            attempts: Attempts::new(&[Attempt::FIRST]).expect("one attempt is not too many"),
            limits: self.machines.world.guest_limits(),
            retry_policy: Some(policy),
            trace_parent: None,
        };
        let request = OperationRequest { operation, root, binding, keyed: None };
        let labels = Labels::default();
        let start = Start { started, labels, request, again: false, actor: None, kept: true };
        self.root = Some(ExecutionId::root_of(root));
        self.ask_root(Request::Start(Box::new(start)));
        for (after, planned) in std::mem::take(&mut self.script) {
            if after == Micros::ZERO {
                self.happen(planned);
            } else {
                self.plan(after, planned);
            }
        }
        Ok(())
    }

    fn plan(&mut self, after: Micros, planned: Planned) {
        self.plans += 1;
        self.planned.insert((self.now().saturating_add(after), self.plans), planned);
    }

    /// Asks something of the root of this run.
    fn ask_root(&mut self, request: Request) {
        if let Some(root) = self.last_root() {
            self.machines.handle(&root, Input::Asked(CallerId(u64::from(self.runs)), request));
        }
    }

    fn happen(&mut self, planned: Planned) {
        let Some(execution) = self.root.clone() else { return };
        match planned {
            Planned::Signal(name, payload) => self.ask_root(Request::Signal(Signal {
                execution,
                name,
                payload,
                actor: None,
                under: None,
            })),
            Planned::Cancel(reason) => self.ask_root(Request::Cancel(Cancel {
                execution,
                reason,
                actor: None,
                under: None,
            })),
            Planned::Report(report) => {
                self.machines.handle(&root_of(&report.key), Input::EffectReport(report));
            }
        }
    }

    fn step(&mut self) -> Result<Step, String> {
        let next = self.machines.next();
        if let Some(problem) = self.machines.problem.take() {
            return Err(problem);
        }
        Ok(match next {
            Some(run) => Step::Guest(run),
            None => match self.machines.sends.pop_front() {
                Some(send) => Step::Send(Box::new(send)),
                None => Step::Rest,
            },
        })
    }

    /// How the root of this run ended, if it has.
    fn ending(&self) -> Option<Ending> {
        let root = self.root.as_ref()?;
        let mut ended = self.machines.endings.iter();
        ended.find(|(key, _)| key.execution_id() == root).map(|(_, ending)| ending.clone())
    }

    /// Everything waits: the time moves to what is due next.
    fn move_time(&mut self) -> Result<(), String> {
        self.machines.trees.retain(|_, tree| !tree.is_idle());
        let planned = self.planned.keys().next().copied();
        let timer = self.machines.timers.keys().next().map(|timer| timer.due);
        let due = planned.map(|(at, _)| at).into_iter().chain(timer).min();
        let Some(due) = due else { return Err(self.stays()) };
        let world = self.world();
        world.now = world.now.max(due);
        if let Some(at) = planned.filter(|(at, _)| *at == due) {
            let planned = self.planned.remove(&at).expect("it is the first");
            self.happen(planned);
        } else if let Some((timer, in_memory)) = self.machines.timers.pop_first() {
            let root = root_of(&timer.key);
            let input = if in_memory { Input::DueInMemory(timer) } else { Input::Due(timer) };
            self.machines.handle(&root, input);
        }
        Ok(())
    }

    /// Why nothing goes on.
    fn stays(&self) -> String {
        let held: String =
            self.machines.held.iter().map(|held| format!("\nheld for a person: {held}")).collect();
        format!(
            "the function waits for what this test never brings: add `.signal(…)`, `.on_call(…)` \
             or a time limit.{held}\n{}",
            super::journal_text(&self.journals())
        )
    }

    /// The code of an execution. Only the root of a run is never answered by the test.
    fn code(&self, key: &JournalKey, begins: &GuestStart) -> Code {
        let world = &self.machines.world;
        if Some(key.execution_id()) != self.root.as_ref()
            && let Some(name) = world.answered(&begins.component, &begins.function)
        {
            return Code::Answer(Rc::clone(&self.call_handlers[name]));
        }
        let own = world.definition(&begins.function);
        Code::Own(own.expect("only functions that are known are started").run)
    }

    /// A call of another component must be answered by the test, because its function is not here.
    /// False: the test ends.
    pub(super) fn is_answered(&mut self, function: &str) -> bool {
        let (component, _) = indelible_execution::context::split(function);
        if component.is_none() || self.call_handlers.contains_key(function) {
            return true;
        }
        self.machines.problem.get_or_insert(format!(
            "the function calls `{function}`, and this test does not answer it: add \
             `.on_call(\"{function}\", |input| …)`"
        ));
        self.stop = Some(Stop::Refused);
        false
    }

    /// A function asks its tree.
    pub(super) fn ask<T>(
        &mut self,
        call: impl FnOnce(GuestCalls<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let Mode::Guest(key) = &self.mode else { return Err(Refusal::Stop) };
        let root = root_of(key);
        let machines = &mut self.machines;
        let Some(tree) = machines.trees.get_mut(&root) else { return Err(Refusal::Stop) };
        let cx = machines.world.context();
        let answer = call(tree.guest(&cx, key));
        machines.heed(&root);
        if machines.trees.get(&root).is_some_and(Tree::is_full) {
            machines.commit(&root);
        }
        answer
    }

    pub(super) fn context(&self) -> ExecutionContext {
        let Mode::Guest(key) = &self.mode else { unreachable!("a function asks") };
        let tree = self.machines.trees.get(&root_of(key));
        let function = tree.and_then(|tree| tree.function(key));
        ExecutionContext {
            execution_id: key.execution_id().to_string(),
            attempt: key.attempts().own().get(),
            parent_id: key.execution_id().parent().map(|parent| parent.to_string()),
            function: function.map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// Lines that were logged before a replay are not logged again.
    pub(super) fn log(&mut self, message: &str, fields: &[(String, String)]) {
        let Mode::Guest(key) = &self.mode else { return };
        let tree = self.machines.trees.get(&root_of(key));
        if self.stop.is_some()
            || self.checking
            || tree.is_none_or(|tree| !tree.guest_is(key, Replay::is_new))
        {
            return;
        }
        let fields: String =
            fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        self.logs.push(format!("{message}{fields}"));
    }

    /// The run of a function is over.
    fn stopped(&mut self, key: &JournalKey, stop: Stop) {
        let is_root = Some(key.execution_id()) == self.root.as_ref();
        let waits = is_root && matches!(stop, Stop::Waiting { .. });
        self.machines.handle(&root_of(key), Input::Stopped(key.clone(), stop));
        if waits {
            self.waits += 1;
            let now = self.cancel_at_wait.take_if(|(wait, _)| *wait == self.waits);
            if let Some((_, reason)) = now {
                self.happen(Planned::Cancel(reason));
            }
        }
    }

    /// What a crash would leave of an execution takes the place of what is there, with a guest that
    /// begins anew; what was there. None: a crash would leave nothing, as it is in memory alone.
    fn crash(&mut self, key: &JournalKey) -> Option<Machines> {
        self.machines.commit(&root_of(key));
        let left = self.machines.crashed(key)?;
        self.checking = true;
        Some(std::mem::replace(&mut self.machines, left))
    }
}
