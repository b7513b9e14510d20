//! `indelible run`: one function, with everything it calls, in this process and durable in a
//! folder.
//!
//! - `egress`: what it may reach.
//! - `observer`: what guests log, told on stderr.
//! - `journals`: the journals of what ran.
#![expect(clippy::disallowed_methods, reason = "it reads the component that was named")]

mod egress;
mod journals;
mod observer;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use indelible_http_client::Client;
use indelible_journal::{
    Codec, ComponentDigest, Ending, ExecutionId, Namespace, OperationId, Payload, SignalName,
};
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::{
    Asked, Engine, Options, Start, StartRefused, StartedExecution, WitnessFile, World,
};
use indelible_store::embedded;
use indelible_store::rows::TABLES;
use indelible_store::rows::executions::Execution;

use self::egress::Egress;
use self::observer::Lines;
use crate::failure::{Failure, Verdict, quiet};
use crate::guest::components;
use crate::screen::Screen;

const HELP: &str = "\
COMPONENT is a component, or a folder with a project of durable functions, which is built. Everything
that happens is in the folder that --data names: kill the process at any time, run the same command
with the --id that it told, and it goes on where it was, with the code that it began with. Signals
that arrived before are not sent again.

What the function returned goes to standard output; what it logged, to standard error. Exit codes:
  0  it completed
  1  it failed or was cancelled, or could not be run
  2  the arguments make no sense

A function may send HTTP requests only to the hosts that --allow-host names, over TLS, and only to
public addresses; --allow-network and --allow-plain-http allow more. A secret is a variable of the
environment or a file: a function names it, and never sees it. Proxies are taken from the
environment: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY.

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
    /// Its input, as JSON; several arguments are an array
    #[arg(default_value = "null", value_parser = json)]
    input: Payload,
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
}

impl Run {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<Verdict, Failure> {
        let (name, bytes) = component(&self.component)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| failed("start", &error))?;
        let engine = open(&self.data, self.egress.client(&name)?)?;
        let (started, ending) = runtime.block_on(self.wait_for(&engine, &name, &bytes))?;
        if let Ending::Completed(payload) = &ending {
            quiet(write_payload(payload, out)).map_err(|error| Failure::output(&error))?;
        }
        let id = &started.execution_id;
        if self.timeline {
            journals::draw(engine.store(), id, screen, out)?;
        }
        if let Some(file) = &self.journal {
            journals::export(engine.store(), id, file)?;
        }
        engine.close();
        Ok(match ending {
            Ending::Completed(_) => Verdict::Well,
            Ending::Failed(failure) => Verdict::Wrong(Failure::new(format!(
                "it failed: {}: {}",
                failure.kind,
                observer::lines(&failure.message)
            ))),
            Ending::Cancelled(why) => {
                Verdict::Wrong(Failure::new(format!("it was cancelled: {why}")))
            }
        })
    }

    /// Starts it, or finds it, and waits for its end.
    async fn wait_for(
        &self,
        engine: &Engine,
        name: &str,
        bytes: &[u8],
    ) -> Result<(StartedExecution, Ending), Failure> {
        let deployed = engine.deploy(name, bytes, Asked::default()).await;
        let deployed = deployed.map_err(|error| failed("deploy it", &error))?;
        let start = Start {
            namespace: Namespace::new("local").expect("it is a name"),
            operation_id: self.id.clone(),
            idempotency_key: None,
            component: name.to_owned(),
            function: self.function.clone(),
            input: self.input.clone(),
            trace_parent: None,
            actor: None,
        };
        let started = engine.start(start).await.map_err(|error| match error {
            StartRefused::Conflict => failed("start it", &error)
                .hint("give another --id, or the very component, function and input again"),
            error => failed("start it", &error),
        })?;
        let id = &started.execution_id;
        let row = engine.execution(id).await.map_err(|error| failed("find it", &error))?;
        told(&started, row.as_ref(), &deployed.value.digest);
        self.send_signals(engine, id).await?;
        let ending = engine.outcome(id).await.map_err(|error| failed("wait for it", &error))?;
        let ending = ending.ok_or_else(|| Failure::new("its execution is gone"))?;
        Ok((started, ending))
    }

    /// Sends the signals that have not arrived: the command may have been given before.
    async fn send_signals(&self, engine: &Engine, id: &ExecutionId) -> Result<(), Failure> {
        let mut arrived = journals::signals(engine.store(), id)?;
        for (name, payload) in &self.signals {
            if let Some(count) = arrived.get_mut(name).filter(|count| **count > 0) {
                *count -= 1;
                continue;
            }
            // One that is over has no use for it.
            if let Err(error) = engine.signal(id, name, payload.clone(), Asked::default()).await {
                _ = writeln!(io::stderr(), "signal {name}: {error}");
            }
        }
        Ok(())
    }
}

/// `NAME=JSON`.
fn signal(text: &str) -> Result<(SignalName, Payload), String> {
    let (name, value) = text.split_once('=').ok_or("there is no `=` in it: as in stop=true")?;
    let name = SignalName::new(name).map_err(|error| error.to_string())?;
    Ok((name, json(value)?))
}

/// JSON as it was given, if it is JSON.
fn json(text: &str) -> Result<Payload, String> {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(_) => Ok(Payload::json(text.to_owned())),
        Err(error) => Err(format!(
            "it is no JSON: {error}; quote it for the shell: '{{\"id\": 1}}', or '\"text\"'"
        )),
    }
}

/// The name and the bytes of a component that is a file, or that a project makes.
fn component(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let file = if path.is_dir() {
        let mut built = components(path)?;
        let one = built.swap_remove(0);
        if !built.is_empty() {
            let names = built.iter().map(|component| component.path.display().to_string());
            return Err(Failure::new("the project makes several components")
                .list(names.collect())
                .hint("name the file of one of them"));
        }
        one.path
    } else {
        path.to_path_buf()
    };
    let bytes = fs::read(&file).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", file.display()))
            .hint("name a component, or the folder of a project")
    })?;
    let name = file.file_stem().map(|name| name.to_string_lossy().replace('_', "-"));
    Ok((name.unwrap_or_default(), bytes))
}

/// An engine over a data folder.
fn open(folder: &Path, client: Client) -> Result<Engine, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot open {}: {error}", folder.display()))
            .hint("one process at a time may have a data folder; --data names another")
    };
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let options = embedded::Options::default();
    let store = embedded::open(&folder.join("store"), &TABLES, &options);
    let store = store.map_err(|error| failed(&error))?;
    let artifacts = Artifacts::folder(folder.join("artifacts")).map_err(|error| failed(&error))?;
    let guests = Guests::new(GuestOptions::default(), artifacts).map_err(|error| failed(&error))?;
    let witness = WitnessFile::open(&folder.join("replays")).map_err(|error| failed(&error))?;
    let (observer, witness) = (Arc::new(Lines), Arc::new(witness));
    let world = World { observer, witness, http: Arc::new(client), ..World::system(guests) };
    Engine::open(store, Options::default(), world).map_err(|error| failed(&error))
}

/// Says what became of it so far, and how to come back to it.
fn told(started: &StartedExecution, row: Option<&Execution>, digest: &ComponentDigest) {
    let StartedExecution { execution_id, operation_id, .. } = started;
    let over = row.is_some_and(|row| row.standing.is_terminal());
    let how = match (started.attached(), over) {
        (false, _) => "started",
        (true, false) => "goes on",
        (true, true) => "is over, and this is what it led to",
    };
    let other = row.filter(|row| row.component != *digest);
    let other = other.map_or(String::new(), |row| {
        format!(" with the version that it began with, {:#}", row.component)
    });
    _ = writeln!(io::stderr(), "{execution_id:#} {how}{other}; --id {operation_id} finds it again");
}

/// What a function returned: text as it is, anything else as it came.
fn write_payload(payload: &Payload, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&payload.bytes)?;
    if [Codec::JSON, Codec::TEXT].contains(&payload.codec) {
        writeln!(out)?;
    }
    Ok(())
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
