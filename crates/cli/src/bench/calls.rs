//! `indelible bench invoke`, `bench steps` and `bench fanout`: what the engine does in this
//! process, from a call to its durable outcome.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use indelible_runtime::{Engine, World};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::drive::{Producer, Windows, drive};
use super::house::{self, Where};
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

pub(super) const FANOUT_HELP: &str = "\
A function calls another N times at once and takes all results; each of these calls is an execution
with its own journal. `per s` counts them; latencies are those of the whole, from the call until its
outcome is durable. The calls do nothing: what they would do is left out.

Examples:
  indelible bench fanout
  indelible bench fanout --n 10000 --workflows 1 --json";

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
pub(crate) struct FanoutArguments {
    /// How many calls each workflow makes at once
    #[arg(long, value_name = "N", default_value = "1000",
        value_parser = value_parser!(u32).range(1..=100_000))]
    n: u32,
    /// How many workflows are under way at once
    #[arg(long, value_name = "K", default_value = "4",
        value_parser = value_parser!(u32).range(1..=4096))]
    workflows: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub(crate) struct Common {
    /// For how long calls are begun
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    #[command(flatten)]
    place: Where,
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

pub(super) fn fanout(
    arguments: &FanoutArguments,
    runtime: &Runtime,
    place: &Arc<Place>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let work = Work {
        workload: "fanout",
        function: "fanout",
        input: arguments.n.to_string(),
        n: arguments.n,
        in_flight: arguments.workflows,
    };
    measure(&work, &arguments.common, runtime, place, out)
}

impl InvokeArguments {
    pub(super) fn place(&self) -> &Where {
        &self.common.place
    }
}

impl StepsArguments {
    pub(super) fn place(&self) -> &Where {
        &self.common.place
    }
}

impl FanoutArguments {
    pub(super) fn place(&self) -> &Where {
        &self.common.place
    }
}

fn measure(
    work: &Work,
    common: &Common,
    runtime: &Runtime,
    place: &Arc<Place>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let component = guest::component(common.place.guest.as_deref())?;
    let world = World::system(house::guests(place.path())?);
    let engine = Arc::new(house::open(place.path(), world)?);
    house::deploy(runtime, &engine, &component)?;
    let callers = |count| {
        let caller = |_| Caller::new(&engine, work.function, &work.input);
        (0..count).map(caller).collect::<Vec<_>>()
    };
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
    Report::new(out, common.place.json).object(&line, &text)
}

/// Calls a function again and again.
pub(super) struct Caller {
    engine: Arc<Engine>,
    function: &'static str,
    input: String,
}

impl Caller {
    pub(super) fn new(engine: &Arc<Engine>, function: &'static str, input: &str) -> Self {
        Self { engine: Arc::clone(engine), function, input: input.to_owned() }
    }
}

impl Producer for Caller {
    type Input = String;

    fn prepare(&mut self) -> String {
        self.input.clone()
    }

    async fn commit(&mut self, input: String) -> Result<(), Failure> {
        house::call(&self.engine, self.function, input).await.map(drop)
    }
}
