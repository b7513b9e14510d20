//! The databases under test, and what a load needs of one besides the store.

use std::borrow::Cow;

use indelible_idempotency::store::{Client, IdempotencyStoreFactory, StoreError};
use sqlx::error::DatabaseError;

/// A connection to a database.
pub(crate) type Connection<B> = <<B as Base>::Db as sqlx::Database>::Connection;

/// Where a row of the load's own goes. None of these tables has a unique index: whatever is done
/// twice is there twice.
#[derive(Clone, Copy)]
pub(crate) enum Note {
    /// The guarded effect of a key.
    Effect,
    /// A client was told that a key is in flight.
    Lost,
}

/// A database with the table of keys, and the tables of [`Note`].
pub(crate) trait Base: 'static {
    type Db: sqlx::Database;
    type Client: Client<Connection = <Self::Db as sqlx::Database>::Connection> + 'static;

    fn factory(&self) -> &IdempotencyStoreFactory<Self::Client>;

    /// The statement that opens a transaction.
    fn opening(&self) -> &'static str;

    async fn connect(&self) -> Result<Connection<Self>, sqlx::Error>;

    async fn note(
        &self,
        connection: &mut Connection<Self>,
        note: Note,
        key: &str,
        text: &str,
    ) -> Result<(), sqlx::Error>;

    /// Lets the lease of a row in progress lapse, as if its time had passed.
    async fn lapse(&self, connection: &mut Connection<Self>, key: &str) -> Result<(), sqlx::Error>;

    /// Every row of a table of notes: key and text.
    async fn notes(&self, note: Note) -> Vec<(String, String)>;

    /// Every row of the table of keys: key, status, result.
    async fn records(&self) -> Vec<(String, String, Option<String>)>;

    /// What an error comes to; `None` if a client should never see it.
    fn trouble(&self, error: &sqlx::Error) -> Option<Trouble>;
}

/// What may go wrong in a transaction without anything being wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It collided: run it again, on the same connection.
    Collision,
    /// The connection is lost, and whether the transaction was committed is not known.
    Lost,
    /// The attempt belongs to another client by now: the transaction must not be committed.
    Refused,
    /// The attempt has ended before, by the same owner: the same.
    Ended,
}

/// What an error of the store comes to.
///
/// # Panics
///
/// If it is one that a client should never see, a deadlock above all.
pub(crate) fn store_trouble<B: Base>(base: &B, error: StoreError) -> Trouble {
    let (source, expected) = match error {
        StoreError::RetryTransaction(source) => (source, Trouble::Collision),
        StoreError::Database(source) => (source, Trouble::Lost),
        StoreError::Superseded { .. } | StoreError::NoAttempt { .. } => return Trouble::Refused,
        StoreError::AlreadyEnded { .. } => return Trouble::Ended,
        other => panic!("the store failed: {other:?}"),
    };
    let Some(source) = source.downcast_ref::<sqlx::Error>() else {
        // The store's own: what it found changes too fast.
        assert_eq!(expected, Trouble::Collision, "{source:?}");
        return expected;
    };
    let found = base.trouble(source);
    assert_eq!(found, Some(expected), "{source:?}");
    expected
}

/// What an error of the database comes to.
///
/// # Panics
///
/// If it is one that a client should never see, a deadlock above all.
pub(crate) fn sql_trouble<B: Base>(base: &B, error: &sqlx::Error) -> Trouble {
    base.trouble(error).unwrap_or_else(|| panic!("the database failed: {error:?}"))
}

pub(crate) fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(DatabaseError::code).map(Cow::into_owned)
}
