//! `indelible call`: calls a function, and waits for what it returns.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use clap::Args;
use indelible_client::api::Code;
use indelible_client::api::call::{Failed, Verdict as Met};
use indelible_client::{CallError, Handle, Identity, Invocation, Reply, ToCall};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::connection::{Connection, Remote};
use super::errors::{Asked, Explained as _, short};
use super::function::{Found, Named, no_such};
use super::interrupt::{Interrupted, Interrupts, unanswered};
use super::name::{Name, flag};
use crate::failure::{Exit, Failure, Verdict};
use crate::input::Input;
use crate::outcome::{Document, End, Returned};
use crate::print;

const HELP: &str = "\
Waits until it is over, or as long as --wait says. What the function returned goes to standard
output. With --key or --id the call has a name: the same again is not done again, and says what came
of the first. What is interrupted stops waiting; the execution goes on.

Exit codes:
  0    it returned
  1    it was refused: nothing was done; or what it returned cannot be shown
  2    the arguments make no sense
  3    it failed or was cancelled
  4    indeterminate: nobody knows whether it happened
  5    no answer from the server
  6    the wait is over, and it goes on
  130  interrupted: it goes on

Examples:
  indelible call order-saga/order '{\"id\":\"o-1\",\"item\":\"tea\",\"quantity\":2,\"cents\":500}' --key o-1
  indelible call order @order.json --wait 10
  cat order.json | indelible call order - --json";

/// Call a function, and wait for what it returns
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Call {
    /// component/function, or the function alone if one component has it
    function: Named,
    /// Its input, as JSON; @FILE is a file with it, - standard input; several arguments are an array
    #[arg(default_value = "null")]
    input: Input,
    #[command(flatten)]
    name: Name,
    /// How long to wait; until it is over, if not given
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// Print how it ended as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Who waits for longer is told what is waited for.
const QUIET: Duration = Duration::from_secs(1);

impl Call {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Verdict, Failure> {
        let input = self.input.read()?;
        let remote = self.connection.connect()?;
        let found = remote.function(&self.function)?;
        match remote.wait(self.reply(&remote, &found, &input)) {
            Ok(reply) => {
                told(reply.verdict);
                let returned = match &reply.payload {
                    Some(payload) => Returned::payload(payload)?,
                    None => Returned::json(reply.result.as_deref()),
                };
                if self.json {
                    print::object(document(&reply, &returned), out)?;
                } else {
                    returned.write(io::stdout().is_terminal(), out)?;
                }
                Ok(Verdict::Well)
            }
            Err(ended) => self.ended(ended, &remote, &found, out).map(Verdict::Wrong),
        }
    }

    /// In words, and as data for whoever wants that.
    fn ended(
        &self,
        ended: Ended,
        remote: &Remote,
        found: &Found,
        out: &mut impl Write,
    ) -> Result<Failure, Failure> {
        let document = match &ended {
            Ended::Call(error) => failed(error),
            Ended::Accepted(known, _, error) => failed(error).or_else(|| Some(known.document())),
            Ended::Interrupted(known, _) => Some(known.document()),
            Ended::Failure(_) => None,
        };
        if let Some(document) = document.filter(|_| self.json) {
            print::object(document, out)?;
        }
        if let Ended::Call(error) | Ended::Accepted(_, _, error) = &ended
            && let CallError::Function(error) = &**error
        {
            told(error.verdict);
        }
        Ok(match ended {
            Ended::Call(error) => match *error {
                CallError::Refused(problem) if no_such(problem.code) => {
                    remote.no_such_function(problem, found)
                }
                error => error.explain(&remote.at),
            },
            Ended::Accepted(known, identity, error) => {
                accepted(&known, &identity, *error, &remote.at)
            }
            Ended::Interrupted(known, identity) => interrupted(&known, &identity),
            Ended::Failure(failure) => failure,
        })
    }

    /// Asks, and waits as long as somebody wants to. What was accepted and is no longer known as an
    /// execution is asked for once more under its name: what came of it is kept for longer, and what
    /// was in memory alone is told apart from what never was.
    async fn reply(
        &self,
        remote: &Remote,
        found: &Found,
        input: &RawValue,
    ) -> Result<Reply, Ended> {
        let identity = self.name.identity();
        // Before anything is sent: whoever interrupts is told how to come back to it.
        let mut interrupts = Interrupts::listen();
        // None: until it is over, or so far in the future that no clock has it.
        let wait = self.wait.map(Duration::from_secs);
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        let mut asked_again = false;
        loop {
            let call = self.call(remote, found, input, &identity);
            match Self::once(call, &identity, &mut interrupts, deadline).await {
                Err(Ended::Accepted(_, _, error)) if !asked_again && is_gone(&error) => {
                    asked_again = true;
                }
                ended => return ended,
            }
        }
    }

    /// What is asked, under its name.
    fn call(
        &self,
        remote: &Remote,
        found: &Found,
        input: &RawValue,
        identity: &Identity,
    ) -> Invocation<Box<RawValue>, ToCall> {
        let Found { component, function } = found;
        let function = remote
            .client
            .function::<RawValue, Box<RawValue>>(component.as_str(), function.as_str());
        let call = function.call(input);
        match identity.clone() {
            Identity::Key(key) => call.idempotency_key(key),
            Identity::Operation(id) => call.operation_id(id),
        }
    }

    /// Asks, and waits.
    async fn once(
        call: Invocation<Box<RawValue>, ToCall>,
        identity: &Identity,
        interrupts: &mut Interrupts,
        deadline: Option<Instant>,
    ) -> Result<Reply, Ended> {
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // Not for long: whoever is interrupted wants to know what goes on.
        let first = left().map_or(QUIET, |left| left.min(QUIET));
        let handle = match interrupts.or(call.wait(first).reply()).await {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(CallError::StillRunning(handle))) => handle,
            Ok(Err(error)) => return Err(Ended::first(error, identity)),
            Err(Interrupted) => {
                let failure = unanswered(identity, "waits for it, and does it once");
                return Err(Ended::Failure(failure));
            }
        };
        let rest = left();
        if rest == Some(Duration::ZERO) {
            return Err(Ended::Call(Box::new(CallError::StillRunning(handle))));
        }
        if io::stderr().is_terminal() {
            let id = short(handle.execution_id());
            print::tell(&format!(
                "execution {id} goes on; waiting (Ctrl-C stops waiting, not the execution)"
            ));
        }
        let outcome = async {
            match rest {
                Some(rest) => handle.reply_within(rest).await,
                None => handle.reply().await,
            }
        };
        match interrupts.or(outcome).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                Err(Ended::Accepted(Known::of(&handle), identity.clone(), Box::new(error)))
            }
            Err(Interrupted) => Err(Ended::Interrupted(Known::of(&handle), identity.clone())),
        }
    }
}

/// Why there is no reply.
enum Ended {
    /// The call itself was not answered by a result.
    Call(Box<Error>),
    /// It was accepted, and then there was no result.
    Accepted(Known, Identity, Box<Error>),
    /// Somebody pressed Ctrl-C while it went on.
    Interrupted(Known, Identity),
    /// Somebody pressed Ctrl-C before there was an answer.
    Failure(Failure),
}

type Error = CallError<Box<RawValue>>;

impl Ended {
    /// What the call itself ended with. A refusal that names an execution came after that was
    /// accepted: a server need not wait for as long as it is asked to.
    fn first(error: Error, identity: &Identity) -> Self {
        match &error {
            CallError::Refused(problem) if let Some(id) = problem.execution_id.clone() => {
                let operation_id = problem.operation_id.clone();
                let known = Known { execution_id: id, operation_id, verdict: None };
                Self::Accepted(known, identity.clone(), Box::new(error))
            }
            _ => Self::Call(Box::new(error)),
        }
    }
}

/// What is known of a call that was accepted.
pub(super) struct Known {
    execution_id: String,
    operation_id: Option<String>,
    verdict: Option<Met>,
}

impl Known {
    pub(super) fn of<Out>(handle: &Handle<Out>) -> Self {
        Self {
            execution_id: handle.execution_id().to_owned(),
            operation_id: handle.operation_id().map(str::to_owned),
            verdict: handle.verdict(),
        }
    }

    /// What a program is told of what goes on.
    pub(super) fn document(&self) -> Document {
        Document {
            execution_id: Some(self.execution_id.clone()),
            operation_id: self.operation_id.clone(),
            verdict: self.verdict.map(Met::as_str),
            end: None,
        }
    }
}

/// Whether an execution is no longer there, so that only its name says what became of it.
fn is_gone(error: &Error) -> bool {
    match error {
        CallError::Refused(problem) => problem.code == Code::NotFound,
        CallError::Indeterminate(_) => true,
        _ => false,
    }
}

/// How to come back to what goes on.
fn come_back(id: &str, identity: &Identity) -> String {
    format!(
        "`indelible show {id}` says how it goes; the same call with {} waits for it again",
        flag(identity)
    )
}

/// It goes on, and this is how to come back to it.
fn interrupted(known: &Known, identity: &Identity) -> Failure {
    let id = short(&known.execution_id);
    Failure::new(format!("interrupted; execution {id} goes on"))
        .hint(come_back(&id, identity))
        .exit(Exit::Interrupted)
}

/// What was accepted is never told as if nothing had been done.
fn accepted(known: &Known, identity: &Identity, error: Error, asked: &Asked) -> Failure {
    let exit = match &error {
        CallError::Transport(_) | CallError::Malformed(_) => Exit::NoAnswer,
        CallError::Refused(_) => Exit::GoesOn,
        // How it ended, or that it goes on.
        _ => return error.explain(asked),
    };
    let id = short(&known.execution_id);
    print::tell(&format!("execution {id} was accepted; how it stands is not known here"));
    error.explain(asked).hint(come_back(&id, identity)).exit(exit)
}

/// Says if it is the outcome of an earlier call, or one that somebody else began.
fn told(verdict: Option<Met>) {
    match verdict {
        None | Some(Met::Fresh) => {}
        Some(Met::InFlight) => print::tell("it went on already, under this name"),
        Some(Met::PriorResult) => {
            print::tell("this is the result of an earlier call under this name");
        }
        Some(Met::PriorError) => {
            print::tell("this is the error of an earlier call under this name");
        }
    }
}

fn document(reply: &Reply, returned: &Returned) -> Document {
    Document {
        execution_id: Some(reply.execution_id.clone()),
        operation_id: reply.operation_id.clone(),
        verdict: reply.verdict.map(Met::as_str),
        end: Some(End::from(returned)),
    }
}

/// How it ended, if it did, and did not return.
fn failed<Out>(error: &CallError<Out>) -> Option<Document> {
    match error {
        CallError::Function(error) => Some(Document {
            execution_id: error.execution_id.clone(),
            operation_id: error.operation_id.clone(),
            verdict: error.verdict.map(Met::as_str),
            end: Some(End::Error(Failed {
                kind: error.kind.clone(),
                message: error.message.clone(),
                detail: error.detail.clone(),
            })),
        }),
        CallError::Cancelled(problem) | CallError::Indeterminate(problem) => Some(Document {
            execution_id: problem.execution_id.clone(),
            operation_id: problem.operation_id.clone(),
            verdict: problem.verdict.map(Met::as_str),
            end: Some(End::Error(problem.error.clone()?)),
        }),
        CallError::StillRunning(handle) => Some(Known::of(handle).document()),
        _ => None,
    }
}
