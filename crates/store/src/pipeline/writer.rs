//! The writer: takes whatever is accepted, makes one backend commit of it, says how it went, and
//! goes on. It syncs whenever something is pending and no sync runs (D2).
//!
//! A commit that fails for a while ([`BackendError::pauses`]) is tried again: the same group, under
//! the same sequence, until it is there. Nothing behind it becomes durable before it, so durability
//! stays a prefix of the order of positions (D3).

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::kept::KeptLayer;
use super::outcome::Outcome;
use super::pause::{self, CLOSING_TRIES_MAX, Given, PauseState};
use super::{Closing, Hand, POSITION_KEY, Pause, Shared, State};
use crate::backend::{BackendError, Presence, caught};
use crate::batch::Write;
use crate::error::{Lost, Poison};
use crate::position::Sequence;
use crate::table::PIPELINE;

/// What came of a try to commit a group.
enum Tried {
    Durable,
    /// The next try comes after so long.
    Paused(Duration),
    /// That was the end of the store.
    Stopped,
}

pub(super) fn run(shared: &Shared) {
    while let Some(group) = shared.take() {
        let mut given = Given::Never;
        loop {
            match shared.write(&group, given) {
                Tried::Durable => break,
                Tried::Paused(delay) => shared.time.wait(delay),
                Tried::Stopped => return,
            }
            given = shared.given();
        }
    }
    shared.close_backend();
}

impl Shared {
    /// What the writer does, by hand: takes what is accepted, or tries to commit what was taken. Two
    /// halves, so that whoever drives the store can let others go on between them, as they do
    /// while a disk is at work. False: nothing is left to do, or the store has stopped.
    pub(super) fn step(&self, hand: &Hand) -> bool {
        // One at a time, as there is one writer.
        let _alone = hand.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.lock();
        if state.poison.is_some() {
            return false;
        }
        if let Some(group) = state.closing.clone() {
            let given = state.given();
            drop(state);
            self.write(&group, given);
            return true;
        }
        if state.open.is_empty() {
            return false;
        }
        self.take_open(state);
        true
    }

    /// Tries to make a group durable, once.
    fn write(&self, group: &Closing, given: Given) -> Tried {
        if !self.has_room_to_keep(group) {
            let kept = self.kept_bytes.load(Ordering::Relaxed);
            let what = format!("its rows are {kept} bytes behind what it has committed");
            return self.paused(BackendError::Unavailable { what }, given);
        }
        match caught(|| self.commit(group, given)) {
            Ok(()) => {
                self.made_durable(group);
                Tried::Durable
            }
            Err(error) if error.pauses() => self.paused(error, Given::Before),
            Err(error) => {
                self.poison(Arc::new(error));
                Tried::Stopped
            }
        }
    }

    /// Whether the closing group was given to the backend before.
    fn given(&self) -> Given {
        self.lock().given()
    }

    pub(super) fn close_backend(&self) {
        if let Err(error) = caught(|| self.backend.close()) {
            self.poison(Arc::new(error));
        }
    }

    /// Waits for something to commit and takes all of it; none when the store is closed.
    fn take(&self) -> Option<Closing> {
        let mut state = self.lock();
        while state.open.is_empty() {
            if state.closed {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(self.take_open(state))
    }

    /// The open layer becomes the closing one.
    fn take_open(&self, mut state: MutexGuard<'_, State>) -> Closing {
        let closing = Closing {
            layer: std::mem::take(&mut state.open),
            outcome: std::mem::take(&mut state.open_outcome),
            last: state.accepted,
            sequence: state.sequence.next(),
        };
        state.closing = Some(closing.clone());
        let permits = std::mem::take(&mut state.open_permits);
        drop(state);
        self.room.add_permits(permits);
        closing
    }

    /// Commits a group, unless an earlier try has.
    fn commit(&self, group: &Closing, given: Given) -> Result<(), BackendError> {
        let writes = self.backend_writes(group);
        let made = writes.len();
        let presence = match given {
            Given::Never => Presence::NotThere,
            Given::Before => self.backend.has_sequence(group.sequence)?,
        };
        match presence {
            Presence::There => {}
            Presence::NotThere => self.backend.commit(group.sequence, writes)?,
            Presence::EarlierMissing => {
                let acknowledged = self.lock().sequence;
                return Err(BackendError::CommitsMissing { acknowledged });
            }
        }
        let count = |counter: &std::sync::atomic::AtomicU64, by: usize| {
            counter.fetch_add(by as u64, Ordering::Relaxed);
        };
        count(&self.counters.groups, 1);
        count(&self.counters.batches, group.layer.batches());
        count(&self.counters.bytes_given, group.layer.bytes());
        count(&self.counters.writes_given, group.layer.writes());
        count(&self.counters.writes_made, made);
        Ok(())
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
    fn made_durable(&self, group: &Closing) {
        let applied = self.backend.applied();
        let (_gone, pause, open_outcome) = {
            let mut state = self.lock();
            state.durable = group.last;
            state.sequence = group.sequence;
            state.closing = None;
            if applied < group.sequence {
                state.kept.push(Arc::clone(&group.layer), group.sequence);
            } else {
                self.retire(&mut state);
            }
            let gone = self.retire_applied(&mut state, applied);
            (gone, state.pause.take(), Arc::clone(&state.open_outcome))
        };
        if pause.is_some_and(|pause| pause.overdue) {
            open_outcome.set_overdue(None);
        }
        group.outcome.end(Ok(()));
        self.merge_kept();
    }

    fn retire(&self, state: &mut State) {
        state.retired += 1;
        self.retired.store(state.retired, Ordering::Release);
    }

    /// Takes from the overlay what the rows have. The caller drops it outside the lock.
    fn retire_applied(&self, state: &mut State, applied: Sequence) -> Vec<KeptLayer> {
        if state.kept.is_empty() {
            return Vec::new();
        }
        let gone = state.kept.take_applied(applied);
        if !gone.is_empty() {
            self.retire(state);
        }
        self.kept_bytes.store(state.kept.bytes(), Ordering::Relaxed);
        gone
    }

    /// Whether a group may be kept until the backend has applied it. One does if nothing else is
    /// kept, so that it can be larger than the bound.
    fn has_room_to_keep(&self, group: &Closing) -> bool {
        let fits =
            |kept: usize| kept == 0 || kept + group.layer.bytes() <= self.bounds.kept_bytes_max;
        if fits(self.kept_bytes.load(Ordering::Relaxed)) {
            return true;
        }
        let applied = self.backend.applied();
        let gone = self.retire_applied(&mut self.lock(), applied);
        drop(gone);
        fits(self.kept_bytes.load(Ordering::Relaxed))
    }

    /// Makes few layers of the kept ones, without the lock: only the writer changes them.
    fn merge_kept(&self) {
        while self.kept_bytes.load(Ordering::Relaxed) > 0 {
            let Some((at, pair)) = self.lock().kept.to_merge() else { return };
            let merged = KeptLayer::merged(&pair);
            let mut state = self.lock();
            state.kept.replace(at, merged);
            self.kept_bytes.store(state.kept.bytes(), Ordering::Relaxed);
        }
    }

    /// The store is paused: the group stays the closing one, and is tried again.
    fn paused(&self, error: BackendError, given: Given) -> Tried {
        let now = self.time.now();
        let pause = Pause { cause: Arc::new(error) };
        let mut state = self.lock();
        let is_closing = state.closed;
        let paused = state.pause.get_or_insert_with(|| PauseState {
            pause: pause.clone(),
            since: now,
            tries: 0,
            closing_tries: 0,
            given,
            overdue: false,
        });
        paused.pause = pause.clone();
        paused.given = given;
        paused.tries += 1;
        paused.closing_tries += u32::from(is_closing);
        if paused.closing_tries >= CLOSING_TRIES_MAX {
            drop(state);
            self.poison(pause.cause);
            return Tried::Stopped;
        }
        let delay = pause::delay(paused.tries);
        let lasts = now.saturating_sub(paused.since);
        let tells = !paused.overdue && lasts >= self.bounds.pause_told_after;
        paused.overdue |= tells;
        let outcomes = state.outcomes();
        drop(state);
        if tells {
            for outcome in outcomes.into_iter().flatten() {
                outcome.set_overdue(Some(pause.clone()));
            }
            self.overdue.notify_waiters();
        }
        Tried::Paused(delay)
    }

    /// Stops for good: everything that is not durable is lost, and everybody is told.
    fn poison(&self, cause: Arc<BackendError>) {
        let (poison, outcomes) = {
            let mut state = self.lock();
            let poison = Poison { cause, durable: state.durable };
            state.poison = Some(poison.clone());
            state.pause = None;
            (poison, state.outcomes())
        };
        self.room.close();
        for outcome in outcomes.into_iter().flatten() {
            outcome.end(Err(Lost::Poisoned(poison.clone())));
        }
        self.stopped.notify_waiters();
    }
}

impl State {
    fn given(&self) -> Given {
        self.pause.as_ref().map_or(Given::Never, |pause| pause.given)
    }

    /// Where callers wait for what is not durable.
    fn outcomes(&self) -> [Option<Arc<Outcome>>; 2] {
        let closing = self.closing.as_ref().map(|closing| Arc::clone(&closing.outcome));
        [closing, Some(Arc::clone(&self.open_outcome))]
    }
}
