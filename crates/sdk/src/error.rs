//! What can go wrong, for the functions that see it and for those that report it.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::{self, indelible::guest::types};
use crate::host;
use crate::payload::{Decode as _, Payload};

/// Why an await has no value.
///
/// `?` turns whatever can be shown and serialized into one, so a function that returns
/// `Result<_, Error>` can fail with a text, or with an error type of its own:
///
/// ```
/// use indelible_sdk::Error;
///
/// fn check(stock: u32) -> Result<(), Error> {
///     if stock == 0 {
///         return Err("out of stock".into());
///     }
///     Ok(())
/// }
/// assert_eq!(check(0).unwrap_err().to_string(), "out of stock");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// This execution is being cancelled, for this reason. It is told once: from here on it can
    /// call and await as before, to clean up, and await again what this await was for.
    Cancelled(String),
    /// What was awaited failed.
    Failed(Failure),
}

/// How something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For a program.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
    /// The function's own error value, if it gave one: [`Failure::detail`] reads it.
    pub payload: Option<Payload>,
    /// Which function failed, if it was one that was called from here.
    pub function: Option<String>,
}

/// What a program can match on when something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The function returned an error. That is its outcome: it is not run again.
    UserError,
    /// The function returned an error that may pass, and its attempts are used up.
    Transient,
    /// The guest trapped: it panicked, for example.
    Trap,
    /// A time limit passed.
    Timeout,
    /// It was cancelled.
    Cancelled,
    /// It ran differently from what was recorded.
    Nondeterminism,
    /// It is unknown whether it happened.
    Indeterminate,
    /// It is known not to have happened.
    NotPerformed,
    /// None of the others.
    Uncategorized,
}

/// The longest chain of callers in a message: where an error began says more than where it passed.
const CHAIN_BYTES_MAX: usize = 1_000;

/// Stands for the callers that are left out.
const CUT: &str = "…: ";

/// The two sides of each kind, once.
const KINDS: [(ErrorKind, types::ErrorKind); 9] = [
    (ErrorKind::UserError, types::ErrorKind::UserError),
    (ErrorKind::Transient, types::ErrorKind::Transient),
    (ErrorKind::Trap, types::ErrorKind::Trap),
    (ErrorKind::Timeout, types::ErrorKind::Timeout),
    (ErrorKind::Cancelled, types::ErrorKind::Cancelled),
    (ErrorKind::Nondeterminism, types::ErrorKind::Nondeterminism),
    (ErrorKind::Indeterminate, types::ErrorKind::Indeterminate),
    (ErrorKind::NotPerformed, types::ErrorKind::NotPerformed),
    (ErrorKind::Uncategorized, types::ErrorKind::Uncategorized),
];

impl Error {
    /// The function's own failure, for good.
    pub fn new<E: fmt::Display + Serialize>(error: E) -> Self {
        Self::Failed(Failure::of(ErrorKind::UserError, &error))
    }

    /// A failure that may pass: another attempt may follow, if the function is `idem` or this one
    /// had started no effect.
    pub fn transient<E: fmt::Display + Serialize>(error: E) -> Self {
        Self::Failed(Failure::of(ErrorKind::Transient, &error))
    }

    /// Whether this execution is being cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_))
    }

    /// What failed, unless this execution is being cancelled.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Cancelled(_) => None,
        }
    }

    /// The error value of the function that failed, if it gave one of this type.
    #[must_use]
    pub fn detail<E: DeserializeOwned>(&self) -> Option<E> {
        self.failure()?.detail()
    }

    pub(crate) fn cancelled(cancelled: host::Cancelled) -> Self {
        Self::Cancelled(cancelled.reason)
    }
}

impl Failure {
    /// A failure with a message.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), payload: None, function: None }
    }

    /// The error value of the function that failed, if it gave one of this type.
    #[must_use]
    pub fn detail<E: DeserializeOwned>(&self) -> Option<E> {
        E::decode(self.payload.clone()?).ok()
    }

    fn of<E: fmt::Display + Serialize>(kind: ErrorKind, error: &E) -> Self {
        let payload = Payload::json(error).ok();
        Self { kind, message: error.to_string(), payload, function: None }
    }

    pub(crate) fn from_host(failure: types::Failure, function: Option<&str>) -> Self {
        let kind = KINDS.iter().find(|(_, kind)| *kind == failure.kind);
        Self {
            kind: kind.map_or(ErrorKind::Uncategorized, |(kind, _)| *kind),
            message: failure.message,
            payload: failure.detail.map(Payload::from_host),
            function: function.map(str::to_owned),
        }
    }

    pub(crate) fn into_host(self) -> bindings::Failure {
        let kind = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        types::Failure {
            kind: kind.map_or(types::ErrorKind::Uncategorized, |(_, kind)| *kind),
            message: self.message,
            detail: self.payload.map(Payload::into_host),
        }
    }
}

/// An error that a function can return.
///
/// Everything that can be shown and serialized is one; its value travels with the failure, and
/// the caller can ask for it with [`Error::detail`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a durable function",
    note = "return `indelible_sdk::Error`, or a type that implements `Display` and `Serialize`"
)]
pub trait IntoFailure {
    /// How the function failed.
    fn into_failure(self) -> Failure;
}

impl<E: fmt::Display + Serialize> IntoFailure for E {
    fn into_failure(self) -> Failure {
        Failure::of(ErrorKind::UserError, &self)
    }
}

/// An error of a called function that this function passes on. `Cancelled` and `Indeterminate` keep
/// their kind. Every other kind becomes, from outside, an error of this function; the message tells
/// the chain.
impl IntoFailure for Error {
    fn into_failure(self) -> Failure {
        match self {
            Self::Cancelled(reason) => Failure::new(ErrorKind::Cancelled, reason),
            Self::Failed(failure) => failure.into_failure(),
        }
    }
}

impl IntoFailure for Failure {
    fn into_failure(self) -> Failure {
        let Some(function) = &self.function else { return self };
        let kind = match self.kind {
            kind @ (ErrorKind::Cancelled | ErrorKind::Indeterminate) => kind,
            _ => ErrorKind::UserError,
        };
        let message = if self.message.len() + function.len() < CHAIN_BYTES_MAX {
            format!("{function}: {}", self.message)
        } else if self.message.starts_with(CUT) {
            self.message
        } else {
            format!("{CUT}{}", self.message)
        };
        Failure { kind, message, payload: self.payload, function: None }
    }
}

/// `?` on anything that can be shown and serialized.
impl<E: fmt::Display + Serialize> From<E> for Error {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled(reason) => write!(f, "cancelled: {reason}"),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(function) = &self.function {
            write!(f, "{function}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind) -> Error {
        let mut failure = Failure::new(kind, "no funds");
        failure.function = Some("charge".to_owned());
        Error::Failed(failure)
    }

    /// What a caller sees of an error that was passed on.
    #[test]
    fn passing_on() {
        for (kind, passed) in [
            (ErrorKind::UserError, ErrorKind::UserError),
            (ErrorKind::Trap, ErrorKind::UserError),
            (ErrorKind::Transient, ErrorKind::UserError),
            (ErrorKind::Cancelled, ErrorKind::Cancelled),
            (ErrorKind::Indeterminate, ErrorKind::Indeterminate),
        ] {
            let failure = failed(kind).into_failure();
            assert_eq!((failure.kind, failure.message.as_str()), (passed, "charge: no funds"));
        }
        let own = Error::transient("busy").into_failure();
        assert_eq!((own.kind, own.message.as_str()), (ErrorKind::Transient, "busy"));
        let cancelled = Error::Cancelled("by hand".to_owned()).into_failure();
        assert_eq!(cancelled.kind, ErrorKind::Cancelled);
    }

    /// A chain that goes on and on does not grow for ever, and keeps its beginning.
    #[test]
    fn long_chains() {
        let mut error = failed(ErrorKind::UserError);
        for _ in 0..10_000 {
            let mut failure = error.into_failure();
            failure.function = Some("again".to_owned());
            error = Error::Failed(failure);
        }
        let text = error.to_string();
        assert!(text.len() < 1_100 && text.ends_with(": no funds"), "{text}");
        assert!(text.starts_with("again: …: again: "), "{text}");
    }

    /// An error value comes back as what it was.
    #[test]
    fn detail() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct Declined {
            code: u16,
        }
        impl fmt::Display for Declined {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "declined with {}", self.code)
            }
        }
        let sent = Declined { code: 51 }.into_failure().into_host();
        let received = Error::Failed(Failure::from_host(sent, Some("charge")));
        assert_eq!(received.to_string(), "charge: declined with 51");
        assert_eq!(received.detail(), Some(Declined { code: 51 }));
        assert_eq!(received.detail::<u8>(), None);
    }

    /// Every kind crosses the boundary unchanged.
    #[test]
    fn kinds() {
        for (kind, _) in KINDS {
            let there = Failure::new(kind, "").into_host();
            assert_eq!(Failure::from_host(there, None).kind, kind);
        }
    }
}
