//! The trees that have something to do, first come, first served.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::cell::Cell;
use crate::shared::lock;

/// The trees that have something to do.
#[derive(Default)]
pub(crate) struct RunQueue {
    state: Mutex<State>,
    work: Condvar,
    closing: Condvar,
}

#[derive(Default)]
struct State {
    cells: VecDeque<Arc<Cell>>,
    closed: bool,
}

impl RunQueue {
    pub(crate) fn push(&self, cell: Arc<Cell>) {
        lock(&self.state).cells.push_back(cell);
        self.work.notify_one();
    }

    /// The next tree, if there is one.
    pub(crate) fn try_pop(&self) -> Option<Arc<Cell>> {
        lock(&self.state).cells.pop_front()
    }

    /// One of the trees that have something to do: the next, or one so many places behind it.
    pub(crate) fn try_pop_at(&self, choice: usize) -> Option<Arc<Cell>> {
        let cells = &mut lock(&self.state).cells;
        if cells.is_empty() { None } else { cells.remove(choice % cells.len()) }
    }

    /// The next tree, as soon as there is one; none when the engine stops.
    pub(crate) fn pop(&self) -> Option<Arc<Cell>> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            if let Some(cell) = state.cells.pop_front() {
                return Some(cell);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits so long. False when the engine stops.
    pub(crate) fn wait_open(&self, time: Duration) -> bool {
        let state = lock(&self.state);
        if state.closed {
            return false;
        }
        let (state, _) =
            self.closing.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// No more work: whoever waits leaves.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.work.notify_all();
        self.closing.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.state).cells.len()
    }
}
