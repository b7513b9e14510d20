//! `indelible run`: runs one function, with everything it calls, in this process; its state is
//! durable in a folder.
//!
//! - `egress`: what it may reach.
//! - `observer`: logs of guests, on stderr.
//! - `journals`: the journals of what ran.

pub(crate) mod egress;
mod journals;
mod observer;

use std::error::Error;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use indelible_api::call::Failed;
use indelible_journal::{
    Codec, ComponentDigest, Ending, ErrorKind, ExecutionId, Failure as FunctionFailure, Namespace,
    OperationId, Payload, SignalName,
};
use indelible_records::executions::Execution;
use indelible_records::labels::Labels;
use indelible_runtime::world::Observer;
use indelible_runtime::{
    Attribution, Engine, Opening, Start, StartRefused, StartedExecution, Verdict,
};
use serde::Serialize;

use self::egress::Egress;
use self::observer::Lines;
use crate::failure::{CommandEnd, Exit, Failure};
use crate::guest::{Built, component};
use crate::input::{ARRAY_HINT, Input};
use crate::outcome::{Document, End, Returned};
use crate::print;
use crate::screen::Screen;

const HELP: &str = "\
COMPONENT is a component, or the folder of a project, which is built first. All state is kept in the
folder that --data names: kill the process at any time and run the same command with the --id that
it printed, and the execution continues where it was, with the code that it began with. Signals that
had arrived are not sent again.

The return value goes to standard output, log lines go to standard error. Exit codes:
  0  the function completed
  1  the function could not be run
  2  invalid arguments
  3  the function failed or was cancelled
  4  Indeterminate: it is unknown whether an effect happened

A function may send HTTP requests only over TLS, only to public addresses, and only to the hosts
that --allow-host names; --allow-network and --allow-plain-http allow more. A secret comes from an
environment variable or a file: a function uses it by its name and never sees its value. Requests go
straight to their hosts; --proxy-from-environment sends them through the proxies that HTTP_PROXY,
HTTPS_PROXY, ALL_PROXY and NO_PROXY name. For host names that only the proxy can look up, the proxy
decides which addresses are reached.

Examples:
  indelible run examples/fan-out summarize 20
  indelible run order.wasm order '{\"id\":\"o-1\"}' --id o-1 --timeline
  indelible run examples/approval approve '{\"who\":\"ann\",\"cents\":9900,\"seconds\":60}' \\
      --signal decision='{\"by\":\"bob\",\"approved\":true}'
  indelible run shop.wasm charge 500 --allow-host api.example.com --secret API_KEY";

/// Run a durable function here, and wait for what it returns
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Run {
    /// A component, or a folder with a project of durable functions
    component: PathBuf,
    /// The function to call
    function: String,
    /// Its input, as JSON; @FILE reads it from a file, - from standard input; several arguments are
    /// an array
    #[arg(default_value = "null")]
    input: Input,
    /// What users add who take arguments for words: it is refused with a hint
    #[arg(hide = true)]
    more: Vec<String>,
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "indelible-data")]
    data: PathBuf,
    /// What this operation is called: the same again finds what it led to
    #[arg(long, value_name = "ID", value_parser = OperationId::new)]
    id: Option<OperationId>,
    /// A signal to send as soon as it runs; may be given several times
    #[arg(long = "signal", value_name = "NAME=JSON", value_parser = signal)]
    signals: Vec<(SignalName, Payload)>,
    #[command(flatten, next_help_heading = "HTTP")]
    egress: Egress,
    /// Draw what happened as bars over time
    #[arg(long)]
    timeline: bool,
    /// Write the journals of all that ran to this file, as JSON Lines
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Print how it ended as a JSON object
    #[arg(long, conflicts_with = "timeline")]
    json: bool,
}

impl Run {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<CommandEnd, Failure> {
        let input = Payload::json(self.input.read_alone(&self.more)?.get().to_owned());
        let Built { name, bytes } = component(&self.component)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| failed("start", &error))?;
        let observer: Arc<dyn Observer> = Arc::new(Lines { data: self.data.clone() });
        let client = self.egress.client(&name)?;
        let engine = crate::serve::open(&self.data, client, &observer, Opening::AtWork)?;
        if let Some(hold) = engine.hold() {
            return Err(Failure::new(format!("{} is on hold ({hold})", self.data.display())).hint(
                "start a server with `indelible serve --data DIR`, and let it go on with `indelible \
                 hold lift`",
            ));
        }
        let (started, ending) = runtime.block_on(self.wait_for(&engine, &name, &bytes, input))?;
        let shown = match &ending {
            _ if self.json => print::object(document(&started, &ending), out),
            Ending::Completed(payload) => returned(payload).write(io::stdout().is_terminal(), out),
            Ending::Failed(_) | Ending::Cancelled(_) => Ok(()),
        };
        let id = &started.execution_id;
        if self.timeline {
            journals::draw(engine.store(), id, screen, out)?;
        }
        if let Some(file) = &self.journal {
            journals::export(engine.store(), id, file)?;
        }
        engine.close();
        // A failure to show the result is reported; the result itself is in the journal.
        shown?;
        Ok(match ending {
            Ending::Completed(_) => CommandEnd::Well,
            Ending::Failed(failure) => CommandEnd::Wrong(failed_function(&failure)),
            Ending::Cancelled(why) => CommandEnd::Wrong(
                Failure::new(format!("the execution was cancelled: {why}")).exit(Exit::Function),
            ),
        })
    }

    /// Starts the execution or finds it, and waits for its end.
    async fn wait_for(
        &self,
        engine: &Engine,
        name: &str,
        bytes: &[u8],
        input: Payload,
    ) -> Result<(StartedExecution, Ending), Failure> {
        let deployed = engine.deploy(name, bytes, Attribution::default()).await;
        let deployed = deployed.map_err(|error| failed("deploy the component", &error))?;
        let start = Start {
            namespace: Namespace::new("local").expect("it is a name"),
            operation_id: self.id.clone(),
            idempotency_key: None,
            component: name.to_owned(),
            function: self.function.clone(),
            input,
            trace_parent: None,
            actor: None,
            labels: Labels::default(),
        };
        let started = engine.start(start).await.map_err(|error| match error {
            StartRefused::Conflict => failed("start the execution", &error)
                .hint("give another --id, or the same component, function and input again"),
            StartRefused::InvalidInput { .. } => {
                failed("start the execution", &error).hint(ARRAY_HINT)
            }
            error => failed("start the execution", &error),
        })?;
        let id = &started.execution_id;
        let row =
            engine.execution(id).await.map_err(|error| failed("find the execution", &error))?;
        told(&started, row.as_ref(), &deployed.value.digest);
        self.send_signals(engine, id).await?;
        let ending =
            engine.outcome(id).await.map_err(|error| failed("wait for the execution", &error))?;
        let ending = ending.ok_or_else(|| Failure::new("the execution no longer exists"))?;
        Ok((started, ending))
    }

    /// Sends the signals that have not arrived: an earlier run may have sent some.
    async fn send_signals(&self, engine: &Engine, id: &ExecutionId) -> Result<(), Failure> {
        let mut arrived = journals::signals(engine.store(), id)?;
        for (name, payload) in &self.signals {
            if let Some(count) = arrived.get_mut(name).filter(|count| **count > 0) {
                *count -= 1;
                continue;
            }
            // An execution that is over refuses signals.
            if let Err(error) =
                engine.signal(id, name, payload.clone(), Attribution::default()).await
            {
                _ = writeln!(io::stderr(), "signal {name}: {error}");
            }
        }
        Ok(())
    }
}

/// `NAME=JSON`.
fn signal(text: &str) -> Result<(SignalName, Payload), String> {
    let (name, value) = text.split_once('=').ok_or(
        "the `=` is missing: write NAME=JSON, as in \
         stop=true",
    )?;
    let name = SignalName::new(name).map_err(|error| error.to_string())?;
    Ok((name, json(value)?))
}

/// JSON as it was given; fails if it is not JSON.
fn json(text: &str) -> Result<Payload, String> {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(_) => Ok(Payload::json(text.to_owned())),
        Err(error) => Err(format!(
            "it is not JSON: {error}; quote it for the shell: '{{\"id\": 1}}', or '\"text\"'"
        )),
    }
}

/// Tells the user whether the execution is new, and how to find it again.
fn told(started: &StartedExecution, row: Option<&Execution>, digest: &ComponentDigest) {
    let StartedExecution { execution_id, operation_id, .. } = started;
    let over = row.is_some_and(|row| row.standing.is_terminal());
    let how = match (started.attached(), over) {
        (false, _) => "started",
        (true, false) => "continues",
        (true, true) => "has ended, with this outcome",
    };
    let other = row.filter(|row| row.component != *digest);
    let other = other.map_or(String::new(), |row| {
        format!(" (version {:#}, with which it began)", row.component)
    });
    _ = writeln!(io::stderr(), "{execution_id:#} {how}{other}; --id {operation_id} finds it again");
}

fn returned(payload: &Payload) -> Returned {
    Returned::new(payload.codec.to_string(), payload.bytes.to_vec())
}

/// The end, for programs.
fn document(started: &StartedExecution, ending: &Ending) -> impl Serialize + use<> {
    let failed = |kind: String, message: &str, detail: Option<&Payload>| {
        let detail = detail.filter(|detail| detail.codec == Codec::JSON);
        let detail = detail.and_then(|detail| serde_json::from_slice(&detail.bytes).ok());
        End::Error(Failed { kind, message: message.to_owned(), detail })
    };
    let (end, over) = match ending {
        Ending::Completed(payload) => (End::from(&returned(payload)), "PriorResult"),
        Ending::Failed(failure) => {
            let detail = failure.detail.as_ref();
            (failed(failure.kind.to_string(), &failure.message, detail), "PriorError")
        }
        Ending::Cancelled(why) => (failed("Cancelled".to_owned(), why, None), "PriorError"),
    };
    let verdict = match started.verdict {
        Verdict::Fresh => "Fresh",
        Verdict::InFlight => "InFlight",
        Verdict::Prior => over,
    };
    Document {
        execution_id: Some(started.execution_id.to_string()),
        operation_id: Some(started.operation_id.to_string()),
        verdict: Some(verdict),
        end: Some(end),
    }
}

/// The error for a function that failed, or whose outcome is unknown.
fn failed_function(failure: &FunctionFailure) -> Failure {
    let FunctionFailure { kind, message, .. } = failure;
    match kind {
        ErrorKind::Indeterminate => Failure::new(format!("the outcome is unknown: {message}"))
            .hint(
                "check the other service; running the same --id again does nothing and \
                     returns the same",
            )
            .exit(Exit::Indeterminate),
        kind => {
            Failure::new(format!("the function failed: {kind}: {message}")).exit(Exit::Function)
        }
    }
}

fn failed(what: &str, error: &dyn Error) -> Failure {
    let mut text = format!("cannot {what}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Failure::new(text)
}
