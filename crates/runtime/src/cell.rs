//! A tree's place in memory: its inbox, its state, and how many threads work on it.
//!
//! Any thread leaves commands for the tree in the inbox, whose lock is held only briefly; the
//! state's lock may be held for long, by workers alone. A tree is in the run queue as often as it
//! has turns.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::command::Command;
use crate::hosted::{Hosted, MachineId};
use crate::rooms::Rooms;
use crate::run_queue::Flow;
use crate::shared::lock;

pub(crate) struct Cell {
    pub(crate) id: MachineId,
    home: Flow,
    busy: AtomicBool,
    inbox: Mutex<Inbox>,
    hosted: Mutex<Hosted>,
}

#[derive(Default)]
struct Inbox {
    commands: VecDeque<Command>,
    /// How often the tree is in the run queue, or on a worker.
    turns: usize,
}

/// What a turn leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// More to do: the turn goes on in the run queue.
    More,
    /// Other workers still have turns of the same tree.
    Others,
    /// No other worker has a turn of it.
    Last,
}

impl Cell {
    pub(crate) fn new(id: MachineId, hosted: Hosted, home: Flow) -> Self {
        let busy = AtomicBool::new(false);
        Self { id, home, busy, inbox: Mutex::default(), hosted: Mutex::new(hosted) }
    }

    #[cfg(test)]
    pub(crate) fn of_tree(root: indelible_journal::RootHash, home: Flow) -> Self {
        let id = MachineId::Tree(root);
        let hosted = Hosted::new(&id, &Rooms::default()).expect("trees are always there");
        Self::new(id, hosted, home)
    }

    /// The flow whose turns it takes.
    pub(crate) fn flow(&self) -> Flow {
        if self.busy.load(Ordering::Relaxed) { Flow::BUSY } else { self.home }
    }

    /// Whether the tree has used up a whole slice of time: then it takes turns only in the flow
    /// that all such trees share.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Drops the commands, unanswered, and the state in memory.
    pub(crate) fn clear(&self, rooms: &Rooms) {
        let commands = std::mem::take(&mut lock(&self.inbox).commands);
        let empty = Hosted::new(&self.id, rooms).expect("it was made before");
        let hosted = std::mem::replace(&mut *self.hosted(), empty);
        // Dropped without a lock: guests that are dropped hold on to this cell.
        drop((commands, hosted));
    }

    /// Leaves a command. True: the caller must put the tree into the run queue.
    pub(crate) fn tell(&self, command: Command) -> bool {
        let mut inbox = lock(&self.inbox);
        inbox.commands.push_back(command);
        let idle = inbox.turns == 0;
        if idle {
            inbox.turns = 1;
        }
        idle
    }

    pub(crate) fn next_command(&self) -> Option<Command> {
        lock(&self.inbox).commands.pop_front()
    }

    /// Reserves a turn for one more worker; false if the tree has `turns_max` already.
    pub(crate) fn one_more(&self, turns_max: usize) -> bool {
        let mut inbox = lock(&self.inbox);
        let more = inbox.turns < turns_max;
        if more {
            inbox.turns += 1;
        }
        more
    }

    /// Ends a turn, unless there is more to do.
    pub(crate) fn leave(&self, has_work: bool) -> TurnEnd {
        let mut inbox = lock(&self.inbox);
        if has_work || !inbox.commands.is_empty() {
            return TurnEnd::More;
        }
        inbox.turns -= 1;
        if inbox.turns == 0 { TurnEnd::Last } else { TurnEnd::Others }
    }

    /// Whether no worker has a turn of it and no command waits.
    pub(crate) fn is_idle(&self) -> bool {
        let inbox = lock(&self.inbox);
        inbox.turns == 0 && inbox.commands.is_empty()
    }

    /// The tree itself, and what the host keeps for it.
    pub(crate) fn hosted(&self) -> MutexGuard<'_, Hosted> {
        lock(&self.hosted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last worker to leave is told so: it alone can see that the tree is not needed in memory.
    #[test]
    fn the_last_to_leave_knows_it() {
        let root = indelible_journal::RootHash::from_bytes([7; 32]);
        let cell = Cell::of_tree(root, Flow::GOING_ON);
        let execution = indelible_journal::ExecutionId::root_of(root);
        let key = indelible_journal::JournalKey::first(execution);
        assert!(cell.tell(Command::tell(indelible_execution::Input::Evicted(key))));
        assert!(cell.one_more(2));
        assert!(!cell.one_more(2));
        assert_eq!(cell.leave(false), TurnEnd::More, "there is a command");
        assert!(cell.next_command().is_some());
        assert_eq!(cell.leave(true), TurnEnd::More);
        assert_eq!(cell.leave(false), TurnEnd::Others);
        assert_eq!(cell.leave(false), TurnEnd::Last);
        assert!(cell.is_idle());
    }
}
