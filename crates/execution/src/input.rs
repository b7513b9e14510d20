//! What a tree can be told: one closed list. Requests are answered; all else happens.

use indelible_http::{End, Response};
use indelible_journal::{
    Attempt, ExecutionId, JournalKey, OperationId, OperationKey, Payload, PromiseId, SignalName,
    Started,
};
use indelible_machine::{Asker, Guard};
use indelible_records::idempotency_keys::Answer;
use indelible_records::queue::Entry;
use indelible_records::timers::Timer;

use crate::audit::Actor;
use crate::guest::Stop;
use crate::keys::UnderKey;
use crate::load::LoadError;
use crate::operation::OperationRequest;
use crate::reconcile::Answered;
use crate::view::Viewed;

/// What a tree can be told.
#[derive(Debug)]
pub enum Input {
    /// A caller asks for something: a [`Reply`] follows.
    Asked(Asker, Request),
    /// A timer is due. Its row goes with what comes of it.
    Due(Timer),
    /// A timer of a volatile execution is due. It is in no row.
    DueInMemory(Timer),
    /// The stored queue names this execution: go on with it. The guard is kept until it runs.
    Recover(Entry, Guard),
    /// The guest of an execution came back, or did not begin.
    Stopped(JournalKey, Stop),
    /// The guest of this execution, which waits, was dropped.
    Evicted(JournalKey),
    /// There is room for this attempt at an effect of this execution, as long as the guard is kept.
    StartEffect(JournalKey, u32, Attempt, Guard),
    /// An attempt at an effect has ended.
    EffectEnded(Box<EffectEnded>),
    /// A reconciler has answered.
    Reconciled(Box<Reconciled>),
    /// The last caller that waited for this root has gone: a volatile root is released, unless it is to
    /// be kept (V-13, V-18).
    Release(ExecutionId),
    /// The root is kept even when no caller waits for it.
    Keep,
    /// Wake this execution, whether it has a reason to go on or not.
    Nudge(ExecutionId),
}

/// What a tree can be asked for.
#[derive(Debug)]
pub enum Request {
    /// Start the root of a new tree: [`Reply::Begun`].
    Start(Box<Start>),
    /// Take a signal: [`Reply::Done`].
    Signal(Signal),
    /// Cancel an execution: [`Reply::Done`].
    Cancel(Cancel),
    /// Let a held execution go on, or end it: [`Reply::Done`].
    Settle(Settle),
    /// Record how an unresolved effect ended: [`Reply::Done`].
    Resolve(Box<Resolve>),
    /// Show this execution: [`Reply::Viewed`].
    View(ExecutionId),
    /// Whether this execution goes on in memory alone: [`Reply::Volatile`].
    IsVolatile(ExecutionId),
    /// The operation of the root, if that is in memory: [`Reply::Operation`].
    RootOperation,
}

/// The reply to a caller.
#[derive(Debug)]
pub enum Reply {
    /// What a start came to.
    Begun(Begun),
    /// What was asked for is done, or why not.
    Done(Result<Answer, NotDone>),
    /// An execution, or why it cannot be read.
    Viewed(Result<Viewed, LoadError>),
    /// Whether an execution goes on in memory alone.
    Volatile(bool),
    /// The operation of the root.
    Operation(Option<OperationKey>),
    /// What is stored cannot be read.
    Unreadable {
        /// Why.
        why: String,
        /// It is damaged, which the store has noted.
        damage: bool,
    },
}

/// Starts a root.
#[derive(Debug)]
pub struct Start {
    /// What its journal begins with.
    pub started: Started,
    /// The operation that it is of.
    pub request: OperationRequest,
    /// The operation is volatile and has a record: if nothing goes on in memory, it was lost with its
    /// process, or released.
    pub again: bool,
    /// Who asks.
    pub actor: Option<Actor>,
    /// Its caller does not wait: a volatile root is kept even when no caller watches it.
    pub kept: bool,
}

/// What a start came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It has begun.
    New(ExecutionId),
    /// It goes on, by this request or by the first.
    Already(ExecutionId),
    /// It was volatile and lost with its process, and doing it again is not safe.
    Indeterminate,
    /// Another start of this operation came first: the caller looks at its record again.
    Raced,
}

/// A signal.
#[derive(Debug)]
pub struct Signal {
    /// To which execution.
    pub execution: ExecutionId,
    /// Its name.
    pub name: SignalName,
    /// What it says.
    pub payload: Payload,
    /// Who sends it.
    pub actor: Option<Actor>,
    /// The key that it came under.
    pub under: Option<UnderKey>,
}

/// A cancel.
#[derive(Debug)]
pub struct Cancel {
    /// Of which execution.
    pub execution: ExecutionId,
    /// Why.
    pub reason: String,
    /// Who wants it.
    pub actor: Option<Actor>,
    /// The key that it came under.
    pub under: Option<UnderKey>,
}

/// What a person does with a held execution.
#[derive(Debug)]
pub struct Settle {
    /// Which.
    pub execution: ExecutionId,
    /// What is to become of it.
    pub how: How,
    /// Who.
    pub actor: Actor,
    /// Why.
    pub reason: String,
    /// The key that it came under.
    pub under: Option<UnderKey>,
}

/// How a held execution goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is tried again.
    Release,
    /// It has failed.
    Fail,
}

/// A person says how an effect ended of which nobody knew.
#[derive(Debug)]
pub struct Resolve {
    /// Which.
    pub promise: PromiseId,
    /// How.
    pub resolution: Resolution,
    /// Who.
    pub actor: Actor,
    /// Why.
    pub reason: String,
    /// The key that it came under.
    pub under: Option<UnderKey>,
}

/// What a person says of an effect of which nobody knows whether it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// It happened, and this is what was answered.
    Happened(Response),
    /// It did not happen.
    DidNotHappen,
    /// It is to be done again: nobody but the person knows whether that is safe.
    RunAgain,
}

impl Resolution {
    /// What the audit record says.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Happened(_) => "resolve: happened",
            Self::DidNotHappen => "resolve: did not happen",
            Self::RunAgain => "resolve: run again",
        }
    }
}

/// An attempt at an effect has ended.
#[derive(Debug)]
pub struct EffectEnded {
    /// Of which execution.
    pub key: JournalKey,
    /// The run of a volatile root that sent it.
    pub run: u64,
    /// Which of its calls.
    pub child: u32,
    /// Which attempt.
    pub attempt: Attempt,
    /// How.
    pub end: End,
}

/// A reconciler has answered.
#[derive(Debug)]
pub struct Reconciled {
    /// Whose effect it was asked about.
    pub execution: ExecutionId,
    /// Which question it was.
    pub operation_id: OperationId,
    /// What it said.
    pub answered: Answered,
}

/// Why nothing was done, and nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotDone {
    /// There is none with this id.
    #[error("there is no such execution")]
    Unknown,
    /// It is over.
    #[error("the execution is over: {0}")]
    Over(&'static str),
    /// What is volatile takes no signals.
    #[error("the execution is volatile, and takes no signals")]
    Volatile,
    /// Only a held one can be released or failed.
    #[error("the execution is not held")]
    NotHeld,
    /// Only an effect of which nobody knows whether it happened can be resolved.
    #[error("the effect is not one that a person can resolve: {0}")]
    NotUnresolved(String),
    /// It has as many unread signals as it may have.
    #[error("the execution buffers {0} signals, which is the most")]
    Full(usize),
    /// Its unread signals have as many bytes as they may have.
    #[error("the execution buffers signals of {0} bytes at most, and this one is too many")]
    FullBytes(usize),
    /// It cannot be read, or cannot go on.
    #[error("the execution cannot go on: {0}")]
    Broken(String),
    /// Its stored rows are damaged.
    #[error("the stored execution cannot be read: {0}")]
    Damaged(String),
}
