//! Retention: finished trees go after a time, in bounded steps, and their space is given back.
//!
//! A tree goes as a whole, counted from the end of its root. First the rows of its executions go,
//! with the indexes, then its journals, at last the entry that says it is finished: a crash in
//! between leaves that entry, and the next step goes on. Records of operations and keys stay;
//! they have windows of their own (C-3).

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use indelible_journal::{JournalKey, Micros, Timestamp};

use crate::batch::{Batch, Expect};
use crate::error::{ReadError, SubmitError};
use crate::pipeline::{Scan, Snapshot, Store, blocking, prefix_range};
use crate::position::Position;
use crate::rows::executions::{self, Standing};
use crate::rows::windows::{self, PurgeError};
use crate::rows::{
    BY_FUNCTION, BY_NAMESPACE, BY_STATUS, EXECUTIONS, FINISHED, JOURNALS, codec, index,
};
use crate::table::Table;

/// How long finished trees are kept, by how their root ended. None is for ever, and the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Those that returned.
    pub completed: Option<Micros>,
    /// Those that failed.
    pub failed: Option<Micros>,
    /// Those that were cancelled.
    pub cancelled: Option<Micros>,
}

impl Retention {
    fn windows(&self) -> impl Iterator<Item = (Standing, Micros)> {
        [
            (Standing::Completed, self.completed),
            (Standing::Failed, self.failed),
            (Standing::Cancelled, self.cancelled),
        ]
        .into_iter()
        .filter_map(|(standing, window)| Some((standing, window?)))
    }
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// Trees that are gone now.
    pub trees: usize,
    /// Rows that were deleted.
    pub rows: usize,
    /// Bytes that these rows had.
    pub bytes: usize,
    /// Whether there is more to do at once.
    pub more: bool,
    /// They are gone for good when this is durable.
    pub position: Option<Position>,
    /// Trees that are not swept although their root is over: this execution of theirs is not.
    pub unfinished: Vec<JournalKey>,
}

/// Why a step stopped. Nothing is half done: the next one goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// Something could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The batch was not accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// Deletes up to `rows_max` rows of trees that are past their time.
pub async fn sweep(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
    rows_max: usize,
) -> Result<Swept, SweepError> {
    let (batch, mut swept) = {
        let snapshot = store.snapshot()?;
        let mut step = Step {
            snapshot: &snapshot,
            batch: Batch::new(),
            left: rows_max
                .clamp(1, store.bounds().scan_rows_max.min(store.bounds().batch_conditions_max)),
            bytes_left: store.bounds().batch_bytes_max / 4,
            swept: Swept::default(),
        };
        for (standing, window) in retention.windows() {
            let Some(cutoff) = now.as_micros().checked_sub(window.get()) else { continue };
            step.finished(standing, cutoff)?;
        }
        (step.batch, step.swept)
    };
    if swept.rows > 0 {
        swept.position = Some(store.submit(batch).await?);
    }
    Ok(swept)
}

struct Step<'a> {
    snapshot: &'a Snapshot,
    batch: Batch,
    /// How many more rows fit.
    left: usize,
    /// A batch holds the values of the rows that it demands to be unchanged.
    bytes_left: usize,
    swept: Swept,
}

impl Step<'_> {
    /// The trees that ended so, up to a time.
    fn finished(&mut self, standing: Standing, cutoff: u64) -> Result<(), ReadError> {
        let (start, _) = prefix_range(Bytes::copy_from_slice(&[standing as u8]));
        let mut end = vec![standing as u8];
        end.extend_from_slice(&cutoff.saturating_add(1).to_be_bytes());
        let end = std::ops::Bound::Excluded(Bytes::from(end));
        let mut scan = Scan { range: (start, end), ..Scan::all(FINISHED, 64) };
        loop {
            let page = self.snapshot.scan(&scan)?.value;
            for (entry, _) in &page.rows {
                if self.is_full() {
                    self.swept.more = true;
                    return Ok(());
                }
                self.tree(entry)?;
            }
            match page.rows.into_iter().next_back() {
                Some((entry, _)) if page.more => scan = scan.after(entry),
                _ => return Ok(()),
            }
        }
    }

    fn is_full(&self) -> bool {
        self.left == 0 || self.bytes_left == 0
    }

    /// As much of a tree as fits.
    fn tree(&mut self, entry: &Bytes) -> Result<(), ReadError> {
        let key = index::read_finished(entry)
            .map_err(|error| codec::damaged(&FINISHED, entry, error.0))?;
        let root = Bytes::copy_from_slice(key.execution_id().root().as_bytes());
        // Another attempt at the root brings an entry of its own when it ends.
        if self.root_goes_on(&root)? {
            return Ok(());
        }
        // The deepest first, the root's attempts last.
        let executions = Scan::prefix(EXECUTIONS, root.clone(), self.left + 1).reversed();
        let page = self.snapshot.scan(&executions)?.value;
        let none_left = !page.more;
        for (key, value) in page.rows {
            let execution = executions::decode(&key, &value)?;
            if !execution.standing.is_terminal() {
                self.swept.unfinished.push(execution.key);
                return Ok(());
            }
            if self.is_full() {
                return Ok(());
            }
            // All but the entry that leads here: it goes last.
            for (table, row) in index::entries(&execution).into_iter().flatten() {
                if row != *entry {
                    self.delete(table, row, 0);
                }
            }
            self.batch.expect(EXECUTIONS, key.clone(), Expect::Equal(value.clone()));
            self.delete(EXECUTIONS, key, value.len());
        }
        if self.is_full() || !none_left {
            return Ok(());
        }
        let journals = Scan::prefix(JOURNALS, root, self.left + 1);
        let page = self.snapshot.scan(&journals)?.value;
        let none_left = !page.more;
        for (key, value) in page.rows {
            if self.is_full() {
                return Ok(());
            }
            self.delete(JOURNALS, key, value.len());
        }
        if none_left {
            self.delete(FINISHED, entry.clone(), 0);
            self.swept.trees += 1;
        }
        Ok(())
    }

    /// Whether an attempt at the root is not over.
    fn root_goes_on(&self, root: &Bytes) -> Result<bool, ReadError> {
        let mut prefix = root.to_vec();
        prefix.push(0); // depth
        let mut scan = Scan::prefix(EXECUTIONS, prefix, 64);
        loop {
            let page = self.snapshot.scan(&scan)?.value;
            for (key, value) in &page.rows {
                if !executions::decode(key, value)?.standing.is_terminal() {
                    return Ok(true);
                }
            }
            match page.rows.into_iter().next_back() {
                Some((key, _)) if page.more => scan = scan.after(key),
                _ => return Ok(false),
            }
        }
    }

    fn delete(&mut self, table: Table, key: Bytes, value: usize) {
        let bytes = key.len() + value;
        self.swept.rows += 1;
        self.swept.bytes += bytes;
        self.left = self.left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.batch.delete(table, key);
    }
}

/// How many rows a step of the background deletes.
const STEP_ROWS: usize = 2_000;
/// Space is given back when this many bytes were deleted,
const RECLAIM_BYTES_MIN: u64 = 16 << 20;
/// and when they were this part of what a table takes on disk: it rewrites the table.
const RECLAIM_PART: u64 = 4;

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
    rounds: u64,
    failure: Option<String>,
}

impl Background {
    /// Starts sweeping: a round at once and one each `interval`, each in steps with the disk's
    /// other users in between.
    pub fn start(
        store: &Store,
        retention: Retention,
        interval: Duration,
        now: impl Fn() -> Timestamp + Send + 'static,
    ) -> std::io::Result<Self> {
        let control = Arc::new(Control::default());
        let thread = std::thread::Builder::new().name("store retention".to_owned()).spawn({
            let (store, control) = (store.clone(), Arc::clone(&control));
            move || control.run(&store, &retention, interval, &now)
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
        let waited = self.control.changed.wait_while(state, |state| state.rounds < rounds);
        drop(waited);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.control.lock().stop = true;
        self.control.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

impl Control {
    fn lock(&self) -> std::sync::MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(
        &self,
        store: &Store,
        retention: &Retention,
        interval: Duration,
        now: &dyn Fn() -> Timestamp,
    ) {
        let mut garbage = 0;
        loop {
            let result = self.round(store, retention, now, &mut garbage);
            let mut state = self.lock();
            state.rounds += 1;
            state.failure = result.err();
            self.changed.notify_all();
            let waited = self.changed.wait_timeout_while(state, interval, |state| !state.stop);
            if waited.unwrap_or_else(PoisonError::into_inner).0.stop {
                return;
            }
        }
    }

    /// Everything that is due now.
    fn round(
        &self,
        store: &Store,
        retention: &Retention,
        now: &dyn Fn() -> Timestamp,
        garbage: &mut u64,
    ) -> Result<(), String> {
        loop {
            let purged = match blocking::block_on(windows::purge(store, now(), STEP_ROWS)) {
                Ok(purged) => purged,
                // A record changed under the purge: the next round gets the rest.
                Err(PurgeError::Submit(SubmitError::Refused(_))) => windows::Purged::default(),
                Err(error) => return Err(error.to_string()),
            };
            let swept = match blocking::block_on(sweep(store, now(), retention, STEP_ROWS)) {
                Ok(swept) => swept,
                Err(SweepError::Submit(SubmitError::Refused(_))) => Swept::default(),
                Err(error) => return Err(error.to_string()),
            };
            *garbage += swept.bytes as u64;
            // Each step waits for the disk, so that those who run ahead of it get their turn.
            if let Some(position) = swept.position.max(purged.position) {
                store.durable(position).wait().map_err(|lost| lost.to_string())?;
            }
            if self.lock().stop {
                return Ok(());
            }
            if !swept.more && !purged.more {
                break;
            }
        }
        let tables = [JOURNALS, EXECUTIONS, BY_STATUS, BY_FUNCTION, BY_NAMESPACE, FINISHED];
        let on_disk: u64 = tables.iter().map(|table| store.disk_bytes(*table)).sum();
        if *garbage >= RECLAIM_BYTES_MIN && *garbage >= on_disk / RECLAIM_PART {
            *garbage = 0;
            for table in tables {
                store.reclaim(table).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}
