//! `indelible bench invoke`, `bench steps` and `bench fanout`: what the engine does in this
//! process, from a call to its durable outcome.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use indelible_runtime::Engine;
use serde::Serialize;

use super::drive::{Producer, Stretch, Windows, drive};
use super::house::{self, Measure, Site};
use super::meters;
use super::report::{latency, micros, round};
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

/// How much is under way, and for how long: all that `invoke` needs to know.
#[derive(Args)]
pub(crate) struct Load {
    /// How many are under way at once
    #[arg(long, value_name = "K", default_value = "64",
        value_parser = value_parser!(u32).range(1..=4096))]
    pub(super) in_flight: u32,
    /// For how long they are begun
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=86_400))]
    pub(super) seconds: u32,
}

#[derive(Args)]
pub(crate) struct StepsArguments {
    /// How many steps each call takes, one after the other
    #[arg(long, value_name = "N", default_value = "100",
        value_parser = value_parser!(u32).range(1..=100_000))]
    pub(super) n: u32,
    #[command(flatten)]
    pub(super) load: Load,
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
    /// For how long calls are begun
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=86_400))]
    seconds: u32,
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
pub(crate) struct Line {
    v: u32,
    workload: &'static str,
    n: u32,
    in_flight: u32,
    pub(super) seconds: f64,
    pub(super) count: u64,
    pub(super) per_s: f64,
    pub(super) p50_us: f64,
    p99_us: f64,
    pub(super) fsyncs: u64,
    pub(super) cpu_s: f64,
    rss_mb: Option<f64>,
}

impl Line {
    /// Of workflows with so many steps each, so many at once.
    pub(super) fn of(
        workload: &'static str,
        (n, in_flight): (u32, u32),
        driven: &Stretch,
        fsyncs: u64,
    ) -> Self {
        let per_mille = |part| micros(driven.latencies.per_mille(part));
        Self {
            v: 1,
            workload,
            n,
            in_flight,
            seconds: round(driven.seconds, 3),
            count: driven.latencies.count(),
            per_s: round(driven.per_s() * f64::from(n), 1),
            p50_us: per_mille(500),
            p99_us: per_mille(990),
            fsyncs,
            cpu_s: round(driven.usage.cpu.as_secs_f64(), 3),
            rss_mb: meters::rss_mb().map(|mb| round(mb, 1)),
        }
    }
}

impl Measure for Load {
    type Line = Line;

    fn measure(&self, site: &Site<'_>) -> Result<(Line, String), Failure> {
        let input = "{\"order\":4711}".to_owned();
        Work { workload: "invoke", function: "echo", input, n: 1, in_flight: self.in_flight }
            .measure(self.seconds, site)
    }
}

impl Measure for StepsArguments {
    type Line = Line;

    fn measure(&self, site: &Site<'_>) -> Result<(Line, String), Failure> {
        Work::of_many("steps", self.n, self.load.in_flight).measure(self.load.seconds, site)
    }
}

impl Measure for FanoutArguments {
    type Line = Line;

    fn measure(&self, site: &Site<'_>) -> Result<(Line, String), Failure> {
        Work::of_many("fanout", self.n, self.workflows).measure(self.seconds, site)
    }
}

impl Work {
    /// A function that makes many calls.
    fn of_many(workload: &'static str, n: u32, in_flight: u32) -> Self {
        Self { workload, function: workload, input: n.to_string(), n, in_flight }
    }

    fn measure(self, seconds: u32, site: &Site<'_>) -> Result<(Line, String), Failure> {
        let engine = site.engine(site.world()?)?;
        let callers = |count| {
            let caller = |_| Caller::new(&engine, self.function, &self.input);
            (0..count).map(caller).collect::<Vec<_>>()
        };
        // The first call loads the component; that is not what is measured.
        let once = Windows { length: Duration::from_millis(1), count: 1 };
        drive(site.runtime, callers(1), once, |_| Ok(()))?;

        let before = engine.readings().store.groups;
        let windows = Windows { length: Duration::from_secs(seconds.into()), count: 1 };
        let driven = drive(site.runtime, callers(self.in_flight), windows, |_| Ok(()))?.all;
        let fsyncs = engine.readings().store.groups - before;
        let line = Line::of(self.workload, (self.n, self.in_flight), &driven, fsyncs);
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
        Ok((line, text))
    }
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
