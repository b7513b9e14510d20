//! `indelible bench history`: whether calls become slower with what is over and kept.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use indelible_runtime::guest::Guests;
use indelible_runtime::{Engine, World};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::calls::Caller;
use super::drive::{Windows, drive};
use super::house::{self, Measure, Site};
use super::report::round;
use super::{guest, meters, note};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
A store gets N finished executions. Then, by turns, a trivial function is called for --seconds over
that store and over a new and empty one, --rounds times; the rate of each is the median of its
rounds, ratio is the first to the second. Both are in this process, one after the other, each when
the stores have come to rest: compaction between rounds is left out, and so are reading what is
over, lists and retention. The processor time of a call is told too: other programs cannot disturb
it as much.

Examples:
  indelible bench history
  indelible bench history --n 1000000 --seconds 5 --json";

const INPUT: &str = "{\"order\":4711}";

#[derive(Args)]
pub(crate) struct HistoryArguments {
    /// How many finished executions the store has before anything is measured
    #[arg(long, value_name = "N", default_value = "200000",
        value_parser = value_parser!(u64).range(1..=100_000_000))]
    n: u64,
    /// How many calls are under way at once
    #[arg(long, value_name = "K", default_value = "64",
        value_parser = value_parser!(u32).range(1..=4096))]
    in_flight: u32,
    /// How long each measurement takes
    #[arg(long, value_name = "N", default_value = "2",
        value_parser = value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// How often each store is measured
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = value_parser!(u32).range(1..=99))]
    rounds: u32,
}

/// What was measured.
#[derive(Serialize)]
pub(crate) struct Line {
    v: u32,
    workload: &'static str,
    n: u64,
    in_flight: u32,
    seconds: u32,
    rounds: u32,
    /// Of each round.
    fresh_per_s: Vec<f64>,
    full_per_s: Vec<f64>,
    fresh_median_per_s: f64,
    full_median_per_s: f64,
    ratio: f64,
    /// The processor time of a call, the median of the rounds.
    fresh_cpu_us: f64,
    full_cpu_us: f64,
    disk_bytes: Option<u64>,
    rss_bytes: Option<u64>,
}

impl Measure for HistoryArguments {
    type Line = Line;

    fn measure(&self, site: &Site<'_>) -> Result<(Line, String), Failure> {
        let &HistoryArguments { n, in_flight, seconds, rounds, .. } = self;
        let (runtime, place) = (site.runtime, site.place);
        let bench = History {
            runtime,
            guests: house::guests(place.path())?,
            component: guest::component(site.guest)?,
            in_flight,
            length: Duration::from_secs(seconds.into()),
        };
        let folder = place.join("full");
        let full = bench.open(&folder)?;
        note(&format!("calling {n} times"));
        let engine = Arc::clone(&full);
        house::many(runtime, n, 256, move |_| {
            let engine = Arc::clone(&engine);
            async move { house::call(&engine, "echo", INPUT.to_owned()).await.map(drop) }
        })?;
        let (mut fresh_rounds, mut full_rounds) = (Vec::new(), Vec::new());
        for number in 1..=rounds {
            let folder = place.join(&format!("fresh-{number}"));
            let fresh = bench.round(&bench.open(&folder)?)?;
            place.done_with(&folder);
            let full = bench.round(&full)?;
            let (new, old) = (fresh.per_s, full.per_s);
            note(&format!("{number} of {rounds}: {new:.0} per s fresh, {old:.0} after {n}"));
            fresh_rounds.push(fresh);
            full_rounds.push(full);
        }
        let [fresh_per_s, full_per_s] = [&fresh_rounds, &full_rounds]
            .map(|rounds| rounds.iter().map(|round| round.per_s).collect::<Vec<_>>());
        let [fresh_cpu_us, full_cpu_us] = [&fresh_rounds, &full_rounds]
            .map(|rounds| median(&rounds.iter().map(|round| round.cpu_us).collect::<Vec<_>>()));
        let [fresh, full] = [&fresh_per_s, &full_per_s].map(|rates| median(rates));
        let line = Line {
            v: 1,
            workload: "history",
            n,
            in_flight,
            seconds,
            rounds,
            fresh_per_s,
            full_per_s,
            fresh_median_per_s: fresh,
            full_median_per_s: full,
            ratio: round(full / fresh.max(f64::MIN_POSITIVE), 3),
            fresh_cpu_us,
            full_cpu_us,
            disk_bytes: meters::disk_bytes(&folder).ok(),
            rss_bytes: meters::rss_bytes(),
        };
        let text = format!(
            "history: {fresh:.0} per s in a new store, {full:.0} per s after {n} executions, \
             ratio {:.2}\n  {:.0} us of cpu a call, and {:.0} us",
            line.ratio, line.fresh_cpu_us, line.full_cpu_us,
        );
        Ok((line, text))
    }
}

struct History<'a> {
    runtime: &'a Runtime,
    guests: Arc<Guests>,
    component: Vec<u8>,
    in_flight: u32,
    length: Duration,
}

impl History<'_> {
    fn open(&self, folder: &Path) -> Result<Arc<Engine>, Failure> {
        let engine = house::open(folder, World::system(Arc::clone(&self.guests)))?;
        house::deploy(self.runtime, &engine, &self.component)?;
        Ok(Arc::new(engine))
    }

    fn round(&self, engine: &Arc<Engine>) -> Result<Round, Failure> {
        // What one store still has to write out and compact must not slow the other.
        house::come_to_rest();
        let callers: Vec<_> =
            (0..self.in_flight).map(|_| Caller::new(engine, "echo", INPUT)).collect();
        let windows = Windows { length: self.length, count: 1 };
        let driven = drive(self.runtime, callers, windows, |_| Ok(()))?.all;
        let cpu_us = driven.usage.cpu.as_secs_f64() * 1e6 / driven.latencies.count().max(1) as f64;
        Ok(Round { per_s: round(driven.per_s(), 1), cpu_us: round(cpu_us, 1) })
    }
}

/// One measurement of one store.
struct Round {
    per_s: f64,
    cpu_us: f64,
}

/// The one in the middle; of two in the middle, the mean.
fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[middle],
        _ => round(f64::midpoint(sorted[middle - 1], sorted[middle]), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    /// The middle of what was measured, in whatever order it came.
    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }
}
