//! The trees that have something to do, and whose turn it is.
//!
//! Trees are in *flows*: those that were started by calls of the same function, those that go on
//! after a wait, and each that has used up a whole slice of time by itself. The flow that has had
//! the least time is next, and within a flow who came first. So a function with a long queue, or
//! a guest that computes for seconds, takes time from its own flow and not from others.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::cell::Cell;
use crate::shared::lock;

/// What belongs together when it comes to whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Flow(u64);

impl Flow {
    /// Trees that go on: after a wait, or after a restart.
    pub(crate) const GOING_ON: Self = Self(0);

    /// Whatever has this number.
    pub(crate) fn of(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// How much time a turn takes, until it is known: so that two workers do not take the same flow
/// for the one that had least. In microseconds, like all times here.
const TURN_GUESS: u64 = 50;

/// How many flows that are empty are remembered, for the time that they have had.
const EMPTY_FLOWS_MAX: usize = 1_024;

/// The trees that have something to do.
#[derive(Default)]
pub(crate) struct RunQueue {
    state: Mutex<State>,
    work: Condvar,
    closing: Condvar,
}

#[derive(Default)]
struct State {
    flows: HashMap<Flow, Lane>,
    /// The flows that are not empty, by the time that they have had.
    order: BTreeSet<(u64, Flow)>,
    /// What the flow had that was last taken from: one that comes back has had no less, or it
    /// would catch up with all the time in which it wanted nothing.
    floor: u64,
    count: usize,
    closed: bool,
}

#[derive(Default)]
struct Lane {
    cells: VecDeque<Arc<Cell>>,
    had: u64,
}

impl State {
    fn push(&mut self, cell: Arc<Cell>) {
        let flow = cell.flow();
        let lane = self.flows.entry(flow).or_default();
        if lane.cells.is_empty() {
            lane.had = lane.had.max(self.floor);
            self.order.insert((lane.had, flow));
        }
        lane.cells.push_back(cell);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Arc<Cell>> {
        let (had, flow) = *self.order.first()?;
        self.floor = self.floor.max(had);
        self.take(flow, 0)
    }

    /// Takes a tree of a flow, which has had a turn then.
    fn take(&mut self, flow: Flow, place: usize) -> Option<Arc<Cell>> {
        let cell = self.flows.get_mut(&flow)?.cells.remove(place)?;
        self.count -= 1;
        self.charge(flow, TURN_GUESS);
        Some(cell)
    }

    /// A flow has had so much time.
    fn charge(&mut self, flow: Flow, time: u64) {
        let Some(lane) = self.flows.get_mut(&flow) else { return };
        self.order.remove(&(lane.had, flow));
        lane.had = lane.had.saturating_add(time);
        if !lane.cells.is_empty() {
            self.order.insert((lane.had, flow));
        }
        if self.flows.len() > self.order.len() + EMPTY_FLOWS_MAX {
            let floor = self.floor;
            self.flows.retain(|_, lane| !lane.cells.is_empty() || lane.had > floor);
        }
    }

    /// The tree that is so many places behind the first, counted round.
    fn pop_at(&mut self, choice: usize) -> Option<Arc<Cell>> {
        let mut left = choice.checked_rem(self.count)?;
        let mut chosen = None;
        for (_, flow) in &self.order {
            let count = self.flows.get(flow).map_or(0, |lane| lane.cells.len());
            if left < count {
                chosen = Some(*flow);
                break;
            }
            left -= count;
        }
        self.take(chosen?, left)
    }
}

impl RunQueue {
    /// A tree has something to do. When the engine stops, nobody does it any more.
    pub(crate) fn push(&self, cell: Arc<Cell>) {
        let mut state = lock(&self.state);
        if !state.closed {
            state.push(cell);
            self.work.notify_one();
        }
    }

    /// The next tree, if there is one.
    pub(crate) fn try_pop(&self) -> Option<Arc<Cell>> {
        lock(&self.state).pop()
    }

    /// One of the trees that have something to do: the next, or one so many places behind it.
    pub(crate) fn try_pop_at(&self, choice: usize) -> Option<Arc<Cell>> {
        lock(&self.state).pop_at(choice)
    }

    /// The next tree, as soon as there is one; none when the engine stops.
    pub(crate) fn pop(&self) -> Option<Arc<Cell>> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            if let Some(cell) = state.pop() {
                return Some(cell);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A turn took so many microseconds.
    pub(crate) fn took(&self, flow: Flow, micros: u64) {
        // Most take about as long as was guessed: then there is nothing to say.
        if micros > TURN_GUESS {
            lock(&self.state).charge(flow, micros - TURN_GUESS);
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
        let mut state = lock(&self.state);
        state.closed = true;
        self.work.notify_all();
        self.closing.notify_all();
        let left = std::mem::take(&mut state.flows);
        state.order.clear();
        state.count = 0;
        drop(state);
        // Dropped without the lock: it may be much.
        drop(left);
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.state).count
    }
}
