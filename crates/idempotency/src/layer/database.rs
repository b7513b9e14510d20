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

    /// Called before a transaction is ended. A statement of the handler's own, or the database
    /// itself, may have ended it already without sqlx's knowledge. A database whose connection
    /// would then be unusable repairs it here.
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

    /// Opens it as a writer: SQLite refuses a reader that turns into a writer if another connection
    /// has written meanwhile, and then the handler would have run in vain.
    async fn open(pool: &Pool<Self>) -> Result<Transaction<'static, Self>, sqlx::Error> {
        let mut tries = pool.options().get_max_connections();
        loop {
            match pool.begin_with("BEGIN IMMEDIATE").await {
                // sqlx takes this connection to be in a transaction that is long over, because a
                // handler panicked and `settle` was not called. It would stay so for ever, so it is
                // closed.
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

    /// SQLite refuses to end a transaction that is over, and sqlx would go on counting it. So this
    /// begins a new one to end. Within a transaction `BEGIN` is refused, and nothing happens.
    async fn settle(connection: &mut Self::Connection) {
        let _ = sqlx::raw_sql("BEGIN").execute(connection).await;
    }
}
