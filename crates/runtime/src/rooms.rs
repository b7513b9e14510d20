//! Rooms: kinds of machines beside trees, which the program that opens the engine provides (D14).
//! The host gives them turns, timers, messages and recovery, as it does trees. `docs/rooms.md` adds
//! one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use indelible_journal::Timestamp;
use indelible_machine::{CallerId, Machine};
pub use indelible_records::timers::RoomTimer;
pub use indelible_records::{BROUGHT_MIN, RoomKey};
use indelible_store::{Batch, Read};

/// What such a machine may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time, by the wall clock.
    pub now: Timestamp,
    /// The accepted state of the store, its own rows included.
    pub reads: &'a dyn Read,
    /// The machine's own key.
    pub key: &'a RoomKey,
}

/// What such a machine can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A caller asks for something, and waits for the reply.
    Asked(CallerId, Bytes),
    /// A timer is due.
    Due(RoomTimer),
    /// A message from another machine. Each is applied once.
    Message(Bytes),
    /// The stored queue names this machine: another process left work.
    Recover,
}

/// A message to another machine. It is stored in the commit of its sender, and applied once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The receiver.
    pub to: RoomKey,
    /// The content.
    pub what: Bytes,
}

/// What follows from an input: [`indelible_machine::Changes`].
pub(crate) struct RoomChanges {
    pub(crate) rows: Batch,
    pub(crate) timers: Vec<(RoomTimer, indelible_machine::TimerChange)>,
    pub(crate) replies: Vec<(CallerId, Bytes)>,
    pub(crate) outgoing: Vec<Message>,
}

/// A machine of any room.
pub(crate) trait AnyRoom: Send {
    fn handle(&mut self, context: &Context<'_>, input: Input);
    fn changes(&mut self) -> Option<RoomChanges>;
    fn notices(&mut self) -> Vec<String>;
    fn is_idle(&self) -> bool;
}

impl<M: RoomMachine> AnyRoom for M {
    fn handle(&mut self, context: &Context<'_>, input: Input) {
        Machine::handle(self, context, input);
    }

    fn changes(&mut self) -> Option<RoomChanges> {
        let changes = Machine::changes(self)?;
        let (rows, timers) = (changes.rows, changes.timers);
        Some(RoomChanges { rows, timers, replies: changes.replies, outgoing: changes.outgoing })
    }

    fn notices(&mut self) -> Vec<String> {
        Machine::notices(self)
    }

    fn is_idle(&self) -> bool {
        Machine::is_idle(self)
    }
}

/// A machine that the engine can host beside trees. Its notices are reported to the operator as
/// trouble.
pub trait RoomMachine:
    Send
    + for<'a> Machine<
        Context<'a> = Context<'a>,
        Input = Input,
        Rows = Batch,
        Timer = RoomTimer,
        Outgoing = Message,
        Reply = Bytes,
        Event = Infallible,
        Notice = String,
    >
{
}

type RoomFactory = dyn Fn() -> Box<dyn AnyRoom> + Send + Sync;

/// The rooms that an engine is opened with, by their numbers.
#[derive(Clone, Default)]
pub struct Rooms(HashMap<u8, Arc<RoomFactory>>);

impl Rooms {
    /// Adds a room, whose number is [`BROUGHT_MIN`] or above and is used for no other room of the
    /// same store, ever. `make` makes a machine that has nothing in memory yet.
    #[must_use]
    pub fn with<M: RoomMachine + 'static>(
        mut self,
        number: u8,
        make: impl Fn() -> M + Send + Sync + 'static,
    ) -> Self {
        assert!(number >= BROUGHT_MIN, "numbers below {BROUGHT_MIN} are the engine's own");
        self.0.insert(number, Arc::new(move || Box::new(make())));
        self
    }

    /// Whether there is such a room.
    pub(crate) fn has(&self, room: u8) -> bool {
        self.0.contains_key(&room)
    }

    /// A machine of this room, if there is such a room.
    pub(crate) fn make(&self, room: u8) -> Option<Box<dyn AnyRoom>> {
        self.0.get(&room).map(|make| make())
    }
}
