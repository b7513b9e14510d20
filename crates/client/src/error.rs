//! What can go wrong, by group of requests: calls, starts, and all the rest. What a program has to
//! tell apart is a variant of its own (V-73).

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
    #[error("the function failed")]
    Function(#[source] FunctionError),
    /// It was cancelled before it returned.
    #[error("the execution was cancelled: {}", .0.detail)]
    Cancelled(Box<Problem>),
    /// Nobody can know whether it happened, and it is not done again.
    #[error("nobody knows whether it happened: {}", .0.detail)]
    Indeterminate(Box<Problem>),
    /// It goes on, and the caller's own wait is over. The handle waits for longer.
    #[error("execution {} goes on", .0.execution_id())]
    StillRunning(Handle<Out>),
    /// It returned, but not what the caller's type takes.
    #[error("the function returned something else than expected: {0}")]
    Output(String),
    /// The operation id was used before, for another request (see V-9).
    #[error("the operation id was used for another request: {}", .0.detail)]
    Conflict(Box<Problem>),
    /// The idempotency key was used before, for another request.
    #[error("the idempotency key was used for another request: {}", .0.detail)]
    Mismatch(Box<Problem>),
    /// The operation id is too old: it may have been executed and forgotten (see V-59).
    #[error("the operation id is too old: {}", .0.detail)]
    Expired(Box<Problem>),
    /// The operation goes on, and the caller said that it does not want to be attached (see C-2).
    #[error(transparent)]
    InFlight(InFlight),
    /// Refused for another reason: nothing was started; or, if the problem names an execution, that
    /// was accepted before, and its outcome cannot be had.
    #[error("refused: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// Nobody knows whether it arrived. Asking again under the same name has no second effect.
    #[error(transparent)]
    Transport(Lost),
    /// An answer that makes no sense.
    #[error(transparent)]
    Malformed(Malformed),
    /// The request cannot be made. Nothing was sent.
    #[error(transparent)]
    Invalid(Invalid),
}

/// Written by hand: a derived one would ask `Out` for it.
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
    /// The operation lived in memory alone and is gone (see V-33): nobody knows whether it
    /// happened.
    #[error("nobody knows whether it happened: {}", .0.detail)]
    Indeterminate(Box<Problem>),
    /// The operation id was used before, for another request (see V-9).
    #[error("the operation id was used for another request: {}", .0.detail)]
    Conflict(Box<Problem>),
    /// The idempotency key was used before, for another request.
    #[error("the idempotency key was used for another request: {}", .0.detail)]
    Mismatch(Box<Problem>),
    /// The operation id is too old: it may have been executed and forgotten (see V-59).
    #[error("the operation id is too old: {}", .0.detail)]
    Expired(Box<Problem>),
    /// The operation goes on, and the caller said that it does not want to be attached (see C-2).
    #[error(transparent)]
    InFlight(InFlight),
    /// Refused for another reason: nothing was started.
    #[error("refused: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// Nobody knows whether it arrived. Asking again under the same name has no second effect.
    #[error(transparent)]
    Transport(Lost),
    /// An answer that makes no sense.
    #[error(transparent)]
    Malformed(Malformed),
    /// The request cannot be made. Nothing was sent.
    #[error(transparent)]
    Invalid(Invalid),
}

/// Whatever keeps a function from being started keeps it from being called.
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

/// Why anything else was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The idempotency key was used before, for another request.
    #[error("the idempotency key was used for another request: {}", .0.detail)]
    Mismatch(Box<Problem>),
    /// The operation id is too old: nothing is known of it any more (see V-59).
    #[error("the operation id is too old: {}", .0.detail)]
    Expired(Box<Problem>),
    /// Refused for another reason: nothing has changed.
    #[error("refused: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// Nobody knows whether it arrived. What has a name can be sent again under it.
    #[error(transparent)]
    Transport(Lost),
    /// An answer that makes no sense.
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
    /// What the request met: whether it was new, or this is the error of an earlier one. None where
    /// the execution was asked for by its id.
    pub verdict: Option<Verdict>,
}

/// The operation goes on: it was not started a second time.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the operation goes on: {}", .problem.detail)]
pub struct InFlight {
    /// What the server says, with the execution's id if it says so.
    pub problem: Box<Problem>,
    /// When to ask again, if the server says so.
    pub retry_after: Option<Duration>,
}

/// No answer that says what became of a request.
///
/// It may have arrived, or may not. If it has a name, ask again under it, later: the answer is then
/// that of the one execution that there is (V-3, V-4).
#[derive(Debug, thiserror::Error)]
#[error("no answer that counts after {attempts} attempt(s){}", named(.identity.as_ref()))]
pub struct Lost {
    /// How often it was sent.
    pub attempts: u32,
    /// Whether an attempt, not only the last, may have arrived. If none did, nothing was done.
    pub may_have_arrived: bool,
    /// Its name. None: it only reads, or is never sent twice.
    pub identity: Option<Identity>,
    /// What became of the last attempt.
    #[source]
    pub source: Cause,
}

fn named(identity: Option<&Identity>) -> String {
    identity.map(|identity| format!(", sent under {identity}")).unwrap_or_default()
}

/// What became of an attempt that has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// There was no connection: this attempt did not arrive.
    #[error("no connection to the server")]
    Connect(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] Box<dyn StdError + Send + Sync>),
    /// The answer did not come in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The server, or something in front of it, could not do it now.
    #[error("the server answers {status}{}", said(.problem.as_deref()))]
    Unavailable {
        /// The status.
        status: StatusCode,
        /// What the server says, if it was the server.
        problem: Option<Box<Problem>>,
    },
    /// The last attempt was refused at the door. That says nothing of the attempts before it, which
    /// may have arrived.
    #[error("refused after an attempt that may have arrived: {} ({})", .0.detail, .0.code)]
    Refused(Box<Problem>),
    /// A stream of events ended before the execution was over.
    #[error("the stream ended")]
    Ended,
}

fn said(problem: Option<&Problem>) -> String {
    problem.map(|problem| format!(": {} ({})", problem.detail, problem.code)).unwrap_or_default()
}

/// An answer that makes no sense: something else than the server answers, or a version that is far
/// from this one. Whether the request had an effect is not known from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer (status {status}) makes no sense: {what}")]
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
#[error("the request cannot be made: {0}")]
pub struct Invalid(pub(crate) String);

/// A client that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The address is none that this client can talk to.
    #[error("the server's address makes no sense: {0}")]
    Address(String),
    /// The token cannot be sent.
    #[error("a token has printable ASCII characters and no spaces")]
    Token,
    /// The token would travel in the open.
    #[error(
        "a token is not sent over plain http to a host that is not this machine: use https, or say \
         `allow_token_over_plain_http`"
    )]
    TokenInTheOpen,
    /// The namespace is none.
    #[error("a namespace has a-z, 0-9, - and _, at most 64 of them")]
    Namespace,
    /// The roots cannot be used.
    #[error("the roots cannot be used: {0}")]
    Roots(String),
    /// An option makes no sense.
    #[error("{0}")]
    Option(String),
}
