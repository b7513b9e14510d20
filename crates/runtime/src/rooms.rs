//! Rooms: kinds of machines beside trees (D14): the ledger, and those that the program brings along
//! which opens the engine.
//! The host gives them turns, timers, messages and recovery, as it does trees. `docs/rooms.md` adds
//! one.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use indelible_execution::{Actor, Environment};
use indelible_http::{Attempt, End};
use indelible_journal::{ComponentDigest, OperationKey, Payload, Timestamp};
use indelible_machine::{CallerId, Machine};
use indelible_operations::retention::Retention;
use indelible_records::queue;
pub use indelible_records::timers::RoomTimer;
pub use indelible_records::{BROUGHT_MIN, RoomKey};
use indelible_store::{Batch, Read};

use crate::EngineError;

/// What such a machine may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time, by the wall clock.
    pub now: Timestamp,
    /// The accepted state of the store, its own rows included.
    pub reads: &'a dyn Read,
    /// The machine's own key.
    pub key: &'a RoomKey,
    /// Randomness, and the time by which retention deletes.
    pub surroundings: &'a dyn Environment,
    /// How long operations are remembered (C-3).
    pub retention: &'a Retention,
    pub(crate) begins: &'a dyn Begins,
}

impl Context<'_> {
    /// Begins an execution, for [`RoomRows::starts`]. All that can fail, fails here: the machine can
    /// refuse one request, and its other changes are not affected. An execution that is not handed
    /// over has not begun.
    pub fn begin(&self, start: RoomStart) -> Result<BegunTree, EngineError> {
        self.begins.begin(start)
    }
}

/// What makes the rows of executions that begin.
pub(crate) trait Begins {
    fn begin(&self, start: RoomStart) -> Result<BegunTree, EngineError>;
}

/// What such a machine can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<A> {
    /// A caller asks for something, and waits for the reply.
    Asked(CallerId, A),
    /// A timer is due.
    Due(RoomTimer),
    /// A message from another machine. Each is applied once.
    Message(Bytes),
    /// The stored queue names this machine: another process left work.
    Recover,
    /// A request that it sent has ended. The number is the one it was sent with.
    Report(u64, End),
}

/// A message to another machine. It is stored in the commit of its sender, and applied once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The receiver.
    pub to: RoomKey,
    /// The content.
    pub what: Bytes,
}

/// What leaves such a machine, once everything that it depends on is durable.
#[derive(Debug, Clone)]
pub enum Outgoing {
    /// A message to another machine.
    Message(Message),
    /// A request to the network, with a number of the machine's: at most one on the wire. How it ends
    /// comes back as [`Input::Report`], unless the process dies before.
    Attempt(u64, Box<Attempt>),
}

impl From<Message> for Outgoing {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

/// What such a machine stores.
#[derive(Debug, Default)]
pub struct RoomRows {
    /// Its rows.
    pub batch: Batch,
    /// Executions that begin in the same commit: there are both, or neither.
    pub starts: Vec<BegunTree>,
}

impl From<Batch> for RoomRows {
    fn from(batch: Batch) -> Self {
        Self { batch, starts: Vec::new() }
    }
}

/// An execution that has begun, and is stored with the rows of the machine that began it.
#[derive(Debug)]
pub struct BegunTree {
    pub(crate) rows: Batch,
    /// What the tree has to do once it is stored.
    pub(crate) queued: Vec<queue::Entry>,
}

/// An execution that is to begin in the commit of a machine. Its function is persist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomStart {
    /// The operation, whose id was never used before.
    pub operation: OperationKey,
    /// The version that it starts.
    pub version: ComponentDigest,
    /// The component and the function, as callers name them.
    pub called: String,
    /// What it is given.
    pub input: Payload,
    /// Who starts it.
    pub actor: Actor,
}

/// A question or a reply, whose type the room knows.
pub(crate) type AnyValue = Box<dyn Any + Send>;

/// What follows from an input: [`indelible_machine::Changes`].
pub(crate) struct RoomChanges {
    pub(crate) rows: RoomRows,
    pub(crate) timers: Vec<(RoomTimer, indelible_machine::TimerChange)>,
    pub(crate) replies: Vec<(CallerId, AnyValue)>,
    pub(crate) outgoing: Vec<Outgoing>,
}

/// A machine of any room.
pub(crate) trait AnyRoom: Send {
    fn handle(&mut self, context: &Context<'_>, input: Input<AnyValue>);
    fn changes(&mut self) -> Option<RoomChanges>;
    fn notices(&mut self) -> Vec<String>;
    fn is_full(&self) -> bool;
    fn is_idle(&self) -> bool;
}

impl<M: RoomMachine> AnyRoom for M {
    fn handle(&mut self, context: &Context<'_>, input: Input<AnyValue>) {
        let input = match input {
            Input::Asked(asker, ask) => {
                let ask = ask.downcast().expect("`Engine::ask_room` compares the types");
                Input::Asked(asker, *ask)
            }
            Input::Due(timer) => Input::Due(timer),
            Input::Message(what) => Input::Message(what),
            Input::Recover => Input::Recover,
            Input::Report(number, end) => Input::Report(number, end),
        };
        Machine::handle(self, context, input);
    }

    fn changes(&mut self) -> Option<RoomChanges> {
        let changes = Machine::changes(self)?;
        let (rows, timers) = (changes.rows, changes.timers);
        let any = |(asker, reply)| (asker, Box::new(reply) as AnyValue);
        let replies = changes.replies.into_iter().map(any).collect();
        Some(RoomChanges { rows, timers, replies, outgoing: changes.outgoing })
    }

    fn is_full(&self) -> bool {
        RoomMachine::is_full(self)
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
        Input = Input<Self::Ask>,
        Rows = RoomRows,
        Timer = RoomTimer,
        Outgoing = Outgoing,
        Reply = Self::Answer,
        Event = Infallible,
        Notice = String,
    >
{
    /// What callers ask.
    type Ask: Send + 'static;
    /// What they are answered.
    type Answer: Send + 'static;

    /// Whether so much has changed that it must be committed before the next input.
    fn is_full(&self) -> bool {
        false
    }
}

/// A room: how its machines are made, and what they can be asked.
#[derive(Clone)]
struct Room {
    make: Arc<dyn Fn() -> Box<dyn AnyRoom> + Send + Sync>,
    ask: TypeId,
}

/// The rooms that an engine is opened with, by their numbers.
#[derive(Clone, Default)]
pub struct Rooms(HashMap<u8, Room>);

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
        self.insert(number, make);
        self
    }

    /// Adds a room of the engine's own, too.
    pub(crate) fn insert<M: RoomMachine + 'static>(
        &mut self,
        number: u8,
        make: impl Fn() -> M + Send + Sync + 'static,
    ) {
        let make = Arc::new(move || Box::new(make()) as Box<dyn AnyRoom>);
        self.0.insert(number, Room { make, ask: TypeId::of::<M::Ask>() });
    }

    /// Whether there is such a room.
    pub(crate) fn has(&self, room: u8) -> bool {
        self.0.contains_key(&room)
    }

    /// Whether the machines of this room can be asked such a question.
    pub(crate) fn takes<M: RoomMachine>(&self, room: u8) -> bool {
        self.0.get(&room).is_some_and(|room| room.ask == TypeId::of::<M::Ask>())
    }

    /// A machine of this room, if there is such a room.
    pub(crate) fn make(&self, room: u8) -> Option<Box<dyn AnyRoom>> {
        self.0.get(&room).map(|room| (room.make)())
    }
}
