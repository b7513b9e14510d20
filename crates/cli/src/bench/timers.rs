//! `indelible bench timers`: what pending timers cost, how late a short sleep is beside them, and
//! how long it takes when all become due at once.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};
use indelible_runtime::{Engine, Readings, World};
use tokio::runtime::Runtime;

use super::drive::nanos;
use super::hearing::LineCounter;
use super::histogram::Histogram;
use super::house::{self, Measure, MovedClock, Site};
use super::meters;
use super::report::{Measurement, figures, latency, memory, micros, round, seconds};
use super::{guest, note};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Measures four things. First, the memory and the processor time, over --seconds, of an engine that
has nothing to do. Second, the same while N executions sleep for an hour and the store is at rest.
Third, next to those, executions that sleep for 10 ms, one after the other: the sleep by the guest's
clock, and the whole call until its outcome is durable. Last, the engine's clock is moved past the
hour: the time until all N have resumed, and until all have ended and are durable. High rates of
short sleeps are not measured, nor is the work of guests that are awake.

Examples:
  indelible bench timers
  indelible bench timers --n 10000 --seconds 2 --json";

/// How long the pending timers sleep.
const LONG: Duration = Duration::from_secs(3_600);
/// The engine notices at the latest after this time that the clock was moved.
const NOTICE: Duration = Duration::from_millis(50);
const SHORT: Duration = Duration::from_millis(10);
/// The longest time for all sleepers to resume, and to end.
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

impl Measure for TimersArguments {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
        let &TimersArguments { n, seconds: each, sleeps } = self;
        let (runtime, component) = (site.runtime, guest::component(site.guest)?);
        let stretch = Duration::from_secs(each.into());
        let (clock, counting) = (Arc::new(MovedClock::default()), Arc::new(LineCounter::default()));
        let world = World {
            clock: Arc::clone(&clock) as _,
            observer: Arc::clone(&counting) as _,
            ..site.world()?
        };
        let engine = Arc::new(house::open(site.place.path(), world)?);
        let idle_cpu_s = cpu_s(stretch);
        let idle_rss_bytes = meters::rss_bytes();

        house::deploy(runtime, &engine, &component)?;
        let starting = Instant::now();
        house::many(runtime, &engine, n, |engine| async move {
            house::begin(&engine, "doze", LONG.as_micros().to_string()).await.map(drop)
        })?;
        let started_per_s = round(n as f64 / starting.elapsed().as_secs_f64(), 1);
        note(&format!("{n} executions sleep; waiting until the store is at rest"));
        house::come_to_rest();
        let (waiting_s, waiting_cpu_s) = (stretch.as_secs_f64(), cpu_s(stretch));
        let waiting_rss_bytes = meters::rss_bytes();
        let Readings { parked, evicted, .. } = engine.readings();

        let short = short_sleeps(runtime, &engine, sleeps)?;
        let sleep_min_us = micros(short.least);
        let [sleep_p50_us, sleep_p99_us] = short.slept.micros([500, 990]);
        let [call_p50_us, call_p99_us] = short.calls.micros([500, 990]);
        let [gone_on_s, ended_s] = all_due(runtime, &engine, &clock, &counting, n)?.map(seconds);
        let rss_bytes = meters::rss_bytes();
        let text = format!(
            "timers: idle {} MiB, {idle_cpu_s:.3} s of cpu in {waiting_s:.0} s\n  \
               {n} sleep ({started_per_s:.0} started per s, {parked} parked, {evicted} evicted): \
               {} MiB, {waiting_cpu_s:.3} s of cpu in {waiting_s:.0} s\n  \
               a sleep of 10 ms: min {}, p50 {}, p99 {}; the whole call p50 {}, p99 {}\n  \
               all due at once: resumed after {gone_on_s:.2} s, ended and durable after {ended_s:.2} s",
            memory(idle_rss_bytes),
            memory(waiting_rss_bytes),
            latency(sleep_min_us),
            latency(sleep_p50_us),
            latency(sleep_p99_us),
            latency(call_p50_us),
            latency(call_p99_us),
        );
        let figures = figures! {
            n, idle_rss_bytes, idle_cpu_s, started_per_s, waiting_s, waiting_rss_bytes,
            waiting_cpu_s, parked, evicted, sleeps, sleep_min_us, sleep_p50_us, sleep_p99_us,
            call_p50_us, call_p99_us, gone_on_s, ended_s, rss_bytes,
        };
        Ok(Measurement::new("timers", figures, text))
    }
}

/// The processor time that this idle process uses in a stretch of time, in seconds.
fn cpu_s(stretch: Duration) -> f64 {
    round(house::used_in(stretch).as_secs_f64(), 4)
}

/// The latencies of short sleeps.
#[derive(Default)]
struct Short {
    least: u64,
    slept: Histogram,
    calls: Histogram,
}

/// Sleeps for a short time, again and again.
fn short_sleeps(runtime: &Runtime, engine: &Engine, count: u32) -> Result<Short, Failure> {
    let mut short = Short { least: u64::MAX, ..Short::default() };
    for _ in 0..count {
        let start = Instant::now();
        let input = SHORT.as_micros().to_string();
        let payload = runtime.block_on(house::call(engine, "nap", input))?;
        short.calls.add(nanos(start.elapsed()));
        let slept: u64 = serde_json::from_slice(&payload.bytes).map_err(|error| {
            house::broken(format!(
                "the function `nap` did not return a number: \
                 {error}"
            ))
        })?;
        let slept = slept.saturating_mul(1_000);
        short.least = short.least.min(slept);
        short.slept.add(slept);
    }
    Ok(short)
}

/// Moves the clock; returns how long it takes until all sleepers have resumed, and have ended.
fn all_due(
    runtime: &Runtime,
    engine: &Engine,
    clock: &MovedClock,
    counting: &LineCounter,
    n: u64,
) -> Result<[Duration; 2], Failure> {
    // The engine looks at the clock when its next timer is due. This short timer makes it look
    // soon, and find the clock moved.
    runtime.block_on(house::begin(engine, "nap", NOTICE.as_micros().to_string()))?;
    let start = Instant::now();
    clock.move_on(LONG);
    house::until("all executions to resume", DUE_MAX, || counting.count() >= n)?;
    let gone_on = start.elapsed();
    house::until("all executions to end", DUE_MAX, || engine.readings().trees == 0)?;
    house::settle(engine)?;
    Ok([gone_on, start.elapsed()])
}
