//! `indelible bench signals`: signals to executions that wait for them.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use indelible_journal::{ExecutionId, Payload, SignalName};
use indelible_runtime::{Asked, Engine, World};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::drive::{Producer, Windows, drive};
use super::hearing::Timing;
use super::house::{self, Measure, Site};
use super::meters;
use super::report::{latency, micros, round};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Executions wait for signals; senders send one after the other, each to executions of its own. Two
times are measured, both from the sending: until the signal is acknowledged, which is when it is
durable, and until its guest has gone on, which may be earlier. What guests do with a signal, and
HTTP, are left out. Executions that were never loaded or have to be replayed are, too: all fit into
memory, unless --executions is larger than what the engine parks.

Examples:
  indelible bench signals
  indelible bench signals --executions 5000 --in-flight 256 --json";

/// How long the last signals may take until their guests have gone on.
const LAST_MAX: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct SignalsArguments {
    /// How many executions wait for signals
    #[arg(long, value_name = "N", default_value = "1000",
        value_parser = value_parser!(u32).range(1..=1_000_000))]
    executions: u32,
    /// How many signals are under way at once; at most as many as there are executions
    #[arg(long, value_name = "K", default_value = "64",
        value_parser = value_parser!(u32).range(1..=4096))]
    in_flight: u32,
    /// For how long signals are sent
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=600))]
    seconds: u32,
}

/// What was measured.
#[derive(Serialize)]
pub(crate) struct Line {
    v: u32,
    workload: &'static str,
    executions: u32,
    in_flight: u32,
    seconds: f64,
    count: u64,
    per_s: f64,
    acknowledged_p50_us: f64,
    acknowledged_p99_us: f64,
    gone_on_p50_us: f64,
    gone_on_p99_us: f64,
    fsyncs: u64,
    cpu_s: f64,
    rss_bytes: Option<u64>,
}

impl Measure for SignalsArguments {
    type Line = Line;

    fn measure(&self, site: &Site<'_>) -> Result<(Line, String), Failure> {
        let SignalsArguments { executions, in_flight, seconds, .. } = *self;
        if in_flight > executions {
            return Err(Failure::new("more signals in flight than executions that wait for them")
                .hint("name at least as many --executions as --in-flight"));
        }
        let runtime = site.runtime;
        let timing = Arc::new(Timing::new(in_flight));
        let world = World { observer: Arc::clone(&timing) as _, ..site.world()? };
        let engine = site.engine(world)?;
        let waiting = listeners(runtime, &engine, executions)?;

        let senders: Vec<_> = (0..in_flight)
            .map(|number| Sender {
                engine: Arc::clone(&engine),
                timing: Arc::clone(&timing),
                name: SignalName::new("go").expect("it is a name"),
                executions: waiting
                    .iter()
                    .skip(number as usize)
                    .step_by(in_flight as usize)
                    .cloned()
                    .collect(),
                number,
                sent: 0,
            })
            .collect();
        let before = engine.readings().store.groups;
        let windows = Windows { length: Duration::from_secs(seconds.into()), count: 1 };
        let driven = drive(runtime, senders, windows, |_| Ok(()))?.all;
        let fsyncs = engine.readings().store.groups - before;
        let count = driven.latencies.count();
        house::until("that all guests go on", LAST_MAX, || timing.heard() >= count)?;
        let gone_on = timing.latencies();
        let line = Line {
            v: 1,
            workload: "signals",
            executions,
            in_flight,
            seconds: round(driven.seconds, 3),
            count,
            per_s: round(driven.per_s(), 1),
            acknowledged_p50_us: micros(driven.latencies.per_mille(500)),
            acknowledged_p99_us: micros(driven.latencies.per_mille(990)),
            gone_on_p50_us: micros(gone_on.per_mille(500)),
            gone_on_p99_us: micros(gone_on.per_mille(990)),
            fsyncs,
            cpu_s: round(driven.usage.cpu.as_secs_f64(), 3),
            rss_bytes: meters::rss_bytes(),
        };
        let text = format!(
            "signals: {:.0} per s to {} executions, {} in flight\n  \
               acknowledged p50 {}, p99 {}; guest gone on p50 {}, p99 {}\n  \
               {} syncs, {:.2} s of cpu in {:.1} s",
            line.per_s,
            line.executions,
            line.in_flight,
            latency(line.acknowledged_p50_us),
            latency(line.acknowledged_p99_us),
            latency(line.gone_on_p50_us),
            latency(line.gone_on_p99_us),
            line.fsyncs,
            line.cpu_s,
            line.seconds,
        );
        Ok((line, text))
    }
}

/// Executions that wait for more signals than they will get.
fn listeners(
    runtime: &Runtime,
    engine: &Arc<Engine>,
    count: u32,
) -> Result<Vec<ExecutionId>, Failure> {
    let engine = Arc::clone(engine);
    house::many(runtime, count.into(), 256, move |_| {
        let engine = Arc::clone(&engine);
        async move { house::begin(&engine, "listen", u32::MAX.to_string()).await }
    })
}

/// Sends one signal after the other, to executions of its own by turns.
struct Sender {
    engine: Arc<Engine>,
    timing: Arc<Timing>,
    name: SignalName,
    executions: Vec<ExecutionId>,
    number: u32,
    sent: u32,
}

impl Producer for Sender {
    type Input = ExecutionId;

    fn prepare(&mut self) -> ExecutionId {
        self.executions[self.sent as usize % self.executions.len()].clone()
    }

    async fn commit(&mut self, execution: ExecutionId) -> Result<(), Failure> {
        let carried = self.timing.sending(self.number, self.sent);
        self.sent = self.sent.wrapping_add(1);
        let payload = Payload::json(carried.to_string());
        let sent = self.engine.signal(&execution, &self.name, payload, Asked::default()).await;
        sent.map(drop).map_err(|error| house::broken(format!("a signal failed: {error}")))
    }
}
