//! What the middleware needs of a database beyond a store: a transaction from a pool.

use std::future::Future;

use sqlx::{Database, Pool, Transaction};

#[cfg(feature = "sqlite")]
use sqlx::Connection as _;

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

    /// Called before a transaction is ended. Where it is over already, by a statement of the
    /// handler's own or by the database itself, sqlx does not know: whoever has a connection that
    /// would be of no use after that makes it right here.
    fn settle(connection: &mut Self::Connection) -> impl Future<Output = ()> + Send {
        let _ = connection;
        async {}
    }
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
        let mut tries = pool.options().get_max_connections();
        loop {
            match pool.begin_with("BEGIN IMMEDIATE").await {
                // A connection that sqlx takes to be in a transaction which is long over. It would
                // stay so for ever: see `settle`, which a handler that panics does not come by.
                Err(sqlx::Error::InvalidSavePointStatement) if tries > 0 => {
                    tries -= 1;
                    let connection = pool.acquire().await?;
                    if connection.is_in_transaction() {
                        connection.close().await?;
                    }
                }
                opened => return opened,
            }
        }
    }

    /// A transaction that is over cannot be ended: SQLite refuses, and sqlx goes on to count it. So
    /// there is a new one to end. Within a transaction `BEGIN` is refused, and nothing happens.
    async fn settle(connection: &mut Self::Connection) {
        let _ = sqlx::raw_sql("BEGIN").execute(connection).await;
    }
}
