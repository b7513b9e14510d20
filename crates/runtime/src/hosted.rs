//! A machine in its place in memory, of whichever kind, as turns use it.

use indelible_journal::RootHash;
use indelible_records::RoomKey;

use crate::command::Command;
use crate::hosted_room::HostedRoom;
use crate::hosted_tree::{Generation, GuestJob, HostedTree};
use crate::rooms::Rooms;
use crate::shared::Shared;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MachineId {
    /// A tree of executions.
    Tree(RootHash),
    /// A machine of another kind.
    Room(RoomKey),
}

/// A machine, and what its host keeps for it.
#[expect(clippy::large_enum_variant, reason = "nearly all are trees")]
pub(crate) enum Hosted {
    Tree(HostedTree),
    Room(HostedRoom),
}

impl Hosted {
    /// A machine that has nothing in memory. None: the engine was opened without this room.
    pub(crate) fn new(id: &MachineId, rooms: &Rooms) -> Option<Self> {
        Some(match id {
            MachineId::Tree(root) => Self::Tree(HostedTree::new(*root)),
            MachineId::Room(key) => Self::Room(HostedRoom::new(key.clone(), rooms.make(key.room)?)),
        })
    }

    /// The tree of a guest that began in this generation. None: the tree was given up since, and
    /// the guest must stop.
    pub(crate) fn tree(&mut self, generation: Generation) -> Option<&mut HostedTree> {
        match self {
            Self::Tree(tree) => (tree.generation() == generation).then_some(tree),
            Self::Room(_) => unreachable!("only trees have guests"),
        }
    }

    /// Handles a command.
    pub(crate) fn run_command(&mut self, shared: &Shared, command: Command) {
        match (self, command) {
            (Self::Room(room), Command::Room(command)) => room.run_command(shared, command),
            (Self::Tree(tree), command) => tree.run_command(shared, command),
            (Self::Room(_), _) => {}
        }
    }

    pub(crate) fn next(&mut self, shared: &Shared) -> Option<GuestJob> {
        match self {
            Self::Tree(tree) => tree.next(shared),
            Self::Room(_) => None,
        }
    }

    /// Submits the changes, and then does what follows from them. Waits for space in the store, and
    /// never for the disk (D3), except in lockstep.
    pub(crate) fn commit(&mut self, shared: &Shared) {
        match self {
            Self::Tree(tree) => tree.commit(shared),
            Self::Room(room) => room.commit(shared),
        }
    }

    /// Commits now if the engine must not run ahead of the disk.
    pub(crate) fn keep_pace(&mut self, shared: &Shared) {
        if shared.in_lockstep() {
            self.commit(shared);
        }
    }

    /// Whether so much has changed that it must be committed.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Tree(tree) => tree.is_full(),
            Self::Room(room) => room.is_full(),
        }
    }

    /// Whether there is something to do.
    pub(crate) fn has_work(&self) -> bool {
        match self {
            Self::Tree(tree) => tree.has_work(),
            Self::Room(_) => false,
        }
    }

    /// Whether the machine can be removed from memory.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Tree(tree) => tree.is_idle(),
            Self::Room(room) => room.is_idle(),
        }
    }
}
