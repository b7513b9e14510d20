//! `indelible call`: calls a function and waits for its return value.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use clap::Args;
use indelible_client::api::Code;
use indelible_client::api::call::{Failed, Verdict};
use indelible_client::api::unresolved::UnresolvedState;
use indelible_client::{CallError, Handle, Identity, Invocation, Reply, ToCall, UnresolvedFilter};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::connection::{Connection, Remote};
use super::errors::{Explained as _, ServerRequest, short};
use super::function::{ComponentFunction, FunctionRef, is_misfit, no_such};
use super::interrupt::{Interrupted, Interrupts, unanswered};
use super::labels::Labels;
use super::name::{Name, flag};
use super::target;
use crate::failure::{CommandEnd, Exit, Failure};
use crate::input::{ARRAY_HINT, Input};
use crate::outcome::{Document, End, Returned};
use crate::print;
use crate::text::one_line;

const HELP: &str = "\
Waits until the execution ends, for at most --wait seconds, and prints the return value to standard
output. --key or --id names the call: repeating it under the same name does not run it again, but
returns the first outcome. Ctrl-C stops the wait, not the execution. While it waits, it says on
standard error if a request of the execution needs a person's decision.

Exit codes:
  0    the function returned
  1    the call was refused and nothing was done, or the return value cannot be shown
  2    invalid arguments
  3    the function failed or was cancelled
  4    Indeterminate: it is unknown whether an effect happened
  5    no response from the server
  6    the wait is over; the execution is still running
  130  interrupted; the execution is still running

Examples:
  indelible call order-saga/order '{\"id\":\"o-1\",\"item\":\"tea\",\"quantity\":2,\"cents\":500}' --key o-1
  indelible call order @order.json --wait 10
  cat order.json | indelible call order - --json";

/// Call a function and wait for its return value
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Call {
    /// component/function, or the function alone if one component has it
    function: FunctionRef,
    /// Its input, as JSON; @FILE reads it from a file, - from standard input; several arguments are
    /// an array
    #[arg(default_value = "null")]
    input: Input,
    /// What users add who take arguments for words: it is refused with a hint
    #[arg(hide = true)]
    more: Vec<String>,
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    labels: Labels,
    /// How long to wait; by default until the execution ends
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// Print the outcome as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// After this time, the command tells the user what it waits for.
const QUIET: Duration = Duration::from_secs(1);

/// How often it looks whether a person is asked about a request of the execution, at most.
const ASKED_EVERY: Duration = Duration::from_secs(8);

/// How long it waits for the answer to that.
const ASKED_ANSWER: Duration = Duration::from_secs(2);

impl Call {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<CommandEnd, Failure> {
        let input = self.input.read_alone(&self.more)?;
        let remote = self.connection.connect()?;
        let found = remote.function(&self.function)?;
        match remote.wait(self.reply(&remote, &found, &input)) {
            Ok(reply) => {
                remote.remember(&reply.execution_id);
                note_verdict(reply.verdict);
                let returned = match &reply.payload {
                    Some(payload) => Returned::payload(payload)?,
                    None => Returned::json(reply.result.as_deref()),
                };
                if self.json {
                    print::object(document(&reply, &returned), out)?;
                } else {
                    returned.write(io::stdout().is_terminal(), out)?;
                }
                Ok(CommandEnd::Well)
            }
            Err(ended) => {
                if let Some(execution) = ended.execution_id() {
                    remote.remember(execution);
                }
                self.ended(ended, &remote, &found, &input, out).map(CommandEnd::Wrong)
            }
        }
    }

    /// Reports the end: in words, and as data with `--json`.
    fn ended(
        &self,
        ended: NoReply,
        remote: &Remote,
        found: &ComponentFunction,
        input: &RawValue,
        out: &mut impl Write,
    ) -> Result<Failure, Failure> {
        let document = match &ended {
            NoReply::Call(error) => failed(error),
            NoReply::Accepted(known, _, error) => failed(error).or_else(|| Some(known.document())),
            NoReply::Interrupted(known, _) => Some(known.document()),
            NoReply::Failure(_) => None,
        };
        if let Some(document) = document.filter(|_| self.json) {
            print::object(document, out)?;
        }
        if let NoReply::Call(error) | NoReply::Accepted(_, _, error) = &ended
            && let CallError::Function(error) = &**error
        {
            note_verdict(error.verdict);
        }
        Ok(match ended {
            NoReply::Call(error) => match *error {
                CallError::Refused(problem) if no_such(problem.code) => {
                    remote.no_such_function(problem, found)
                }
                CallError::Refused(problem) if is_misfit(&problem, input) => {
                    CallError::<()>::Refused(problem).explain(&remote.at).hint(ARRAY_HINT)
                }
                error => error.explain(&remote.at),
            },
            NoReply::Accepted(known, identity, error) => {
                accepted(&known, &identity, *error, &remote.at)
            }
            NoReply::Interrupted(known, identity) => interrupted(&known, &identity),
            NoReply::Failure(failure) => failure,
        })
    }

    /// Calls, and waits as long as the user wants. If the call was accepted and its execution is
    /// gone, the call is repeated once under the same key. The key's record outlives the execution;
    /// and under the key the server tells a lost volatile execution from a call that never was.
    async fn reply(
        &self,
        remote: &Remote,
        found: &ComponentFunction,
        input: &RawValue,
    ) -> Result<Reply, NoReply> {
        let identity = self.name.identity();
        // Before anything is sent: after Ctrl-C the user is told how to come back to the call.
        let mut interrupts = Interrupts::listen();
        // None: wait until the execution is over, also if the time is too far for the clock.
        let wait = self.wait.map(Duration::from_secs);
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        let mut asked_again = false;
        loop {
            let call = self.call(remote, found, input, &identity);
            match Self::once(remote, call, &identity, &mut interrupts, deadline).await {
                Err(NoReply::Accepted(_, _, error)) if !asked_again && is_gone(&error) => {
                    asked_again = true;
                }
                ended => return ended,
            }
        }
    }

    /// The call, under its key or operation id.
    fn call(
        &self,
        remote: &Remote,
        found: &ComponentFunction,
        input: &RawValue,
        identity: &Identity,
    ) -> Invocation<Box<RawValue>, ToCall> {
        let ComponentFunction { component, function } = found;
        let function = remote
            .client
            .function::<RawValue, Box<RawValue>>(component.as_str(), function.as_str());
        let call = function.call(input);
        let call = self.labels.add(call);
        match identity.clone() {
            Identity::Key(key) => call.idempotency_key(key),
            Identity::Operation(id) => call.operation_id(id),
            Identity::Sequence { .. } => unreachable!("calls have no sequence"),
        }
    }

    /// Calls once, and waits.
    async fn once(
        remote: &Remote,
        call: Invocation<Box<RawValue>, ToCall>,
        identity: &Identity,
        interrupts: &mut Interrupts,
        deadline: Option<Instant>,
    ) -> Result<Reply, NoReply> {
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // The first wait is short: once the execution's id is known, an interrupt can name it.
        let first = left().map_or(QUIET, |left| left.min(QUIET));
        let handle = match interrupts.or(call.wait(first).reply()).await {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(CallError::StillRunning(handle))) => handle,
            Ok(Err(error)) => return Err(NoReply::first(error, identity)),
            Err(Interrupted) => {
                let failure =
                    unanswered(identity, "it waits for the execution and does not start another");
                return Err(NoReply::Failure(failure));
            }
        };
        if left() == Some(Duration::ZERO) {
            return Err(NoReply::Call(Box::new(CallError::StillRunning(handle))));
        }
        if io::stderr().is_terminal() {
            let id = short(handle.execution_id());
            print::tell(&format!(
                "execution {id} is running; waiting (Ctrl-C stops waiting, not the execution)"
            ));
        }
        remote.remember(handle.execution_id());
        let outcome = async {
            let mut asked = AskedPerson::default();
            let mut wait = QUIET;
            loop {
                asked.tell(remote, handle.execution_id()).await;
                wait = (wait * 2).min(ASKED_EVERY);
                match handle.reply_within(left().map_or(wait, |left| left.min(wait))).await {
                    Err(CallError::StillRunning(_)) if left() != Some(Duration::ZERO) => {}
                    ended => return ended,
                }
            }
        };
        match interrupts.or(outcome).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                Err(NoReply::Accepted(AcceptedCall::of(&handle), identity.clone(), Box::new(error)))
            }
            Err(Interrupted) => {
                Err(NoReply::Interrupted(AcceptedCall::of(&handle), identity.clone()))
            }
        }
    }
}

/// The requests of which the waiting user knows that a person is asked about them.
#[derive(Default)]
struct AskedPerson(HashSet<String>);

impl AskedPerson {
    /// Tells the user of those that are new, each once. A user whose key may call and may not list
    /// them is not told.
    async fn tell(&mut self, remote: &Remote, execution: &str) {
        let filter = UnresolvedFilter::open().state(UnresolvedState::Held).tree(execution);
        let Ok(mut pages) = remote.client.unresolved(&filter) else { return };
        let Ok(Ok(Some(page))) = timeout(ASKED_ANSWER, pages.next()).await else { return };
        for held in page.unresolved {
            let promise = target::name(&held.promise_id);
            if self.0.insert(held.promise_id) {
                print::tell(&format!(
                    "waiting for a person: it is unknown whether {} of {} happened: {}\nhint: \
                     `indelible unresolved {promise}` shows the request; check the other service, \
                     then `indelible resolve {promise} happened|did-not-happen|run-again --reason \
                     TEXT`",
                    held.label,
                    held.function,
                    one_line(&held.why)
                ));
            }
        }
    }
}

/// Why there is no reply.
enum NoReply {
    /// The call was not answered with a result.
    Call(Box<Error>),
    /// The call was accepted, but its result could not be had.
    Accepted(AcceptedCall, Identity, Box<Error>),
    /// The user pressed Ctrl-C while the execution went on.
    Interrupted(AcceptedCall, Identity),
    /// The user pressed Ctrl-C before the server answered.
    Failure(Failure),
}

type Error = CallError<Box<RawValue>>;

impl NoReply {
    /// The execution, if it is known.
    fn execution_id(&self) -> Option<&str> {
        match self {
            Self::Call(error) => match &**error {
                CallError::Function(error) => error.execution_id.as_deref(),
                CallError::Cancelled(problem) | CallError::Indeterminate(problem) => {
                    problem.execution_id.as_deref()
                }
                CallError::StillRunning(handle) => Some(handle.execution_id()),
                _ => None,
            },
            Self::Accepted(known, ..) | Self::Interrupted(known, _) => Some(&known.execution_id),
            Self::Failure(_) => None,
        }
    }

    /// Classifies the error of the first request. A refusal that names an execution came after the
    /// call was accepted: a server need not wait as long as it is asked to.
    fn first(error: Error, identity: &Identity) -> Self {
        match &error {
            CallError::Refused(problem) if let Some(id) = problem.execution_id.clone() => {
                let operation_id = problem.operation_id.clone();
                let known = AcceptedCall { execution_id: id, operation_id, verdict: None };
                Self::Accepted(known, identity.clone(), Box::new(error))
            }
            _ => Self::Call(Box::new(error)),
        }
    }
}

/// The identity of an accepted call.
pub(super) struct AcceptedCall {
    execution_id: String,
    operation_id: Option<String>,
    verdict: Option<Verdict>,
}

impl AcceptedCall {
    pub(super) fn of<Out>(handle: &Handle<Out>) -> Self {
        Self {
            execution_id: handle.execution_id().to_owned(),
            operation_id: handle.operation_id().map(str::to_owned),
            verdict: handle.verdict(),
        }
    }

    /// The document for a call that is still running.
    pub(super) fn document(&self) -> Document {
        Document {
            execution_id: Some(self.execution_id.clone()),
            operation_id: self.operation_id.clone(),
            verdict: self.verdict.map(Verdict::as_str),
            end: None,
        }
    }
}

/// Whether the execution is gone, so that only the record of its key says what became of it.
fn is_gone(error: &Error) -> bool {
    match error {
        CallError::Refused(problem) => problem.code == Code::NotFound,
        CallError::Indeterminate(_) => true,
        _ => false,
    }
}

/// The hint for an execution that is still running.
fn come_back(id: &str, identity: &Identity) -> String {
    format!(
        "see its progress with `indelible show {id}`; the same call with {} waits for it again",
        flag(identity)
    )
}

/// The user pressed Ctrl-C, and the execution is still running.
fn interrupted(known: &AcceptedCall, identity: &Identity) -> Failure {
    let id = short(&known.execution_id);
    Failure::new(format!("interrupted; execution {id} is still running"))
        .hint(come_back(&id, identity))
        .exit(Exit::Interrupted)
}

/// An accepted call is never reported as if it had not been made.
fn accepted(
    known: &AcceptedCall,
    identity: &Identity,
    error: Error,
    asked: &ServerRequest,
) -> Failure {
    let exit = match &error {
        CallError::Transport(_) | CallError::Malformed(_) => Exit::NoAnswer,
        CallError::Refused(_) => Exit::StillRunning,
        // The error itself says how the call ended, or that it goes on.
        _ => return error.explain(asked),
    };
    let id = short(&known.execution_id);
    print::tell(&format!("execution {id} was accepted; its state is unknown"));
    error.explain(asked).hint(come_back(&id, identity)).exit(exit)
}

/// Tells the user if the result is that of an earlier call, or of one that another caller started.
fn note_verdict(verdict: Option<Verdict>) {
    match verdict {
        None | Some(Verdict::Fresh) => {}
        Some(Verdict::InFlight) => {
            print::tell("the execution was already running under this key or id");
        }
        Some(Verdict::PriorResult) => {
            print::tell("this is the result of an earlier call with the same key or id");
        }
        Some(Verdict::PriorError) => {
            print::tell("this is the error of an earlier call with the same key or id");
        }
    }
}

fn document(reply: &Reply, returned: &Returned) -> Document {
    Document {
        execution_id: Some(reply.execution_id.clone()),
        operation_id: reply.operation_id.clone(),
        verdict: reply.verdict.map(Verdict::as_str),
        end: Some(End::from(returned)),
    }
}

/// The document of a call that ended without a result; none if it goes on.
fn failed<Out>(error: &CallError<Out>) -> Option<Document> {
    match error {
        CallError::Function(error) => Some(Document {
            execution_id: error.execution_id.clone(),
            operation_id: error.operation_id.clone(),
            verdict: error.verdict.map(Verdict::as_str),
            end: Some(End::Error(Failed {
                kind: error.kind.clone(),
                message: error.message.clone(),
                detail: error.detail.clone(),
            })),
        }),
        CallError::Cancelled(problem) | CallError::Indeterminate(problem) => Some(Document {
            execution_id: problem.execution_id.clone(),
            operation_id: problem.operation_id.clone(),
            verdict: problem.verdict.map(Verdict::as_str),
            end: Some(End::Error(problem.error.clone()?)),
        }),
        CallError::StillRunning(handle) => Some(AcceptedCall::of(handle).document()),
        _ => None,
    }
}
