//! A tree's place in memory: its inbox, its state, and how many threads are at it.
//!
//! Whoever wants something of a tree leaves a command in the inbox, which nobody holds for long;
//! the state is locked by workers alone. A tree is in the run queue as often as it has turns.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::command::Command;
use crate::hosted::{Hosted, MachineId};
use crate::rooms::Rooms;
use crate::run_queue::Flow;
use crate::shared::lock;

/// A tree's place in memory.
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
pub(crate) enum Left {
    /// More to do: the turn goes on in the run queue.
    More,
    /// Other turns of the same tree.
    Others,
    /// Nobody is at it any more.
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

    /// Whose turns it takes.
    pub(crate) fn flow(&self) -> Flow {
        if self.busy.load(Ordering::Relaxed) { Flow::BUSY } else { self.home }
    }

    /// Whether it has used up a whole slice of time: then it takes its turns from those who did
    /// so, too, and from nobody else.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Nobody is answered any more, and what is in memory is dropped.
    pub(crate) fn clear(&self, rooms: &Rooms) {
        let commands = std::mem::take(&mut lock(&self.inbox).commands);
        let empty = Hosted::new(&self.id, rooms).expect("it was made before");
        let hosted = std::mem::replace(&mut *self.hosted(), empty);
        // Dropped without a lock: guests that are dropped hold on to this cell.
        drop((commands, hosted));
    }

    /// Leaves a command. True: the tree has to go into the run queue.
    pub(crate) fn tell(&self, command: Command) -> bool {
        let mut inbox = lock(&self.inbox);
        inbox.commands.push_back(command);
        let idle = inbox.turns == 0;
        if idle {
            inbox.turns = 1;
        }
        idle
    }

    /// The next command.
    pub(crate) fn next_command(&self) -> Option<Command> {
        lock(&self.inbox).commands.pop_front()
    }

    /// One more thread may come: true if that is not too many.
    pub(crate) fn one_more(&self, turns_max: usize) -> bool {
        let mut inbox = lock(&self.inbox);
        let more = inbox.turns < turns_max;
        if more {
            inbox.turns += 1;
        }
        more
    }

    /// A turn is over, unless there is more to do.
    pub(crate) fn leave(&self, has_work: bool) -> Left {
        let mut inbox = lock(&self.inbox);
        if has_work || !inbox.commands.is_empty() {
            return Left::More;
        }
        inbox.turns -= 1;
        if inbox.turns == 0 { Left::Last } else { Left::Others }
    }

    /// Whether nobody is at it and nobody wants anything.
    pub(crate) fn is_idle(&self) -> bool {
        let inbox = lock(&self.inbox);
        inbox.turns == 0 && inbox.commands.is_empty()
    }

    /// The tree itself, and what is kept for it.
    pub(crate) fn hosted(&self) -> MutexGuard<'_, Hosted> {
        lock(&self.hosted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever leaves last is told so: it alone can see that nothing of the tree is needed.
    #[test]
    fn the_last_to_leave_knows_it() {
        let root = indelible_journal::RootHash::from_bytes([7; 32]);
        let cell = Cell::of_tree(root, Flow::GOING_ON);
        let execution = indelible_journal::ExecutionId::root_of(root);
        let key = indelible_journal::JournalKey::first(execution);
        assert!(cell.tell(Command::tell(indelible_execution::Input::Evicted(key))));
        assert!(cell.one_more(2));
        assert!(!cell.one_more(2));
        assert_eq!(cell.leave(false), Left::More, "there is a command");
        assert!(cell.next_command().is_some());
        assert_eq!(cell.leave(true), Left::More);
        assert_eq!(cell.leave(false), Left::Others);
        assert_eq!(cell.leave(false), Left::Last);
        assert!(cell.is_idle());
    }
}
