//! Reads, one after the other on one thread: whole journals, and single rows.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::time::{Duration, Instant};

use indelible_records::JOURNALS;
use indelible_store::{Scan, Store};

use super::SEED_READS;
use super::drive::{Stretch, nanos};
use super::load::{JOURNAL_ROWS, LoadedStore, check, unreadable};
use super::meters::Usage;
use super::random::Random;
use super::steps::ROW_ENTRIES;
use crate::failure::Failure;

/// More rows than any journal here has, as a server would ask for.
const SCAN_ROWS_MAX: usize = 100;

/// Scans whole journals of random roots.
pub(super) fn scans(
    store: &Store,
    loaded: &LoadedStore,
    length: Duration,
) -> Result<Stretch, Failure> {
    let mut random = Random::of(SEED_READS, 0);
    timed(length, || {
        let execution = loaded.any(&mut random);
        let key = bytes::Bytes::copy_from_slice(execution.key());
        let scan = Scan::prefix(JOURNALS, key, SCAN_ROWS_MAX);
        let page = store.scan(&scan).map_err(unreadable)?.value;
        check(page.rows.len() as u64, JOURNAL_ROWS)
    })
}

/// Reads random rows.
pub(super) fn gets(
    store: &Store,
    loaded: &LoadedStore,
    length: Duration,
) -> Result<Stretch, Failure> {
    let mut random = Random::of(SEED_READS, 1);
    timed(length, || {
        let key = loaded.any(&mut random).row_key(random.below(JOURNAL_ROWS) * ROW_ENTRIES);
        let value = store.get(JOURNALS, &key).map_err(unreadable)?.value;
        check(value.iter().count() as u64, 1)
    })
}

/// Repeats a read and measures each. One look at the clock ends a read and begins the next, so that
/// its cost is counted once.
fn timed(
    length: Duration,
    mut read: impl FnMut() -> Result<(), Failure>,
) -> Result<Stretch, Failure> {
    let mut stretch = Stretch::default();
    let (usage, start) = (Usage::now(), Instant::now());
    let mut began = start;
    while began < start + length {
        read()?;
        let done = Instant::now();
        stretch.latencies.add(nanos(done - began));
        began = done;
    }
    stretch.seconds = (began - start).as_secs_f64();
    stretch.usage = Usage::now().since(usage);
    Ok(stretch)
}
