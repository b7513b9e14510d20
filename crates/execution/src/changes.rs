//! Collects what changed in a tree since the last commit into one batch, which is on disk whole or
//! not at all (D1, D7).

use std::collections::BTreeMap;

use indelible_journal::{Entry, JournalKey, OperationKey};
use indelible_machine::{CallerId, Changes, TimerChange};
use indelible_records::doubts::{self, Doubt, DoubtId};
use indelible_records::executions::{self, AdvanceError};
use indelible_records::idempotency_keys::KeyRecord;
use indelible_records::operations::Operation;
use indelible_records::timers::{self, Timer};
use indelible_records::{audit, queue};
use indelible_slots::SlotSet;
use indelible_store::Batch;

use crate::Tree;
use crate::execution::{Execution, Phase};
use crate::input::Reply;
use crate::load::ticket;
use crate::operation::Change;
use crate::output::{Event, Outgoing};

/// What the next commit holds beside the rows of the executions.
#[derive(Default)]
pub(crate) struct PendingCommit {
    dirty: Vec<JournalKey>,
    /// An estimate of the size of the entries that are not in a batch.
    bytes: usize,
    timers: Vec<(Timer, TimerChange)>,
    /// Timers of volatile executions, which have no row (see C-39).
    pub(crate) volatile_timers: Vec<(Timer, TimerChange)>,
    pub(crate) operation: Option<Change<Operation>>,
    pub(crate) key: Option<Change<KeyRecord>>,
    /// Records of the idempotency keys that commands came under.
    pub(crate) keys: Vec<Change<KeyRecord>>,
    pub(crate) audit: Vec<audit::Entry>,
    /// Doubts that change: as they are stored, if they are, and as this commit leaves them.
    pub(crate) doubts: BTreeMap<DoubtId, (Option<Doubt>, Doubt)>,
    /// Leaves when the commit is durable.
    pub(crate) outgoing: Vec<Outgoing>,
    pub(crate) events: Vec<Event>,
    replies: Vec<(CallerId, Reply)>,
}

/// When this many executions have changed, they are submitted before anything else changes: a batch
/// has a bound on its preconditions, and each execution brings one.
const CHANGED_MAX: usize = 1_000;

/// The same bound for bytes of entries. The largest single change exceeds it by a few payloads, for
/// which a batch has room.
const UNSUBMITTED_BYTES_MAX: usize = 4 << 20;

/// The same bound for rows of timers, effects, keys and audit records.
const ROWS_MAX: usize = 5_000;

/// An estimate of the size of an entry beside its payload.
const EVENT_BYTES_GUESS: usize = 64;

impl Tree {
    /// Adds entries that an execution's journal accepted to the next commit.
    pub(crate) fn written(&mut self, key: &JournalKey, entries: impl IntoIterator<Item = Entry>) {
        let execution = self.executions.get_mut(key).expect("its journal has just accepted them");
        if execution.volatile {
            // Only the journal in memory has the entries of a volatile execution (see C-39).
            entries.into_iter().for_each(drop);
        } else {
            let before = execution.fresh.len();
            execution.fresh.extend(entries);
            let count = execution.fresh.len() - before;
            self.pending.bytes += count * EVENT_BYTES_GUESS;
        }
        mark(execution, &mut self.pending.dirty);
    }

    /// Counts the payload of an entry.
    pub(crate) fn add_weight(&mut self, bytes: usize) {
        self.pending.bytes += bytes;
    }

    /// Marks an execution for the next commit though it has no new entries.
    pub(crate) fn touch(&mut self, key: &JournalKey) {
        let execution = self.executions.get_mut(key).expect("it is being changed");
        mark(execution, &mut self.pending.dirty);
    }

    pub(crate) fn put_timer(&mut self, timer: Timer) {
        self.change_timer(timer, TimerChange::Put);
    }

    pub(crate) fn delete_timer(&mut self, timer: Timer) {
        self.change_timer(timer, TimerChange::Delete);
    }

    /// The row of a timer that has fired stays.
    pub(crate) fn keep_timer(&mut self, timer: Timer) {
        self.pending.timers.push((timer, TimerChange::Keep));
    }

    fn change_timer(&mut self, timer: Timer, change: TimerChange) {
        match self.executions.get(&timer.key) {
            Some(execution) if execution.volatile => {
                self.pending.volatile_timers.push((timer, change));
            }
            _ => self.pending.timers.push((timer, change)),
        }
    }

    /// Answers a caller after the next commit. A refusal waits, too: it depends on rows that this
    /// tree has submitted and that may not be durable.
    pub(crate) fn reply_after_commit(&mut self, asker: CallerId, reply: Reply) {
        self.pending.replies.push((asker, reply));
    }

    /// Drops what is pending for executions that were released.
    pub(crate) fn drop_pending(&mut self) {
        self.pending.dirty.clear();
        self.pending.volatile_timers.clear();
        // Effects that have not been sent are not sent.
        self.pending.outgoing.clear();
    }

    /// The operation that a root belongs to.
    pub(crate) fn operation_of(&mut self, root: &JournalKey) -> Option<OperationKey> {
        self.find(root)?.journal.started()?.idempotency_key.clone()
    }

    /// Whether what changed has to be submitted before anything else changes.
    pub fn is_full(&self) -> bool {
        let rows = self.pending.timers.len() + self.pending.doubts.len();
        // Sealed changes are not in the store yet, where the next decision may look for them.
        !self.sealed.is_empty()
            || self.pending.dirty.len() >= CHANGED_MAX
            || self.pending.bytes > UNSUBMITTED_BYTES_MAX
            || rows + self.pending.audit.len() >= ROWS_MAX
            // Each key brings a precondition.
            || self.pending.keys.len() >= CHANGED_MAX
    }

    /// Makes a commit of what is pending: more is to come than one commit has room for.
    pub(crate) fn seal(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let rows = self.rows();
        let PendingCommit {
            dirty,
            timers,
            volatile_timers,
            doubts,
            outgoing,
            mut events,
            replies,
            ..
        } = std::mem::take(&mut self.pending);
        events.extend(doubts.into_keys().map(|id| Event::Changed(id.key)));
        events.extend(dirty.into_iter().map(Event::Changed));
        let changes = Changes { rows, timers, volatile_timers, events, replies, outgoing };
        self.sealed.push_back(changes);
    }

    /// The rows of what is pending. From here on memory counts them as stored.
    fn rows(&mut self) -> Result<Batch, AdvanceError> {
        let mut batch = Batch::in_slots(self.slots());
        for key in &self.pending.dirty {
            let Some(execution) = self.executions.get_mut(key) else { continue };
            execution.dirty = false;
            if !execution.volatile {
                advance(&mut batch, execution)?;
            }
            let gone = match execution.phase {
                Phase::Ended => true,
                Phase::Waiting => execution.is_stored_whole(),
                _ => false,
            };
            // An execution that is over, or that waits without a guest, is only in the store.
            if gone {
                self.executions.remove(key);
            }
        }
        for (timer, change) in &self.pending.timers {
            match change {
                TimerChange::Put => timers::put(&mut batch, timer),
                TimerChange::Delete => timers::delete(&mut batch, timer),
                TimerChange::Keep => {}
            }
        }
        if let Some(operation) = &self.pending.operation {
            operation.put(&mut batch);
        }
        for change in self.pending.key.iter().chain(&self.pending.keys) {
            change.put(&mut batch);
        }
        for (id, (before, after)) in &self.pending.doubts {
            doubts::replace(&mut batch, id, before.as_ref(), after);
        }
        for entry in &self.pending.audit {
            audit::put(&mut batch, entry);
        }
        Ok(batch)
    }

    /// The tree's own slot, and those of the keys that commands came under (D13).
    fn slots(&self) -> SlotSet {
        let PendingCommit { dirty, timers, doubts, operation, keys, audit, .. } = &self.pending;
        let slot_of = |key: &JournalKey| key.execution_id().root().slot();
        let execution = dirty.first().map(slot_of);
        let timer = timers.first().map(|(timer, _)| slot_of(&timer.key));
        let doubt = doubts.first_key_value().map(|(id, _)| slot_of(&id.key));
        let own = execution.or(timer).or(doubt);
        let own = own.or_else(|| audit.first().map(audit::Entry::slot));
        let own = own.or_else(|| operation.as_ref().map(|change| change.id.slot()));
        own.into_iter().chain(keys.iter().map(|change| change.id.slot())).collect()
    }
}

/// The rows of an execution: itself, its events, its place in the stored queue.
fn advance(batch: &mut Batch, execution: &mut Execution) -> Result<(), AdvanceError> {
    let row = execution.row_now();
    executions::advance(batch, execution.row.as_ref(), &row, &execution.fresh)?;
    execution.fresh.clear();
    match (execution.has_work(), execution.ticket) {
        (true, None) => {
            let ticket = ticket(&row);
            queue::put(batch, &queue::Entry { ticket, key: row.key.clone() });
            execution.ticket = Some(ticket);
        }
        (false, Some(ticket)) => {
            queue::delete(batch, &queue::Entry { ticket, key: row.key.clone() });
            execution.ticket = None;
        }
        _ => {}
    }
    execution.row = Some(row);
    Ok(())
}

fn mark(execution: &mut Execution, dirty: &mut Vec<JournalKey>) {
    if !execution.dirty {
        execution.dirty = true;
        dirty.push(execution.journal.key().clone());
    }
}

impl PendingCommit {
    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.is_empty()
            && self.timers.is_empty()
            && self.volatile_timers.is_empty()
            && self.operation.is_none()
            && self.key.is_none()
            && self.keys.is_empty()
            && self.audit.is_empty()
            && self.doubts.is_empty()
            && self.outgoing.is_empty()
            && self.replies.is_empty()
    }
}
