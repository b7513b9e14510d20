//! What a machine is: a pure state machine that a host runs (D14).
//!
//! A [`Machine`] keeps one thing consistent: a tree of executions, say. It handles one input at a
//! time, changes its memory, and collects what follows as [`Changes`]. It does nothing itself. The
//! host that runs it commits, sends, answers and keeps time, in the order of the fields of
//! [`Changes`], so that nothing leaves the process before everything that it depends on is durable
//! (D2).
//!
//! A machine reads no clock, holds no store and starts no thread: all that it may read is in its
//! context. So every transition can be tested by value, and a run can be repeated.

use std::fmt;

/// A pure state machine that a host runs.
pub trait Machine {
    /// What it may look at while it handles an input: the time, what is stored, randomness, limits.
    type Context<'a>;
    /// What it can be told, in one closed list.
    type Input;
    /// What it stores.
    type Rows;
    /// A time at which it wants an input.
    type Timer;
    /// What leaves it: for the network, or for another machine.
    type Outgoing;
    /// The reply to a caller.
    type Reply;
    /// What watchers in this process are told of its stored changes.
    type Event;
    /// What the host does at once. Nothing but log lines may leave the process.
    type Notice;

    /// Handles one input. What follows is collected until [`Machine::changes`] is asked for it.
    fn handle(&mut self, context: &Self::Context<'_>, input: Self::Input);

    /// Takes the changes for the next commit; `None` if there are none. From here on the machine
    /// takes them for stored: if the commit fails, the host drops the machine and loads it again.
    fn changes(&mut self) -> Option<Changes<Self>>;

    /// Takes what the host does at once, without waiting for a commit.
    fn notices(&mut self) -> Vec<Self::Notice>;

    /// Whether nothing of it has to stay in memory.
    fn is_idle(&self) -> bool;
}

/// What follows from a machine's inputs, in the order in which the host carries it out.
pub struct Changes<M: Machine + ?Sized> {
    /// First: the rows are committed, whole or not at all. Everything below waits until the store
    /// has accepted them and has given them a position.
    pub rows: M::Rows,
    /// Once the rows are accepted: timers that are stored with them.
    pub timers: Vec<(M::Timer, TimerChange)>,
    /// Once the rows are accepted: timers that are in memory alone.
    pub volatile_timers: Vec<(M::Timer, TimerChange)>,
    /// Once the rows are accepted: told to watchers in this process. A watcher shows nothing
    /// outside before the position is durable.
    pub events: Vec<M::Event>,
    /// Once the rows are accepted, with their position: the caller waits until that is durable.
    pub replies: Vec<(CallerId, M::Reply)>,
    /// Only once the position is durable: messages to the network or to another machine.
    pub outgoing: Vec<M::Outgoing>,
}

/// What becomes of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerChange {
    /// It is to fire.
    Put,
    /// It is not to fire any more.
    Delete,
    /// It has fired, and its row stays until the result is stored.
    Keep,
}

/// A caller that waits for a reply. No two callers have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(pub u64);

impl CallerId {
    /// No caller waits.
    pub const NONE: Self = Self(0);
}

/// A resource of the host that is held until this is dropped: a permit for a request, say. A
/// machine keeps it beside the thing it is for, and knows nothing else of it.
pub struct Guard(Option<Box<dyn Send>>);

impl Guard {
    /// Holds this resource.
    pub fn of(held: impl Send + 'static) -> Self {
        Self(Some(Box::new(held)))
    }

    /// Holds nothing.
    pub const NOTHING: Self = Self(None);
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Guard" } else { "Guard::NOTHING" })
    }
}
