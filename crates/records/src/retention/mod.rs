//! Retention: finished trees go after a time, in bounded steps, and their space is given back.
//!
//! A tree goes as a whole, counted from the end of its root. One that fits into a step goes in one
//! batch. Of a larger one the rows of its executions go first, with the indexes: the root's, so that
//! from then on the tree is gone for whoever asks, then those of what it called; then its journals.
//! As long as anything of it is left, an entry says that it is being swept: a crash in between leaves
//! that entry, and the next step goes on, whatever is to be kept by then; and no root begins anew
//! over what is left of it. Records of operations and keys stay; they have windows of their
//! own (see C-3).
//!
//! - `background`: all of this by itself, now and then.

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
/// which it does what is to be kept of it. Of a tree that does not fit into a step it may be asked
/// again.
pub async fn sweep_keeping(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
    rows_max: usize,
    keep: &Keep<'_>,
) -> Result<Swept, SweepError> {
    let (batch, mut swept) = step(store, now, retention, rows_max, keep, &mut Passed::default())?;
    if !batch.writes().is_empty() {
        swept.position = Some(store.submit(batch).await?);
    }
    Ok(swept)
}

/// Submits what a step deletes, waiting on this thread for room: in one batch or, if it is to go
/// apart, in one for each slot, since what is in different slots need not go together. The last
/// position, if there is anything.
pub fn submit(store: &Store, batch: Batch, apart: bool) -> Result<Option<Position>, SubmitError> {
    let mut last = None;
    for part in if apart { batch.by_slot() } else { vec![batch] } {
        if !part.writes().is_empty() {
            last = Some(store.submit_blocking(part)?);
        }
    }
    Ok(last)
}

/// About how many bytes the rows have that one step deletes. It reads them, some of them twice, and
/// others wait for that.
pub(crate) fn step_bytes_max(bounds: &Bounds) -> usize {
    bounds.batch_bytes_max / 16
}

/// How far the steps before came: what they left is not looked at again, and what they deleted, which
/// an engine has to step over for a while, is not met again.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// By how trees ended: the last entry.
    entries: BTreeMap<Standing, Bytes>,
    /// Of the tree that did not fit.
    tree: Option<Begun>,
}

/// A tree of which a part is gone, and the last rows that are.
#[derive(Debug)]
struct Begun {
    root: RootHash,
    execution: Option<Bytes>,
    journal: Option<Bytes>,
}

/// The batch of a step, and what it does, from where the steps before came to.
pub(crate) fn step(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
    rows_max: usize,
    keep: &Keep<'_>,
    passed: &mut Passed,
) -> Result<(Batch, Swept), ReadError> {
    let (snapshot, bounds) = (store.snapshot()?, store.bounds());
    let part = Part {
        batch: Batch::in_slots(SlotSet::empty()),
        left: rows_max.clamp(1, bounds.scan_rows_max.min(bounds.batch_conditions_max)),
        bytes_left: step_bytes_max(bounds),
        rows: 0,
        bytes: 0,
    };
    let begun = passed.tree.take();
    let (resumed, swept) = (Vec::new(), Swept::default());
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
    Ok((part.batch, Swept { rows: part.rows, bytes: part.bytes, ..swept }))
}

/// The entries of trees that ended so, up to a time.
fn ended(standing: Standing, cutoff: u64) -> KeyRange {
    let (start, _) = prefix_range(Bytes::copy_from_slice(&[standing as u8]));
    let mut end = vec![standing as u8];
    end.extend_from_slice(&cutoff.saturating_add(1).to_be_bytes());
    (start, Bound::Excluded(Bytes::from(end)))
}

/// Rows that go together.
struct Part {
    batch: Batch,
    /// How many more rows fit.
    left: usize,
    /// A batch holds the values of the rows that it demands to be unchanged.
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

    /// One more, for what has the rest of the room.
    fn beside(&self) -> Self {
        let Self { left, bytes_left, rows, bytes, .. } = *self;
        Self { batch: Batch::in_slots(SlotSet::empty()), left, bytes_left, rows, bytes }
    }

    /// Takes what was made beside it.
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
    /// What went of a tree with the steps before, then with this one.
    begun: Option<Begun>,
    /// Trees of which a part was gone before.
    resumed: Vec<RootHash>,
    swept: Swept,
}

impl Step<'_> {
    /// The trees of these entries, until there is no more room.
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
                    // One that is damaged does not keep the others.
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

    /// A tree, or as much of it as fits, if nothing else is in this step.
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
            // What is left is not that of another root as long as this is there.
            part.batch.expect(FINISHED, entry.clone(), Expect::Equal(Bytes::new()));
        }
        let begun = self.begun.take().filter(|begun| begun.root == root);
        let mut begun = begun.unwrap_or(Begun { root, execution: None, journal: None });
        let is_whole = self.fill(&mut part, &mut begun, latest.as_ref())?;
        if is_whole {
            self.swept.trees += 1;
            if resumes {
                part.batch.delete(FINISHED, being_swept);
            }
        } else {
            self.swept.more = true;
            if !self.part.batch.writes().is_empty() {
                // It may fit into the next one.
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

    /// Adds what there is of a tree, in order, as long as it fits. Whether that is all.
    fn fill(
        &self,
        part: &mut Part,
        begun: &mut Begun,
        latest: Option<&Execution>,
    ) -> Result<bool, ReadError> {
        // What cannot be kept does not go, and neither does anything before it.
        let mut kept = Batch::in_slots(begun.root.slot());
        if let Some(latest) = latest {
            (self.keep)(self.snapshot, latest, &mut kept)?;
        }
        // The root's attempts first, the last of them last: as long as any is there, it is the one
        // that counts.
        let page = self.rows_of(EXECUTIONS, &begun.root, begun.execution.as_ref(), part.left)?;
        for (key, value) in page.rows {
            if part.is_full() {
                return Ok(false);
            }
            let execution = executions::decode(&key, &value)?;
            if latest.is_some_and(|latest| latest.key == execution.key) {
                part.keep(std::mem::take(&mut kept));
            }
            for (table, row, value) in index::entries(&execution).into_iter().flatten() {
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

    /// Whether a tree is over, and this entry is that of its end. Everything of it that is decoded
    /// later is decoded here first, so that one which cannot be read stays whole.
    fn is_due(
        &mut self,
        root: &RootHash,
        entry: &JournalKey,
        latest: &Execution,
    ) -> Result<bool, ReadError> {
        // An attempt that was followed by another is not how the root ended: that other one has, or
        // will have, an entry of its own.
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

/// How many entries are looked at at a time,
const ENTRIES: usize = 64;
/// and how many executions of a tree.
const SCANNED: usize = 1_000;
