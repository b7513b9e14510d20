//! Which seeds are run, several at once, and what is said of one that failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::{Kit, Report, simulate};

/// The first seed, unless the command line names another.
pub const FIRST: u64 = 0x1de1_1b1e;

/// Seeds that once found something: every test runs them.
pub fn kept() -> Vec<u64> {
    let lines = include_str!("../seeds.txt").lines();
    let seeds = lines.map(|line| line.split('#').next().unwrap_or_default().trim());
    seeds.filter(|seed| !seed.is_empty()).filter_map(parse).collect()
}

/// A seed as people write it: hexadecimal with `0x`, or decimal.
pub fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Runs seeds on so many threads, each simulation on one of them. Stops when one fails; if several
/// under way fail, returns the one that is first in `seeds`. `told` is called after each seed with
/// the number of seeds run so far.
pub fn run(
    kit: &Kit,
    seeds: &[u64],
    threads: usize,
    told: &(dyn Fn(u64) + Sync),
) -> Option<Report> {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let failed: Mutex<Vec<(u64, Report)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let place = next.fetch_add(1, Ordering::SeqCst);
                    let Some(seed) = seeds.get(place as usize) else { return };
                    let report = simulate(kit, *seed);
                    told(done.fetch_add(1, Ordering::SeqCst) + 1);
                    if report.wrong.is_some() {
                        stop.store(true, Ordering::SeqCst);
                        let mut failed =
                            failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        failed.push((place, report));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failed.sort_by_key(|(place, _)| *place);
    failed.into_iter().next().map(|(_, report)| report)
}

impl Report {
    /// What went wrong, and how to see it again.
    pub fn explain(&self) -> String {
        let Self { seed, wrong, .. } = self;
        let Some(wrong) = wrong else { return format!("seed {seed:#x}: nothing is wrong") };
        format!("seed {seed:#x}: {wrong}\nhint: `cargo xtask sim --seed {seed:#x}` repeats it")
    }
}
