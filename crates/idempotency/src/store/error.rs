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
    #[error("the transaction conflicts with another one: roll it back and run it again")]
    RetryTransaction(#[source] BoxError),
    /// The connection has no active transaction, and the binding insists on one (I-15).
    #[error("the connection has no active transaction")]
    NoTransaction,
    /// The key belongs to another consumer than the store.
    #[error("the key belongs to the namespace {key}, the store to {store}")]
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
    /// The same attempt ended before: its work was done then, so roll this transaction back. If it
    /// ended the same way, only the first answer was lost, and all is well.
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
    #[error("the request or its outcome cannot be recorded")]
    Json(#[from] JsonError),
    /// The specification's `Internal.IncompatibleState` (I-17): what is recorded does not fit this
    /// version of the service. An operator must drain or migrate the table.
    #[error("this version cannot read the record; drain or migrate it")]
    IncompatibleState(#[from] DecodeError),
    /// The database, or the way to it.
    #[error("the database reports an error")]
    Database(#[source] BoxError),
}

/// A table that the statements would not fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// It does not exist, or this user may not see it.
    #[error("the table {table} does not exist; create it with the migration {migration}")]
    Missing {
        /// The table, as it is named in statements.
        table: String,
        /// The file of this crate that makes it.
        migration: &'static str,
    },
    /// It exists, in another shape.
    #[error("the table {table} differs from the migration {migration}: {}", problems.join("; "))]
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
