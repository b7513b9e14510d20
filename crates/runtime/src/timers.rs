//! Which timers are due. They are rows of the store, the next one first; memory holds only how
//! far they were read, so a hundred thousand that wait cost nothing.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use indelible_journal::Timestamp;
use indelible_store::rows::timers::{self, Timer};
use indelible_store::{ReadError, Store};

use crate::shared::lock;

/// How many rows are read at a time.
const PAGE: usize = 256;

/// Which timers are due.
#[derive(Default)]
pub(crate) struct Timers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Told to their trees, and not yet gone from the store.
    told: BTreeSet<Timer>,
    /// When to look again; none: when something changes.
    next: Option<Timestamp>,
    closed: bool,
}

impl Timers {
    /// A commit put and deleted timers.
    pub(crate) fn changed(&self, timers: &[(Timer, bool)], earliest: Option<Timestamp>) {
        if timers.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        for (timer, put) in timers {
            if !put {
                state.told.remove(timer);
            }
        }
        if let Some(earliest) = earliest
            && state.next.is_none_or(|next| earliest < next)
        {
            state.next = Some(earliest);
            self.changed.notify_all();
        }
    }

    /// The timers that are due now and were not told; each is told once. Looks at the store only
    /// if there may be some.
    pub(crate) fn due(&self, store: &Store, now: Timestamp) -> Result<Vec<Timer>, ReadError> {
        {
            let mut state = lock(&self.state);
            if state.next.is_none_or(|next| next > now) {
                return Ok(Vec::new());
            }
            // What is put from here on sets it anew.
            state.next = None;
        }
        let mut due = Vec::new();
        let mut after: Option<Timer> = None;
        let mut next = None;
        loop {
            let page = timers::next(store, after.as_ref(), PAGE)?.value;
            let full = page.len() == PAGE;
            after = page.last().cloned();
            let mut state = lock(&self.state);
            for timer in page {
                if timer.due > now {
                    next = Some(timer.due);
                    break;
                }
                if state.told.insert(timer.clone()) {
                    due.push(timer);
                }
            }
            if next.is_some() || !full {
                state.next = state.next.into_iter().chain(next).min();
                return Ok(due);
            }
        }
    }

    /// Tells of everything again that is due.
    pub(crate) fn forget_told(&self) {
        lock(&self.state).told.clear();
        self.look();
    }

    /// Looks at the store when the engine starts.
    pub(crate) fn look(&self) {
        lock(&self.state).next = Some(Timestamp::EPOCH);
        self.changed.notify_all();
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        lock(&self.state).next
    }

    /// Waits until something may be due. False when the engine stops. At most a second, because
    /// the clock may be set.
    pub(crate) fn wait(&self, now: Timestamp) -> bool {
        let state = lock(&self.state);
        if state.closed {
            return false;
        }
        let wait = match state.next {
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

    /// No more timers.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }
}
