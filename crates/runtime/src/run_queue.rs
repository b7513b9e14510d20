//! The trees that have something to do, and whose turn is next.
//!
//! Trees are in *flows*: those that were started by calls of the same function, those that go on
//! after a wait, and those that have just used up a whole slice of time. The flow that has had the
//! least time is next, and within a flow the tree that came first. So a function with a long queue,
//! or guests that compute for seconds, take time from their own flow and not from others.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::cell::Cell;
use crate::shared::lock;

/// A group of trees that share their time with other groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Flow(u64);

impl Flow {
    /// Trees that go on: after a wait, or after a restart.
    pub(crate) const GOING_ON: Self = Self(0);

    /// Trees that have used up a slice: however many they are, together they have one share.
    pub(crate) const BUSY: Self = Self(2);

    /// A person's requests: they are admitted when a flood of others is not.
    pub(crate) const CONTROL: Self = Self(4);

    /// The calls of the function with this hash. Odd, and so none of the above.
    pub(crate) fn of(hash: u64) -> Self {
        Self(hash | 1)
    }
}

/// The time charged for a turn when it begins, so that two workers do not take the same flow for
/// the one that had least. In microseconds, like all times here.
const TURN_GUESS: u64 = 50;

/// How many empty flows are remembered, for the time that they have had.
const EMPTY_FLOWS_MAX: usize = 1_024;

/// A tree whose turn it is, and the flow that pays for it.
pub(crate) struct QueuedTurn {
    pub(crate) cell: Arc<Cell>,
    pub(crate) flow: Flow,
}

#[derive(Default)]
pub(crate) struct RunQueue {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    flows: HashMap<Flow, Lane>,
    /// The non-empty flows, by the time that they have had.
    order: BTreeSet<(u64, Flow)>,
    /// The time of the flow that was last taken from. A flow that comes back begins here at least;
    /// otherwise it would make up for all the time in which it had nothing to do.
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

    fn pop(&mut self) -> Option<QueuedTurn> {
        let (had, flow) = *self.order.first()?;
        self.floor = self.floor.max(had);
        self.take(flow, 0)
    }

    /// Takes a tree of a flow, and charges the flow for a turn.
    fn take(&mut self, flow: Flow, place: usize) -> Option<QueuedTurn> {
        let cell = self.flows.get_mut(&flow)?.cells.remove(place)?;
        self.count -= 1;
        self.charge(flow, TURN_GUESS);
        Some(QueuedTurn { cell, flow })
    }

    /// Adds to the time that a flow has had.
    fn charge(&mut self, flow: Flow, time: u64) {
        let Some(lane) = self.flows.get_mut(&flow) else { return };
        self.order.remove(&(lane.had, flow));
        lane.had = lane.had.saturating_add(time);
        if !lane.cells.is_empty() {
            self.order.insert((lane.had, flow));
        } else if self.order.is_empty() {
            // No tree waits: the next flow to come begins where this one is.
            self.floor = self.floor.max(lane.had);
        }
        if self.flows.len() > self.order.len() + EMPTY_FLOWS_MAX {
            let floor = self.floor;
            self.flows.retain(|_, lane| !lane.cells.is_empty() || lane.had > floor);
        }
    }

    /// The tree that is so many places behind the first, counted round.
    fn pop_at(&mut self, choice: usize) -> Option<QueuedTurn> {
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
    /// Queues a tree that has something to do. A closed queue drops it.
    pub(crate) fn push(&self, cell: Arc<Cell>) {
        let mut state = lock(&self.state);
        if !state.closed {
            state.push(cell);
            self.work.notify_one();
        }
    }

    pub(crate) fn try_pop(&self) -> Option<QueuedTurn> {
        lock(&self.state).pop()
    }

    /// The runnable tree that is `choice` places behind the next, counted round.
    pub(crate) fn try_pop_at(&self, choice: usize) -> Option<QueuedTurn> {
        lock(&self.state).pop_at(choice)
    }

    /// The next tree, as soon as there is one; none when the engine stops.
    pub(crate) fn pop(&self) -> Option<QueuedTurn> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            if let Some(taken) = state.pop() {
                return Some(taken);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A turn of this flow took so many microseconds.
    pub(crate) fn took(&self, flow: Flow, micros: u64) {
        // Most turns take no longer than was charged: they cost no lock.
        if micros > TURN_GUESS {
            lock(&self.state).charge(flow, micros - TURN_GUESS);
        }
    }

    /// Closes the queue: workers that wait for a turn leave.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        self.work.notify_all();
        let left = std::mem::take(&mut state.flows);
        state.order.clear();
        state.count = 0;
        drop(state);
        // Dropped without the lock: it may take long.
        drop(left);
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.state).count
    }
}

#[cfg(test)]
mod tests {
    use indelible_journal::RootHash;

    use super::*;
    use crate::hosted::MachineId;

    fn cell(number: u8, flow: Flow) -> Arc<Cell> {
        Arc::new(Cell::of_tree(RootHash::from_bytes([number; 32]), flow))
    }

    fn number_of(cell: &Cell) -> u8 {
        match &cell.id {
            MachineId::Tree(root) => root.as_bytes()[0],
            MachineId::Room(_) => panic!("it is a tree"),
        }
    }

    fn next(queue: &RunQueue) -> Option<u8> {
        queue.try_pop().map(|taken| number_of(&taken.cell))
    }

    /// Flows take turns, and within a flow the first to come is the first to go.
    #[test]
    fn flows_take_turns() {
        let queue = RunQueue::default();
        for number in 1..=4 {
            queue.push(cell(number, Flow::of(7)));
        }
        queue.push(cell(9, Flow::of(9)));
        let order: Vec<_> = std::iter::from_fn(|| next(&queue)).collect();
        assert_eq!(order, [1, 9, 2, 3, 4]);
        assert_eq!(queue.len(), 0);
    }

    /// A flow that computes for long waits until others have had as much time; one that comes back
    /// after a while does not make up for the time in which it had nothing to do.
    #[test]
    fn time_is_what_counts() {
        let queue = RunQueue::default();
        let (busy, others) = (Flow::of(7), Flow::of(9));
        queue.push(cell(1, busy));
        queue.push(cell(2, others));
        assert_eq!(next(&queue), Some(1));
        queue.took(busy, 1_000);
        queue.push(cell(1, busy));
        // 20 turns of 50 microseconds are as much as one of 1000.
        for _ in 0..20 {
            queue.push(cell(2, others));
            assert_eq!(next(&queue), Some(2));
        }
        assert_eq!([next(&queue), next(&queue), next(&queue)], [Some(1), Some(2), None]);
        // Alone, a flow has all the time there is, and has no debt for it afterwards.
        for _ in 0..100 {
            queue.took(busy, 1_000);
            queue.push(cell(1, busy));
            assert_eq!(next(&queue), Some(1));
        }
        for _ in 0..3 {
            queue.push(cell(1, busy));
            queue.push(cell(2, others));
        }
        let order: Vec<_> = std::iter::from_fn(|| next(&queue)).collect();
        assert_eq!(order, [1, 2, 1, 2, 1, 2]);
    }

    /// Any tree can be taken out of turn, and each is taken once.
    #[test]
    fn any_of_them_can_be_taken() {
        let queue = RunQueue::default();
        for number in 0..6 {
            queue.push(cell(number, Flow::of(u64::from(number % 2) * 2)));
        }
        let mut taken: Vec<_> = [10, 3, 99, 0, 1, 1]
            .into_iter()
            .filter_map(|choice| queue.try_pop_at(choice))
            .map(|taken| number_of(&taken.cell))
            .collect();
        assert_ne!(taken, [0, 1, 2, 3, 4, 5]);
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
        assert!(queue.try_pop_at(5).is_none());
    }

    /// Flows that are empty and owe nothing are forgotten.
    #[test]
    fn empty_flows_are_forgotten() {
        let queue = RunQueue::default();
        for number in 0..10_000 {
            queue.push(cell(1, Flow::of(2 * number)));
            assert_eq!(next(&queue), Some(1));
        }
        assert!(lock(&queue.state).flows.len() < 2 * EMPTY_FLOWS_MAX);
    }

    /// However many trees compute, together they have one share: others hardly notice.
    #[test]
    fn many_that_compute_have_one_share() {
        let queue = RunQueue::default();
        for _ in 0..1_000 {
            let busy = cell(1, Flow::GOING_ON);
            busy.set_busy(true);
            queue.push(busy);
        }
        queue.push(cell(9, Flow::GOING_ON));
        let (mut small, mut busy) = (0, 0);
        while busy < 100 {
            let QueuedTurn { cell, flow } = queue.try_pop().expect("they all come back");
            queue.push(cell);
            if flow == Flow::BUSY {
                busy += 1;
                queue.took(flow, 10_000);
            } else {
                small += 1;
            }
        }
        assert!(small > 100 * 150, "{small}");
    }
}
