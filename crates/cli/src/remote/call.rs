//! `indelible call`: calls a function, and waits for what it returns.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use clap::Args;
use indelible_client::api::call::{Failed, Verdict as Met};
use indelible_client::{CallError, Identity, Reply};
use serde_json::value::RawValue;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::connection::{Connection, Remote};
use super::errors::{Explained as _, short};
use super::function::{Found, Named, no_such};
use super::name::Name;
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
  1    it was refused: nothing was done
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

/// What an interrupted wait leaves.
struct Interrupted;

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
                    returned.write(out)?;
                }
                Ok(Verdict::Well)
            }
            Err(Ended::Failure(failure)) => Err(failure),
            Err(Ended::Call(error)) => {
                if self.json
                    && let Some(document) = failed(&error)
                {
                    print::object(document, out)?;
                }
                if let CallError::Function(error) = &*error {
                    told(error.verdict);
                }
                Ok(Verdict::Wrong(match *error {
                    CallError::Refused(problem) if no_such(problem.code) => {
                        remote.no_such_function(problem, &found)
                    }
                    error => error.explain(&remote.url),
                }))
            }
        }
    }

    /// Asks, and waits as long as somebody wants to.
    async fn reply(
        &self,
        remote: &Remote,
        found: &Found,
        input: &RawValue,
    ) -> Result<Reply, Ended> {
        let identity = self.name.identity();
        // Before anything is sent: whoever interrupts is told how to come back to it.
        let mut interrupts = Interrupts::listen();
        let Found { component, function } = found;
        let function = remote
            .client
            .function::<RawValue, Box<RawValue>>(component.as_str(), function.as_str());
        let call = function.call(input);
        let call = match identity.clone() {
            Identity::Key(key) => call.idempotency_key(key),
            Identity::Operation(id) => call.operation_id(id),
        };
        let wait = self.wait.map(Duration::from_secs);
        // Not for long: whoever is interrupted wants to know what goes on.
        let first = wait.map_or(QUIET, |wait| wait.min(QUIET));
        let handle = match interrupts.or(call.wait(first).reply()).await {
            Ok(Err(CallError::StillRunning(handle))) => handle,
            Ok(reply) => return reply.map_err(|error| Ended::Call(Box::new(error))),
            Err(Interrupted) => return Err(Ended::Failure(interrupted(None, &identity))),
        };
        let rest = wait.map(|wait| wait.saturating_sub(first));
        if rest == Some(Duration::ZERO) {
            return Err(Ended::Call(Box::new(CallError::StillRunning(handle))));
        }
        let id = short(handle.execution_id());
        if io::stderr().is_terminal() {
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
            Ok(reply) => reply.map_err(|error| Ended::Call(Box::new(error))),
            Err(Interrupted) => Err(Ended::Failure(interrupted(Some(&id), &identity))),
        }
    }
}

/// Why there is no reply.
enum Ended {
    Call(Box<CallError<Box<RawValue>>>),
    Failure(Failure),
}

/// Hears Ctrl-C from now on: what ends the process otherwise.
struct Interrupts(Option<Signal>);

impl Interrupts {
    fn listen() -> Self {
        // Without it, the system ends the process as it always does.
        Self(signal(SignalKind::interrupt()).ok())
    }

    /// Waits for something, or for Ctrl-C.
    async fn or<F: Future>(&mut self, future: F) -> Result<F::Output, Interrupted> {
        let Some(interrupts) = &mut self.0 else { return Ok(future.await) };
        tokio::select! {
            biased;
            output = future => Ok(output),
            _ = interrupts.recv() => Err(Interrupted),
        }
    }
}

/// It goes on, and this is how to come back to it.
fn interrupted(execution: Option<&str>, identity: &Identity) -> Failure {
    let name = match identity {
        Identity::Key(key) => format!("--key '{key}'"),
        Identity::Operation(id) => format!("--id {id}"),
    };
    let failure = match execution {
        Some(id) => Failure::new(format!("interrupted; execution {id} goes on")).hint(format!(
            "`indelible show {id}` says how it goes; the same call with {name} waits for it again"
        )),
        None => Failure::new("interrupted; it may have begun, and then it goes on")
            .hint(format!("the same call with {name} waits for it, and does it once")),
    };
    failure.exit(Exit::Interrupted)
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
        end: End::from(returned),
    }
}

/// How it ended, if it did, and did not return.
fn failed<Out>(error: &CallError<Out>) -> Option<Document> {
    match error {
        CallError::Function(error) => Some(Document {
            execution_id: error.execution_id.clone(),
            operation_id: error.operation_id.clone(),
            verdict: error.verdict.map(Met::as_str),
            end: End::Error(Failed {
                kind: error.kind.clone(),
                message: error.message.clone(),
                detail: error.detail.clone(),
            }),
        }),
        CallError::Cancelled(problem) | CallError::Indeterminate(problem) => Some(Document {
            execution_id: problem.execution_id.clone(),
            operation_id: problem.operation_id.clone(),
            verdict: problem.verdict.map(Met::as_str),
            end: End::Error(problem.error.clone()?),
        }),
        _ => None,
    }
}
