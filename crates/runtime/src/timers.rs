//! Which timers are due. They are rows of the store, in the order in which they are due; memory
//! holds only how far they were read and which were sent to their machines. So a hundred thousand
//! waiting timers cost nothing, and neither do a hundred thousand that are due at once: only so
//! many are sent at a time.
//!
//! Timers of volatile executions are in memory alone, and go when they are sent (C-39).

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use indelible_journal::{RootHash, Timestamp};
use indelible_machine::TimerChange;
use indelible_records::timers::{self, Row, Timer};
use indelible_store::{ReadError, Store};

use crate::hosted::MachineId;
use crate::shared::lock;

/// How many rows are read at a time.
const PAGE: usize = 256;

/// How many may be sent and not yet done with: further ones are sent when these are.
const TOLD_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct Timers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Sent to their machines, and not yet gone from the store.
    told: BTreeSet<Row>,
    /// Sent, but their rows stay: until the end that they led to is written, or, if their machine
    /// cannot be read, until a restart.
    kept: BTreeSet<Row>,
    /// Timers of volatile executions, which have no rows.
    in_memory: BTreeSet<Timer>,
    /// All timers before this time were sent. Reading begins here: deleted rows leave traces in the
    /// store that are slow to read over.
    from: Timestamp,
    /// When to look again; none: when a timer is put.
    next: Option<Timestamp>,
    /// `told` is full: the commit that makes it half empty wakes the timers' thread.
    full: bool,
    /// The timers' thread has something else to look at than timers.
    poked: bool,
    closed: bool,
}

impl State {
    fn next_in_memory(&self) -> Option<Timestamp> {
        self.in_memory.first().map(|timer| timer.due)
    }

    /// When a timer may be due.
    fn next(&self) -> Option<Timestamp> {
        self.next.into_iter().chain(self.next_in_memory()).min()
    }
}

impl Timers {
    /// A commit put and deleted timers.
    pub(crate) fn changed(&self, timers: &[(Row, TimerChange)]) {
        if timers.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        let of = |wanted| {
            timers.iter().filter(move |(_, change)| *change == wanted).map(|(timer, _)| timer)
        };
        for timer in of(TimerChange::Keep) {
            state.told.remove(timer);
            state.kept.insert(timer.clone());
        }
        // After those that stay: a timer may fire, and what it led to may be over in the same
        // commit, which may also put another timer for the same moment, and so the same row. A row
        // that counted as sent would not fire before a restart.
        for timer in of(TimerChange::Delete) {
            if !state.told.remove(timer) {
                state.kept.remove(timer);
            }
        }
        if state.full && state.told.len() <= TOLD_MAX / 2 {
            state.full = false;
            self.changed.notify_all();
        }
        if let Some(earliest) = of(TimerChange::Put).map(Row::due).min() {
            state.from = state.from.min(earliest);
            if state.next.is_none_or(|next| earliest < next) {
                state.next = Some(earliest);
                self.changed.notify_all();
            }
        }
    }

    /// The same for timers of volatile executions.
    pub(crate) fn changed_in_memory(&self, timers: Vec<(Timer, TimerChange)>) {
        if timers.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        let before = state.next();
        for (timer, change) in timers {
            match change {
                TimerChange::Put => drop(state.in_memory.insert(timer)),
                TimerChange::Delete | TimerChange::Keep => drop(state.in_memory.remove(&timer)),
            }
        }
        let next = state.next();
        if next.is_some_and(|next| before.is_none_or(|before| next < before)) {
            self.changed.notify_all();
        }
    }

    /// Timers of volatile executions that are due now. Each is returned once.
    pub(crate) fn due_in_memory(&self, now: Timestamp) -> Vec<Timer> {
        lock(&self.state).in_memory.extract_if(.., |timer| timer.due <= now).collect()
    }

    /// A machine was given up with the timers it had been sent: their rows stay until a restart,
    /// and those of volatile executions are gone.
    pub(crate) fn keep_all(&self, id: &MachineId) {
        let mut state = lock(&self.state);
        let of_root = |timer: &Timer, root| timer.key.execution_id().root() == root;
        let told = |row: &Row| match (row, id) {
            (Row::Tree(timer), MachineId::Tree(root)) => of_root(timer, root),
            (Row::Room(timer), MachineId::Room(key)) => timer.key == *key,
            _ => false,
        };
        let kept: Vec<_> = state.told.extract_if(.., told).collect();
        state.kept.extend(kept);
        if let MachineId::Tree(root) = id {
            state.in_memory.retain(|timer| !of_root(timer, root));
        }
    }

    /// Forgets the timers of a tree's volatile executions, which are gone.
    pub(crate) fn forget_in_memory(&self, root: &RootHash) {
        lock(&self.state).in_memory.retain(|timer| timer.key.execution_id().root() != root);
    }

    /// Timers that are due now and were not returned before, as many as there is room for: the
    /// others are due at the next look. Reads the store only if there may be some.
    pub(crate) fn due(&self, store: &Store, now: Timestamp) -> Result<Vec<Row>, ReadError> {
        let from = {
            let mut state = lock(&self.state);
            if state.next.is_none_or(|next| next > now) {
                return Ok(Vec::new());
            }
            if state.told.len() >= TOLD_MAX {
                state.full = true;
                return Ok(Vec::new());
            }
            // Timers that are put from here on set both anew.
            state.next = None;
            std::mem::replace(&mut state.from, Timestamp::MAX)
        };
        let read = self.read(store, now, from);
        let mut state = lock(&self.state);
        match read {
            Ok((due, next)) => {
                state.next = state.next.into_iter().chain(next).min();
                state.from = state.from.min(next.unwrap_or(Timestamp::MAX));
                Ok(due)
            }
            Err(error) => {
                state.next = state.next.into_iter().chain([from]).min();
                state.from = state.from.min(from);
                Err(error)
            }
        }
    }

    /// Reads on from a time. Returns the due timers, and when the first of the others is due.
    fn read(
        &self,
        store: &Store,
        now: Timestamp,
        from: Timestamp,
    ) -> Result<(Vec<Row>, Option<Timestamp>), ReadError> {
        let mut due = Vec::new();
        let mut page = timers::from(store, from, PAGE)?.value;
        loop {
            let Some(last) = page.last().cloned() else { return Ok((due, None)) };
            let mut state = lock(&self.state);
            for row in page {
                // The row was noted as damage, and is skipped.
                if matches!(row, Row::UnknownRoom { .. }) {
                    continue;
                }
                if row.due() > now {
                    return Ok((due, Some(row.due())));
                }
                if state.told.contains(&row) || state.kept.contains(&row) {
                    continue;
                }
                if state.told.len() >= TOLD_MAX {
                    state.full = true;
                    return Ok((due, Some(row.due())));
                }
                state.told.insert(row.clone());
                due.push(row);
            }
            drop(state);
            page = match timers::next(store, Some(&last), PAGE) {
                Ok(page) => page.value,
                Err(error) if due.is_empty() => return Err(error),
                // The rows that were found are sent; the next look meets the error again.
                Err(_) => return Ok((due, Some(last.due()))),
            };
        }
    }

    /// Sends all due timers again.
    pub(crate) fn forget_told(&self) {
        {
            let mut state = lock(&self.state);
            state.told.clear();
            state.kept.clear();
        }
        self.look();
    }

    /// Looks at the store from its first row on, as when the engine starts.
    pub(crate) fn look(&self) {
        let mut state = lock(&self.state);
        state.next = Some(Timestamp::EPOCH);
        state.from = Timestamp::EPOCH;
        self.changed.notify_all();
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        lock(&self.state).next()
    }

    /// How many were sent and are not done with.
    pub(crate) fn fired_count(&self) -> usize {
        lock(&self.state).told.len()
    }

    /// Waits until a timer may be due and there is room for it, at most a second, because the clock
    /// may be set. False when the engine stops.
    pub(crate) fn wait(&self, now: Timestamp) -> bool {
        let mut state = lock(&self.state);
        if state.closed {
            return false;
        }
        if std::mem::take(&mut state.poked) {
            return true;
        }
        let next = if state.full { state.next_in_memory() } else { state.next() };
        let wait = match next {
            Some(next) => Duration::from_micros(next.saturating_since(now).get()),
            None => Duration::from_secs(1),
        };
        let wait = wait.min(Duration::from_secs(1));
        if wait.is_zero() {
            return true;
        }
        let (state, _) =
            self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Waits a while before the next look, unless the engine stops.
    pub(crate) fn pause(&self) {
        let state = lock(&self.state);
        if !state.closed {
            let wait = self.changed.wait_timeout(state, Duration::from_secs(1));
            drop(wait.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Wakes the timers' thread, also if it is only about to wait.
    pub(crate) fn poke(&self) {
        lock(&self.state).poked = true;
        self.changed.notify_all();
    }

    /// Ends the timers' thread.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }
}
