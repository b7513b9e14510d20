//! What a room is (D14).
//!
//! A room keeps something whole: a tree of executions, say. It is a [`Machine`]: it is told one
//! thing at a time, changes what it has in memory, and collects what follows as [`Changes`]. It
//! does nothing itself. The host that runs it commits, sends, answers and keeps time, in the order
//! that the fields of [`Changes`] say, so that nothing leaves the process before everything that it
//! depends on is durable (D2).
//!
//! A machine reads no clock, holds no store, starts no thread: what it may look at is in its
//! context. So every transition can be tested by value, and a run can be repeated.

use std::fmt;

/// A room.
pub trait Machine {
    /// What it may look at while it handles an input: the time, what is stored, randomness, limits.
    type Context<'a>;
    /// What it can be told, in one closed list.
    type Input;
    /// What it stores.
    type Rows;
    /// A moment at which it wants to be told something.
    type Timer;
    /// What leaves it: for the network, or for another machine.
    type Outgoing;
    /// The reply to a caller.
    type Reply;
    /// What others may want to know of what it stored.
    type Event;
    /// What the host does at once: nothing of it leaves the process but log lines.
    type Notice;

    /// Handles one input. What follows is collected until [`Machine::changes`] is asked for it.
    fn handle(&mut self, context: &Self::Context<'_>, input: Self::Input);

    /// Takes the next commit's worth of changes; none if there are none. From here on the machine takes
    /// them for stored: if they are not, the host drops the machine and begins with what is.
    fn changes(&mut self) -> Option<Changes<Self>>;

    /// Takes what the host does at once. It waits for nothing.
    fn notices(&mut self) -> Vec<Self::Notice>;

    /// Whether nothing of it has to stay in memory.
    fn is_idle(&self) -> bool;
}

/// What follows from what a machine was told, in the order in which it runs.
pub struct Changes<M: Machine + ?Sized> {
    /// First: it is committed, whole or not at all. Everything below waits until the store has
    /// accepted it and has given it a position.
    pub rows: M::Rows,
    /// When it is accepted: timers that are stored with the rows.
    pub timers: Vec<(M::Timer, TimerChange)>,
    /// When it is accepted: timers that are in memory alone.
    pub volatile_timers: Vec<(M::Timer, TimerChange)>,
    /// When it is accepted: told to those in this process who watch. They tell nobody else before
    /// the position is durable.
    pub events: Vec<M::Event>,
    /// When it is accepted, with the position: the caller waits until that is durable.
    pub replies: Vec<(Asker, M::Reply)>,
    /// When the position is durable, and no sooner: it leaves the process, or the machine.
    pub outgoing: Vec<M::Outgoing>,
}

/// What becomes of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerChange {
    /// It is to fire.
    Put,
    /// It is not to fire any more.
    Delete,
    /// It has fired, and its row stays until what it led to is stored.
    Keep,
}

/// Who asked for something and waits for the reply. No two have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker(pub u64);

impl Asker {
    /// Nobody waits.
    pub const NOBODY: Self = Self(0);
}

/// Something of the host's that is taken until this is dropped: room for a request, say. A machine
/// keeps it with what it is for, and knows nothing else of it.
pub struct Guard(Option<Box<dyn Send>>);

impl Guard {
    /// Keeps this.
    pub fn of(held: impl Send + 'static) -> Self {
        Self(Some(Box::new(held)))
    }

    /// Keeps nothing.
    pub const NOTHING: Self = Self(None);
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Guard" } else { "Guard::NOTHING" })
    }
}
