//! What can go wrong at a store.

use std::error::Error;

use crate::json::JsonError;
use crate::key::IdempotencyKey;
use crate::namespace::ConsumerNamespace;
use crate::outcome::DecodeError;

/// An error of a database client, whichever it is. sqlx's are `sqlx::Error` inside: downcast to
/// look.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a call of a store failed. None of them has changed anything; where the database itself
/// reports an error, PostgreSQL lets the transaction do nothing more but roll back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database could not order this transaction among others (a serialization failure or a
    /// deadlock; a busy database, in SQLite): roll back, and run the whole transaction again.
    #[error("the transaction collided with another one: roll it back and run it again")]
    RetryTransaction(#[source] BoxError),
    /// The connection has no active transaction, and the binding insists on one (I-15).
    #[error("the connection has no active transaction")]
    NoTransaction,
    /// The key belongs to another consumer than the store.
    #[error("the key is of the namespace {key}, the store of {store}")]
    ForeignKey {
        /// The key's namespace.
        key: ConsumerNamespace,
        /// The store's namespace.
        store: ConsumerNamespace,
    },
    /// Another owner has taken over (see C-34): whatever was done in this transaction must not be
    /// committed.
    #[error("the attempt at {key} was taken over by another owner: roll back")]
    Superseded {
        /// Under which key.
        key: IdempotencyKey,
    },
    /// No such attempt: its `begin` was rolled back, or it was given up.
    #[error("there is no attempt at {key} to end")]
    NoAttempt {
        /// Under which key.
        key: IdempotencyKey,
    },
    /// The same attempt ended before: whatever was done in this transaction was done then, so roll
    /// back. Where it is the same end, its answer was lost, and all is well.
    #[error("the attempt at {key} has ended before, as {status}: roll back")]
    AlreadyEnded {
        /// Under which key.
        key: IdempotencyKey,
        /// How it ended: `committed` or `failed`.
        status: &'static str,
        /// Whether with the same result or error.
        same: bool,
    },
    /// A request, result or error that cannot be recorded.
    #[error("it cannot be recorded")]
    Json(#[from] JsonError),
    /// The specification's `Internal.IncompatibleState` (I-17): what is recorded does not fit this
    /// version of the service. An operator must drain or migrate the table.
    #[error("what is recorded does not fit this version; drain or migrate it")]
    IncompatibleState(#[from] DecodeError),
    /// The database, or the way to it.
    #[error("the database reports an error")]
    Database(#[source] BoxError),
}

/// A table that the statements would not fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// Not there, or not to be seen by this user.
    #[error("there is no table {table}; the migration that makes it is {migration}")]
    Missing {
        /// The table, as it is named in statements.
        table: String,
        /// The file of this crate that makes it.
        migration: &'static str,
    },
    /// There, and other than it should be.
    #[error("the table {table} is not as {migration} makes it: {}", problems.join("; "))]
    Shape {
        /// The table, as it is named in statements.
        table: String,
        /// The file of this crate that makes it.
        migration: &'static str,
        /// Everything that is wrong.
        problems: Vec<String>,
    },
    /// The database, or the way to it.
    #[error("the database reports an error")]
    Database(#[source] BoxError),
}
