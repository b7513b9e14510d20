//! Every input of a tree. A request is answered with a [`Reply`]; the other inputs are not.

use indelible_http::{End, Response};
use indelible_journal::{
    Attempt, ExecutionId, JournalKey, OperationId, OperationKey, Payload, PromiseId, SignalName,
    Started,
};
use indelible_machine::{CallerId, Guard};
use indelible_records::idempotency_keys::Answer;
use indelible_records::labels::Labels;
use indelible_records::queue::Entry;
use indelible_records::timers::Timer;

use crate::audit::Actor;
use crate::guest::Stop;
use crate::keys::KeyedRequest;
use crate::load::LoadError;
use crate::operation::OperationRequest;
use crate::reconcile::ReconcilerAnswer;
use crate::view::TreeView;

/// What a tree can be told.
#[derive(Debug)]
pub enum Input {
    /// A caller asks for something: a [`Reply`] follows.
    Asked(CallerId, Request),
    /// A timer is due. Its row is deleted in the commit of its consequences.
    Due(Timer),
    /// A timer of a volatile execution is due. It has no row.
    DueInMemory(Timer),
    /// The stored queue names this execution: go on with it. The guard is held until its guest
    /// runs.
    Recover(Entry, Guard),
    /// The guest of an execution stopped, or did not begin.
    Stopped(JournalKey, Stop),
    /// The host dropped the waiting guest of this execution.
    Evicted(JournalKey),
    /// This attempt at an effect of this execution has its permit: the guard.
    StartEffect(JournalKey, u32, Attempt, Guard),
    /// An attempt at an effect has ended.
    EffectReport(Box<EffectReport>),
    /// A reconciler has answered.
    ReconcilerReply(Box<ReconcilerReply>),
    /// The last caller that waited for this root has gone: a volatile root is released, unless it
    /// is kept (V-13, V-18).
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
    /// Let a stuck execution go on, or end it: [`Reply::Done`].
    StuckDecision(StuckDecision),
    /// Record how an unresolved effect ended: [`Reply::Done`].
    Resolve(Box<Resolve>),
    /// Show this execution: [`Reply::TreeView`].
    View(ExecutionId),
    /// Whether this execution goes on in memory alone: [`Reply::Volatile`].
    IsVolatile(ExecutionId),
    /// The operation of the root, if the root is in memory: [`Reply::Operation`].
    RootOperation,
}

/// The reply to a caller.
#[derive(Debug)]
pub enum Reply {
    /// What a start came to.
    Begun(StartReply),
    /// What was asked for is done, or why not.
    Done(Result<Answer, CommandRefusal>),
    /// An execution, or why it cannot be read.
    TreeView(Result<TreeView, LoadError>),
    /// Whether an execution goes on in memory alone.
    Volatile(bool),
    /// The operation of the root.
    Operation(Option<OperationKey>),
    /// Stored rows cannot be read.
    Unreadable {
        /// The cause.
        why: String,
        /// The rows are damaged, which the store has noted.
        damage: bool,
    },
}

/// Starts a root.
#[derive(Debug)]
pub struct Start {
    /// The first entry of its journal.
    pub started: Started,
    /// The operation that the root belongs to.
    pub request: OperationRequest,
    /// The operation is volatile and has a record. If its root is not in memory, the root was lost
    /// with its process, or released.
    pub again: bool,
    /// Who asks.
    pub actor: Option<Actor>,
    /// The caller does not wait: a volatile root is kept even when no caller watches it.
    pub kept: bool,
    /// The labels of a new root (C-79).
    pub labels: Labels,
}

/// What a start came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartReply {
    /// The root has begun.
    New(ExecutionId),
    /// The root goes on: it was started before, or runs again by this request.
    Already(ExecutionId),
    /// The root was volatile and lost with its process, and running it again is not safe.
    Indeterminate,
    /// Another start of this operation came first: admission looks at the operation's record again.
    Raced,
}

/// A signal.
#[derive(Debug)]
pub struct Signal {
    /// The execution that gets it.
    pub execution: ExecutionId,
    /// Its name.
    pub name: SignalName,
    /// What it carries.
    pub payload: Payload,
    /// Who sends it.
    pub actor: Option<Actor>,
    /// The idempotency key of the request.
    pub under: Option<KeyedRequest>,
}

/// A cancel.
#[derive(Debug)]
pub struct Cancel {
    /// The execution to cancel.
    pub execution: ExecutionId,
    /// The reason that the caller gave.
    pub reason: String,
    /// Who asks for it.
    pub actor: Option<Actor>,
    /// The idempotency key of the request.
    pub under: Option<KeyedRequest>,
}

/// What a person does with a stuck execution.
#[derive(Debug)]
pub struct StuckDecision {
    /// The stuck execution.
    pub execution: ExecutionId,
    /// The decision.
    pub how: How,
    /// Who decided.
    pub actor: Actor,
    /// The reason that the person gave.
    pub reason: String,
    /// The idempotency key of the request.
    pub under: Option<KeyedRequest>,
}

/// How a stuck execution goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The execution is tried again.
    Release,
    /// The execution ends as failed.
    Fail,
}

/// A person says how an unresolved effect ended.
#[derive(Debug)]
pub struct Resolve {
    /// The promise of the effect.
    pub promise: PromiseId,
    /// The attempt that the person decides about; none: the one that is in doubt.
    pub attempt: Option<Attempt>,
    /// How it ended.
    pub resolution: Resolution,
    /// Who says so.
    pub actor: Actor,
    /// The reason that the person gave.
    pub reason: String,
    /// The idempotency key of the request.
    pub under: Option<KeyedRequest>,
}

/// What a person says of an unresolved effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// It happened, and this is what was answered.
    Happened(Response),
    /// It did not happen.
    DidNotHappen,
    /// It is to be sent again: the person takes the responsibility that this is safe.
    RunAgain,
    /// It cannot be found out, and stays unknown.
    AcceptUnknown,
}

impl Resolution {
    /// The action in the audit record.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Happened(_) => "resolve: happened",
            Self::DidNotHappen => "resolve: did not happen",
            Self::RunAgain => "resolve: run again",
            Self::AcceptUnknown => "resolve: accepted as unknown",
        }
    }
}

/// An attempt at an effect has ended.
#[derive(Debug)]
pub struct EffectReport {
    /// The execution whose effect it is.
    pub key: JournalKey,
    /// The run of a volatile root that sent it.
    pub run: u64,
    /// Which child of the execution the effect is.
    pub child: u32,
    /// Which attempt at the effect.
    pub attempt: Attempt,
    /// How the attempt ended.
    pub end: End,
}

/// A reconciler has answered.
#[derive(Debug)]
pub struct ReconcilerReply {
    /// The execution whose effect the question was about.
    pub execution: ExecutionId,
    /// The operation id of the question.
    pub operation_id: OperationId,
    /// The reconciler's answer.
    pub answered: ReconcilerAnswer,
}

/// Why a request was refused: it has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandRefusal {
    /// There is no execution with this id.
    #[error("no such execution")]
    Unknown,
    /// It is over.
    #[error("the execution has already ended: {0}")]
    Over(&'static str),
    /// A volatile execution takes no signals.
    #[error("the execution is volatile and cannot receive signals")]
    Volatile,
    /// Only a stuck execution can be released or failed.
    #[error("the execution is not stuck")]
    NotStuck,
    /// Only an unresolved effect can be resolved.
    #[error("the effect cannot be resolved by a person: {0}")]
    NotUnresolved(String),
    /// The execution has as many unread signals as it may have.
    #[error(
        "the execution already buffers {0} signals, which is the limit; send again after it \
         has received some"
    )]
    Full(usize),
    /// The unread signals have as many bytes as they may have.
    #[error(
        "the signal does not fit into the {0} bytes that the execution buffers; send again \
         after it has received some"
    )]
    FullBytes(usize),
    /// The execution cannot be read, or cannot go on.
    #[error("the execution cannot go on: {0}")]
    Broken(String),
    /// The rows of the execution are damaged.
    #[error("the stored execution cannot be read: {0}")]
    Damaged(String),
}
