//! `indelible bench invoke` and `bench steps`: what the engine does in this process, from a call
//! to its durable outcome.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use indelible_journal::{Ending, Namespace, Payload};
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::{Engine, Options, Start, World};
use indelible_store::embedded;
use indelible_store::rows::TABLES;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::drive::{Producer, Windows, drive};
use super::place::Place;
use super::report::{Report, latency, micros, round};
use super::{guest, meters};
use crate::failure::Failure;

pub(super) const INVOKE_HELP: &str = "\
A function that returns what it is given is called again and again; each call is one execution with
its own journal, and is measured from the call until its outcome is durable. It happens in this
process, without HTTP.

Examples:
  indelible bench invoke
  indelible bench invoke --in-flight 256 --seconds 20 --json";

pub(super) const STEPS_HELP: &str = "\
A function calls another N times, one call after the other; each of these is an execution with its
own journal. `per s` counts them; latencies are those of the whole.

Examples:
  indelible bench steps
  indelible bench steps --n 5000 --in-flight 1 --json";

#[derive(Args)]
pub(crate) struct InvokeArguments {
    /// How many calls are under way at once
    #[arg(long, value_name = "N", default_value = "64",
        value_parser = value_parser!(u32).range(1..=4096))]
    in_flight: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub(crate) struct StepsArguments {
    /// How many calls each workflow makes, one after the other
    #[arg(long, value_name = "N", default_value = "100",
        value_parser = value_parser!(u32).range(1..=100_000))]
    n: u32,
    /// How many workflows are under way at once
    #[arg(long, value_name = "K", default_value = "64",
        value_parser = value_parser!(u32).range(1..=4096))]
    in_flight: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub(crate) struct Common {
    /// Where to measure: a folder that is empty or absent
    ///
    /// Without it, one in the current directory. It is removed afterwards; a folder that was
    /// there before is emptied.
    #[arg(long)]
    pub(super) dir: Option<PathBuf>,
    /// Leave what was made in the folder
    #[arg(long, requires = "dir")]
    pub(super) keep: bool,
    /// For how long calls are begun
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// The component to call, with the functions `echo` and `steps`; without it, the one that this
    /// program brings along is built
    #[arg(long, value_name = "FILE")]
    guest: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What to call, and how it is counted.
struct Work {
    workload: &'static str,
    function: &'static str,
    input: String,
    n: u32,
    in_flight: u32,
}

/// One measurement.
#[derive(Serialize)]
struct Line {
    v: u32,
    workload: &'static str,
    n: u32,
    in_flight: u32,
    seconds: f64,
    count: u64,
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    fsyncs: u64,
    cpu_s: f64,
    rss_mb: Option<f64>,
}

pub(super) fn invoke(
    arguments: &InvokeArguments,
    runtime: &Runtime,
    place: &Arc<Place>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let work = Work {
        workload: "invoke",
        function: "echo",
        input: "{\"order\":4711}".to_owned(),
        n: 1,
        in_flight: arguments.in_flight,
    };
    measure(&work, &arguments.common, runtime, place, out)
}

pub(super) fn steps(
    arguments: &StepsArguments,
    runtime: &Runtime,
    place: &Arc<Place>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let work = Work {
        workload: "steps",
        function: "steps",
        input: arguments.n.to_string(),
        n: arguments.n,
        in_flight: arguments.in_flight,
    };
    measure(&work, &arguments.common, runtime, place, out)
}

impl InvokeArguments {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }
}

impl StepsArguments {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }
}

fn measure(
    work: &Work,
    common: &Common,
    runtime: &Runtime,
    place: &Arc<Place>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let component = guest::component(common.guest.as_deref())?;
    let engine = Arc::new(open(place.path())?);
    runtime.block_on(engine.deploy("bench", &component)).map_err(|error| {
        Failure::new(format!("cannot deploy the component: {error}"))
            .hint("name one with the functions `echo` and `steps` with --guest")
    })?;
    let callers = |count| (0..count).map(|_| Caller::new(&engine, work)).collect::<Vec<_>>();
    // The first call loads the component; that is not what is measured.
    let once = Windows { length: Duration::from_millis(1), count: 1 };
    drive(runtime, callers(1), once, |_| Ok(()))?;

    let before = engine.readings().store.groups;
    let windows = Windows { length: Duration::from_secs(common.seconds.into()), count: 1 };
    let driven = drive(runtime, callers(work.in_flight), windows, |_| Ok(()))?.all;
    let fsyncs = engine.readings().store.groups - before;
    let per_mille = |part| micros(driven.latencies.per_mille(part));
    let line = Line {
        v: 1,
        workload: work.workload,
        n: work.n,
        in_flight: work.in_flight,
        seconds: round(driven.seconds, 3),
        count: driven.latencies.count(),
        per_s: round(driven.per_s() * f64::from(work.n), 1),
        p50_us: per_mille(500),
        p99_us: per_mille(990),
        fsyncs,
        cpu_s: round(driven.usage.cpu.as_secs_f64(), 3),
        rss_mb: meters::rss_mb().map(|mb| round(mb, 1)),
    };
    let text = format!(
        "{}: {:.0} per s, {} in flight, p50 {}, p99 {}, {} syncs, {:.2} s of cpu in {:.1} s",
        line.workload,
        line.per_s,
        line.in_flight,
        latency(line.p50_us),
        latency(line.p99_us),
        line.fsyncs,
        line.cpu_s,
        line.seconds,
    );
    Report::new(out, common.json).object(&line, &text)
}

/// An engine over a new store in this folder.
fn open(folder: &Path) -> Result<Engine, Failure> {
    let failed = |error: String| {
        Failure::new(format!("cannot open an engine in {}: {error}", folder.display()))
            .hint("look at the disk's free space and at the limits of this process")
    };
    let store = embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default())
        .map_err(|error| failed(error.to_string()))?;
    let artifacts =
        Artifacts::folder(folder.join("artifacts")).map_err(|error| failed(error.to_string()))?;
    let guests = Guests::new(GuestOptions::default(), artifacts)
        .map_err(|error| failed(error.to_string()))?;
    Engine::open(store, Options::default(), World::system(guests))
        .map_err(|error| failed(error.to_string()))
}

/// Calls a function again and again.
struct Caller {
    engine: Arc<Engine>,
    start: Start,
}

impl Caller {
    fn new(engine: &Arc<Engine>, work: &Work) -> Self {
        let start = Start {
            namespace: Namespace::new("bench").expect("it is a name"),
            operation_id: None,
            component: "bench".to_owned(),
            function: work.function.to_owned(),
            input: Payload::json(work.input.clone()),
            trace_parent: None,
        };
        Self { engine: Arc::clone(engine), start }
    }
}

impl Producer for Caller {
    type Input = Start;

    fn prepare(&mut self) -> Start {
        self.start.clone()
    }

    async fn commit(&mut self, start: Start) -> Result<(), Failure> {
        let hint = "this is a defect of the engine, or the component is not the benchmark's";
        match self.engine.call(start).await {
            Ok((_, Ending::Completed(_))) => Ok(()),
            Ok((id, other)) => {
                let what = format!("the call {:#} did not complete: {other:?}", id.execution_id);
                Err(Failure::new(what).hint(hint))
            }
            Err(error) => Err(Failure::new(format!("a call failed: {error}")).hint(hint)),
        }
    }
}
