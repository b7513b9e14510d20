//! The writer: takes whatever is accepted, makes one backend commit of it, says how it went, and
//! goes on. It syncs whenever something is pending and no sync runs (D2).

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use bytes::Bytes;

use super::layer::Layer;
use super::{Closing, Hand, POSITION_KEY, Shared, State};
use crate::backend::{BackendError, caught};
use crate::batch::Write;
use crate::error::{Lost, Poison};
use crate::position::Position;
use crate::table::PIPELINE;

pub(super) fn run(shared: &Shared) {
    while let Some(group) = shared.take() {
        if !shared.write(&group) {
            return;
        }
    }
    shared.close_backend();
}

impl Shared {
    /// What the writer does, by hand: takes what is accepted, or commits what was taken. Two
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
            drop(state);
            self.write(&group);
            return true;
        }
        if state.open.is_empty() {
            return false;
        }
        self.take_open(state);
        true
    }

    /// Commits a group, and says how it went. False: that was the end of the store.
    fn write(&self, group: &Closing) -> bool {
        let result = caught(|| self.commit(group));
        let went_well = result.is_ok();
        self.retire(group, result);
        went_well
    }

    pub(super) fn close_backend(&self) {
        if let Err(error) = caught(|| self.backend.close()) {
            self.poison(error);
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
        };
        state.closing = Some(closing.clone());
        let permits = std::mem::take(&mut state.open_permits);
        drop(state);
        self.room.add_permits(permits);
        closing
    }

    fn commit(&self, group: &Closing) -> Result<(), BackendError> {
        let writes = self.backend_writes(&group.layer, group.last);
        let made = writes.len();
        self.backend.commit(writes)?;
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
    fn backend_writes(&self, layer: &Layer, last: Position) -> Vec<Write> {
        let mut writes = Vec::with_capacity(layer.keys() + 1);
        for table in &self.list {
            for (key, value) in layer.backend_changes(table) {
                writes.push(Write { table: *table, key: key.clone(), value: value.clone() });
            }
        }
        writes.push(Write {
            table: PIPELINE,
            key: Bytes::from_static(POSITION_KEY),
            value: Some(Bytes::copy_from_slice(&last.number().to_be_bytes())),
        });
        writes
    }

    /// Ends a group: durable, or the end of the store.
    fn retire(&self, group: &Closing, result: Result<(), BackendError>) {
        match result {
            Ok(()) => {
                {
                    let mut state = self.lock();
                    state.durable = group.last;
                    state.closing = None;
                    state.retired += 1;
                    self.retired.store(state.retired, Ordering::Release);
                }
                group.outcome.end(Ok(()));
            }
            Err(error) => self.poison(error),
        }
    }

    /// Stops for good: everything that is not durable is lost, and everybody is told.
    fn poison(&self, error: BackendError) {
        let (poison, outcomes) = {
            let mut state = self.lock();
            let poison = Poison { cause: Arc::new(error), durable: state.durable };
            state.poison = Some(poison.clone());
            let closing = state.closing.as_ref().map(|closing| Arc::clone(&closing.outcome));
            (poison, [closing, Some(Arc::clone(&state.open_outcome))])
        };
        self.room.close();
        for outcome in outcomes.into_iter().flatten() {
            outcome.end(Err(Lost::Poisoned(poison.clone())));
        }
        self.stopped.notify_waiters();
    }
}
