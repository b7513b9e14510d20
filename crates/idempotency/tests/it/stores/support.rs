//! A database with a clean table, of either kind, and what tests say again and again.

use std::time::Duration;

use indelible_idempotency::store::{
    Client, IdempotencyStoreFactory, POSTGRES_MIGRATION, PostgresClient, PostgresStoreFactory,
    RawIdempotencyStore, SQLITE_MIGRATION, Settings, SqliteClient, SqliteStoreFactory,
};
use indelible_idempotency::{
    Attempt, ConsumerNamespace, IdempotencyKey, Json, Outcome, Request, parse_key,
};
use indelible_postgres_fixture::shared;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Pool, Postgres, Sqlite, Transaction};
use tempfile::TempDir;

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Runs a body once on each kind of database, with `$world` of that kind.
macro_rules! on_each {
    (|$world:ident| $body:block) => {{
        let $world = $crate::stores::support::postgres().await;
        eprintln!("on PostgreSQL");
        $body
    }
    {
        let $world = $crate::stores::support::sqlite().await;
        eprintln!("on SQLite");
        $body
    }};
}

/// A database of one test's own.
pub(crate) struct World<D: sqlx::Database, C: Client> {
    pub(crate) pool: Pool<D>,
    pub(crate) factory: IdempotencyStoreFactory<C>,
    _folder: Option<TempDir>,
}

pub(crate) type PostgresWorld = World<Postgres, PostgresClient>;
pub(crate) type SqliteWorld = World<Sqlite, SqliteClient>;

pub(crate) async fn postgres() -> PostgresWorld {
    let database = tokio::task::spawn_blocking(|| shared().create_database("stores")).await;
    let url = shared().url(&database.expect("a database"));
    // Nothing here waits for a lock: what does fails, and does not hang.
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("lock_timeout", "20s")]);
    let pool = PgPoolOptions::new().max_connections(80).connect_with(options).await.unwrap();
    sqlx::raw_sql(POSTGRES_MIGRATION).execute(&pool).await.unwrap();
    World { pool, factory: PostgresStoreFactory::new(settings()), _folder: None }
}

pub(crate) async fn sqlite() -> SqliteWorld {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("keys.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new().max_connections(80).connect_with(options).await.unwrap();
    sqlx::raw_sql(SQLITE_MIGRATION).execute(&pool).await.unwrap();
    World { pool, factory: SqliteStoreFactory::new(settings()), _folder: Some(folder) }
}

impl PostgresWorld {
    pub(crate) async fn begin(&self) -> Transaction<'static, Postgres> {
        self.pool.begin().await.unwrap()
    }

    pub(crate) fn with(&self, settings: Settings) -> PostgresStoreFactory {
        PostgresStoreFactory::new(settings)
    }

    /// Runs a statement of the test's own, outside every transaction.
    pub(crate) async fn sql(&self, sql: &'static str) -> u64 {
        sqlx::query(sql).execute(&self.pool).await.unwrap().rows_affected()
    }
}

impl SqliteWorld {
    /// Writers queue, as the documentation recommends.
    pub(crate) async fn begin(&self) -> Transaction<'static, Sqlite> {
        self.pool.begin_with("BEGIN IMMEDIATE").await.unwrap()
    }

    pub(crate) fn with(&self, settings: Settings) -> SqliteStoreFactory {
        SqliteStoreFactory::new(settings)
    }

    /// Runs a statement of the test's own, outside every transaction.
    pub(crate) async fn sql(&self, sql: &'static str) -> u64 {
        // What is written for PostgreSQL, in SQLite's times.
        let sql = sql.replace("now()", "CAST(unixepoch('subsec') * 1000 AS INTEGER)");
        let sql = sql.replace("interval '1 hour'", "3600000");
        let query = sqlx::query(sqlx::AssertSqlSafe(sql));
        query.execute(&self.pool).await.unwrap().rows_affected()
    }
}

pub(crate) fn namespace() -> ConsumerNamespace {
    ConsumerNamespace::new("orders").unwrap()
}

pub(crate) fn settings() -> Settings {
    Settings::new(namespace(), DAY, DAY).unwrap()
}

pub(crate) fn key(value: &str) -> IdempotencyKey {
    parse_key(&namespace(), Some(value)).unwrap().unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn request(text: &str) -> Request {
    Request::new(json(text))
}

/// Begins, and expects to be the first.
pub(crate) async fn fresh<C: Client>(
    store: &mut RawIdempotencyStore<'_, C>,
    value: &str,
    asked: &str,
) -> Attempt {
    match store.begin(&key(value), &request(asked)).await.unwrap() {
        Outcome::FreshAttempt(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}
