//! What can go wrong, by group of requests: calls, starts, and all the rest. Cases that a program
//! has to tell apart are variants of their own (V-73).

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::StatusCode;
use indelible_api::Problem;
use indelible_api::call::Verdict;

use crate::handle::Handle;
use crate::id::Identity;

/// Why a call has no result.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CallError<Out> {
    /// The function was carried out, and failed. That is its outcome: asking again gives the same.
    #[error("the function failed: {0}")]
    Function(FunctionError),
    /// It was cancelled before it returned.
    #[error("the execution was cancelled: {}", .0.detail)]
    Cancelled(Box<Problem>),
    /// The outcome is unknown, and the function is not run again.
    #[error("the outcome is unknown: {}", .0.detail)]
    Indeterminate(Box<Problem>),
    /// It is still running, and the caller's own wait is over. The handle can wait longer.
    #[error("execution {} is still running", .0.execution_id())]
    StillRunning(Handle<Out>),
    /// It returned a value that does not fit the caller's type.
    #[error("the function returned an unexpected value: {0}")]
    Output(String),
    /// The operation id was used before, for another request (see V-9).
    #[error("the operation id was already used for another request: {}", .0.detail)]
    Conflict(Box<Problem>),
    /// The idempotency key was used before, for another request.
    #[error("the idempotency key was already used for another request: {}", .0.detail)]
    Mismatch(Box<Problem>),
    /// The operation id is too old: it may have been executed and forgotten (see V-59).
    #[error("the operation id is too old: {}", .0.detail)]
    Expired(Box<Problem>),
    /// The operation is running, and the caller asked not to attach to it (see C-2).
    #[error(transparent)]
    InFlight(InFlight),
    /// Refused for another reason: nothing was started. If the problem names an execution, that was
    /// accepted before, and its outcome cannot be read.
    #[error("refused: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// It is unknown whether the request arrived. Asking again under the same name has no second
    /// effect.
    #[error(transparent)]
    Transport(Lost),
    /// The answer is malformed.
    #[error(transparent)]
    Malformed(Malformed),
    /// The request cannot be made. Nothing was sent.
    #[error(transparent)]
    Invalid(Invalid),
}

/// Written by hand: a derived one would need `Out: Debug`.
impl<Out> fmt::Debug for CallError<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(error) => f.debug_tuple("Function").field(error).finish(),
            Self::Cancelled(problem) => f.debug_tuple("Cancelled").field(problem).finish(),
            Self::Indeterminate(problem) => f.debug_tuple("Indeterminate").field(problem).finish(),
            Self::StillRunning(handle) => f.debug_tuple("StillRunning").field(handle).finish(),
            Self::Output(what) => f.debug_tuple("Output").field(what).finish(),
            Self::Conflict(problem) => f.debug_tuple("Conflict").field(problem).finish(),
            Self::Mismatch(problem) => f.debug_tuple("Mismatch").field(problem).finish(),
            Self::Expired(problem) => f.debug_tuple("Expired").field(problem).finish(),
            Self::InFlight(error) => f.debug_tuple("InFlight").field(error).finish(),
            Self::Refused(problem) => f.debug_tuple("Refused").field(problem).finish(),
            Self::Transport(error) => f.debug_tuple("Transport").field(error).finish(),
            Self::Malformed(error) => f.debug_tuple("Malformed").field(error).finish(),
            Self::Invalid(error) => f.debug_tuple("Invalid").field(error).finish(),
        }
    }
}

/// Why a function was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The operation was in memory alone and is gone (see V-33): it is unknown whether it happened.
    #[error("the outcome is unknown: {}", .0.detail)]
    Indeterminate(Box<Problem>),
    /// The operation id was used before, for another request (see V-9).
    #[error("the operation id was already used for another request: {}", .0.detail)]
    Conflict(Box<Problem>),
    /// The idempotency key was used before, for another request.
    #[error("the idempotency key was already used for another request: {}", .0.detail)]
    Mismatch(Box<Problem>),
    /// The operation id is too old: it may have been executed and forgotten (see V-59).
    #[error("the operation id is too old: {}", .0.detail)]
    Expired(Box<Problem>),
    /// The operation is running, and the caller asked not to attach to it (see C-2).
    #[error(transparent)]
    InFlight(InFlight),
    /// Refused for another reason: nothing was started.
    #[error("refused: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// It is unknown whether the request arrived. Asking again under the same name has no second
    /// effect.
    #[error(transparent)]
    Transport(Lost),
    /// The answer is malformed.
    #[error(transparent)]
    Malformed(Malformed),
    /// The request cannot be made. Nothing was sent.
    #[error(transparent)]
    Invalid(Invalid),
}

/// Every reason not to start a function is also one not to call it.
impl<Out> From<StartError> for CallError<Out> {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Indeterminate(problem) => Self::Indeterminate(problem),
            StartError::Conflict(problem) => Self::Conflict(problem),
            StartError::Mismatch(problem) => Self::Mismatch(problem),
            StartError::Expired(problem) => Self::Expired(problem),
            StartError::InFlight(in_flight) => Self::InFlight(in_flight),
            StartError::Refused(problem) => Self::Refused(problem),
            StartError::Transport(lost) => Self::Transport(lost),
            StartError::Malformed(malformed) => Self::Malformed(malformed),
            StartError::Invalid(invalid) => Self::Invalid(invalid),
        }
    }
}

/// Why any other request was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The idempotency key was used before, for another request.
    #[error("the idempotency key was already used for another request: {}", .0.detail)]
    Mismatch(Box<Problem>),
    /// The operation id is too old: nothing is known of it any more (see V-59).
    #[error("the operation id is too old: {}", .0.detail)]
    Expired(Box<Problem>),
    /// Refused for another reason: nothing has changed.
    #[error("refused: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// It is unknown whether the request arrived. A request with a name can be sent again under it.
    #[error(transparent)]
    Transport(Lost),
    /// The answer is malformed.
    #[error(transparent)]
    Malformed(Malformed),
    /// The request cannot be made. Nothing was sent.
    #[error(transparent)]
    Invalid(Invalid),
}

/// Why a function failed, in its own words.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct FunctionError {
    /// What a program can match on: `UserError`, `Trap`, `Timeout` and so on.
    pub kind: String,
    /// For people.
    pub message: String,
    /// The function's own error value, if there is one and it is JSON.
    pub detail: Option<serde_json::Value>,
    /// The execution that failed.
    pub execution_id: Option<String>,
    /// The operation that led to it.
    pub operation_id: Option<String>,
    /// Whether the request was new, or this is the error of an earlier one. `None` if the execution
    /// was asked for by its id.
    pub verdict: Option<Verdict>,
}

/// The operation is running: it was not started a second time.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the operation is still running: {}", .problem.detail)]
pub struct InFlight {
    /// What the server says, with the execution's id if it says so.
    pub problem: Box<Problem>,
    /// When to ask again, if the server says so.
    pub retry_after: Option<Duration>,
}

/// A request without an answer that settles it.
///
/// It may have arrived or not. If it has a name, ask again under it, later: the answer is then that
/// of the one execution (V-3, V-4).
#[derive(Debug, thiserror::Error)]
#[error("no usable response after {attempts} attempt(s){}", named(.identity.as_ref()))]
pub struct Lost {
    /// How often it was sent.
    pub attempts: u32,
    /// Whether an attempt, not only the last, may have arrived. If none did, nothing was done.
    pub may_have_arrived: bool,
    /// Its name. `None`: it only reads, or is never sent twice.
    pub identity: Option<Identity>,
    /// How the last attempt failed.
    #[source]
    pub source: Cause,
}

fn named(identity: Option<&Identity>) -> String {
    identity.map(|identity| format!(", sent under {identity}")).unwrap_or_default()
}

/// How an attempt without an answer failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// There was no connection: this attempt did not arrive.
    #[error("cannot connect to the server")]
    Connect(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] Box<dyn StdError + Send + Sync>),
    /// The answer did not come in time.
    #[error("no response within {0:?}")]
    TimedOut(Duration),
    /// The server, or something in front of it, could not do it now.
    #[error("the server responded with {status}{}", said(.problem.as_deref()))]
    Unavailable {
        /// The status.
        status: StatusCode,
        /// What the server says, if it was the server.
        problem: Option<Box<Problem>>,
    },
    /// The last attempt was refused before its operation was looked up. Earlier attempts may have
    /// arrived.
    #[error("refused after an earlier attempt that may have been accepted: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// A stream of events ended before the execution was over.
    #[error("the stream ended")]
    Ended,
}

fn said(problem: Option<&Problem>) -> String {
    problem.map(|problem| format!(": {} ({})", problem.detail, problem.code)).unwrap_or_default()
}

/// A malformed answer: not from an Indelible server, or from a very different version. It does not
/// tell whether the request had an effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid response (status {status}): {what}")]
pub struct Malformed {
    /// Its status.
    pub status: StatusCode,
    /// What is wrong with it.
    pub what: String,
    /// The name of the request: it can be sent again under it.
    pub identity: Option<Identity>,
}

/// A request that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid request: {0}")]
pub struct Invalid(pub(crate) String);

/// A client that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The address is not one that this client can talk to.
    #[error("invalid server address: {0}")]
    Address(String),
    /// The token cannot be sent.
    #[error("invalid token: use printable ASCII characters without spaces")]
    Token,
    /// The token would travel in the open.
    #[error(
        "a token is not sent over plain http to another machine: use https, or call \
         `allow_token_over_plain_http`"
    )]
    TokenInTheOpen,
    /// The namespace is malformed.
    #[error("invalid namespace: use a-z, 0-9, - and _, at most 64 characters")]
    Namespace,
    /// The roots cannot be used.
    #[error("the root certificates cannot be used: {0}")]
    Roots(String),
    /// An option makes no sense.
    #[error("{0}")]
    Option(String),
}
