//! Steps for a long time over a store that is already full: whether the rate holds, whether memory
//! and disk stay bounded, and what is left on disk once the queue is empty.
#![expect(clippy::disallowed_methods, reason = "it waits for the engine's background work")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use indelible_records::QUEUE;
use indelible_store::{Batch, Scan, Store};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::drive::{Stretch, Windows, nanos};
use super::load::{LoadedStore, unreadable};
use super::report::{Line, Report, figures, latency, median, mib, micros, round};
use super::{SEED_SUSTAINED, meters, step};
use crate::failure::Failure;

pub(super) const PRODUCERS: u32 = 64;
const WINDOW: Duration = Duration::from_secs(10);
/// The time that the engine has to free the space of an empty queue.
const RECLAIM: Duration = Duration::from_secs(10);

/// The figures of about ten seconds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Window {
    end_s: f64,
    seconds: f64,
    count: u64,
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    rss_mb: Option<f64>,
    disk_bytes: u64,
}

/// What the workload runs on.
pub(super) struct Setting<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) store: &'a Store,
    pub(super) folder: &'a Path,
    pub(super) loaded: LoadedStore,
    pub(super) cache_mib: u64,
}

pub(super) fn run(
    setting: &Setting<'_>,
    length: Duration,
    report: &mut Report<'_, impl Write>,
) -> Result<(), Failure> {
    let Setting { runtime, store, folder, loaded, cache_mib } = setting;
    // Windows of equal length, of about ten seconds each.
    let count = (length.as_secs_f64() / WINDOW.as_secs_f64()).round().max(1.0) as u32;
    let division = Windows { length: length / count, count };
    let mut windows: Vec<Window> = Vec::new();
    report.progress("     s    per s      p50      p99    p99.9      max    MiB  disk MiB")?;
    let ran = step::run(runtime, store, SEED_SUSTAINED, PRODUCERS, division, |stretch| {
        let before = windows.last().map_or(0.0, |window| window.end_s);
        let window = Window::of(stretch, before, disk_bytes(folder)?);
        report.progress(&window.row())?;
        windows.push(window);
        Ok(())
    })?;
    let disk_bytes = disk_bytes(folder)?;
    let queue_rows_deleted = empty_queue(store)?;
    std::thread::sleep(RECLAIM);
    let tables = store.tables().iter();
    let table_bytes: BTreeMap<_, _> =
        tables.map(|table| (table.name(), store.disk_bytes(*table))).collect();
    let (median_per_s, lowest_per_s) = median_and_lowest(&windows);
    let lowest_to_median = round(lowest_per_s / median_per_s, 3);
    let max_us = micros(ran.driven.all.latencies.max());
    let longest_stall_us = micros(nanos(ran.driven.stall));
    let entries = loaded.entries();
    let mut text = format!(
        "  windows: median {median_per_s:.0}, lowest {lowest_per_s:.0}, {lowest_to_median:.2} of \
           the median\n  \
           longest without any commit: {}; slowest commit: {}\n  \
           loaded before: {entries} entries; cache: {cache_mib} MiB\n  \
           on disk: {} MiB; then without the {queue_rows_deleted} rows left in the queue, by table:",
        latency(longest_stall_us),
        latency(max_us),
        mib(disk_bytes),
    );
    for (table, bytes) in table_bytes.iter().filter(|(_, bytes)| **bytes > 0) {
        text.push_str(&format!("\n    {table:24} {bytes:>14} bytes"));
    }
    report.line(&Line {
        producers: Some(PRODUCERS),
        fsyncs: Some(ran.fsyncs),
        bytes_given: Some(ran.bytes_given),
        more: figures! {
            entries, cache_mib, windows, median_per_s, lowest_per_s, lowest_to_median, max_us,
            longest_stall_us, disk_bytes, queue_rows_deleted, table_bytes,
        },
        ..Line::of("sustained", &ran.driven.all)
    })?;
    report.text(&text)
}

impl Window {
    fn of(stretch: &Stretch, before: f64, disk_bytes: u64) -> Self {
        let Stretch { seconds, latencies, .. } = stretch;
        let [p50_us, p99_us, p999_us] = latencies.micros([500, 990, 999]);
        Self {
            end_s: round(before + seconds, 3),
            seconds: round(*seconds, 3),
            count: latencies.count(),
            per_s: round(stretch.per_s(), 1),
            p50_us,
            p99_us,
            p999_us,
            max_us: micros(latencies.max()),
            rss_mb: meters::rss_mb(),
            disk_bytes,
        }
    }

    fn row(&self) -> String {
        let rss = self.rss_mb.map_or_else(|| "-".to_owned(), |mb| format!("{mb:.0}"));
        format!(
            "{:>6.0} {:>8.0} {:>8} {:>8} {:>8} {:>8} {rss:>6} {:>9}",
            self.end_s,
            self.per_s,
            latency(self.p50_us),
            latency(self.p99_us),
            latency(self.p999_us),
            latency(self.max_us),
            mib(self.disk_bytes),
        )
    }
}

fn median_and_lowest(windows: &[Window]) -> (f64, f64) {
    let rates: Vec<f64> = windows.iter().map(|window| window.per_s).collect();
    (median(&rates), rates.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0))
}

fn disk_bytes(folder: &Path) -> Result<u64, Failure> {
    meters::disk_bytes(folder).map_err(|error| {
        Failure::new(format!("cannot measure the size of {}: {error}", folder.display()))
            .hint("do not change the folder while it is measured")
    })
}

/// Deletes every row of the queue; returns how many there were.
fn empty_queue(store: &Store) -> Result<u64, Failure> {
    let mut deleted = 0;
    loop {
        let scan = Scan::all(QUEUE, store.bounds().scan_rows_max);
        let rows = store.scan(&scan).map_err(unreadable)?.value.rows;
        if rows.is_empty() {
            return Ok(deleted);
        }
        let mut batch = Batch::new();
        for (key, _) in rows {
            batch.delete(QUEUE, key);
            deleted += 1;
        }
        let position = store.submit_blocking(batch).map_err(step::failed)?;
        store.durable(position).wait().map_err(step::failed)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median is the middle value, or the mean of the two in the middle.
    #[test]
    fn medians() {
        let windows = |counts: &[u64]| -> Vec<Window> {
            let window = |count: &u64| {
                let mut stretch = Stretch { seconds: 1.0, ..Stretch::default() };
                (0..*count).for_each(|_| stretch.latencies.add(1));
                Window::of(&stretch, 0.0, 0)
            };
            counts.iter().map(window).collect()
        };
        assert_eq!(median_and_lowest(&windows(&[5])), (5.0, 5.0));
        assert_eq!(median_and_lowest(&windows(&[9, 1, 5])), (5.0, 1.0));
        assert_eq!(median_and_lowest(&windows(&[9, 4, 1, 5])), (4.5, 1.0));
    }
}
