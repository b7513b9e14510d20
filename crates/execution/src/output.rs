//! What a tree can ask for: what leaves it, what others learn of it, what its host does at once.

use std::sync::Arc;
use std::time::Duration;

use indelible_journal::{Attempt, Ending, Failure, JournalKey, Micros, Payload, RootHash};
use indelible_machine::Guard;

use crate::input::Input;
use crate::unresolved_effect::UnresolvedEffect;

/// What leaves a tree when everything that it depends on is durable (D2).
#[derive(Debug)]
pub enum Outgoing {
    /// A request.
    Send(Box<Sending>),
    /// A word to another tree.
    Tell(RootHash, Input),
    /// An operator should look at this effect.
    Held(Box<UnresolvedEffect>),
}

/// An attempt at an effect, on its way.
#[derive(Debug)]
pub struct Sending {
    /// Of which execution.
    pub key: JournalKey,
    /// The run of a volatile root that sends it.
    pub run: u64,
    /// Which of its calls.
    pub child: u32,
    /// Which attempt.
    pub attempt: Attempt,
    /// What is sent.
    pub request: Payload,
    /// Equal on every attempt (I-2).
    pub idempotency_key: String,
    /// The trace that it belongs to.
    pub trace_parent: Option<String>,
    /// The names of the component that sends it.
    pub components: Arc<[String]>,
    /// How long it may take.
    pub timeout: Duration,
    /// The largest answer.
    pub response_bytes_max: usize,
    /// Whether sending it twice does no harm.
    pub idem: bool,
    /// Its room among those in flight.
    pub permit: Guard,
}

/// What others in this process may want to know of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something of this execution has changed.
    Changed(JournalKey),
    /// An execution is over.
    Ended(JournalKey, Ending),
}

/// What the host of a tree does at once. Nothing of it leaves the process but log lines, which D2
/// exempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An attempt at an effect may begin, if there is room for it: [`Input::StartEffect`] says so.
    RoomWanted(Place),
    /// The guest of this execution is not wanted any more.
    GuestGone(JournalKey),
    /// Everything volatile of this tree is gone, and so are its timers.
    VolatileGone,
    /// A person lets this execution go on: it has as many lives as a new one.
    Released(JournalKey),
    /// An attempt at an execution came to nothing (see C-32).
    AttemptFailed(JournalKey, Failure, Then),
    /// An execution does not go on by itself: it is stuck (see C-25), and somebody should look.
    Held(JournalKey, String),
    /// Something is not as it should be.
    Trouble(String),
}

/// Where an attempt at an effect is, and who counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Of which execution.
    pub key: JournalKey,
    /// Which of its calls.
    pub child: u32,
    /// Which attempt.
    pub attempt: Attempt,
    /// A name of the component that sends it.
    pub component: Arc<str>,
    /// Method and address.
    pub label: Arc<str>,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Another one, after this time.
    Again(Micros),
    /// None: that is the outcome, and this is why.
    Over(&'static str),
}
