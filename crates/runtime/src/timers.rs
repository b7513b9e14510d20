//! Which timers are due. They are rows of the store, the next one first; memory holds only how
//! far they were read and which were told, so a hundred thousand that wait cost nothing, and
//! neither do a hundred thousand that are due at once: so many are told at a time.
//!
//! Those of volatile executions are in memory alone, and go when they are told (C-39).

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

/// How many may be told and not yet done with: further ones are told when these are.
const TOLD_MAX: usize = 1_024;

/// Which timers are due.
#[derive(Default)]
pub(crate) struct Timers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Told to their machines, and not yet gone from the store.
    told: BTreeSet<Row>,
    /// Told, and their rows stay: until the end is written that they led to, or because what
    /// they belong to cannot be read.
    kept: BTreeSet<Row>,
    /// Of volatile executions: they are in no row.
    in_memory: BTreeSet<Timer>,
    /// Everything before this time was told. What is there no more leaves traces in the store
    /// which take time to read over.
    from: Timestamp,
    /// When to look again; none: when something changes.
    next: Option<Timestamp>,
    /// As many were told as may be: whoever makes room says so.
    full: bool,
    /// There is something else to look at than timers.
    poked: bool,
    closed: bool,
}

impl State {
    fn next_in_memory(&self) -> Option<Timestamp> {
        self.in_memory.first().map(|timer| timer.due)
    }

    /// When something may be due.
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
        for (timer, change) in timers {
            match change {
                TimerChange::Put => {}
                TimerChange::Delete => {
                    if !state.told.remove(timer) {
                        state.kept.remove(timer);
                    }
                }
                TimerChange::Keep => {
                    state.told.remove(timer);
                    state.kept.insert(timer.clone());
                }
            }
        }
        if state.full && state.told.len() <= TOLD_MAX / 2 {
            state.full = false;
            self.changed.notify_all();
        }
        let put = timers.iter().filter(|(_, change)| *change == TimerChange::Put);
        if let Some(earliest) = put.map(|(timer, _)| timer.due()).min() {
            state.from = state.from.min(earliest);
            if state.next.is_none_or(|next| earliest < next) {
                state.next = Some(earliest);
                self.changed.notify_all();
            }
        }
    }

    /// The same for those of volatile executions.
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

    /// Timers of volatile executions that are due now. Each is told once.
    pub(crate) fn due_in_memory(&self, now: Timestamp) -> Vec<Timer> {
        lock(&self.state).in_memory.extract_if(.., |timer| timer.due <= now).collect()
    }

    /// A machine was given up with what it had been told: its rows stay until the next start, and what
    /// was volatile is gone.
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

    /// What was volatile in a tree is gone, and so are its timers.
    pub(crate) fn forget_in_memory(&self, root: &RootHash) {
        lock(&self.state).in_memory.retain(|timer| timer.key.execution_id().root() != root);
    }

    /// Timers that are due now and were not told; each is told once. As many as there is room
    /// for: the others are due at the next look. Looks at the store only if there may be some.
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
            // What is put from here on sets both anew.
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

    /// Reads on from a time. What is due, and the time of the first that is not told.
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
                // It was noted as damage, and is left behind.
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
                // What was found is told; the next look meets the error again.
                Err(_) => return Ok((due, Some(last.due()))),
            };
        }
    }

    /// Tells of everything again that is due.
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

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        lock(&self.state).next()
    }

    /// How many were told and are not done with.
    pub(crate) fn told(&self) -> usize {
        lock(&self.state).told.len()
    }

    /// Waits until something may be due and there is room for it. False when the engine stops. At
    /// most a second, because the clock may be set.
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

    /// No more timers.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }
}
