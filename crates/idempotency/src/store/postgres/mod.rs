//! The client for PostgreSQL, on sqlx.

mod shape;
mod statements;

use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _, Transaction, ValueRef as _};

use self::statements::Statements;
use super::client::{BeginCall, Begun, Client, ClientError, Ending, OwnerCall, Recorded, Row};
use super::error::ShapeError;
use super::factory::IdempotencyStoreFactory;
use super::raw::RawIdempotencyStore;
use super::settings::{Settings, TableName};
use crate::outcome::{OwnerToken, OwnerTokenError};

/// The migration that makes the table, `sql/postgres.sql`: for the consumer's own migrations.
pub const POSTGRES_MIGRATION: &str = include_str!("../../../sql/postgres.sql");

/// The file's name, for errors.
const MIGRATION_FILE: &str = "sql/postgres.sql";

/// SQLSTATEs by which PostgreSQL asks for the transaction to be run again.
const SERIALIZATION_FAILURE: &str = "40001";
const DEADLOCK_DETECTED: &str = "40P01";
/// The SQLSTATE of a statement that needs a transaction and has none.
const NO_ACTIVE_SQL_TRANSACTION: &str = "25P01";

/// Makes stores on PostgreSQL connections of sqlx.
pub type PostgresStoreFactory = IdempotencyStoreFactory<PostgresClient>;

impl PostgresStoreFactory {
    /// Stores with these settings.
    pub fn new(settings: Settings) -> Self {
        Self::with_client(PostgresClient::new(&settings.table), settings)
    }

    /// A store on a transaction of sqlx: the way that suits most services (I-15).
    pub fn with_tx<'c>(
        &'c self,
        transaction: &'c mut Transaction<'_, Postgres>,
    ) -> RawIdempotencyStore<'c, PostgresClient> {
        self.in_connection(&mut *transaction)
    }
}

/// The statements of a store, on sqlx's PostgreSQL connections.
#[derive(Debug, Clone)]
pub struct PostgresClient {
    table: TableName,
    statements: Statements,
}

impl PostgresClient {
    fn new(table: &TableName) -> Self {
        Self { table: table.clone(), statements: Statements::of(table) }
    }
}

/// The statements are made of constants and a table's name, which is checked.
fn query(sql: &Arc<str>) -> Query<'_, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(sql)))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl From<sqlx::Error> for ClientError {
    fn from(error: sqlx::Error) -> Self {
        if retryable(&error) { Self::Retry(error.into()) } else { Self::Other(error.into()) }
    }
}

fn retryable(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    matches!(code.as_deref(), Some(SERIALIZATION_FAILURE | DEADLOCK_DETECTED))
}

/// The number of the advisory lock of a key, but for the table.
fn lock_number(namespace: &str, key: &str) -> i64 {
    let mut hash = Sha256::new();
    hash.update(namespace.as_bytes());
    // A zero byte occurs in no namespace, so it separates the two.
    hash.update([0]);
    hash.update(key.as_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let (first, _) = digest.split_first_chunk().expect("32 bytes have a first 8");
    i64::from_be_bytes(*first)
}

/// A statement of an owner's, with the parameters that all of them have.
fn owned<'q>(sql: &'q Arc<str>, call: &OwnerCall<'q>) -> Query<'q, Postgres, PgArguments> {
    let lock = lock_number(call.namespace, call.key);
    query(sql).bind(call.namespace).bind(call.key).bind(call.owner).bind(lock)
}

/// The transaction that made a token: what follows the random half.
fn transaction_of(owner: &OwnerToken) -> Option<u64> {
    let (_, transaction) = owner.as_str().rsplit_once('-')?;
    // 64 bits, and no more than PostgreSQL's own type takes.
    transaction.parse().ok()
}

/// What is recorded, from this column on: five columns, the end of the lease, and now.
fn recorded(row: &PgRow, first: usize) -> Result<Recorded, sqlx::Error> {
    let (lease_until, now) = (millis_at(row, first + 5)?, millis_at(row, first + 6)?);
    Ok(Recorded {
        hash: row.try_get(first)?,
        status: row.try_get(first + 1)?,
        request: row.try_get(first + 2)?,
        result: row.try_get(first + 3)?,
        error: row.try_get(first + 4)?,
        lease_ms: lease_until.unwrap_or(0).saturating_sub(now.unwrap_or(0)),
    })
}

/// A time in milliseconds since 1970, from PostgreSQL's microseconds since 2000. An infinite time,
/// which an operator may have set, is the largest or smallest number there.
fn millis_at(row: &PgRow, column: usize) -> Result<Option<i64>, sqlx::Error> {
    const MILLIS_1970_TO_2000: i64 = 946_684_800_000;
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(None);
    }
    let bytes = value.as_bytes().map_err(sqlx::Error::Decode)?;
    let bytes: [u8; 8] = bytes.try_into().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    let micros = i64::from_be_bytes(bytes);
    Ok(Some((micros / 1_000).saturating_add(MILLIS_1970_TO_2000)))
}

/// The random half of a token: 128 bits.
#[expect(clippy::disallowed_methods, reason = "a client is a shell")]
fn random() -> Result<String, ClientError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ClientError::Other(error.to_string().into()))?;
    Ok(HEXLOWER.encode(&bytes))
}

fn owner(token: &str) -> Result<OwnerToken, ClientError> {
    token.parse().map_err(|why: OwnerTokenError| ClientError::Other(why.into()))
}

impl Client for PostgresClient {
    type Connection = PgConnection;

    async fn is_in_transaction(&self, connection: &mut PgConnection) -> Result<bool, ClientError> {
        match query(&self.statements.in_transaction).execute(connection).await {
            Ok(_) => Ok(true),
            Err(error) => {
                let code = error.as_database_error().and_then(DatabaseError::code);
                match code.as_deref() {
                    Some(NO_ACTIVE_SQL_TRANSACTION) => Ok(false),
                    _ => Err(error.into()),
                }
            }
        }
    }

    async fn begin(
        &self,
        connection: &mut PgConnection,
        call: &BeginCall<'_>,
    ) -> Result<Begun, ClientError> {
        let row = query(&self.statements.begin)
            .bind(call.namespace)
            .bind(call.key)
            .bind(call.hash.as_slice())
            .bind(lock_number(call.namespace, call.key))
            .bind(call.request)
            .bind(millis(call.lease))
            .bind(millis(call.replay_window))
            .bind(random()?)
            .fetch_optional(connection)
            .await?;
        let Some(row) = row else {
            return Ok(Begun::Nothing);
        };
        match row.try_get(0)? {
            Some(token) => Ok(Begun::Fresh(owner(token)?)),
            None => Ok(Begun::Recorded(recorded(&row, 1)?)),
        }
    }

    async fn take_over(
        &self,
        connection: &mut PgConnection,
        call: &BeginCall<'_>,
    ) -> Result<Option<OwnerToken>, ClientError> {
        let row = query(&self.statements.take_over)
            .bind(call.namespace)
            .bind(call.key)
            .bind(call.hash.as_slice())
            .bind(lock_number(call.namespace, call.key))
            .bind(millis(call.lease))
            .bind(millis(call.replay_window))
            .bind(random()?)
            .fetch_optional(connection)
            .await?;
        row.map(|row| owner(row.try_get(0)?)).transpose()
    }

    async fn end(
        &self,
        connection: &mut PgConnection,
        call: &OwnerCall<'_>,
        ending: Ending<'_>,
    ) -> Result<bool, ClientError> {
        let (sql, payload) = match ending {
            Ending::Committed(result) => (&self.statements.commit, Some(result)),
            Ending::Failed(error) => (&self.statements.fail, Some(error)),
            Ending::Forgotten => (&self.statements.forget, None),
        };
        let mut query = owned(sql, call);
        if let Some(payload) = payload {
            query = query.bind(payload);
        }
        Ok(query.execute(connection).await?.rows_affected() > 0)
    }

    async fn renew(
        &self,
        connection: &mut PgConnection,
        call: &OwnerCall<'_>,
        lease: Duration,
    ) -> Result<bool, ClientError> {
        let query = owned(&self.statements.renew, call).bind(millis(lease));
        Ok(query.execute(connection).await?.rows_affected() > 0)
    }

    async fn is_seen(
        &self,
        connection: &mut PgConnection,
        owner: &OwnerToken,
    ) -> Result<bool, ClientError> {
        // A token that was not made by our statements belongs to no row.
        let Some(transaction) = transaction_of(owner) else {
            return Ok(true);
        };
        let query = query(&self.statements.is_seen).bind(transaction.to_string());
        Ok(query.fetch_one(connection).await?.try_get("seen")?)
    }

    async fn lookup(
        &self,
        connection: &mut PgConnection,
        namespace: &str,
        key: &str,
    ) -> Result<Option<Row>, ClientError> {
        let query = query(&self.statements.lookup).bind(namespace).bind(key);
        let Some(row) = query.fetch_optional(connection).await? else {
            return Ok(None);
        };
        let time = |column| Ok::<_, sqlx::Error>(millis_at(&row, column)?.unwrap_or(0));
        Ok(Some(Row {
            recorded: recorded(&row, 0)?,
            owner: row.try_get(7)?,
            owners: row.try_get(8)?,
            created_at_ms: time(9)?,
            ended_at_ms: millis_at(&row, 10)?,
            expires_at_ms: time(11)?,
        }))
    }

    async fn purge_expired(
        &self,
        connection: &mut PgConnection,
        namespace: &str,
        replay_window: Duration,
        rows_max: u32,
    ) -> Result<u64, ClientError> {
        let query = query(&self.statements.purge).bind(namespace).bind(i64::from(rows_max));
        let query = query.bind(millis(replay_window));
        Ok(query.execute(connection).await?.rows_affected())
    }

    async fn pause(
        &self,
        connection: &mut PgConnection,
        pause: Duration,
    ) -> Result<bool, ClientError> {
        let query = sqlx::query("SELECT pg_sleep($1)").bind(pause.as_secs_f64());
        query.execute(connection).await?;
        Ok(true)
    }

    async fn check(&self, connection: &mut PgConnection) -> Result<(), ShapeError> {
        shape::check(connection, &self.table).await
    }
}
