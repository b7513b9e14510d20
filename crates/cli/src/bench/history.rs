//! `indelible bench history`: whether finished executions in the store slow calls down.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, value_parser};
use indelible_runtime::guest::Guests;
use indelible_runtime::{Engine, World};
use tokio::runtime::Runtime;

use super::calls::Caller;
use super::drive::drive_for;
use super::house::{self, Measure, Site};
use super::report::{Measurement, figures, median, round};
use super::{guest, meters, note};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Fills a store with N finished executions. Then calls a trivial function for --seconds with that
store, and for --seconds with a new one, in turn, --rounds times. The rate of a store is the median
of its rounds; `ratio` is the rate of the full store divided by that of the new one. A round begins
when the stores are at rest, so compaction between rounds is not measured. Reads of finished
executions, lists and retention are not measured either. The processor time of a call is reported as
well, because other programs disturb it less.

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

impl Measure for HistoryArguments {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
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
        note(&format!("filling a store: calling {n} times"));
        house::many(runtime, &full, n, |engine| async move {
            house::call(&engine, "echo", INPUT.to_owned()).await.map(drop)
        })?;
        let (mut fresh_rounds, mut full_rounds) = (Vec::new(), Vec::new());
        for number in 1..=rounds {
            let folder = place.join(&format!("fresh-{number}"));
            let fresh = bench.round(&bench.open(&folder)?)?;
            place.done_with(&folder);
            let full = bench.round(&full)?;
            let (new, old) = (fresh.per_s, full.per_s);
            note(&format!(
                "round {number} of {rounds}: {new:.0} per s in a new store, {old:.0} in the full one"
            ));
            fresh_rounds.push(fresh);
            full_rounds.push(full);
        }
        let [fresh_per_s, full_per_s] = [&fresh_rounds, &full_rounds]
            .map(|rounds| rounds.iter().map(|round| round.per_s).collect::<Vec<_>>());
        let [fresh_cpu_us, full_cpu_us] = [&fresh_rounds, &full_rounds]
            .map(|rounds| median(&rounds.iter().map(|round| round.cpu_us).collect::<Vec<_>>()));
        let [fresh_median_per_s, full_median_per_s] =
            [&fresh_per_s, &full_per_s].map(|rates| median(rates));
        let ratio = round(full_median_per_s / fresh_median_per_s.max(f64::MIN_POSITIVE), 3);
        let (disk_bytes, rss_bytes) = (meters::disk_bytes(&folder).ok(), meters::rss_bytes());
        let text = format!(
            "history: {fresh_median_per_s:.0} per s in a new store, {full_median_per_s:.0} per s \
             after {n} executions, ratio {ratio:.2}\n  \
             {fresh_cpu_us:.0} us of cpu a call in the new store, {full_cpu_us:.0} us in the full one",
        );
        let figures = figures! {
            n, in_flight, seconds, rounds, fresh_per_s, full_per_s, fresh_median_per_s,
            full_median_per_s, ratio, fresh_cpu_us, full_cpu_us, disk_bytes, rss_bytes,
        };
        Ok(Measurement::new("history", figures, text))
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
        // One store must not flush and compact while the other is measured.
        house::come_to_rest();
        let callers = Caller::many(engine, "echo", INPUT, self.in_flight);
        let driven = drive_for(self.runtime, callers, self.length)?;
        let cpu_us = driven.usage.cpu.as_secs_f64() * 1e6 / driven.latencies.count().max(1) as f64;
        Ok(Round { per_s: round(driven.per_s(), 1), cpu_us: round(cpu_us, 1) })
    }
}

/// One measurement of one store.
struct Round {
    per_s: f64,
    cpu_us: f64,
}

#[cfg(test)]
mod tests {
    use super::median;

    /// The median does not depend on the order of the measurements.
    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }
}
