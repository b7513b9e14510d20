//! What changed in a tree since the last time, as one batch: it is on disk whole, or not at all
//! (D1, D7).

use indelible_journal::{Ending, JournalKey};
use indelible_records::executions::{self, AdvanceError, Execution as Row, Standing};
use indelible_records::{audit, queue, timers, unresolved};
use indelible_slots::SlotSet;
use indelible_store::{Batch, Position, SubmitError};

use super::execution::Phase;
use super::load::ticket;
use super::{Changes, Tree, earliest};
use crate::shared::Shared;

/// Why a commit failed: the engine's own mistake, or the store's end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Advance(#[from] AdvanceError),
}

/// What an execution will be as submitted.
struct Submitted {
    key: JournalKey,
    /// None: it is volatile, and nothing of it is written.
    row: Option<Row>,
    ticket: Option<u64>,
}

impl Tree {
    /// Submits what changed, and tells those who wait for it at which position that is. Waits for
    /// room in the store, never for the disk (D3).
    pub(crate) fn commit(&mut self, shared: &Shared) {
        if self.changes.is_empty() {
            // What ran has changed nothing.
            self.survived(shared);
            return;
        }
        let (batch, submitted) = match self.batch() {
            Ok(built) => built,
            Err(error) => return self.give_up(shared, &CommitError::from(error)),
        };
        let result = if batch.writes().is_empty() {
            // Nothing changed, but somebody asked: the answer depends on what was read.
            Ok(shared.store.accepted())
        } else {
            shared.store.submit_blocking(batch)
        };
        if let (Ok(position), true) = (&result, shared.in_lockstep()) {
            // If it is lost, the next submission says so.
            let _ = shared.store.durable(*position).through_pauses().wait();
        }
        match &result {
            Ok(position) => self.accepted(shared, *position, submitted),
            Err(_) => {
                for after in std::mem::take(&mut self.changes.after) {
                    after(&result);
                }
                let error = result.expect_err("it was looked at");
                self.give_up(shared, &CommitError::from(error));
            }
        }
    }

    /// Submits what changed if nothing may run ahead of the disk.
    pub(crate) fn keep_pace(&mut self, shared: &Shared) {
        if shared.in_lockstep() {
            self.commit(shared);
        }
    }

    fn batch(&mut self) -> Result<(Batch, Vec<Submitted>), AdvanceError> {
        let mut batch = Batch::in_slots(self.slots());
        let mut submitted = Vec::with_capacity(self.changes.dirty.len());
        for key in &self.changes.dirty {
            let Some(execution) = self.executions.get(key) else { continue };
            if execution.volatile {
                submitted.push(Submitted { key: key.clone(), row: None, ticket: None });
                continue;
            }
            let row = execution.row_now();
            executions::advance(&mut batch, execution.row.as_ref(), &row, &execution.fresh)?;
            let ticket = match (execution.has_work(), execution.ticket) {
                (true, None) => {
                    let ticket = ticket(&row);
                    queue::put(&mut batch, &queue::Entry { ticket, key: key.clone() });
                    Some(ticket)
                }
                (false, Some(ticket)) => {
                    queue::delete(&mut batch, &queue::Entry { ticket, key: key.clone() });
                    None
                }
                (_, ticket) => ticket,
            };
            submitted.push(Submitted { key: key.clone(), row: Some(row), ticket });
        }
        for (timer, put) in &self.changes.timers {
            if *put {
                timers::put(&mut batch, timer);
            } else {
                timers::delete(&mut batch, timer);
            }
        }
        if let Some(operation) = &self.changes.operation {
            operation.put(&mut batch);
        }
        for change in self.changes.key.iter().chain(&self.changes.keys) {
            change.put(&mut batch);
        }
        for (effect, known) in &self.changes.unresolved {
            match known {
                Some(known) => unresolved::put(&mut batch, effect, known),
                None => unresolved::delete(&mut batch, effect),
            }
        }
        for entry in &self.changes.audit {
            audit::put(&mut batch, entry);
        }
        Ok((batch, submitted))
    }

    /// The tree's own slot, and those of the keys that commands came under (D13).
    fn slots(&self) -> SlotSet {
        let Changes { dirty, timers, unresolved, operation, keys, audit, .. } = &self.changes;
        let slot_of = |key: &JournalKey| key.execution_id().root().slot();
        let execution = dirty.first().map(slot_of);
        let timer = timers.first().map(|(timer, _)| slot_of(&timer.key));
        let effect = unresolved.first().map(|(effect, _)| slot_of(&effect.key));
        let own = execution.or(timer).or(effect);
        let own = own.or_else(|| audit.first().map(audit::Entry::slot));
        let own = own.or_else(|| operation.as_ref().map(|change| change.id.slot()));
        own.into_iter().chain(keys.iter().map(|change| change.id.slot())).collect()
    }

    fn accepted(&mut self, shared: &Shared, position: Position, submitted: Vec<Submitted>) {
        if shared.followers.any() {
            let executions = submitted.iter().map(|submitted| submitted.key.execution_id());
            let effects = self.changes.unresolved.iter();
            let effects = effects.map(|(effect, _)| effect.key.execution_id());
            shared.followers.changed(executions.chain(effects));
        }
        for Submitted { key, row, ticket } in submitted {
            let execution = self.execution(&key);
            execution.row = row;
            execution.fresh.clear();
            execution.ticket = ticket;
            execution.dirty = false;
            let gone = match execution.phase {
                Phase::Ended => true,
                Phase::Waiting => execution.is_stored_whole(),
                _ => false,
            };
            // What is over, and what waits without a guest, is in the store.
            if gone {
                self.executions.remove(&key);
            }
        }
        // What follows is new, unless something has been killing processes: then it may be what
        // comes next.
        self.loaded &= shared.witness.has_suspects();
        shared.replays.submitted(position, std::mem::take(&mut self.noted));
        let changes = std::mem::take(&mut self.changes);
        let Changes { timers, volatile_timers, ended, after, outgoing, .. } = changes;
        // What a volatile execution sends waits for this position too: it is not before that of
        // its caller's InvokeStarted, or of its operation's record, which are of this tree (C-39).
        shared.effects.submitted(position, outgoing);
        shared.timers.changed(&timers, earliest(&timers));
        shared.timers.changed_in_memory(volatile_timers);
        for after in after {
            after(&Ok(position));
        }
        for (key, ending) in ended {
            let standing = match ending {
                Ending::Completed(_) => Standing::Completed,
                Ending::Failed(_) => Standing::Failed,
                Ending::Cancelled(_) => Standing::Cancelled,
            };
            shared.observer.ended(&key, standing);
            shared.watchers.ended(key.execution_id(), &ending, position);
        }
    }

    /// What is in memory cannot be written: it is forgotten, and what is stored counts. A start
    /// that lost a race ends here, too.
    fn give_up(&mut self, shared: &Shared, error: &CommitError) {
        let lost_race = self.is_new()
            && self.changes.operation.as_ref().is_some_and(|change| change.before.is_none())
            && matches!(error, CommitError::Submit(SubmitError::Refused(_)));
        if shared.store.poison().is_some() {
            // Told once, for all trees, by whoever looks after timers.
            shared.timers.poke();
        } else {
            // The store has told of its damage, once.
            let damage = matches!(error, CommitError::Submit(error) if error.is_damage());
            if !lost_race && !damage {
                shared.trouble(&format!("a commit failed: {error}"));
            }
            if let Some(key) = self.executions.keys().next() {
                shared.timers.keep_all(key.execution_id().root());
            }
            self.survived(shared);
        }
        *self = Self::default();
    }

    fn survived(&mut self, shared: &Shared) {
        for key in self.noted.drain(..) {
            shared.witness.survived(&key);
        }
    }

    /// Whether nothing of it is stored.
    fn is_new(&self) -> bool {
        self.executions.values().all(|execution| execution.row.is_none())
    }
}
