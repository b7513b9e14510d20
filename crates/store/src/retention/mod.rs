//! Retention: finished trees go after a time, in bounded steps, and their space is given back.
//!
//! A tree goes as a whole, counted from the end of its root. First the rows of its executions go,
//! with the indexes: the root's, so that from then on the tree is gone for whoever asks, then those
//! of what it called; then its journals, at last the entry that says it is finished: a crash in
//! between leaves that entry, and the next step goes on. Records of operations and keys stay; they
//! have windows of their own (C-3).
//!
//! - `background`: all of this by itself, now and then.

mod background;

use bytes::Bytes;
use indelible_journal::{JournalKey, Micros, Timestamp};

pub use self::background::{Background, Keeper, Plan};
use crate::batch::{Batch, Expect};
use crate::error::{ReadError, SubmitError};
use crate::pipeline::{Scan, Snapshot, Store, prefix_range};
use crate::position::Position;
use crate::rows::executions::{self, Execution, Standing};
use crate::rows::{EXECUTIONS, FINISHED, JOURNALS, codec, index};
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

    /// The shortest of them; none if everything is kept for ever.
    pub fn shortest(&self) -> Option<Micros> {
        self.windows().map(|(_, window)| window).min()
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
    /// Trees that are not swept because a row of theirs cannot be read, and why: the first ones.
    pub unreadable: Vec<String>,
}

/// So many unreadable trees are told in words.
const UNREADABLE_MAX: usize = 10;

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

/// What is written when a tree goes, in the same batch: by whoever knows what its root stands for.
pub type Keep<'a> = dyn Fn(&Snapshot, &Execution, &mut Batch) -> Result<(), ReadError> + 'a;

/// Deletes up to `rows_max` rows of trees that are past their time.
pub async fn sweep(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
    rows_max: usize,
) -> Result<Swept, SweepError> {
    sweep_keeping(store, now, retention, rows_max, &|_, _, _| Ok(())).await
}

/// The same; `keep` is shown the last attempt at each root that goes, and adds to the batch with
/// which it does what is to be kept of it.
pub async fn sweep_keeping(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
    rows_max: usize,
    keep: &Keep<'_>,
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
            keep,
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
    keep: &'a Keep<'a>,
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
                match self.tree(entry) {
                    // One that is damaged does not keep the others.
                    Err(error @ ReadError::Row { .. }) => {
                        if self.swept.unreadable.len() < UNREADABLE_MAX {
                            self.swept.unreadable.push(error.to_string());
                        }
                    }
                    result => result?,
                }
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
        // Without a root it is being swept: whether it may be was found out before.
        let latest = executions::latest(self.snapshot, key.execution_id())?.value;
        if let Some(latest) = &latest
            && !self.is_due(&root, &key, latest)?
        {
            return Ok(());
        }
        // The root's attempts first, the last of them last: as long as any is there, it is the one
        // that counts.
        let executions = Scan::prefix(EXECUTIONS, root.clone(), self.left + 1);
        let page = self.snapshot.scan(&executions)?.value;
        let none_left = !page.more;
        for (key, value) in page.rows {
            if self.is_full() {
                return self.stop();
            }
            let execution = executions::decode(&key, &value)?;
            if latest.as_ref().is_some_and(|latest| latest.key == execution.key) {
                self.keep(&execution)?;
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
            return self.stop();
        }
        let journals = Scan::prefix(JOURNALS, root, self.left + 1);
        let page = self.snapshot.scan(&journals)?.value;
        let none_left = !page.more;
        for (key, value) in page.rows {
            if self.is_full() {
                return self.stop();
            }
            self.delete(JOURNALS, key, value.len());
        }
        if !none_left {
            return self.stop();
        }
        self.delete(FINISHED, entry.clone(), 0);
        self.swept.trees += 1;
        Ok(())
    }

    /// The rest of a tree does not fit.
    fn stop(&mut self) -> Result<(), ReadError> {
        self.swept.more = true;
        Ok(())
    }

    /// Whether a tree is over, and this entry is that of its end. Everything of it that is decoded
    /// later is decoded here first, so that one which cannot be read stays whole.
    fn is_due(
        &mut self,
        root: &Bytes,
        entry: &JournalKey,
        latest: &Execution,
    ) -> Result<bool, ReadError> {
        // An attempt that was followed by another is not how the root ended: that other one has, or
        // will have, an entry of its own.
        if latest.key > *entry || !latest.standing.is_terminal() {
            return Ok(false);
        }
        let mut scan = Scan::prefix(EXECUTIONS, root.clone(), SCANNED);
        loop {
            let page = self.snapshot.scan(&scan)?.value;
            for (key, value) in &page.rows {
                let execution = executions::decode(key, value)?;
                if !execution.standing.is_terminal() {
                    self.swept.unfinished.push(execution.key);
                    return Ok(false);
                }
            }
            match page.rows.into_iter().next_back() {
                Some((key, _)) if page.more => scan = scan.after(key),
                _ => return Ok(true),
            }
        }
    }

    /// What is to be kept of a root that goes with this batch.
    fn keep(&mut self, root: &Execution) -> Result<(), ReadError> {
        let mut kept = Batch::new();
        (self.keep)(self.snapshot, root, &mut kept)?;
        self.bytes_left = self.bytes_left.saturating_sub(kept.bytes());
        self.batch.extend(kept);
        Ok(())
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

/// How many executions of a tree are looked at at a time.
const SCANNED: usize = 1_000;
