//! The writer: takes whatever is accepted, makes one backend commit of it, says how it went, and
//! goes on. It syncs whenever something is pending and no sync runs (D2).
//!
//! A commit that fails for a while ([`BackendError::pauses`]) is tried again: the same group, under
//! the same sequence, until it is there. Nothing behind it becomes durable before it, so durability
//! stays a prefix of the order of positions (D3).

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tracing::{debug, debug_span, info, warn};

use super::kept::KeptLayer;
use super::outcome::Outcome;
use super::pause::{self, CLOSING_TRIES_MAX, PauseState};
use super::{Closing, POSITION_KEY, Shared, State};
use crate::backend::{BackendError, Presence, caught};
use crate::batch::Write;
use crate::error::{Lost, Pause, Poison};
use crate::position::Sequence;
use crate::table::PIPELINE;

/// What the writer has just done.
pub(super) enum Step {
    /// Nothing: there is nothing to do, or the store has stopped.
    Idle,
    Done,
    /// It could not commit; the next try comes after so long.
    Paused(Duration),
}

pub(super) fn run(shared: &Shared) {
    loop {
        match shared.step() {
            Step::Done => {}
            Step::Paused(delay) => shared.time.wait(delay),
            Step::Idle if shared.wait_for_work() => {}
            Step::Idle => return shared.close_backend(),
        }
    }
}

impl Shared {
    /// The writer's next step, by hand. False: there is nothing to do, or the store has stopped, or
    /// it has a writer's thread.
    pub(super) fn step_by_hand(&self) -> bool {
        let Some(hand) = &self.hand else { return false };
        // One at a time, as there is one writer.
        let _alone = hand.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(self.step(), Step::Idle)
    }

    /// Takes what is accepted, or tries to commit what was taken. Two halves, so that a simulation
    /// can run other work between them, as happens while a disk is busy.
    fn step(&self) -> Step {
        let mut state = self.lock();
        if state.poison.is_some() {
            return Step::Idle;
        }
        let Some(group) = state.closing.clone() else {
            if state.open.is_empty() {
                return Step::Idle;
            }
            state.closing = Some(Closing {
                layer: std::mem::take(&mut state.open),
                outcome: std::mem::take(&mut state.open_outcome),
                last: state.accepted,
                sequence: state.sequence.next(),
            });
            let permits = std::mem::take(&mut state.open_permits);
            drop(state);
            self.room.add_permits(permits);
            return Step::Done;
        };
        let is_paused = state.pause.is_some();
        drop(state);
        let Closing { layer, last, .. } = &group;
        let (batches, bytes, position) = (layer.batches, layer.bytes, last.number());
        let _within = debug_span!("commit", batches, bytes, position).entered();
        match caught(|| self.commit(&group, is_paused)) {
            Ok((made, applied)) => self.made_durable(&group, made, applied),
            Err(error) if error.pauses() => return self.paused(error),
            Err(error) => self.poison(Arc::new(error)),
        }
        Step::Done
    }

    /// Waits for something to commit. False: the store is closed, or has stopped.
    fn wait_for_work(&self) -> bool {
        let idle =
            |state: &mut State| state.open.is_empty() && !state.closed && state.poison.is_none();
        let waited = self.work.wait_while(self.lock(), idle);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        !state.open.is_empty() && state.poison.is_none()
    }

    /// Closes the backend, unless the store has stopped.
    pub(super) fn close_backend(&self) {
        if self.lock().poison.is_none()
            && let Err(error) = caught(|| self.backend.close())
        {
            self.poison(Arc::new(error));
        }
    }

    /// Commits a group. In a pause an earlier try may have arrived, so the backend is asked for the
    /// group first. Returns how many writes were made, and the last group in the rows.
    fn commit(&self, group: &Closing, is_paused: bool) -> Result<(usize, Sequence), BackendError> {
        self.make_room_to_keep(group)?;
        let writes = self.backend_writes(group);
        let made = writes.len();
        let presence = match is_paused {
            false => Presence::NotThere,
            true => self.backend.has_sequence(group.sequence)?,
        };
        match presence {
            Presence::There => {}
            Presence::NotThere => self.backend.commit(group.sequence, writes)?,
            Presence::EarlierMissing => {
                let acknowledged = self.lock().sequence;
                return Err(BackendError::CommitsMissing { acknowledged });
            }
        }
        Ok((made, self.backend.applied()))
    }

    /// Makes room to keep a group until the backend has applied it. A group larger than the bound
    /// fits if nothing else is kept.
    fn make_room_to_keep(&self, group: &Closing) -> Result<(), BackendError> {
        let max = self.bounds.kept_bytes_max;
        let fits = |kept: usize| kept == 0 || kept + group.layer.bytes <= max;
        if fits(self.lock().kept.bytes()) {
            return Ok(());
        }
        let applied = self.backend.applied();
        let (_gone, kept) = {
            let mut state = self.lock();
            (self.retire_applied(&mut state, applied), state.kept.bytes())
        };
        if fits(kept) {
            return Ok(());
        }
        let what = format!("the backend's rows are {kept} bytes behind its commits");
        Err(BackendError::Unavailable { what })
    }

    /// The last write of each key, as far as it changes something.
    fn backend_writes(&self, Closing { layer, last, sequence, .. }: &Closing) -> Vec<Write> {
        let own = [last.number().to_be_bytes(), sequence.number().to_be_bytes()];
        let mut writes = Vec::with_capacity(layer.keys() + 1);
        for table in &self.list {
            for (key, value) in layer.backend_changes(table) {
                writes.push(Write { table: *table, key: key.clone(), value: value.clone() });
            }
        }
        writes.push(Write {
            table: PIPELINE,
            key: Bytes::from_static(POSITION_KEY),
            value: Some(Bytes::copy_from_slice(own.as_flattened())),
        });
        writes
    }

    /// A group is durable: it leaves the overlay, or is kept there until the rows have it.
    fn made_durable(&self, group: &Closing, made: usize, applied: Sequence) {
        let (_gone, pause, open_outcome) = {
            let mut state = self.lock();
            state.durable = group.last;
            state.sequence = group.sequence;
            state.closing = None;
            let readings = &mut state.readings;
            readings.groups += 1;
            readings.batches += group.layer.batches as u64;
            readings.bytes_given += group.layer.bytes as u64;
            readings.writes_given += group.layer.writes as u64;
            readings.writes_made += made as u64;
            state.kept.push(Arc::clone(&group.layer), group.sequence);
            let gone = self.retire_applied(&mut state, applied);
            (gone, state.pause.take(), Arc::clone(&state.open_outcome))
        };
        debug!(writes = made, "commit is durable");
        if let Some(PauseState { tries, overdue, .. }) = pause {
            info!(tries, "store resumed after a pause");
            if overdue {
                open_outcome.set_overdue(None);
            }
        }
        group.outcome.end(Ok(()));
        // Merged without the lock: only the writer changes the kept layers.
        let mut kept = self.lock().kept.clone();
        if kept.merge() {
            self.lock().kept = kept;
        }
    }

    /// Takes the layers that the rows have from the overlay. The caller drops them outside the
    /// lock.
    fn retire_applied(&self, state: &mut State, applied: Sequence) -> Vec<KeptLayer> {
        let gone = state.kept.take_applied(applied);
        if !gone.is_empty() {
            state.retired += 1;
            self.retired.store(state.retired, Ordering::Release);
        }
        gone
    }

    /// The store is paused: the group stays the closing one, and is tried again.
    fn paused(&self, error: BackendError) -> Step {
        let now = self.time.now();
        let pause = Pause { cause: Arc::new(error) };
        let mut state = self.lock();
        let is_closing = state.closed;
        let paused = state.pause.get_or_insert_with(|| PauseState::new(pause.clone(), now));
        paused.pause = pause.clone();
        paused.tries += 1;
        if paused.tries == 1 {
            warn!(error = %pause.cause, "store paused; retrying");
        }
        paused.closing_tries += u32::from(is_closing);
        if paused.closing_tries >= CLOSING_TRIES_MAX {
            drop(state);
            self.poison(pause.cause);
            return Step::Done;
        }
        let delay = pause::delay(paused.tries);
        let lasts = now.saturating_sub(paused.since);
        let tells = !paused.overdue && lasts >= self.bounds.pause_told_after;
        paused.overdue |= tells;
        let outcomes = state.outcomes();
        drop(state);
        if tells {
            for outcome in outcomes {
                outcome.set_overdue(Some(pause.clone()));
            }
            self.overdue.notify_waiters();
        }
        Step::Paused(delay)
    }

    /// Stops for good: everything that is not durable is lost, and every waiting caller is told.
    fn poison(&self, cause: Arc<BackendError>) {
        let (poison, outcomes) = {
            let mut state = self.lock();
            let poison = Poison { cause, durable: state.durable };
            state.poison = Some(poison.clone());
            state.pause = None;
            (poison, state.outcomes())
        };
        self.room.close();
        for outcome in outcomes {
            outcome.end(Err(Lost::Poisoned(poison.clone())));
        }
        self.stopped.notify_waiters();
    }
}

impl State {
    /// The outcomes of the groups that are not durable.
    fn outcomes(&self) -> Vec<Arc<Outcome>> {
        let closing = self.closing.iter().map(|closing| &closing.outcome);
        closing.chain([&self.open_outcome]).cloned().collect()
    }
}
