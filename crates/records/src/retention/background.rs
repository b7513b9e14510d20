//! Sweeping and purging by themselves, now and then, on a thread of their own.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use indelible_journal::{Micros, Timestamp};
use indelible_store::{Batch, Position, ReadError, Snapshot, Store, SubmitError, Table};

use super::{Keep, Passed, Retention, SweepError, Swept, step, submit};
use crate::executions::Execution;
use crate::purge::{self, PurgeError, Purged};
use crate::{
    ANSWERS, BY_FUNCTION, BY_NAMESPACE, BY_STATUS, EXECUTIONS, EXPIRIES, FINISHED,
    IDEMPOTENCY_KEYS, JOURNALS, OPERATIONS,
};

/// How many rows a step deletes. What it demands of them is read again when it is submitted, and the
/// reading has to come to its end between two commits: one that never does is done while everybody
/// else waits. Smaller steps would wait for the disk more than they delete.
const STEP_ROWS: usize = 128;
/// Space is given back when this many bytes were deleted,
const RECLAIM_BYTES_MIN: u64 = 16 << 20;
/// and when they were this part of what a table takes on disk: it rewrites the table.
const RECLAIM_PART: u64 = 4;
/// What is deleted is of these tables.
const TABLES: [Table; 10] = [
    JOURNALS,
    EXECUTIONS,
    BY_STATUS,
    BY_FUNCTION,
    BY_NAMESPACE,
    FINISHED,
    OPERATIONS,
    IDEMPOTENCY_KEYS,
    ANSWERS,
    EXPIRIES,
];
/// How long a stop waits. A step takes less; a table that is being rewritten may take longer, and
/// nothing is lost when the process ends over it.
const STOP_MAX: Duration = Duration::from_secs(2);

/// What goes, and when it is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Which trees.
    pub retention: Retention,
    /// How long a round is waited for after the one before.
    pub interval: Duration,
    /// How much later than they may go records of operations and keys do.
    pub records_later: Micros,
    /// Whether a step is a batch for each slot: they need not go together.
    pub apart: bool,
}

/// What the background needs of others, and tells them. Called on its thread.
pub trait Keeper: Send + 'static {
    /// A round begins.
    fn begins(&self) -> Result<(), SubmitError> {
        Ok(())
    }

    /// The time now: it does not go back.
    fn now(&self) -> Timestamp;

    /// Submits a batch with which records go that were due by this time; if they are to go apart, a
    /// batch for each slot.
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

    /// A tree goes with this batch, and this was the last attempt at its root: what is to be kept
    /// of it is added.
    fn keep(
        &self,
        snapshot: &Snapshot,
        root: &Execution,
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        let _ = (snapshot, root, batch);
        Ok(())
    }

    /// Something has gone, for good.
    fn gone(&self, swept: &Swept, purged: &Purged) {
        let _ = (swept, purged);
    }

    /// A round did not come to its end, for this reason; the next one goes on.
    fn failed(&self, why: &str) {
        let _ = why;
    }
}

/// Sweeps in the background, from when it is started until it is dropped.
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
    /// The thread is at its end.
    ended: bool,
    rounds: u64,
    failure: Option<String>,
}

impl Background {
    /// Starts sweeping: a round at once and one each interval, each in steps with the disk's
    /// other users in between.
    pub fn start(store: &Store, plan: Plan, keeper: impl Keeper) -> std::io::Result<Self> {
        let control = Arc::new(Control::default());
        let thread = std::thread::Builder::new().name("store retention".to_owned()).spawn({
            let (store, control) = (store.clone(), Arc::clone(&control));
            move || {
                // Also when it ends by a panic: nobody waits for what does not come.
                let _ended = Ended(&control);
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

    /// Waits until so many rounds are done.
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

/// Deletes some of the records whose window has been over for long enough; the time of this purge
/// is `now`.
fn purge(
    store: &Store,
    keeper: &dyn Keeper,
    plan: &Plan,
    now: Timestamp,
    expiries: &mut Option<Bytes>,
) -> Result<Purged, PurgeError> {
    let late = now.as_micros().saturating_sub(plan.records_later.get());
    let late = Timestamp::from_micros(late).unwrap_or(now);
    let (batch, mut purged) = purge::due(store, late, STEP_ROWS, expiries)?;
    if !batch.writes().is_empty() {
        purged.position = keeper.submit_purge(store, now, batch, plan.apart)?;
    }
    Ok(purged)
}

/// Deletes some of the trees that are past their time.
fn sweep(
    store: &Store,
    now: Timestamp,
    plan: &Plan,
    keep: &Keep<'_>,
    trees: &mut Passed,
) -> Result<Swept, SweepError> {
    let (batch, mut swept) = step(store, now, &plan.retention, STEP_ROWS, keep, trees)?;
    swept.position = submit(store, batch, plan.apart)?;
    Ok(swept)
}

struct Ended<'a>(&'a Control);

impl Drop for Ended<'_> {
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

    /// Everything that is due now. What fails does not keep the rest: it is told at the end.
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
        let (mut expiries, mut trees) = (None, Passed::default());
        let mut failure = keeper.begins().err().map(|error| error.to_string());
        while purges || sweeps {
            let now = keeper.now();
            let mut purged = Purged::default();
            if purges {
                match purge(store, keeper, plan, now, &mut expiries) {
                    Ok(done) => purged = done,
                    // A record changed under the purge: the next round gets the rest.
                    Err(PurgeError::Submit(SubmitError::Refused(_))) => {}
                    Err(error) => _ = failure.get_or_insert(error.to_string()),
                }
            }
            let mut swept = Swept::default();
            if sweeps {
                match sweep(store, now, plan, &keep, &mut trees) {
                    Ok(done) => swept = done,
                    Err(SweepError::Submit(SubmitError::Refused(_))) => {}
                    Err(error) => _ = failure.get_or_insert(error.to_string()),
                }
            }
            (purges, sweeps) = (purged.more, swept.more);
            *garbage += (swept.bytes + purged.bytes) as u64;
            // Each step waits for the disk, so that those who run ahead of it get their turn.
            if let Some(position) = swept.position.max(purged.position) {
                store.durable(position).wait().map_err(|lost| lost.to_string())?;
            }
            keeper.gone(&swept, &purged);
            if self.lock().stop {
                return failure.map_or(Ok(()), Err);
            }
        }
        if let Err(error) = self.reclaim(store, garbage) {
            failure.get_or_insert(error.to_string());
        }
        failure.map_or(Ok(()), Err)
    }

    /// Gives space back, if it is worth it.
    fn reclaim(&self, store: &Store, garbage: &mut u64) -> Result<(), ReadError> {
        let on_disk: u64 = TABLES.iter().map(|table| store.disk_bytes(*table)).sum();
        if *garbage < RECLAIM_BYTES_MIN || *garbage < on_disk / RECLAIM_PART {
            return Ok(());
        }
        *garbage = 0;
        for table in TABLES {
            // Nothing is written over a disk that has failed (D12).
            if self.lock().stop || store.poison().is_some() {
                return Ok(());
            }
            store.reclaim(table)?;
        }
        Ok(())
    }
}
