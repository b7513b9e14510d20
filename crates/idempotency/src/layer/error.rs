//! What goes wrong on this side of the middleware: for the service's log, never for the caller.

use sqlx::error::ErrorKind;

use super::problem::Problem;
use crate::error::StoredError;
use crate::outcome::DecodeError;
use crate::store::{BoxError, StoreError};

/// Why the caller got an answer of the middleware's own in the range of 500, or why something went
/// wrong that the caller did not notice. [`IdempotencyLayer::on_error`](super::IdempotencyLayer)
/// gets it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// There is no transaction to be had from the pool.
    #[error("no transaction could be opened")]
    Open(#[source] sqlx::Error),
    /// The request could not be begun. The handler has not run.
    #[error("the request could not be begun")]
    Begin(#[source] StoreError),
    /// The response could not be recorded; what the handler did is rolled back.
    #[error("the response could not be recorded")]
    Record(#[source] StoreError),
    /// The transaction could not be committed, or the database's answer was lost: it is unknown
    /// whether it was committed.
    #[error("the transaction could not be committed")]
    Commit(#[source] sqlx::Error),
    /// The transaction could not be rolled back in order. The database rolls back when it finds the
    /// connection gone.
    #[error("the transaction could not be rolled back")]
    Rollback(#[source] sqlx::Error),
    /// A guard of the transaction outlives the handler: it is rolled back when the guard goes.
    #[error("the handler returned while a guard of its transaction was alive")]
    TransactionHeld,
    /// The response has more bytes than are recorded; what the handler did is rolled back.
    #[error("the response has more than {bytes_max} bytes")]
    ResponseTooLarge {
        /// How many it may have.
        bytes_max: usize,
    },
    /// The body of the response broke off; what the handler did is rolled back.
    #[error("the body of the response was cut off")]
    ResponseBody(#[source] BoxError),
    /// The recorded response cannot be read (see I-17).
    #[error("this version cannot read the recorded response; drain or migrate it")]
    IncompatibleState(#[source] DecodeError),
    /// Other code recorded an error under the key; the middleware itself never does.
    #[error("an error of class {:?} is recorded under the key", .0.class_tag)]
    RecordedFailure(StoredError),
}

impl LayerError {
    /// What the caller is told.
    pub(super) fn problem(&self) -> Problem {
        match self {
            Self::Open(_) => Problem::Unavailable,
            Self::Begin(error) | Self::Record(error) => of_store(error),
            Self::Commit(error) => of_commit(error),
            Self::Rollback(_) => Problem::Internal,
            Self::TransactionHeld => Problem::TransactionHeld,
            Self::ResponseTooLarge { .. } => Problem::ResponseTooLarge,
            Self::ResponseBody(_) => Problem::ResponseUnreadable,
            Self::IncompatibleState(_) => Problem::IncompatibleState,
            Self::RecordedFailure(_) => Problem::RecordedFailure,
        }
    }
}

fn of_store(error: &StoreError) -> Problem {
    match error {
        StoreError::RetryTransaction(_) => Problem::Unavailable,
        StoreError::IncompatibleState(_) => Problem::IncompatibleState,
        StoreError::Superseded { .. }
        | StoreError::NoAttempt { .. }
        | StoreError::AlreadyEnded { .. } => Problem::AttemptLost,
        StoreError::Database(source) => match source.downcast_ref() {
            // The database answered, and would answer the same again: a table is missing, or an
            // error of the handler's has ended the transaction.
            Some(sqlx::Error::Database(_)) | None => Problem::Internal,
            Some(_) => Problem::Unavailable,
        },
        StoreError::NoTransaction | StoreError::ForeignKey { .. } | StoreError::Json(_) => {
            Problem::Internal
        }
    }
}

/// What a failed commit means. Two cases: (1) a deferred constraint refused the transaction, so
/// nothing was committed; (2) anything else, such as a lost connection or a server that shuts down
/// while it waits for a replica: it is unknown whether it was committed.
fn of_commit(error: &sqlx::Error) -> Problem {
    match error.as_database_error().map(sqlx::error::DatabaseError::kind) {
        None | Some(ErrorKind::Other) => Problem::OutcomeUnknown,
        Some(_) => Problem::Internal,
    }
}
