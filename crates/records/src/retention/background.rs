//! Sweeps and purges periodically, on its own thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use indelible_journal::{Micros, Timestamp};
use indelible_store::{Batch, Position, ReadError, Snapshot, Store, SubmitError, Table};

use super::{Keep, Retention, SweepError, SweepProgress, SweepReport, step, submit};
use crate::executions::Execution;
use crate::purge::{self, PurgeError, PurgeReport};
use crate::{
    ANSWERS, BY_FUNCTION, BY_LABEL, BY_NAMESPACE, BY_STATUS, EXECUTIONS, EXPIRIES, FINISHED,
    IDEMPOTENCY_KEYS, JOURNALS, OPERATIONS,
};

/// How many rows a step deletes. The commit pipeline reads a step's preconditions again, and has to
/// finish that between two commits: if it never does, it reads while all other commits wait.
/// Smaller steps would wait for the disk more than they delete.
const STEP_ROWS: usize = 128;
/// Space is reclaimed only when this many bytes were deleted.
const RECLAIM_BYTES_MIN: u64 = 16 << 20;
/// Space is reclaimed, which rewrites tables, only when this part of the tables' bytes on disk was
/// deleted.
const RECLAIM_PART: u64 = 4;
/// The tables that rows are deleted from.
const TABLES: [Table; 11] = [
    JOURNALS,
    EXECUTIONS,
    BY_STATUS,
    BY_FUNCTION,
    BY_NAMESPACE,
    BY_LABEL,
    FINISHED,
    OPERATIONS,
    IDEMPOTENCY_KEYS,
    ANSWERS,
    EXPIRIES,
];
/// How long a stop waits for the thread. A step takes less; rewriting a table may take longer, and
/// nothing is lost when the process ends during it.
const STOP_MAX: Duration = Duration::from_secs(2);

/// What is deleted, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How long finished trees are kept.
    pub retention: Retention,
    /// The pause between two rounds.
    pub interval: Duration,
    /// How much longer than necessary records of operations and keys are kept.
    pub records_later: Micros,
    /// Whether a step is one batch for each slot: rows of different slots need not go together.
    pub apart: bool,
}

/// What the background asks of its user, and tells it. Called on the background's thread.
pub trait Keeper: Send + 'static {
    /// A round begins.
    fn start_round(&self) -> Result<(), SubmitError> {
        Ok(())
    }

    /// Whether this round may delete anything.
    fn may_delete(&self) -> bool {
        true
    }

    /// The time now: it does not go back.
    fn now(&self) -> Timestamp;

    /// Submits a batch that deletes records which expired by this time; with `apart`, as one batch
    /// for each slot.
    fn submit_purge(
        &self,
        store: &Store,
        by: Timestamp,
        batch: Batch,
        apart: bool,
    ) -> Result<Option<Position>, SubmitError> {
        let _ = by;
        submit(store, batch, apart)
    }

    /// A batch deletes a tree, whose root's last attempt was this: adds what is to be kept of it.
    fn keep(
        &self,
        snapshot: &Snapshot,
        root: &Execution,
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        let _ = (snapshot, root, batch);
        Ok(())
    }

    /// These deletions are durable.
    fn count_deleted(&self, swept: &SweepReport, purged: &PurgeReport) {
        let _ = (swept, purged);
    }

    /// A round failed for this reason; the next one goes on.
    fn failed(&self, why: &str) {
        let _ = why;
    }
}

/// Sweeps in the background until it is dropped.
#[derive(Debug)]
pub struct Background {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Control {
    state: Mutex<ControlState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ControlState {
    stop: bool,
    /// The thread has ended.
    ended: bool,
    rounds: u64,
    failure: Option<String>,
}

impl Background {
    /// Starts sweeping: a round at once and one each interval, in steps between which other users
    /// of the disk get their turn.
    pub fn start(store: &Store, plan: Plan, keeper: impl Keeper) -> std::io::Result<Self> {
        let control = Arc::new(Control::default());
        let thread = std::thread::Builder::new().name("store retention".to_owned()).spawn({
            let (store, control) = (store.clone(), Arc::clone(&control));
            move || {
                // Also after a panic: else `drop` and `wait_for_rounds` would wait for a thread
                // that has ended.
                let _ended = EndGuard(&control);
                control.run(&store, &plan, &keeper);
            }
        })?;
        Ok(Self { control, thread: Some(thread) })
    }

    /// How many rounds are done, and why the last one failed if it did.
    pub fn rounds(&self) -> (u64, Option<String>) {
        let state = self.control.lock();
        (state.rounds, state.failure.clone())
    }

    /// Waits until this many rounds are done, or the thread has ended.
    pub fn wait_for_rounds(&self, rounds: u64) {
        let state = self.control.lock();
        let waited =
            self.control.changed.wait_while(state, |state| state.rounds < rounds && !state.ended);
        drop(waited);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let mut state = self.control.lock();
        state.stop = true;
        self.control.changed.notify_all();
        let waited = self.control.changed.wait_timeout_while(state, STOP_MAX, |state| !state.ended);
        let ended = waited.unwrap_or_else(PoisonError::into_inner).0.ended;
        if let Some(thread) = self.thread.take()
            && ended
        {
            _ = thread.join();
        }
    }
}

/// Deletes some of the records that expired long enough ago; the time of this purge is `now`.
fn purge(
    store: &Store,
    keeper: &dyn Keeper,
    plan: &Plan,
    now: Timestamp,
    expiries: &mut Option<Bytes>,
) -> Result<PurgeReport, PurgeError> {
    let late = now.as_micros().saturating_sub(plan.records_later.get());
    let late = Timestamp::from_micros(late).unwrap_or(now);
    let (batch, mut purged) = purge::due(store, late, STEP_ROWS, expiries)?;
    if !batch.writes().is_empty() {
        purged.position = keeper.submit_purge(store, now, batch, plan.apart)?;
    }
    Ok(purged)
}

/// Deletes some of the trees whose time is over.
fn sweep(
    store: &Store,
    now: Timestamp,
    plan: &Plan,
    keep: &Keep<'_>,
    trees: &mut SweepProgress,
) -> Result<SweepReport, SweepError> {
    let (batch, mut swept) = step(store, now, &plan.retention, STEP_ROWS, keep, trees)?;
    swept.position = submit(store, batch, plan.apart)?;
    Ok(swept)
}

struct EndGuard<'a>(&'a Control);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Control {
    fn lock(&self) -> std::sync::MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, store: &Store, plan: &Plan, keeper: &dyn Keeper) {
        let mut garbage = 0;
        loop {
            let result = self.round(store, plan, keeper, &mut garbage);
            if let Err(why) = &result {
                keeper.failed(why);
            }
            let mut state = self.lock();
            state.rounds += 1;
            state.failure = result.err();
            self.changed.notify_all();
            let waited = self.changed.wait_timeout_while(state, plan.interval, |state| !state.stop);
            if waited.unwrap_or_else(PoisonError::into_inner).0.stop {
                return;
            }
        }
    }

    /// Deletes everything that is due now. A failure does not stop the rest, and is returned at the
    /// end.
    fn round(
        &self,
        store: &Store,
        plan: &Plan,
        keeper: &dyn Keeper,
        garbage: &mut u64,
    ) -> Result<(), String> {
        let keep = |snapshot: &Snapshot, root: &Execution, batch: &mut Batch| {
            keeper.keep(snapshot, root, batch)
        };
        let (mut purges, mut sweeps) = (true, true);
        let (mut expiries, mut trees) = (None, SweepProgress::default());
        let mut failure = keeper.start_round().err().map(|error| error.to_string());
        if !keeper.may_delete() {
            return failure.map_or(Ok(()), Err);
        }
        while purges || sweeps {
            let now = keeper.now();
            let mut purged = PurgeReport::default();
            if purges {
                match purge(store, keeper, plan, now, &mut expiries) {
                    Ok(done) => purged = done,
                    // A record changed during the purge: the next round deletes the rest.
                    Err(PurgeError::Submit(SubmitError::Refused(_))) => {}
                    Err(error) => _ = failure.get_or_insert(error.to_string()),
                }
            }
            let mut swept = SweepReport::default();
            if sweeps {
                match sweep(store, now, plan, &keep, &mut trees) {
                    Ok(done) => swept = done,
                    Err(SweepError::Submit(SubmitError::Refused(_))) => {}
                    Err(error) => _ = failure.get_or_insert(error.to_string()),
                }
            }
            (purges, sweeps) = (purged.more, swept.more);
            *garbage += (swept.bytes + purged.bytes) as u64;
            // Each step waits for the disk, so that commits which are not durable yet get their
            // turn.
            if let Some(position) = swept.position.max(purged.position) {
                store.durable(position).wait().map_err(|lost| lost.to_string())?;
            }
            keeper.count_deleted(&swept, &purged);
            if self.lock().stop {
                return failure.map_or(Ok(()), Err);
            }
        }
        if let Err(error) = self.reclaim(store, garbage) {
            failure.get_or_insert(error.to_string());
        }
        failure.map_or(Ok(()), Err)
    }

    /// Reclaims space, if it is worth it.
    fn reclaim(&self, store: &Store, garbage: &mut u64) -> Result<(), ReadError> {
        let on_disk: u64 = TABLES.iter().map(|table| store.disk_bytes(*table)).sum();
        if *garbage < RECLAIM_BYTES_MIN || *garbage < on_disk / RECLAIM_PART {
            return Ok(());
        }
        *garbage = 0;
        for table in TABLES {
            // Nothing is written to a disk that has failed (D12).
            if self.lock().stop || store.poison().is_some() {
                return Ok(());
            }
            store.reclaim(table)?;
        }
        Ok(())
    }
}
