//! Deletes what is past its time, while an engine runs: finished trees, and the records of
//! operations and keys whose window has passed (C-3).
//!
//! The record of an operation outlives its tree: the batch that deletes the tree writes the outcome
//! into the record, so a repeated request is told the first one's outcome (V-31). Memory is not
//! touched: finished trees are in the store alone.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indelible_execution::operation::Change;
use indelible_journal::{Event, JournalKey, Micros, Timestamp, json};
use indelible_records::executions::Execution;
use indelible_records::journals;
use indelible_records::operations::Operation;
use indelible_records::retention::{Background, Keeper, Plan, Retention, SweepReport, submit};
use indelible_records::windows::{self, Id, PurgeReport, WindowedRecord};
use indelible_slots::Slot;
use indelible_store::{Batch, Position, ReadError, Snapshot, Store, SubmitError};

use crate::options::Ownership;
use crate::retention_clock::{JUMP_MAX, RetentionTime};
use crate::shared::{Shared, lock};
use crate::trouble;

/// The shortest and the longest time between two sweeps.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// A tree stays longer than its window by at most this part of it, within those bounds.
const INTERVAL_PART: u64 = 10;

/// How much longer than its window the record of an operation or a key stays: as long as the
/// retention clock may be ahead of the time because it believed a jump of the wall clock. So no
/// record goes before its window is over (C-3).
const RECORDS_LATER: Micros = JUMP_MAX;

/// At most so many trees that cannot be swept are reported, each once.
const TOLD_MAX: usize = 1_000;

/// The time between two sweeps.
pub fn interval(retention: &Retention) -> Duration {
    let shortest = retention.shortest().map_or(u64::MAX, Micros::get);
    Duration::from_micros(shortest / INTERVAL_PART).clamp(INTERVAL_MIN, INTERVAL_MAX)
}

#[derive(Debug, Default)]
pub(crate) struct SweepCounts {
    trees: AtomicU64,
    rows: AtomicU64,
    records: AtomicU64,
}

/// What retention has deleted since the engine was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GoneReadings {
    /// Finished trees.
    pub trees: u64,
    /// Their rows.
    pub rows: u64,
    /// Records of operations and keys.
    pub records: u64,
}

impl SweepCounts {
    fn add(&self, swept: &SweepReport, purged: &PurgeReport) {
        let add = |counter: &AtomicU64, by: usize| counter.fetch_add(by as u64, Ordering::Relaxed);
        add(&self.trees, swept.trees);
        add(&self.rows, swept.rows);
        add(&self.records, purged.records);
    }

    pub(crate) fn readings(&self) -> GoneReadings {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GoneReadings {
            trees: read(&self.trees),
            rows: read(&self.rows),
            records: read(&self.records),
        }
    }
}

/// Starts to delete what is past its time.
pub(crate) fn start(shared: &Arc<Shared>, retention: Retention) -> std::io::Result<Background> {
    let plan = Plan {
        retention,
        interval: interval(&retention),
        records_later: RECORDS_LATER,
        apart: shared.options.ownership == Ownership::Apart,
    };
    let keeper =
        Outcomes { shared: Arc::clone(shared), told: Mutex::default(), off: AtomicBool::default() };
    Background::start(&shared.store, plan, keeper)
}

/// Keeps the outcomes of deleted trees, and reports problems.
struct Outcomes {
    shared: Arc<Shared>,
    /// Problems that were reported: without this, each round would report them again.
    told: Mutex<HashSet<(&'static str, String)>>,
    /// The two clocks differ, and that was reported.
    off: AtomicBool,
}

/// Reports that the clocks differ.
fn tell_off(shared: &Shared, RetentionTime { time, wall, .. }: &RetentionTime) {
    let hint = "if the wall clock is right, run `indelible retention confirm`";
    if wall > time {
        trouble!(
            shared,
            warn,
            wall_clock = wall,
            retention_clock = time,
            hint = hint,
            "wall clock is ahead of the retention clock: it was set forward, or no server ran for \
             a long time; deletions are delayed by the difference"
        );
    } else {
        trouble!(
            shared,
            warn,
            wall_clock = wall,
            retention_clock = time,
            hint = hint,
            "wall clock is behind the retention clock: it was set back; nothing is deleted until \
             it has caught up"
        );
    }
}

impl Outcomes {
    /// Reports, once, why something is not deleted.
    fn report_once(&self, message: &'static str, error: String) {
        let mut told = lock(&self.told);
        let what = (message, error);
        if told.len() < TOLD_MAX && !told.contains(&what) {
            trouble!(self.shared, warn, error = what.1, "{}", message);
            told.insert(what);
        }
    }
}

impl Keeper for Outcomes {
    fn start_round(&self) -> Result<(), SubmitError> {
        let now = self.shared.retention_time();
        let is_off = now.needs_a_look();
        let was_off = self.off.swap(is_off, Ordering::Relaxed);
        if is_off && !was_off {
            tell_off(&self.shared, &now);
        }
        self.shared.retention_clock.write_if_due(&self.shared.store).map(drop)
    }

    fn may_delete(&self) -> bool {
        !self.shared.hold.is_on()
    }

    fn now(&self) -> Timestamp {
        self.shared.retention_time().time
    }

    fn submit_purge(
        &self,
        store: &Store,
        by: Timestamp,
        batch: Batch,
        apart: bool,
    ) -> Result<Option<Position>, SubmitError> {
        let clock = &self.shared.retention_clock;
        if !apart {
            return clock.submit_purge(store, by, batch).map(Some);
        }
        // The clock's row first: it decides how ids without a record are judged.
        clock.submit_purge(store, by, Batch::in_slots(Slot::SERVER))?;
        submit(store, batch, apart)
    }

    fn keep(
        &self,
        snapshot: &Snapshot,
        root: &Execution,
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        keep(snapshot, root, batch)
    }

    fn count_deleted(&self, swept: &SweepReport, purged: &PurgeReport) {
        self.shared.gone.add(swept, purged);
        for key in &swept.unfinished {
            self.report_once("retention skips a finished tree", format!("{key:#} has not ended"));
        }
        for why in &swept.unreadable {
            self.report_once("retention skips a finished tree", why.to_string());
        }
        for why in &purged.unreadable {
            self.report_once(
                "retention skips the record of an operation or a key",
                why.to_string(),
            );
        }
    }

    fn failed(&self, why: &str) {
        self.report_once("retention failed; retrying", why.to_owned());
    }
}

/// Adds the outcome to the record of the tree's operation, if there still is one, in the batch that
/// deletes the tree.
pub(crate) fn keep(
    snapshot: &Snapshot,
    root: &Execution,
    batch: &mut Batch,
) -> Result<(), ReadError> {
    let key = &root.key;
    let first = journals::read(snapshot, key, 0, 1)?.value.records.into_iter().next();
    let operation = match first.map(|record| record.event) {
        Some(Event::ExecutionStarted(started)) => started.idempotency_key,
        _ => return Err(unreadable(key, "the journal has no beginning")),
    };
    let Some(id) = operation.as_ref().map(Id::operation) else { return Ok(()) };
    let before = windows::get::<Operation>(snapshot, &id)?.value;
    // A record with another root is of a later operation under the same id.
    let leads_here =
        |before: &WindowedRecord<Operation>| before.record.root == *key.execution_id().root();
    let Some(before) = before.filter(leads_here) else { return Ok(()) };
    let last = journals::read(snapshot, key, root.length.saturating_sub(1), 1)?.value;
    let last = last.records.into_iter().next_back();
    let last = last.ok_or_else(|| unreadable(key, "the journal has no end"))?;
    let mut line = Vec::new();
    json::write_line(key, &last, &mut line);
    let mut change = Change::of(id, before);
    change.after.record.end = Some(line.into());
    change.put(batch);
    Ok(())
}

fn unreadable(key: &JournalKey, what: &str) -> ReadError {
    let what = format!("{key:#}: {what}");
    ReadError::Row { table: "journals", key: bytes::Bytes::new(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of the shortest window, within bounds.
    #[test]
    fn how_often_it_is_looked() {
        let day = 24 * 3600;
        let every = |completed: Option<u64>, failed: Option<u64>| {
            let [completed, failed] = [completed, failed].map(|secs| secs.map(Micros::from_secs));
            interval(&Retention { completed, failed, cancelled: None }).as_secs()
        };
        assert_eq!(every(None, None), 3600);
        assert_eq!(every(Some(30 * day), None), 3600);
        assert_eq!(every(Some(30 * day), Some(600)), 60);
        assert_eq!(every(Some(1), None), 1);
        assert_eq!(every(Some(0), None), 1);
    }
}
