//! What a tree can ask for: what leaves it, what observers learn of it, what its host does at once.

use std::sync::Arc;
use std::time::Duration;

use indelible_journal::{
    Attempt, Ending, ExecutionId, Failure, FunctionName, JournalKey, Micros, Payload, RootHash,
};
use indelible_machine::Guard;

use crate::input::Input;
use crate::unresolved_effect::UnresolvedEffect;

/// What leaves a tree when everything that it depends on is durable (D2).
#[derive(Debug)]
pub enum Outgoing {
    /// An attempt at an effect is sent.
    Send(Box<EffectSend>),
    /// An input for another tree.
    Tell(RootHash, Input),
    /// A doubt is open that was not: an operator should look at it.
    Doubt(Box<UnresolvedEffect>),
}

/// An attempt at an effect, on its way.
#[derive(Debug)]
pub struct EffectSend {
    /// The execution whose effect it is.
    pub key: JournalKey,
    /// The run of a volatile root that sends it.
    pub run: u64,
    /// Which child of the execution the effect is.
    pub child: u32,
    /// Which attempt at the effect.
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
    /// The permit for an effect in flight.
    pub permit: Guard,
}

/// What observers in this process may want to know of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something of this execution has changed.
    Changed(JournalKey),
    /// An execution is over.
    Ended(Box<ExecutionEnd>),
}

/// The end of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionEnd {
    /// The last attempt at it.
    pub key: JournalKey,
    /// How it ended.
    pub ending: Ending,
    /// Its function.
    pub function: FunctionName,
    /// How long it took, from the start of the first attempt.
    pub took: Micros,
}

/// What the host of a tree does at once, before any commit. None of it leaves the process except
/// log lines, which D2 exempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An attempt at an effect asks for a permit: the host grants it with [`Input::StartEffect`].
    RoomWanted(AttemptRef),
    /// The tree does not need the guest of this execution any more.
    GuestGone(JournalKey),
    /// Everything volatile of this tree is gone, and so are its timers.
    VolatileGone,
    /// A person released this stuck execution: the deaths of processes counted against it are
    /// forgotten.
    Released(JournalKey),
    /// An attempt at an execution came to nothing (see C-32).
    AttemptFailed(JournalKey, Failure, AfterFailure),
    /// An execution does not go on by itself: it is stuck (see C-25), and an operator should look
    /// at it.
    Stuck(JournalKey, String),
    /// An execution that the stored queue names could not be read: the host names it again later.
    NotRecovered,
    /// Something is not as it should be.
    Trouble(Trouble),
}

/// Something that is not as it should be, for the server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Who has to act on it.
    pub severity: Severity,
    /// A fixed text for each kind of trouble.
    pub message: &'static str,
    /// The execution that it is about.
    pub execution: ExecutionId,
    /// The cause.
    pub error: String,
}

/// Who has to act on trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The engine or the caller tries again.
    Warning,
    /// An operator has to act.
    Error,
}

/// An attempt at an effect that asks for a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRef {
    /// The execution whose effect it is.
    pub key: JournalKey,
    /// Which child of the execution the effect is.
    pub child: u32,
    /// Which attempt at the effect.
    pub attempt: Attempt,
    /// A name of the component that sends it.
    pub component: Arc<str>,
    /// Method and address.
    pub label: Arc<str>,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// Another one, after this time.
    Again(Micros),
    /// None: that is the outcome, and this is why.
    Over(&'static str),
}
