//! `indelible bench signals`: signals to executions that wait for them.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use indelible_journal::{ExecutionId, Payload, SignalName};
use indelible_runtime::{Attribution, Engine, World};

use super::drive::Producer;
use super::hearing::Timing;
use super::house::{self, Measure, Site};
use super::meters;
use super::report::{Measurement, figures, latency, round};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Sends signals to executions that wait for them. Each sender has its own executions and sends them
one signal after the other. Two times are measured, both from the sending: until the signal is
acknowledged, which is when it is durable, and until its guest has resumed, which may be earlier.
HTTP and the guests' work on a signal are not measured. Nor are loading and replay: all executions
stay in memory, unless --executions is more than the engine parks.

Examples:
  indelible bench signals
  indelible bench signals --executions 5000 --in-flight 256 --json";

/// How long to wait for the last signals to resume their guests.
const RESUME_MAX: Duration = Duration::from_secs(60);

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

impl Measure for SignalsArguments {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
        let SignalsArguments { executions, in_flight, seconds, .. } = *self;
        if in_flight > executions {
            return Err(Failure::new(format!(
                "--in-flight {in_flight} is more than --executions {executions}: each sender needs \
                 an execution of its own"
            ))
            .hint("give at least as many --executions as --in-flight"));
        }
        let timing = Arc::new(Timing::new(in_flight));
        let world = World { observer: Arc::clone(&timing) as _, ..site.world()? };
        let engine = site.engine(world)?;
        // Each execution waits for more signals than it will get, so it never ends.
        let waiting = house::many(site.runtime, &engine, executions.into(), |engine| async move {
            house::begin(&engine, "listen", u32::MAX.to_string()).await
        })?;

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
        let (driven, fsyncs) = site.drive(&engine, senders, seconds)?;
        let count = driven.latencies.count();
        house::until("all guests to resume", RESUME_MAX, || timing.heard() >= count)?;
        let [acknowledged_p50_us, acknowledged_p99_us] = driven.latencies.micros([500, 990]);
        let [gone_on_p50_us, gone_on_p99_us] = timing.latencies().micros([500, 990]);
        let (seconds, per_s) = (round(driven.seconds, 3), round(driven.per_s(), 1));
        let (cpu_s, rss_bytes) = (driven.cpu_s(), meters::rss_bytes());
        let text = format!(
            "signals: {per_s:.0} per s to {executions} executions, {in_flight} in flight\n  \
               acknowledged p50 {}, p99 {}; guest resumed p50 {}, p99 {}\n  \
               {fsyncs} syncs, {cpu_s:.2} s of cpu in {seconds:.1} s",
            latency(acknowledged_p50_us),
            latency(acknowledged_p99_us),
            latency(gone_on_p50_us),
            latency(gone_on_p99_us),
        );
        let figures = figures! {
            executions, in_flight, seconds, count, per_s, acknowledged_p50_us, acknowledged_p99_us,
            gone_on_p50_us, gone_on_p99_us, fsyncs, cpu_s, rss_bytes,
        };
        Ok(Measurement::new("signals", figures, text))
    }
}

/// Sends one signal after the other, to its own executions in turn.
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
        let sent =
            self.engine.signal(&execution, &self.name, payload, Attribution::default()).await;
        sent.map(drop).map_err(|error| house::broken(format!("a signal failed: {error}")))
    }
}
