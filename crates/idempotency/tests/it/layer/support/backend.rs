//! The two databases behind one trait: a fresh one for each case, with a table for effects.

use std::future::Future;
use std::time::Duration;

use indelible_idempotency::ConsumerNamespace;
use indelible_idempotency::layer::LayerDatabase;
use indelible_idempotency::store::{
    IdempotencyStoreFactory, POSTGRES_MIGRATION, PostgresStoreFactory, SQLITE_MIGRATION, Settings,
    SqliteStoreFactory,
};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Database, Pool, Postgres, Sqlite};

/// `parent` refers to another effect, and that is looked at only when a transaction ends.
const EFFECTS: &str = "CREATE TABLE effect (
    name text NOT NULL PRIMARY KEY,
    parent text REFERENCES effect (name) DEFERRABLE INITIALLY DEFERRED
)";

/// Longer than any case takes: a connection that waits for a transaction sees its end, or the case
/// fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// A database of a case's own.
pub(crate) struct Db<B: Database> {
    pub(crate) pool: Pool<B>,
    pub(crate) url: String,
    /// Goes with the case.
    _folder: Option<tempfile::TempDir>,
}

impl<B: Database> Db<B> {
    /// The same database, by other connections.
    pub(crate) fn with_pool(&self, pool: Pool<B>) -> Self {
        Self { pool, url: self.url.clone(), _folder: None }
    }
}

pub(crate) fn settings() -> Settings {
    let day = Duration::from_secs(24 * 60 * 60);
    Settings::new(ConsumerNamespace::new("tests").unwrap(), day, day).unwrap()
}

pub(crate) trait Backend: LayerDatabase {
    const LAPSE: &'static str;

    fn database() -> impl Future<Output = Db<Self>> + Send;

    fn factory(settings: Settings) -> IdempotencyStoreFactory<Self::Client>;

    /// Runs statements; the error is for cases that want one.
    fn run(
        connection: &mut <Self as Database>::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    fn texts(pool: &Pool<Self>, sql: &str) -> impl Future<Output = Vec<String>> + Send;

    /// An effect, as a handler has it.
    fn effect(
        connection: &mut <Self as Database>::Connection,
        name: &str,
    ) -> impl Future<Output = ()> + Send {
        async move {
            let sql = format!("INSERT INTO effect (name) VALUES ('{name}')");
            Self::run(connection, &sql).await.unwrap();
        }
    }

    /// What is to be seen of effects.
    fn effects(pool: &Pool<Self>) -> impl Future<Output = Vec<String>> + Send {
        Self::texts(pool, "SELECT name FROM effect ORDER BY name")
    }

    /// What is to be seen of records: their status.
    fn records(pool: &Pool<Self>) -> impl Future<Output = Vec<String>> + Send {
        Self::texts(pool, "SELECT status FROM idempotency_record ORDER BY key_value")
    }
}

impl Backend for Sqlite {
    const LAPSE: &'static str = "UPDATE idempotency_record SET lease_until = 0";

    async fn database() -> Db<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layer.db");
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(PATIENCE);
        let pool = SqlitePoolOptions::new().max_connections(8).acquire_timeout(PATIENCE);
        let pool = pool.connect_with(options).await.unwrap();
        sqlx::raw_sql(SQLITE_MIGRATION).execute(&pool).await.unwrap();
        sqlx::raw_sql(EFFECTS).execute(&pool).await.unwrap();
        Db { pool, url: format!("sqlite://{}", path.display()), _folder: Some(folder) }
    }

    fn factory(settings: Settings) -> SqliteStoreFactory {
        SqliteStoreFactory::new(settings)
    }

    async fn run(
        connection: &mut <Self as Database>::Connection,
        sql: &str,
    ) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.map(drop)
    }

    async fn texts(pool: &Pool<Self>, sql: &str) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(pool).await.unwrap()
    }
}

impl Backend for Postgres {
    const LAPSE: &'static str =
        "UPDATE idempotency_record SET lease_until = now() - interval '1 hour'";

    async fn database() -> Db<Self> {
        let url = tokio::task::spawn_blocking(|| {
            let cluster = indelible_postgres_fixture::shared();
            cluster.url(&cluster.create_database("layer"))
        });
        let url = url.await.unwrap();
        let pool = PgPoolOptions::new().max_connections(8).acquire_timeout(PATIENCE);
        let pool = pool.connect(&url).await.unwrap();
        sqlx::raw_sql(POSTGRES_MIGRATION).execute(&pool).await.unwrap();
        sqlx::raw_sql(EFFECTS).execute(&pool).await.unwrap();
        Db { pool, url, _folder: None }
    }

    fn factory(settings: Settings) -> PostgresStoreFactory {
        PostgresStoreFactory::new(settings)
    }

    async fn run(
        connection: &mut <Self as Database>::Connection,
        sql: &str,
    ) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.map(drop)
    }

    async fn texts(pool: &Pool<Self>, sql: &str) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(pool).await.unwrap()
    }
}
