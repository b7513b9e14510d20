//! What a database client has to do for a store: run a handful of statements, and tell a collision
//! from other errors. Every decision is the store's.
//!
//! A binding for another client than sqlx implements [`Client`] with the statements of
//! `src/store/postgres/statements.rs` or `src/store/sqlite/statements.rs`, which carry the reasons
//! for their form. It gets `RawIdempotencyStore`, the typed form and all rules with it.

use std::future::Future;
use std::time::Duration;

use super::error::{BoxError, ShapeError};
use crate::outcome::OwnerToken;

/// A way to a database. No method opens, commits or rolls back a transaction (I-14).
pub trait Client: Send + Sync {
    /// What statements run on: the caller's connection.
    type Connection: Send;

    /// Whether a transaction is active on the connection.
    fn is_in_transaction(
        &self,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, ClientError>> + Send;

    /// Inserts a row in progress, unless there is one, or another transaction is about to insert
    /// one. It never waits for another transaction.
    fn begin(
        &self,
        connection: &mut Self::Connection,
        call: &BeginCall<'_>,
    ) -> impl Future<Output = Result<Begun, ClientError>> + Send;

    /// Gives a row in progress, with this request and a lapsed lease, a new owner; none if there is
    /// no such row, or another transaction is changing it. It never waits for another transaction.
    fn take_over(
        &self,
        connection: &mut Self::Connection,
        call: &BeginCall<'_>,
    ) -> impl Future<Output = Result<Option<OwnerToken>, ClientError>> + Send;

    /// Ends a row in progress of this owner; false if there is none, or another transaction is
    /// changing it. It never waits for another transaction.
    fn end(
        &self,
        connection: &mut Self::Connection,
        call: &OwnerCall<'_>,
        ending: Ending<'_>,
    ) -> impl Future<Output = Result<bool, ClientError>> + Send;

    /// Extends the lease of a row in progress of this owner; false as for [`Client::end`].
    fn renew(
        &self,
        connection: &mut Self::Connection,
        call: &OwnerCall<'_>,
        lease: Duration,
    ) -> impl Future<Output = Result<bool, ClientError>> + Send;

    /// Whether the transaction that made this token has ended for the caller's snapshot, or is the
    /// caller's own. If not, a row of this token may exist though the caller does not see it.
    fn is_seen(
        &self,
        connection: &mut Self::Connection,
        owner: &OwnerToken,
    ) -> impl Future<Output = Result<bool, ClientError>> + Send;

    /// Reads a row.
    fn lookup(
        &self,
        connection: &mut Self::Connection,
        namespace: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<Row>, ClientError>> + Send;

    /// Deletes at most so many rows of a namespace that have expired, and ended at least a replay
    /// window ago; how many.
    fn purge_expired(
        &self,
        connection: &mut Self::Connection,
        namespace: &str,
        replay_window: Duration,
        rows_max: u32,
    ) -> impl Future<Output = Result<u64, ClientError>> + Send;

    /// Waits on the connection, within the transaction; false if waiting cannot make new rows
    /// visible.
    fn pause(
        &self,
        connection: &mut Self::Connection,
        pause: Duration,
    ) -> impl Future<Output = Result<bool, ClientError>> + Send;

    /// Whether the table is as the statements need it (I-20).
    fn check(
        &self,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), ShapeError>> + Send;
}

/// What `begin` and `take_over` are called with.
#[derive(Debug, Clone, Copy)]
pub struct BeginCall<'a> {
    /// Whose key.
    pub namespace: &'a str,
    /// Which key.
    pub key: &'a str,
    /// The hash of the request.
    pub hash: &'a [u8; 32],
    /// The request.
    pub request: &'a str,
    /// How long the owner has.
    pub lease: Duration,
    /// How long the row is replayed.
    pub replay_window: Duration,
}

/// What an owner's calls are called with.
#[derive(Debug, Clone, Copy)]
pub struct OwnerCall<'a> {
    /// Whose key.
    pub namespace: &'a str,
    /// Which key.
    pub key: &'a str,
    /// The token of the owner.
    pub owner: &'a str,
}

/// How an attempt ends (I-10).
#[derive(Debug, Clone, Copy)]
pub enum Ending<'a> {
    /// With this result.
    Committed(&'a str),
    /// With this error.
    Failed(&'a str),
    /// Without a trace: the row is deleted.
    Forgotten,
}

/// What `begin` found.
#[derive(Debug)]
pub enum Begun {
    /// A row, with this owner.
    Fresh(OwnerToken),
    /// There is a row.
    Recorded(Recorded),
    /// No row is visible, and none was inserted: another transaction holds the key, or did until a
    /// moment ago.
    Nothing,
}

/// A row as `begin` finds it.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The column `request_hash`.
    pub hash: Vec<u8>,
    /// The column `status`.
    pub status: String,
    /// The column `request_payload`; it need not be read where the hashes are equal.
    pub request: Option<String>,
    /// The column `result_payload`.
    pub result: Option<String>,
    /// The column `error_payload`.
    pub error: Option<String>,
    /// Milliseconds until the lease ends; negative if it has ended. As of the snapshot in which the
    /// row was seen, or earlier: its owner may have ended it since.
    pub lease_ms: i64,
}

/// A whole row. Times are milliseconds since 1970.
#[derive(Debug)]
pub struct Row {
    /// What `begin` would find.
    pub recorded: Recorded,
    /// The column `owner`.
    pub owner: String,
    /// The column `owners`.
    pub owners: i64,
    /// The column `created_at`.
    pub created_at_ms: i64,
    /// The column `ended_at`.
    pub ended_at_ms: Option<i64>,
    /// The column `expires_at`.
    pub expires_at_ms: i64,
}

/// An error of a client, classified by what to do about it.
#[derive(Debug)]
pub enum ClientError {
    /// Run the transaction again.
    Retry(BoxError),
    /// Anything else.
    Other(BoxError),
}
