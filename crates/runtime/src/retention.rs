//! What goes after its time, while an engine runs: finished trees, and the records of operations and
//! keys whose window has passed (C-3).
//!
//! The record of an operation outlives its tree: when the tree goes, the record gets the outcome, in
//! the same batch. Whoever repeats the request is told what the first one was told (V-31). Nothing of
//! this touches what is in memory: only what is over goes, and that is in the store alone.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indelible_execution::operation::Change;
use indelible_journal::{Event, JournalKey, Micros, Timestamp, json};
use indelible_records::executions::Execution;
use indelible_records::journals;
use indelible_records::operations::Operation;
use indelible_records::retention::{Background, Keeper, Plan, Retention, Swept, submit};
use indelible_records::windows::{self, Id, Purged, Windowed};
use indelible_slots::Slot;
use indelible_store::{Batch, Position, ReadError, Snapshot, Store, SubmitError};

use crate::options::Ownership;
use crate::retention_clock::{JUMP_MAX, RetentionTime};
use crate::shared::{Shared, lock};

/// How often it is looked at the least and the most.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// A tree stays longer than its window by at most this part of it, where that is between these two.
const INTERVAL_PART: u64 = 10;

/// How much longer than its window the record of an operation or a key stays: as long as the retention
/// clock may be ahead of the time because it believed a jump of the wall clock. So a record whose window
/// is not over does not go (C-3).
const RECORDS_LATER: Micros = JUMP_MAX;

/// So many trees that cannot be swept are told of, each once.
const TOLD_MAX: usize = 1_000;

/// How often it is looked for what may go.
pub fn interval(retention: &Retention) -> Duration {
    let shortest = retention.shortest().map_or(u64::MAX, Micros::get);
    Duration::from_micros(shortest / INTERVAL_PART).clamp(INTERVAL_MIN, INTERVAL_MAX)
}

/// What has gone so far.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    trees: AtomicU64,
    rows: AtomicU64,
    records: AtomicU64,
}

/// What retention has taken since the engine was opened.
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

impl Gone {
    fn add(&self, swept: &Swept, purged: &Purged) {
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

/// Starts to let go of what is past its time.
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

/// Keeps outcomes, and tells what does not go as it should.
struct Outcomes {
    shared: Arc<Shared>,
    /// What was told already: it would be told at every round.
    told: Mutex<HashSet<String>>,
    /// The two clocks differ, and that was told.
    off: AtomicBool,
}

/// What is told of clocks that differ.
fn off(now: &RetentionTime) -> String {
    let RetentionTime { time, wall, .. } = now;
    let hint = "If the wall clock is right, `indelible retention confirm` says so to the server";
    if wall > time {
        format!(
            "the wall clock says {wall} and the retention clock {time}: the wall clock was set \
             ahead, or no server ran for long. What would be deleted by the wall clock alone is \
             kept until as much time has passed, and the data folder grows by that. {hint}"
        )
    } else {
        format!(
            "the wall clock says {wall} and the retention clock {time}: the wall clock was set \
             back. Nothing is deleted until it has come to that time again. {hint}"
        )
    }
}

impl Outcomes {
    fn tell(&self, what: String) {
        let mut told = lock(&self.told);
        if told.len() < TOLD_MAX && !told.contains(&what) {
            self.shared.trouble(&what);
            told.insert(what);
        }
    }
}

impl Keeper for Outcomes {
    fn begins(&self) -> Result<(), SubmitError> {
        let now = self.shared.retention_time();
        let is_off = now.needs_a_look();
        let was_off = self.off.swap(is_off, Ordering::Relaxed);
        if is_off && !was_off {
            self.shared.trouble(&off(&now));
        }
        self.shared.retention_clock.write_if_due(&self.shared.store).map(drop)
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
        // The clock first: records that are gone are judged by it.
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

    fn gone(&self, swept: &Swept, purged: &Purged) {
        self.shared.gone.add(swept, purged);
        for key in &swept.unfinished {
            self.tell(format!("retention leaves a finished tree: {key:#} is not over"));
        }
        for why in &swept.unreadable {
            self.tell(format!("retention leaves a finished tree: {why}"));
        }
        for why in &purged.unreadable {
            self.tell(format!("retention leaves the record of an operation or a key: {why}"));
        }
    }

    fn failed(&self, why: &str) {
        self.tell(format!("retention could not go on, and tries again: {why}"));
    }
}

/// Adds to the batch with which a tree goes: the record of its operation, if it is still there, gets
/// the outcome.
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
    // A record that leads elsewhere is of a later operation under the same id.
    let leads_here =
        |before: &Windowed<Operation>| before.record.root == *key.execution_id().root();
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
