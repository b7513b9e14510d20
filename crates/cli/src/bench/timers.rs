//! `indelible bench timers`: what pending timers cost, how late a short sleep is beside them, and
//! how long it takes when all become due at once.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use indelible_runtime::{Engine, World};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::drive::nanos;
use super::hearing::Counting;
use super::histogram::Histogram;
use super::house::{self, Measure, MovedClock, Site};
use super::meters;
use super::report::{latency, mib, micros, round};
use super::{guest, note};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
First an engine that has nothing to do: its memory, and its processor time over --seconds. Then N
executions sleep for an hour: the same two, when the store has come to rest. Then, beside them,
executions that sleep for 10 ms, one after the other: by the guest's own clock, and the whole call
until its outcome is durable. Last, the engine's clock is moved past the hour: how long until all N
have gone on, and until all are over and durable. Sleeps of many at once at a high rate are left
out, and so is what guests do when they are awake.

Examples:
  indelible bench timers
  indelible bench timers --n 10000 --seconds 2 --json";

/// How long they sleep.
const LONG: Duration = Duration::from_secs(3_600);
/// So much later, at most, the engine notices that the clock was moved.
const NOTICE: Duration = Duration::from_millis(50);
/// A short sleep.
const SHORT: Duration = Duration::from_millis(10);
/// How long all of them may take to go on, and to end.
const DUE_MAX: Duration = Duration::from_secs(1_800);

#[derive(Args)]
pub(crate) struct TimersArguments {
    /// How many executions sleep
    #[arg(long, value_name = "N", default_value = "100000",
        value_parser = value_parser!(u64).range(1..=10_000_000))]
    n: u64,
    /// For how long the processor time of waiting is measured, twice
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// How many short sleeps are measured
    #[arg(long, value_name = "N", default_value = "300",
        value_parser = value_parser!(u32).range(1..=100_000))]
    sleeps: u32,
}

/// What was measured.
#[derive(Serialize)]
pub(crate) struct Line {
    v: u32,
    workload: &'static str,
    n: u64,
    idle_rss_bytes: Option<u64>,
    idle_cpu_s: f64,
    started_per_s: f64,
    waiting_s: f64,
    waiting_rss_bytes: Option<u64>,
    waiting_cpu_s: f64,
    parked: usize,
    evicted: u64,
    sleeps: u32,
    sleep_min_us: f64,
    sleep_p50_us: f64,
    sleep_p99_us: f64,
    call_p50_us: f64,
    call_p99_us: f64,
    gone_on_s: f64,
    ended_s: f64,
    rss_bytes: Option<u64>,
}

impl Measure for TimersArguments {
    type Line = Line;

    fn measure(&self, site: &Site<'_>) -> Result<(Line, String), Failure> {
        let &TimersArguments { n, seconds, sleeps, .. } = self;
        let (runtime, component) = (site.runtime, guest::component(site.guest)?);
        let stretch = Duration::from_secs(seconds.into());
        let (clock, counting) = (Arc::new(MovedClock::default()), Arc::new(Counting::default()));
        let world = World {
            clock: Arc::clone(&clock) as _,
            observer: Arc::clone(&counting) as _,
            ..site.world()?
        };
        let engine = Arc::new(house::open(site.place.path(), world)?);
        let idle_cpu = house::used_in(stretch);
        let idle_rss_bytes = meters::rss_bytes();

        house::deploy(runtime, &engine, &component)?;
        let starting = Instant::now();
        sleepers(runtime, &engine, n)?;
        let started_per_s = n as f64 / starting.elapsed().as_secs_f64();
        note(&format!("{n} sleep; waiting until the store has come to rest"));
        house::come_to_rest();
        let waiting_cpu = house::used_in(stretch);
        let waiting_rss_bytes = meters::rss_bytes();
        let readings = engine.readings();

        let short = short_sleeps(runtime, &engine, sleeps)?;
        let due = all_due(runtime, &engine, &clock, &counting, n)?;
        let line = Line {
            v: 1,
            workload: "timers",
            n,
            idle_rss_bytes,
            idle_cpu_s: round(idle_cpu.as_secs_f64(), 4),
            started_per_s: round(started_per_s, 1),
            waiting_s: stretch.as_secs_f64(),
            waiting_rss_bytes,
            waiting_cpu_s: round(waiting_cpu.as_secs_f64(), 4),
            parked: readings.parked,
            evicted: readings.evicted,
            sleeps,
            sleep_min_us: micros(short.least),
            sleep_p50_us: micros(short.slept.per_mille(500)),
            sleep_p99_us: micros(short.slept.per_mille(990)),
            call_p50_us: micros(short.calls.per_mille(500)),
            call_p99_us: micros(short.calls.per_mille(990)),
            gone_on_s: round(due.gone_on.as_secs_f64(), 3),
            ended_s: round(due.ended.as_secs_f64(), 3),
            rss_bytes: meters::rss_bytes(),
        };
        let text = text(&line);
        Ok((line, text))
    }
}

fn text(line: &Line) -> String {
    let memory = |bytes: Option<u64>| bytes.map_or("?".to_owned(), |bytes| mib(bytes).to_string());
    format!(
        "timers: idle {} MiB, {:.3} s of cpu in {:.0} s\n  \
           {} sleep ({:.0} started per s, {} parked, {} dropped): {} MiB, {:.3} s of cpu in {:.0} s\n  \
           a sleep of 10 ms: min {}, p50 {}, p99 {}; the whole call p50 {}, p99 {}\n  \
           all due at once: gone on after {:.2} s, over and durable after {:.2} s",
        memory(line.idle_rss_bytes),
        line.idle_cpu_s,
        line.waiting_s,
        line.n,
        line.started_per_s,
        line.parked,
        line.evicted,
        memory(line.waiting_rss_bytes),
        line.waiting_cpu_s,
        line.waiting_s,
        latency(line.sleep_min_us),
        latency(line.sleep_p50_us),
        latency(line.sleep_p99_us),
        latency(line.call_p50_us),
        latency(line.call_p99_us),
        line.gone_on_s,
        line.ended_s,
    )
}

/// Starts executions that sleep for long.
fn sleepers(runtime: &Runtime, engine: &Arc<Engine>, n: u64) -> Result<(), Failure> {
    let engine = Arc::clone(engine);
    house::many(runtime, n, 256, move |_| {
        let engine = Arc::clone(&engine);
        async move { house::begin(&engine, "doze", LONG.as_micros().to_string()).await.map(drop) }
    })
    .map(drop)
}

/// Short sleeps.
struct Short {
    least: u64,
    slept: Histogram,
    calls: Histogram,
}

/// Sleeps for a short time, again and again.
fn short_sleeps(runtime: &Runtime, engine: &Engine, count: u32) -> Result<Short, Failure> {
    let mut short =
        Short { least: u64::MAX, slept: Histogram::default(), calls: Histogram::default() };
    for _ in 0..count {
        let start = Instant::now();
        let input = SHORT.as_micros().to_string();
        let payload = runtime.block_on(house::call(engine, "nap", input))?;
        short.calls.add(nanos(start.elapsed()));
        let slept: u64 = serde_json::from_slice(&payload.bytes)
            .map_err(|error| house::broken(format!("nap returned no number: {error}")))?;
        let slept = slept.saturating_mul(1_000);
        short.least = short.least.min(slept);
        short.slept.add(slept);
    }
    Ok(short)
}

/// All timers at once.
struct Due {
    gone_on: Duration,
    ended: Duration,
}

/// Moves the clock, and waits until all have gone on and ended.
fn all_due(
    runtime: &Runtime,
    engine: &Engine,
    clock: &MovedClock,
    counting: &Counting,
    n: u64,
) -> Result<Due, Failure> {
    // Whoever waits for the next timer looks at the clock when this one is due, and finds it moved.
    runtime.block_on(house::begin(engine, "nap", NOTICE.as_micros().to_string()))?;
    let start = Instant::now();
    clock.move_on(LONG);
    house::until("that all go on", DUE_MAX, || counting.count() >= n)?;
    let gone_on = start.elapsed();
    house::until("that all end", DUE_MAX, || engine.readings().trees == 0)?;
    house::settle(engine)?;
    Ok(Due { gone_on, ended: start.elapsed() })
}
