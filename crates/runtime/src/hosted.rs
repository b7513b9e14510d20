//! A machine in its place in memory, whichever room it is of, as the host's turns know it.

use indelible_journal::RootHash;
use indelible_records::RoomKey;

use crate::command::Command;
use crate::hosted_room::HostedRoom;
use crate::hosted_tree::{HostedTree, Job};
use crate::rooms::Rooms;
use crate::shared::Shared;

/// Which machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MachineId {
    /// A tree of executions.
    Tree(RootHash),
    /// A machine of another room.
    Room(RoomKey),
}

/// A machine, and what its host keeps for it.
#[expect(clippy::large_enum_variant, reason = "nearly all are trees")]
pub(crate) enum Hosted {
    Tree(HostedTree),
    Room(HostedRoom),
}

impl Hosted {
    /// A machine that has nothing in memory. None: there is no such room.
    pub(crate) fn new(id: &MachineId, rooms: &Rooms) -> Option<Self> {
        Some(match id {
            MachineId::Tree(root) => Self::Tree(HostedTree::new(*root)),
            MachineId::Room(key) => Self::Room(HostedRoom::new(key.clone(), rooms.make(key.room)?)),
        })
    }

    /// The tree that it is: guests are of trees alone.
    pub(crate) fn tree(&mut self) -> &mut HostedTree {
        match self {
            Self::Tree(tree) => tree,
            Self::Room(_) => unreachable!("only trees have guests"),
        }
    }

    /// Does what came from outside.
    pub(crate) fn obey(&mut self, shared: &Shared, command: Command) {
        match (self, command) {
            (Self::Room(room), Command::Room(command)) => room.obey(shared, command),
            (Self::Tree(tree), command) => tree.obey(shared, command),
            (Self::Room(_), _) => {}
        }
    }

    /// The next guest to run.
    pub(crate) fn next(&mut self, shared: &Shared) -> Option<Job> {
        match self {
            Self::Tree(tree) => tree.next(shared),
            Self::Room(_) => None,
        }
    }

    /// Submits what changed, and does what follows. Waits for room in the store, never for the disk
    /// (D3).
    pub(crate) fn commit(&mut self, shared: &Shared) {
        match self {
            Self::Tree(tree) => tree.commit(shared),
            Self::Room(room) => room.commit(shared),
        }
    }

    /// Submits what changed if nothing may run ahead of the disk.
    pub(crate) fn keep_pace(&mut self, shared: &Shared) {
        if shared.in_lockstep() {
            self.commit(shared);
        }
    }

    /// Whether so much has changed that it has to be submitted.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Tree(tree) => tree.is_full(),
            Self::Room(_) => false,
        }
    }

    /// Whether there is something to do.
    pub(crate) fn has_work(&self) -> bool {
        match self {
            Self::Tree(tree) => tree.has_work(),
            Self::Room(_) => false,
        }
    }

    /// Whether nothing of it needs to stay in memory.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Tree(tree) => tree.is_idle(),
            Self::Room(room) => room.is_idle(),
        }
    }
}
