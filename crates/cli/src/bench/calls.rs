//! `indelible bench invoke`, `bench steps` and `bench fanout`: calls of an engine in this process,
//! each until its outcome is durable.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use indelible_runtime::Engine;

use super::drive::{Producer, Stretch, drive_for};
use super::house::{self, Measure, Site};
use super::meters;
use super::report::{Figures, Measurement, figures, latency, round};
use crate::failure::Failure;

pub(super) const INVOKE_HELP: &str = "\
Calls a function that returns its input, again and again, in this process and without HTTP. Each
call is an execution with its own journal. Its latency is the time from the call until its outcome
is durable.

Examples:
  indelible bench invoke
  indelible bench invoke --in-flight 256 --seconds 20 --json";

pub(super) const STEPS_HELP: &str = "\
Calls a function that makes N calls, one after the other. Each of these calls is an execution with
its own journal. `per s` counts these calls; the latencies are of the outer call.

Examples:
  indelible bench steps
  indelible bench steps --n 5000 --in-flight 1 --json";

pub(super) const FANOUT_HELP: &str = "\
Calls a function that makes N calls at once and takes all of their results. Each of these calls is
an execution with its own journal. `per s` counts these calls; the latencies are of the outer call,
until its outcome is durable. The inner calls do no work of their own.

Examples:
  indelible bench fanout
  indelible bench fanout --n 10000 --workflows 1 --json";

/// How many calls are under way at once, and for how long: the arguments of `invoke`.
#[derive(Args)]
pub(crate) struct Load {
    /// How many are under way at once
    #[arg(long, value_name = "K", default_value = "64",
        value_parser = value_parser!(u32).range(1..=4096))]
    pub(super) in_flight: u32,
    /// For how long new calls are made
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
    /// For how long new calls are made
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=86_400))]
    seconds: u32,
}

/// Which function to call, and how its calls are counted.
struct Work {
    workload: &'static str,
    function: &'static str,
    input: String,
    n: u32,
    in_flight: u32,
}

/// The figures of workflows with `n` steps each, `in_flight` of them at once.
pub(super) fn call_figures((n, in_flight): (u32, u32), driven: &Stretch, fsyncs: u64) -> Figures {
    let (seconds, count) = (round(driven.seconds, 3), driven.latencies.count());
    let per_s = round(driven.per_s() * f64::from(n), 1);
    let [p50_us, p99_us] = driven.latencies.micros([500, 990]);
    let (cpu_s, rss_mb) = (driven.cpu_s(), meters::rss_mb());
    figures! { n, in_flight, seconds, count, per_s, p50_us, p99_us, fsyncs, cpu_s, rss_mb }
}

impl Measure for Load {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
        let input = "{\"order\":4711}".to_owned();
        Work { workload: "invoke", function: "echo", input, n: 1, in_flight: self.in_flight }
            .measure(self.seconds, site)
    }
}

impl Measure for StepsArguments {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
        Work::of_many("steps", self.n, self.load.in_flight).measure(self.load.seconds, site)
    }
}

impl Measure for FanoutArguments {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
        Work::of_many("fanout", self.n, self.workflows).measure(self.seconds, site)
    }
}

impl Work {
    /// A function that makes `n` calls.
    fn of_many(workload: &'static str, n: u32, in_flight: u32) -> Self {
        Self { workload, function: workload, input: n.to_string(), n, in_flight }
    }

    fn measure(self, seconds: u32, site: &Site<'_>) -> Result<Measurement, Failure> {
        let Self { workload, function, input, n, in_flight } = self;
        let engine = site.engine(site.world()?)?;
        let callers = |count| Caller::many(&engine, function, &input, count);
        // The first call loads the component, which is not measured.
        drive_for(site.runtime, callers(1), Duration::from_millis(1))?;

        let (driven, fsyncs) = site.drive(&engine, callers(in_flight), seconds)?;
        let [p50, p99] = driven.latencies.micros([500, 990]).map(latency);
        let text = format!(
            "{workload}: {:.0} per s, {in_flight} in flight, p50 {p50}, p99 {p99}, {fsyncs} syncs, \
             {:.2} s of cpu in {:.1} s",
            driven.per_s() * f64::from(n),
            driven.cpu_s(),
            driven.seconds,
        );
        Ok(Measurement::new(workload, call_figures((n, in_flight), &driven, fsyncs), text))
    }
}

/// Calls a function again and again.
pub(super) struct Caller {
    engine: Arc<Engine>,
    function: &'static str,
    input: String,
}

impl Caller {
    /// Callers of the same function.
    pub(super) fn many(
        engine: &Arc<Engine>,
        function: &'static str,
        input: &str,
        count: u32,
    ) -> Vec<Self> {
        let caller = |_| Self { engine: Arc::clone(engine), function, input: input.to_owned() };
        (0..count).map(caller).collect()
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
