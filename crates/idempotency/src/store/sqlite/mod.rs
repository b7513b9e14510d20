//! The client for SQLite, on sqlx.
//!
//! SQLite has one writer at a time. Open the transactions around a store with `BEGIN IMMEDIATE`
//! (`pool.begin_with("BEGIN IMMEDIATE")`) and give the connections a busy time-out: they then
//! queue. A plain `BEGIN` that turns into a writer while another one has written since is refused by
//! SQLite at once, which comes out as [`StoreError::RetryTransaction`](super::StoreError).

mod shape;
mod statements;

use std::sync::Arc;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Connection as _, Row as _, Sqlite, SqliteConnection, Transaction};

use self::statements::Statements;
use super::client::{BeginCall, Begun, Client, ClientError, Ending, OwnerCall, Recorded, Row};
use super::error::ShapeError;
use super::factory::IdempotencyStoreFactory;
use super::raw::RawIdempotencyStore;
use super::settings::{Settings, TableName};
use crate::outcome::{OwnerToken, OwnerTokenError};

/// The migration that makes the table, `sql/sqlite.sql`: for the consumer's own migrations.
pub const SQLITE_MIGRATION: &str = include_str!("../../../sql/sqlite.sql");

/// The file's name, for errors.
const MIGRATION_FILE: &str = "sql/sqlite.sql";

/// The primary result codes by which SQLite says that another connection is in the way.
const BUSY: i32 = 5;
const LOCKED: i32 = 6;

/// Makes stores on SQLite connections of sqlx.
pub type SqliteStoreFactory = IdempotencyStoreFactory<SqliteClient>;

impl SqliteStoreFactory {
    /// Stores with these settings.
    pub fn new(settings: Settings) -> Self {
        Self::with_client(SqliteClient::new(&settings.table), settings)
    }

    /// A store on a transaction of sqlx: the way that suits most services (I-15).
    pub fn with_tx<'c>(
        &'c self,
        transaction: &'c mut Transaction<'_, Sqlite>,
    ) -> RawIdempotencyStore<'c, SqliteClient> {
        self.in_connection(&mut *transaction)
    }
}

/// The statements of a store, on sqlx's SQLite connections.
#[derive(Debug, Clone)]
pub struct SqliteClient {
    table: TableName,
    statements: Statements,
}

impl SqliteClient {
    fn new(table: &TableName) -> Self {
        Self { table: table.clone(), statements: Statements::of(table) }
    }
}

/// The statements are made of constants and a table's name, which is checked.
fn query(sql: &Arc<str>) -> Query<'_, Sqlite, SqliteArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(sql)))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn failed(error: sqlx::Error) -> ClientError {
    let code = error.as_database_error().and_then(DatabaseError::code);
    let code: Option<i32> = code.and_then(|code| code.parse().ok());
    // The primary code is in the low byte; what is above says more exactly what was in the way.
    match code.map(|code| code & 0xff) {
        Some(BUSY | LOCKED) => ClientError::Retry(error.into()),
        _ => ClientError::Other(error.into()),
    }
}

fn recorded(row: &SqliteRow) -> Result<Recorded, sqlx::Error> {
    Ok(Recorded {
        hash: row.try_get("request_hash")?,
        status: row.try_get("status")?,
        request: row.try_get("request_payload")?,
        result: row.try_get("result_payload")?,
        error: row.try_get("error_payload")?,
        lease_ms: row.try_get("lease_ms")?,
    })
}

fn owner(row: &SqliteRow) -> Result<OwnerToken, ClientError> {
    let token: &str = row.try_get("owner").map_err(failed)?;
    token.parse().map_err(|why: OwnerTokenError| ClientError::Other(why.into()))
}

impl Client for SqliteClient {
    type Connection = SqliteConnection;

    /// Asks sqlx, since SQLite has no statement that tells. A transaction that was opened by a
    /// plain statement, and not by sqlx's `begin`, is not noticed.
    async fn is_in_transaction(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<bool, ClientError> {
        Ok(connection.is_in_transaction())
    }

    /// A statement that returns rows and changes something is read to its end (`fetch_all`):
    /// outside a transaction the end is the commit, and its error must not be lost.
    async fn begin(
        &self,
        connection: &mut SqliteConnection,
        call: &BeginCall<'_>,
    ) -> Result<Begun, ClientError> {
        let found = query(&self.statements.find)
            .bind(call.namespace)
            .bind(call.key)
            .bind(call.hash.as_slice())
            .fetch_optional(&mut *connection)
            .await
            .map_err(failed)?;
        if let Some(row) = found {
            return recorded(&row).map(Begun::Recorded).map_err(failed);
        }
        let inserted = query(&self.statements.insert)
            .bind(call.namespace)
            .bind(call.key)
            .bind(call.hash.as_slice())
            .bind(call.request)
            .bind(millis(call.lease))
            .bind(millis(call.replay_window))
            .fetch_all(connection)
            .await
            .map_err(failed)?;
        match inserted.first() {
            Some(row) => owner(row).map(Begun::Fresh),
            None => Ok(Begun::Nothing),
        }
    }

    async fn take_over(
        &self,
        connection: &mut SqliteConnection,
        call: &BeginCall<'_>,
    ) -> Result<Option<OwnerToken>, ClientError> {
        let taken = query(&self.statements.take_over)
            .bind(call.namespace)
            .bind(call.key)
            .bind(call.hash.as_slice())
            .bind(millis(call.lease))
            .bind(millis(call.replay_window))
            .fetch_all(connection)
            .await
            .map_err(failed)?;
        taken.first().map(owner).transpose()
    }

    async fn end(
        &self,
        connection: &mut SqliteConnection,
        call: &OwnerCall<'_>,
        ending: Ending<'_>,
    ) -> Result<bool, ClientError> {
        let (sql, payload) = match ending {
            Ending::Committed(result) => (&self.statements.commit, Some(result)),
            Ending::Failed(error) => (&self.statements.fail, Some(error)),
            Ending::Forgotten => (&self.statements.forget, None),
        };
        let mut query = query(sql).bind(call.namespace).bind(call.key).bind(call.owner);
        if let Some(payload) = payload {
            query = query.bind(payload);
        }
        Ok(query.execute(connection).await.map_err(failed)?.rows_affected() > 0)
    }

    async fn renew(
        &self,
        connection: &mut SqliteConnection,
        call: &OwnerCall<'_>,
        lease: Duration,
    ) -> Result<bool, ClientError> {
        let query = query(&self.statements.renew);
        let query = query.bind(call.namespace).bind(call.key).bind(call.owner).bind(millis(lease));
        Ok(query.execute(connection).await.map_err(failed)?.rows_affected() > 0)
    }

    /// Always: SQLite refuses writes on an old snapshot, so a transaction that finds nothing to end
    /// has seen every committed row.
    async fn is_seen(
        &self,
        _connection: &mut SqliteConnection,
        _owner: &OwnerToken,
    ) -> Result<bool, ClientError> {
        Ok(true)
    }

    async fn lookup(
        &self,
        connection: &mut SqliteConnection,
        namespace: &str,
        key: &str,
    ) -> Result<Option<Row>, ClientError> {
        let query = query(&self.statements.lookup).bind(namespace).bind(key);
        let row = query.fetch_optional(connection).await.map_err(failed)?;
        let read = |row: SqliteRow| {
            Ok(Row {
                recorded: recorded(&row)?,
                owner: row.try_get("owner")?,
                owners: row.try_get("owners")?,
                created_at_ms: row.try_get("created_at_ms")?,
                ended_at_ms: row.try_get("ended_at_ms")?,
                expires_at_ms: row.try_get("expires_at_ms")?,
            })
        };
        row.map(read).transpose().map_err(failed)
    }

    async fn purge_expired(
        &self,
        connection: &mut SqliteConnection,
        namespace: &str,
        replay_window: Duration,
        rows_max: u32,
    ) -> Result<u64, ClientError> {
        let query = query(&self.statements.purge).bind(namespace).bind(i64::from(rows_max));
        let query = query.bind(millis(replay_window));
        Ok(query.execute(connection).await.map_err(failed)?.rows_affected())
    }

    /// Never waits: within a transaction no new rows become visible.
    async fn pause(
        &self,
        _connection: &mut SqliteConnection,
        _pause: Duration,
    ) -> Result<bool, ClientError> {
        Ok(false)
    }

    async fn check(&self, connection: &mut SqliteConnection) -> Result<(), ShapeError> {
        shape::check(connection, &self.table).await
    }
}
