//! What `begin` found: the five outcomes, and the attempt that a fresh one hands out.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{AppError, ReplayableError};
use crate::key::IdempotencyKey;
use crate::reply::Reply;
use crate::request::RequestHash;

/// What `begin` found under a key (I-8).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request runs only if its attempt is fresh"]
pub enum Outcome<Req, Res, E = AppError> {
    /// The key is new: do the work, then `commit` or fail this attempt.
    FreshAttempt(Attempt),
    /// Another attempt has begun and not ended: do nothing.
    InFlight(InFlight),
    /// It was done, and this is the result (I-11).
    PriorResult(Res),
    /// It failed for good, and this is why.
    PriorError(E),
    /// The key stands for another request: refuse this one (I-12).
    Mismatch(Mismatch<Req>),
}

impl<Req, Res, E: ReplayableError> Outcome<Req, Res, E> {
    /// The attempt to make, or what to answer instead.
    pub fn into_attempt(self) -> Result<Attempt, Reply<Res>> {
        match self {
            Self::FreshAttempt(attempt) => Ok(attempt),
            Self::InFlight(in_flight) => Err(Reply::in_progress(in_flight)),
            Self::PriorResult(result) => Err(Reply::PreExisting { result }),
            Self::PriorError(error) => Err(Reply::failed(&error)),
            Self::Mismatch(_) => Err(Reply::Mismatch),
        }
    }
}

/// How a request is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// Another transaction has begun it and not ended. Its changes are not visible yet, not even
    /// whether its request is this one.
    Uncommitted,
    /// Its owner began it in a transaction that has ended, and has this long to finish it.
    Leased {
        /// Until its lease ends.
        remaining: Duration,
    },
    /// Its owner's lease ended this long ago without a result. It is unknown whether the work was
    /// done (see C-34): find out, then take it over or leave it.
    Indeterminate {
        /// Since when.
        lapsed: Duration,
    },
}

impl InFlight {
    /// When asking again is worth while; none where only a person or a take-over helps.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Uncommitted | Self::Leased { .. } => Some(Duration::from_secs(1)),
            Self::Indeterminate { .. } => None,
        }
    }
}

/// The key stands for another request than the one that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch<Req> {
    /// The first request, for diagnosis in the service: it never goes to the caller (I-23). If it
    /// can no longer be decoded, it is a mismatch all the same (I-18).
    pub recorded_request: Result<Req, DecodeError>,
    /// The hash of what was asked first.
    pub recorded_hash: RequestHash,
    /// The hash of what is asked now.
    pub submitted_hash: RequestHash,
}

/// Why a recorded value cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the recorded {what} cannot be decoded: {why}")]
pub struct DecodeError {
    /// What was recorded: the request, the result, the error.
    pub what: &'static str,
    /// What is in the way.
    pub why: String,
}

impl DecodeError {
    /// Says where it does not fit, and which field is missing or unknown; never a recorded value,
    /// which would end up in a log.
    pub(crate) fn new(what: &'static str, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let names_a_field = ["missing field", "unknown field", "duplicate field"];
        let why = if names_a_field.iter().any(|start| message.starts_with(start)) {
            message
        } else {
            format!("it does not match its type, at line {line} column {column}")
        };
        Self { what, why }
    }
}

/// The right to end what `begin` began: its owner's token proves it. Ending takes a reference, so
/// that an end whose answer was lost can be tried again, and is then told whether it had been done.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an attempt that is neither committed nor failed stays in flight"]
pub struct Attempt {
    key: IdempotencyKey,
    owner: OwnerToken,
}

impl Attempt {
    /// An attempt that was begun elsewhere, by the token that [`Attempt::owner`] gave there: in
    /// the process that took the request, for example, while a worker ends it. A token that is not
    /// the row's is refused when the attempt is ended.
    pub fn resume(key: IdempotencyKey, owner: OwnerToken) -> Self {
        Self { key, owner }
    }

    /// The key it is under.
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// Its owner's token.
    pub fn owner(&self) -> &OwnerToken {
        &self.owner
    }
}

/// Who may end an attempt: random, made by the database when a row gets an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerToken(String);

/// The longest token that is read.
const OWNER_TOKEN_CHARS_MAX: usize = 64;

impl OwnerToken {
    /// The token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for OwnerToken {
    type Err = OwnerTokenError;

    fn from_str(text: &str) -> Result<Self, OwnerTokenError> {
        let fits = !text.is_empty() && text.len() <= OWNER_TOKEN_CHARS_MAX;
        if fits && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(OwnerTokenError)
        }
    }
}

/// The text is not an owner's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid owner token: use 1 to {OWNER_TOKEN_CHARS_MAX} letters, digits and hyphens")]
pub struct OwnerTokenError;
