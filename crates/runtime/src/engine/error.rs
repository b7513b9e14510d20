//! What can go wrong, by what was asked for. In every case nothing has changed, unless the error
//! says that this is unknown.

use indelible_journal::{ComponentDigest, ExecutionId, Timestamp};
use indelible_operations::retention::TooShort;
use indelible_operations::state::Refusal;
use indelible_schema::Problem;
use indelible_store::{Lost, ReadError, SubmitError};

use super::BreakingChange;
use crate::component::{ComponentError, ComponentName, ComponentNameError};
use crate::guest::DeployError;

/// Why an engine cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What is deployed cannot be read.
    #[error(transparent)]
    Components(#[from] ComponentError),
    /// What was left to be done cannot be read.
    #[error("the unfinished executions cannot be read: {0}")]
    Queue(#[from] ReadError),
    /// The time by which records and trees are deleted cannot be read.
    #[error("the retention clock cannot be read: {0}")]
    RetentionClock(#[source] ReadError),
    /// Whether the store is on hold cannot be read.
    #[error("whether the store is on hold cannot be read: {0}")]
    Hold(#[source] ReadError),
    /// No thread could be started.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// Operations would be forgotten while callers still repeat their requests (see C-3).
    #[error("operation_window is shorter than retry_horizon: {0}")]
    Window(#[from] TooShort),
}

/// Why the engine cannot do anything now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store could not be read.
    #[error(transparent)]
    Read(ReadError),
    /// The store did not take a change.
    #[error(transparent)]
    Submit(SubmitError),
    /// The store has stopped, or is paused for long. It is unknown whether the change is on disk,
    /// or will be: the caller can ask again under the same id.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The stored record of a component, an operation or an execution makes no sense, although its
    /// rows are whole: the store has not noted it as damage.
    #[error("{0}")]
    Malformed(String),
    /// A stored row is damaged; the store's [`DamageLog`](indelible_store::DamageLog) has it.
    #[error("{0}")]
    Damaged(String),
    /// The execution and the record of its operation are gone.
    #[error("the execution {0} no longer exists")]
    Gone(ExecutionId),
    /// The engine was opened without the room of this number.
    #[error("the engine was opened without room {0}")]
    NoRoom(u8),
    /// The engine is [on hold](crate::Engine::hold): nothing goes on, and nothing new is accepted.
    #[error("on hold: nothing goes on until an operator lifts the hold")]
    OnHold,
    /// The store was restored, and does not know the key or the operation id of the request (C-48):
    /// what was accepted under it since the backup is forgotten.
    #[error(
        "the data was restored from a backup and does not know this key or id: it is refused until \
         an operator lifts the hold, or until {until}"
    )]
    Restored {
        /// From then on it is taken.
        until: Timestamp,
    },
    /// Too many callers wait already.
    #[error("the engine is busy: {waiting} callers are already waiting; try again later")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// Too many reads of a kind wait already.
    #[error("the engine is busy: all {max} permits for {lane} are taken; try again later")]
    ReadsBusy {
        /// Of which kind.
        lane: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// The engine stopped before it answered.
    #[error("the engine has stopped")]
    Stopped,
}

impl EngineError {
    /// Whether the cause is damaged or senseless stored data: the same request never works on this
    /// store.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Read(error) => error.is_damage(),
            Self::Submit(error) => error.is_damage(),
            Self::Malformed(_) | Self::Damaged(_) => true,
            Self::Lost(_)
            | Self::Gone(_)
            | Self::NoRoom(_)
            | Self::OnHold
            | Self::Restored { .. }
            | Self::Busy { .. }
            | Self::ReadsBusy { .. }
            | Self::Stopped => false,
        }
    }

    /// Whether the store is paused: the same request may work later, under the same id.
    pub fn is_pause(&self) -> bool {
        match self {
            Self::Read(error) => error.is_pause(),
            Self::Submit(error) => error.is_pause(),
            Self::Lost(lost) => matches!(lost, Lost::Paused(_)),
            _ => false,
        }
    }
}

impl From<ReadError> for EngineError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Poisoned(poison) => Self::Lost(Lost::Poisoned(poison)),
            error => Self::Read(error),
        }
    }
}

impl From<SubmitError> for EngineError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Poisoned(poison) => Self::Lost(Lost::Poisoned(poison)),
            SubmitError::Paused(pause) => Self::Lost(Lost::Paused(pause)),
            error => Self::Submit(error),
        }
    }
}

impl From<ComponentError> for EngineError {
    fn from(error: ComponentError) -> Self {
        match error {
            ComponentError::Read(error) => error.into(),
            ComponentError::Submit(error) => error.into(),
            error @ ComponentError::Malformed(..) => Self::Malformed(error.to_string()),
        }
    }
}

impl From<Refusal> for StartRefused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict => Self::Conflict,
            Refusal::Expired => Self::Expired,
            Refusal::TooFarAhead => Self::FromTheFuture,
            Refusal::Indeterminate => Self::Indeterminate,
        }
    }
}

/// Why a function was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartRefused {
    /// No component of this name is deployed.
    #[error("no component {0:?} is deployed")]
    NoComponent(String),
    /// The component has no function of this name.
    #[error("the component {component:?} has no function {function:?}; its functions: {has}")]
    NoFunction {
        /// The component.
        component: String,
        /// The function.
        function: String,
        /// What it has.
        has: String,
    },
    /// The input is larger than it may be.
    #[error("the input has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most.
        max: usize,
    },
    /// The input does not fit the function's schema. Only a new operation is refused so: the key or
    /// id of the request is not used up.
    #[error("the input does not fit {component}/{function}: {}", told(.problems))]
    InvalidInput {
        /// The component.
        component: String,
        /// The function.
        function: String,
        /// What is wrong, first things first; never empty.
        problems: Vec<Problem>,
    },
    /// A volatile function cannot begin in the commit of a transaction: nothing of it is stored (see
    /// C-39).
    #[error("{0} is volatile, and a transaction starts persist functions only")]
    Volatile(String),
    /// The same operation id was used for another request (see V-9, C-6).
    #[error("the operation id was already used for another component, function or input")]
    Conflict,
    /// The operation id is unknown, and older than operations are remembered: it cannot be known
    /// whether it was executed (see V-59, C-3).
    #[error(
        "the operation id is unknown and older than the retention of operations, so it may have \
         run already; use a new id for a new operation"
    )]
    Expired,
    /// The operation id is unknown, and was made in the future (see C-3).
    #[error(
        "the operation id lies in the future by more than clocks may differ: check the clocks of \
         the caller and of the server"
    )]
    FromTheFuture,
    /// The operation was volatile and not `idem`, and the process that ran it has ended, or it was
    /// released when no caller waited any more: it is unknown whether it happened, and it is not
    /// done again (see V-33, V-35).
    #[error(
        "it is unknown whether the operation happened: it was lost with its process, or released \
         after its callers had left"
    )]
    Indeterminate,
    /// The same idempotency key was used for another request (see I-12, C-31).
    #[error("the idempotency key was already used for another component, function or input")]
    Mismatch,
    /// A request has one name: a key under which the engine finds its id, or an id.
    #[error("the request has both an idempotency key and an operation id; use one of them")]
    KeyAndId,
    /// In this namespace the engine alone starts functions: it asks reconcilers about effects.
    #[error("the namespace is reserved for the engine; choose another")]
    ReservedNamespace,
    /// The key belongs to another namespace than the request.
    #[error("the idempotency key belongs to another namespace than the request")]
    ForeignKey,
    /// The engine cannot do anything now.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn listed(changes: &[BreakingChange]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn told(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Why a component was not deployed, or a version not made active.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeployRefused {
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] ComponentNameError),
    /// The same idempotency key was used for another request (see I-12, C-31).
    #[error("the idempotency key was already used for another request")]
    Mismatch,
    /// The bytes are not a guest that can be run.
    #[error(transparent)]
    Component(#[from] DeployError),
    /// No component of this name is deployed.
    #[error("no component {0:?} is deployed")]
    NoComponent(String),
    /// The component has no such version.
    #[error("the component {name} has no version {digest}")]
    NoVersion {
        /// The component.
        name: ComponentName,
        /// The version.
        digest: ComponentDigest,
    },
    /// Callers of functions that are in use would be broken, and the request does not say that they
    /// may.
    #[error("functions of {name} that are in use would break: {}", listed(.changes))]
    Breaking {
        /// The component.
        name: ComponentName,
        /// What would break; never empty.
        changes: Vec<BreakingChange>,
    },
    /// The engine cannot do anything now.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
