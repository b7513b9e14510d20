//! What the middleware needs of a database beyond a store: a transaction from a pool.

use std::future::Future;

use sqlx::{Database, Pool, Transaction};

use crate::store::Client;

/// A database of sqlx that the middleware runs on: `sqlx::Postgres` with the feature `postgres`,
/// `sqlx::Sqlite` with the feature `sqlite`.
pub trait LayerDatabase: Database {
    /// The statements of a store on it.
    type Client: Client<Connection = <Self as Database>::Connection> + Clone + 'static;

    /// Opens a transaction that can write.
    fn open(
        pool: &Pool<Self>,
    ) -> impl Future<Output = Result<Transaction<'static, Self>, sqlx::Error>> + Send;
}

#[cfg(feature = "postgres")]
impl LayerDatabase for sqlx::Postgres {
    type Client = crate::store::PostgresClient;

    async fn open(pool: &Pool<Self>) -> Result<Transaction<'static, Self>, sqlx::Error> {
        pool.begin().await
    }
}

#[cfg(feature = "sqlite")]
impl LayerDatabase for sqlx::Sqlite {
    type Client = crate::store::SqliteClient;

    /// As a writer from the start: a reader that turns into one is refused where another has
    /// written meanwhile, and then the handler has run in vain.
    async fn open(pool: &Pool<Self>) -> Result<Transaction<'static, Self>, sqlx::Error> {
        pool.begin_with("BEGIN IMMEDIATE").await
    }
}
