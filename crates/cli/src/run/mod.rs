//! `indelible run`: one function, with everything it calls, in this process and durable in a
//! folder.
//!
//! - `observer`: what guests log, told on stderr.
//! - `drawn`: the journal of what ran.
#![expect(clippy::disallowed_methods, reason = "it reads the component that was named")]

mod drawn;
mod observer;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use indelible_journal::{Codec, Ending, Namespace, OperationId, Payload, SignalName};
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::{Engine, Options, Start, StartedExecution, World};
use indelible_store::embedded;
use indelible_store::rows::TABLES;

use self::observer::Lines;
use crate::failure::{Failure, Verdict, quiet};
use crate::guest::components;
use crate::screen::Screen;

const HELP: &str = "\
COMPONENT is a component, or a folder with a project of durable functions, which is built. Everything
that happens is in the folder that --data names: kill the process at any time, run the same command
with the --id that it told, and it goes on where it was.

What the function returned goes to standard output; what it logged, to standard error. Exit codes:
  0  it completed
  1  it failed or was cancelled, or could not be run
  2  the arguments make no sense

Examples:
  indelible run examples/fan-out total '[1,2,3]'
  indelible run order.wasm order '{\"id\":\"o-1\"}' --id o-1 --timeline
  indelible run examples/approval publish '\"draft\"' --signal decision='\"approved\"'";

/// Run a durable function here, and wait for what it returns
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Run {
    /// A component, or a folder with a project of durable functions
    component: PathBuf,
    /// The function to call
    function: String,
    /// Its input, as JSON
    #[arg(default_value = "null")]
    input: String,
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "indelible-data")]
    data: PathBuf,
    /// What this operation is called: the same again finds what it led to
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// A signal to send as soon as it runs; may be given several times
    #[arg(long = "signal", value_name = "NAME=JSON")]
    signals: Vec<String>,
    /// Draw what happened as bars over time
    #[arg(long)]
    timeline: bool,
}

impl Run {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<Verdict, Failure> {
        let start = self.start()?;
        let signals = self.signals()?;
        let (name, bytes) = component(&self.component)?;
        let start = Start { component: name.clone(), ..start };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| failed("start", &error))?;
        let engine = open(&self.data)?;
        let (started, ending) = runtime.block_on(async {
            engine.deploy(&name, &bytes).await.map_err(|error| failed("deploy it", &error))?;
            let started = engine.start(start).await.map_err(|error| failed("start it", &error))?;
            told(&started);
            for (name, payload) in signals {
                let sent = engine.signal(&started.execution_id, &name, payload, None).await;
                // One that is over has no use for it.
                if let Err(error) = sent {
                    _ = writeln!(io::stderr(), "signal {name}: {error}");
                }
            }
            let ending = engine.outcome(&started.execution_id).await;
            let ending = ending.map_err(|error| failed("wait for it", &error))?;
            Ok((started, ending))
        })?;
        let ending = ending.ok_or_else(|| failed("find it", &"its execution is gone"))?;
        if let Ending::Completed(payload) = &ending {
            quiet(write_payload(payload, out)).map_err(|error| Failure::output(&error))?;
        }
        if self.timeline {
            drawn::write(engine.store(), &started.execution_id, screen, out)?;
        }
        engine.close();
        Ok(match ending {
            Ending::Completed(_) => Verdict::Well,
            Ending::Failed(failure) => {
                Verdict::Wrong(Failure::new(format!("it failed: {failure}")))
            }
            Ending::Cancelled(why) => {
                Verdict::Wrong(Failure::new(format!("it was cancelled: {why}")))
            }
        })
    }

    fn start(&self) -> Result<Start, Failure> {
        let input = json("the input", &self.input)?;
        let id = self.id.as_deref().map(OperationId::new).transpose();
        let operation_id = id.map_err(|error| {
            Failure::new(format!("the id is none: {error}")).hint("give a short text with --id")
        })?;
        Ok(Start {
            namespace: Namespace::new("local").expect("it is a name"),
            operation_id,
            component: String::new(),
            function: self.function.clone(),
            input,
            trace_parent: None,
        })
    }

    fn signals(&self) -> Result<Vec<(SignalName, Payload)>, Failure> {
        let hint = "as in --signal approve=true";
        self.signals
            .iter()
            .map(|signal| {
                let (name, value) = signal.split_once('=').ok_or_else(|| {
                    Failure::new(format!("no `=` in the signal {signal:?}")).hint(hint)
                })?;
                let name = SignalName::new(name)
                    .map_err(|error| Failure::new(format!("no signal: {error}")).hint(hint))?;
                Ok((name, json("a signal", value)?))
            })
            .collect()
    }
}

/// JSON as it was given, if it is JSON.
fn json(what: &str, text: &str) -> Result<Payload, Failure> {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(_) => Ok(Payload::json(text.to_owned())),
        Err(error) => Err(Failure::new(format!("{what} is no JSON: {error}"))
            .hint("quote it for the shell: '{\"id\": 1}', or '\"text\"'")),
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
fn open(folder: &Path) -> Result<Engine, Failure> {
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
    let world = World { observer: Arc::new(Lines), ..World::system(guests) };
    Engine::open(store, Options::default(), world).map_err(|error| failed(&error))
}

/// Says how to come back to it.
fn told(started: &StartedExecution) {
    let StartedExecution { execution_id, operation_id, attached } = started;
    let how = if *attached { "goes on" } else { "started" };
    _ = writeln!(io::stderr(), "{execution_id:#} {how}; --id {operation_id} finds it again");
}

/// What a function returned: text as it is, anything else as it came.
fn write_payload(payload: &Payload, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&payload.bytes)?;
    if [Codec::JSON, Codec::TEXT].contains(&payload.codec) {
        writeln!(out)?;
    }
    Ok(())
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("cannot {what}: {error}"))
}
