//! Retention: finished trees are deleted after a time, in bounded steps, and their space is
//! reclaimed.
//!
//! A tree is deleted as a whole; its time counts from the end of its root. A tree that fits into a
//! step is deleted in one batch. Of a larger tree the rows of the root go first, with their index
//! entries, so that from then on every reader finds the tree gone; then the rows of its children;
//! then its journals. As long as any row is left, an index entry says that the tree is being swept.
//! A crash leaves that entry: the next step goes on, whatever the retention is by then, and no root
//! starts anew over the remains. Records of operations and keys stay; they have their own windows
//! (see C-3).
//!
//! - `background`: does this periodically.

mod background;

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use indelible_journal::{JournalKey, Micros, RootHash, Timestamp};
use indelible_slots::SlotSet;
use indelible_store::{
    Batch, Bounds, Expect, KeyRange, Page, Position, ReadError, Scan, Snapshot, Store, SubmitError,
    Table, prefix_range,
};

pub use self::background::{Background, Keeper, Plan};
use crate::executions::{self, Execution, Standing};
use crate::{EXECUTIONS, FINISHED, JOURNALS, codec, index};

/// How long finished trees are kept, by how their root ended. None, the default, is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Trees whose root returned.
    pub completed: Option<Micros>,
    /// Trees whose root failed, or ended as Indeterminate.
    pub failed: Option<Micros>,
    /// Trees whose root was cancelled.
    pub cancelled: Option<Micros>,
}

impl Retention {
    fn windows(&self) -> impl Iterator<Item = (Standing, Micros)> {
        [
            (Standing::Completed, self.completed),
            (Standing::Failed, self.failed),
            (Standing::Indeterminate, self.failed),
            (Standing::Cancelled, self.cancelled),
        ]
        .into_iter()
        .filter_map(|(standing, window)| Some((standing, window?)))
    }

    /// The shortest window; none if everything is kept for ever.
    pub fn shortest(&self) -> Option<Micros> {
        self.windows().map(|(_, window)| window).min()
    }
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// Trees that are fully deleted now.
    pub trees: usize,
    /// Rows that were deleted.
    pub rows: usize,
    /// Bytes that these rows had.
    pub bytes: usize,
    /// Whether there is more to do at once.
    pub more: bool,
    /// The deletions are for good when this is durable.
    pub position: Option<Position>,
    /// Executions that are not over although the root of their tree is: such trees are not swept.
    pub unfinished: Vec<JournalKey>,
    /// Trees that are not swept because a row cannot be read, with the reason: the first ones.
    pub unreadable: Vec<String>,
}

/// How many unreadable trees are reported.
const UNREADABLE_MAX: usize = 10;

/// Why a step stopped. It has done all of its work or none: the next step goes on.
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

/// Adds, to the batch that deletes a tree, what is to be kept of its root.
pub type Keep<'a> = dyn Fn(&Snapshot, &Execution, &mut Batch) -> Result<(), ReadError> + 'a;

/// Deletes up to `rows_max` rows of trees whose time is over.
pub async fn sweep(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
    rows_max: usize,
) -> Result<SweepReport, SweepError> {
    sweep_keeping(store, now, retention, rows_max, &|_, _, _| Ok(())).await
}

/// The same. `keep` gets the last attempt at each root that is deleted, and adds to the same batch
/// what is to be kept of it. For a tree that does not fit into a step, `keep` may be called again.
pub async fn sweep_keeping(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
    rows_max: usize,
    keep: &Keep<'_>,
) -> Result<SweepReport, SweepError> {
    let (batch, mut swept) =
        step(store, now, retention, rows_max, keep, &mut SweepProgress::default())?;
    if !batch.writes().is_empty() {
        swept.position = Some(store.submit(batch).await?);
    }
    Ok(swept)
}

/// Submits what a step deletes, blocking this thread until there is room: in one batch or, with
/// `apart`, in one for each slot, since rows of different slots need not go together. Returns the
/// last position, if any.
pub fn submit(store: &Store, batch: Batch, apart: bool) -> Result<Option<Position>, SubmitError> {
    let mut last = None;
    for part in if apart { batch.by_slot() } else { vec![batch] } {
        if !part.writes().is_empty() {
            last = Some(store.submit_blocking(part)?);
        }
    }
    Ok(last)
}

/// About how many bytes of rows one step deletes. The step reads them, some twice, and other
/// commits wait for that.
pub(crate) fn step_bytes_max(bounds: &Bounds) -> usize {
    bounds.batch_bytes_max / 16
}

/// How far earlier steps came. A step looks again neither at trees that were left, nor at deleted
/// rows, which a backend has to step over for a while.
#[derive(Debug, Default)]
pub(crate) struct SweepProgress {
    /// The last index entry looked at, by the standing of the root.
    entries: BTreeMap<Standing, Bytes>,
    /// The tree that did not fit into a step.
    tree: Option<PartialSweep>,
}

/// A tree that is partly deleted, and the last deleted rows.
#[derive(Debug)]
struct PartialSweep {
    root: RootHash,
    execution: Option<Bytes>,
    journal: Option<Bytes>,
}

/// The batch of a step and its report, going on from earlier steps.
pub(crate) fn step(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
    rows_max: usize,
    keep: &Keep<'_>,
    passed: &mut SweepProgress,
) -> Result<(Batch, SweepReport), ReadError> {
    let (snapshot, bounds) = (store.snapshot()?, store.bounds());
    let part = Part {
        batch: Batch::in_slots(SlotSet::empty()),
        left: rows_max.clamp(1, bounds.scan_rows_max.min(bounds.batch_conditions_max)),
        bytes_left: step_bytes_max(bounds),
        rows: 0,
        bytes: 0,
    };
    let begun = passed.tree.take();
    let (resumed, swept) = (Vec::new(), SweepReport::default());
    let mut step = Step { snapshot: &snapshot, keep, part, begun, resumed, swept };
    step.entries(prefix_range(Bytes::from_static(&[index::BEING_SWEPT])), &mut None)?;
    for (standing, window) in retention.windows() {
        let Some(cutoff) = now.as_micros().checked_sub(window.get()) else { continue };
        let mut last = passed.entries.remove(&standing);
        step.entries(ended(standing, cutoff), &mut last)?;
        passed.entries.extend(last.map(|last| (standing, last)));
    }
    let Step { part, begun, swept, .. } = step;
    passed.tree = begun;
    Ok((part.batch, SweepReport { rows: part.rows, bytes: part.bytes, ..swept }))
}

/// The index entries of trees that ended like this, up to a time.
fn ended(standing: Standing, cutoff: u64) -> KeyRange {
    let (start, _) = prefix_range(Bytes::copy_from_slice(&[standing as u8]));
    let mut end = vec![standing as u8];
    end.extend_from_slice(&cutoff.saturating_add(1).to_be_bytes());
    (start, Bound::Excluded(Bytes::from(end)))
}

/// Rows that are deleted together.
struct Part {
    batch: Batch,
    /// How many more rows fit.
    left: usize,
    /// A batch holds the values of the rows that it requires to be unchanged.
    bytes_left: usize,
    rows: usize,
    bytes: usize,
}

impl Part {
    fn is_full(&self) -> bool {
        self.left == 0 || self.bytes_left == 0
    }

    fn delete(&mut self, table: Table, key: Bytes, value: usize) {
        let bytes = key.len() + value;
        self.rows += 1;
        self.bytes += bytes;
        self.left = self.left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.batch.delete(table, key);
    }

    fn keep(&mut self, kept: Batch) {
        self.bytes_left = self.bytes_left.saturating_sub(kept.bytes());
        self.batch.extend(kept);
    }

    /// A new part with the room that is left in this one.
    fn beside(&self) -> Self {
        let Self { left, bytes_left, rows, bytes, .. } = *self;
        Self { batch: Batch::in_slots(SlotSet::empty()), left, bytes_left, rows, bytes }
    }

    /// Adds a part that was made by `beside`.
    fn take(&mut self, beside: Self) {
        self.batch.extend(beside.batch);
        let batch = std::mem::take(&mut self.batch);
        *self = Self { batch, ..beside };
    }
}

struct Step<'a> {
    snapshot: &'a Snapshot,
    keep: &'a Keep<'a>,
    /// What goes with it.
    part: Part,
    /// The tree that is partly deleted, by earlier steps and then by this one.
    begun: Option<PartialSweep>,
    /// Trees that were partly deleted before this step.
    resumed: Vec<RootHash>,
    swept: SweepReport,
}

impl Step<'_> {
    /// Deletes the trees of these index entries, until there is no more room.
    fn entries(&mut self, range: KeyRange, passed: &mut Option<Bytes>) -> Result<(), ReadError> {
        let mut scan = Scan { range, ..Scan::all(FINISHED, ENTRIES) };
        if let Some(passed) = passed {
            scan = scan.after(passed.clone());
        }
        loop {
            let page = self.snapshot.scan(&scan)?.value;
            for (entry, _) in &page.rows {
                self.swept.more |= self.part.is_full();
                if self.swept.more {
                    return Ok(());
                }
                let tree = self.tree(entry);
                match self.snapshot.damage().noted(tree) {
                    // A damaged tree does not stop the sweep of the others.
                    Err(error) if error.is_damage() => {
                        if self.swept.unreadable.len() < UNREADABLE_MAX {
                            self.swept.unreadable.push(error.to_string());
                        }
                    }
                    result => result?,
                }
                if self.swept.more {
                    return Ok(());
                }
                *passed = Some(entry.clone());
            }
            match page.rows.into_iter().next_back() {
                Some((entry, _)) if page.more => scan = scan.after(entry),
                _ => return Ok(()),
            }
        }
    }

    /// Deletes a tree; or as much of it as fits, if nothing else is in this step.
    fn tree(&mut self, entry: &Bytes) -> Result<(), ReadError> {
        let key = index::read_finished(entry)
            .map_err(|error| codec::damaged(&FINISHED, entry, error.0))?;
        let root = *key.execution_id().root();
        let being_swept = index::being_swept(&root);
        let resumes = *entry == being_swept;
        if resumes {
            self.resumed.push(root);
        } else if self.resumed.contains(&root) {
            return Ok(());
        }
        let latest = executions::latest(self.snapshot, key.execution_id())?.value;
        if !resumes {
            let latest = latest.as_ref();
            let gone = || codec::damaged(&FINISHED, entry, index::POINTS_NOWHERE);
            if !self.is_due(&root, &key, latest.ok_or_else(gone)?)? {
                return Ok(());
            }
        }
        let mut part = self.part.beside();
        part.batch.touch(root.slot());
        if resumes {
            // As long as this index entry is there, no other tree of this root can have begun.
            part.batch.expect(FINISHED, entry.clone(), Expect::Equal(Bytes::new()));
        }
        let begun = self.begun.take().filter(|begun| begun.root == root);
        let mut begun = begun.unwrap_or(PartialSweep { root, execution: None, journal: None });
        let is_whole = self.fill(&mut part, &mut begun, latest.as_ref())?;
        if is_whole {
            self.swept.trees += 1;
            if resumes {
                part.batch.delete(FINISHED, being_swept);
            }
        } else {
            self.swept.more = true;
            if !self.part.batch.writes().is_empty() {
                // It may fit into the next step.
                return Ok(());
            }
            if !resumes {
                part.batch.put(FINISHED, being_swept, Bytes::new());
            }
            self.begun = Some(begun);
        }
        self.part.take(part);
        Ok(())
    }

    /// Adds the rows of a tree, in order, as long as they fit. True: that is all of them.
    fn fill(
        &self,
        part: &mut Part,
        begun: &mut PartialSweep,
        latest: Option<&Execution>,
    ) -> Result<bool, ReadError> {
        // If `keep` fails, nothing of the tree is deleted.
        let mut kept = Batch::in_slots(begun.root.slot());
        if let Some(latest) = latest {
            (self.keep)(self.snapshot, latest, &mut kept)?;
        }
        // The root's attempts come first, the last attempt last: a reader that finds any attempt
        // finds the one that counts.
        let page = self.rows_of(EXECUTIONS, &begun.root, begun.execution.as_ref(), part.left)?;
        for (key, value) in page.rows {
            if part.is_full() {
                return Ok(false);
            }
            let execution = executions::decode(&key, &value)?;
            if latest.is_some_and(|latest| latest.key == execution.key) {
                part.keep(std::mem::take(&mut kept));
            }
            for (table, row, value) in index::entries(&execution) {
                part.delete(table, row, value.len());
            }
            part.batch.expect(EXECUTIONS, key.clone(), Expect::Equal(value.clone()));
            part.delete(EXECUTIONS, key.clone(), value.len());
            begun.execution = Some(key);
        }
        if page.more || part.is_full() {
            return Ok(false);
        }
        let page = self.rows_of(JOURNALS, &begun.root, begun.journal.as_ref(), part.left)?;
        for (key, value) in page.rows {
            if part.is_full() {
                return Ok(false);
            }
            part.delete(JOURNALS, key.clone(), value.len());
            begun.journal = Some(key);
        }
        Ok(!page.more)
    }

    /// The next rows of a tree.
    fn rows_of(
        &self,
        table: Table,
        root: &RootHash,
        after: Option<&Bytes>,
        rows_max: usize,
    ) -> Result<Page, ReadError> {
        let tree = Bytes::copy_from_slice(root.as_bytes());
        let mut scan = Scan::prefix(table, tree, rows_max);
        if let Some(after) = after {
            scan = scan.after(after.clone());
        }
        Ok(self.snapshot.scan(&scan)?.value)
    }

    /// Whether a tree is over, and this index entry is of its end. Every row that is decoded later
    /// is decoded here first, so that a tree with an unreadable row stays whole.
    fn is_due(
        &mut self,
        root: &RootHash,
        entry: &JournalKey,
        latest: &Execution,
    ) -> Result<bool, ReadError> {
        // An attempt that was followed by another is not the root's end: the later attempt has, or
        // will have, its own index entry.
        if latest.key > *entry || !latest.standing.is_terminal() {
            return Ok(false);
        }
        let tree = Bytes::copy_from_slice(root.as_bytes());
        let mut scan = Scan::prefix(EXECUTIONS, tree, SCANNED);
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
}

/// How many index entries are read at a time.
const ENTRIES: usize = 64;
/// How many executions of a tree are read at a time.
const SCANNED: usize = 1_000;
