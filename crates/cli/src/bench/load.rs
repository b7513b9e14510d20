//! Fills a store with many journals, in large batches. The index of a journal is the seed of its
//! random key, so reads find it again.
#![expect(clippy::disallowed_methods, reason = "it waits for the backend's background work")]

use std::time::Duration;

use indelible_records::JOURNALS;
use indelible_store::{Batch, Scan, Store};

use super::meters::Usage;
use super::random::Random;
use super::steps::{Execution, JOURNAL_ENTRIES, ROW_ENTRIES, put_row};
use super::{SEED_LOAD, note};
use crate::failure::Failure;

/// Half a mebibyte for each batch: enough to keep the disk busy, and far below a store's bounds.
const BATCH_JOURNALS: u64 = 100;
pub(super) const JOURNAL_ROWS: u64 = JOURNAL_ENTRIES / ROW_ENTRIES;

/// A window in which the background work is idle: it takes less than a twentieth of a core.
const QUIET: Duration = Duration::from_millis(250);
const QUIET_WAITS_MAX: usize = 480;
/// The background work is done when it has been idle for this long.
const QUIET_ENOUGH: Duration = Duration::from_secs(4);

/// A store that is full of journals.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadedStore {
    journals: u64,
}

impl LoadedStore {
    /// Writes as many journals as it takes to hold `entries` entries. Roots are random, so journals
    /// are not written in the order of their keys.
    pub(super) fn load(store: &Store, entries: u64) -> Result<Self, Failure> {
        let journals = entries.div_ceil(JOURNAL_ENTRIES).max(1);
        note(&format!("loading {} entries", journals * JOURNAL_ENTRIES));
        let mut last = store.accepted();
        let mut batch = Batch::new();
        for index in 0..journals {
            let mut random = Random::of(SEED_LOAD, index);
            let execution = Execution::random(&mut random);
            for row in 0..JOURNAL_ROWS {
                put_row(&mut batch, &execution, row * ROW_ENTRIES, &mut random);
            }
            if (index + 1) % BATCH_JOURNALS == 0 || index + 1 == journals {
                last = store.submit_blocking(std::mem::take(&mut batch)).map_err(failed)?;
            }
        }
        store.durable(last).wait().map_err(failed)?;
        wait_for_background_work();
        Ok(Self { journals })
    }

    pub(super) fn entries(&self) -> u64 {
        self.journals * JOURNAL_ENTRIES
    }

    /// A random one of the executions.
    pub(super) fn any(&self, random: &mut Random) -> Execution {
        Execution::random(&mut Random::of(SEED_LOAD, random.below(self.journals)))
    }

    /// Reads everything once, so that no measured read is the first.
    pub(super) fn warm_up(&self, store: &Store) -> Result<(), Failure> {
        note("reading everything once");
        let mut rows = 0;
        let mut scan = Scan::all(JOURNALS, store.bounds().scan_rows_max);
        loop {
            let page = store.scan(&scan).map_err(unreadable)?.value;
            rows += page.rows.len() as u64;
            match page.rows.into_iter().next_back() {
                Some((key, _)) if page.more => scan = scan.after(key),
                _ => break,
            }
        }
        check(rows, self.journals * JOURNAL_ROWS)
    }

    /// The same for point reads, which the backend caches apart from scans.
    pub(super) fn warm_up_gets(&self, store: &Store) -> Result<(), Failure> {
        note("reading every row once");
        for journal in 0..self.journals {
            let execution = Execution::random(&mut Random::of(SEED_LOAD, journal));
            for row in 0..JOURNAL_ROWS {
                let key = execution.row_key(row * ROW_ENTRIES);
                let value = store.get(JOURNALS, &key).map_err(unreadable)?.value;
                check(value.iter().count() as u64, 1)?;
            }
        }
        Ok(())
    }
}

/// Waits until the backend has finished flushing and compacting, for two minutes at most.
fn wait_for_background_work() {
    note("waiting for the background work to end");
    // An idle store tidies up after a second or two, so a short pause means nothing.
    let mut quiet = 0;
    for _ in 0..QUIET_WAITS_MAX {
        let before = Usage::now();
        std::thread::sleep(QUIET);
        let is_quiet = Usage::now().since(before).cpu < QUIET / 20;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if QUIET * quiet >= QUIET_ENOUGH {
            return;
        }
    }
    note("background work is still running; measuring anyway");
}

/// Fails if reads found another number of rows than was loaded, because then the measurement is
/// wrong.
pub(super) fn check(rows: u64, expected: u64) -> Result<(), Failure> {
    if rows == expected {
        return Ok(());
    }
    Err(Failure::new(format!("{expected} rows were written, but {rows} were read"))
        .hint("this is a defect of the store; please report it"))
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("cannot read the loaded entries: {error}"))
        .hint("check the disk's health, or choose another with --dir")
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("cannot load the entries: {error}")).hint(
        "check the disk's free space, load fewer with --load, or choose another disk with \
             --dir",
    )
}
