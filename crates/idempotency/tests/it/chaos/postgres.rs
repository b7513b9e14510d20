//! PostgreSQL as the database under test.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use indelible_idempotency::ConsumerNamespace;
use indelible_idempotency::store::{
    IdempotencyStoreFactory, POSTGRES_MIGRATION, PostgresClient, PostgresStoreFactory, Settings,
};
use indelible_postgres_fixture::{Cluster, Options};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Connection as _, PgConnection};
use tokio::sync::RwLock;

use crate::chaos::base::{Base, Note, Trouble, code};

/// `BEGIN` at an isolation level.
pub(crate) const READ_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
pub(crate) const REPEATABLE_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
pub(crate) const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

const TABLES: &str = "
CREATE TABLE effect (key_value text NOT NULL, note text NOT NULL);
CREATE TABLE lost (key_value text NOT NULL, note text NOT NULL);
";

/// A database of its own on a server.
pub(crate) struct Postgres {
    cluster: Arc<Cluster>,
    database: String,
    opening: &'static str,
    factory: PostgresStoreFactory,
    /// Held to write while the server is down: clients wait for it before they connect.
    down: RwLock<()>,
}

impl Postgres {
    /// On the server that tests share, which none of them stops.
    pub(crate) fn shared(opening: &'static str) -> Self {
        static SHARED: OnceLock<Arc<Cluster>> = OnceLock::new();
        Self::new(Arc::clone(SHARED.get_or_init(server)), opening)
    }

    /// On a server of its own.
    pub(crate) fn alone(opening: &'static str) -> Self {
        Self::new(server(), opening)
    }

    fn new(cluster: Arc<Cluster>, opening: &'static str) -> Self {
        let database = cluster.create_database("chaos");
        cluster.sql(&database, POSTGRES_MIGRATION).unwrap();
        cluster.sql(&database, TABLES).unwrap();
        let factory = PostgresStoreFactory::new(settings());
        Self { cluster, database, opening, factory, down: RwLock::new(()) }
    }

    /// Ends some connections, whatever they are doing.
    pub(crate) async fn kill(&self, admin: &mut PgConnection, count: i64) {
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = $1 AND pid <> pg_backend_pid() ORDER BY random() LIMIT $2",
        )
        .bind(&self.database)
        .bind(count)
        .execute(admin)
        .await
        .unwrap();
    }

    /// A connection to another database of the server, which the test never kills.
    pub(crate) async fn admin(&self) -> PgConnection {
        PgConnection::connect_with(&self.options("postgres")).await.unwrap()
    }

    /// Crashes the server and starts it again.
    pub(crate) async fn crash(&self) {
        let held = self.down.write().await;
        let cluster = Arc::clone(&self.cluster);
        let restarted = tokio::task::spawn_blocking(move || cluster.restart_in_the_middle()).await;
        restarted.unwrap().unwrap();
        drop(held);
    }

    fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host(self.cluster.host())
            .port(self.cluster.port())
            .username("postgres")
            .password(self.cluster.password())
            .database(database)
            .ssl_mode(PgSslMode::Disable)
    }

    fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let rows = self.cluster.sql(&self.database, sql).unwrap();
        rows.lines().map(|row| row.split('|').map(str::to_owned).collect()).collect()
    }
}

fn server() -> Arc<Cluster> {
    // A deadlock is found while those in it still wait for each other, not a second later.
    let settings = vec![
        ("deadlock_timeout".to_owned(), "20ms".to_owned()),
        // PostgreSQL sizes what it keeps of serializable transactions by the number of those that
        // may be open. Conflicts of committed ones stay while an older one is open, and dozens of
        // clients on the same keys make tens of thousands of them on a slow machine.
        ("max_prepared_transactions".to_owned(), "2000".to_owned()),
    ];
    let options = Options { connections_max: 300, settings, ..Options::default() };
    Arc::new(Cluster::start(options).unwrap())
}

/// The settings of the stores, on both databases.
pub(crate) fn settings() -> Settings {
    let namespace = ConsumerNamespace::new("chaos").unwrap();
    let day = Duration::from_secs(86_400);
    // No lease lapses by itself: tests say when time passes.
    Settings::new(namespace, day, day).unwrap().lease(day).unwrap()
}

impl Base for Postgres {
    type Db = sqlx::Postgres;
    type Client = PostgresClient;

    fn factory(&self) -> &IdempotencyStoreFactory<PostgresClient> {
        &self.factory
    }

    fn opening(&self) -> &'static str {
        self.opening
    }

    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let _up = self.down.read().await;
        PgConnection::connect_with(&self.options(&self.database)).await
    }

    async fn note(
        &self,
        connection: &mut PgConnection,
        note: Note,
        key: &str,
        text: &str,
    ) -> Result<(), sqlx::Error> {
        let sql = match note {
            Note::Effect => "INSERT INTO effect (key_value, note) VALUES ($1, $2)",
            Note::Lost => "INSERT INTO lost (key_value, note) VALUES ($1, $2)",
        };
        sqlx::query(sql).bind(key).bind(text).execute(connection).await.map(drop)
    }

    async fn lapse(&self, connection: &mut PgConnection, key: &str) -> Result<(), sqlx::Error> {
        let sql = "UPDATE idempotency_record SET lease_until = clock_timestamp() - interval '1 s'
                   WHERE key_value = $1 AND status = 'in_progress'";
        sqlx::query(sql).bind(key).execute(connection).await.map(drop)
    }

    async fn notes(&self, note: Note) -> Vec<(String, String)> {
        let rows = self.rows(match note {
            Note::Effect => "SELECT key_value, note FROM effect",
            Note::Lost => "SELECT key_value, note FROM lost",
        });
        rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
    }

    async fn records(&self) -> Vec<(String, String, Option<String>)> {
        let rows = self.rows("SELECT key_value, status, result_payload FROM idempotency_record");
        let row = |row: Vec<String>| {
            let result = Some(row[2].clone()).filter(|text| !text.is_empty());
            (row[0].clone(), row[1].clone(), result)
        };
        rows.into_iter().map(row).collect()
    }

    fn trouble(&self, error: &sqlx::Error) -> Option<Trouble> {
        if matches!(error, sqlx::Error::Io(_)) {
            return Some(Trouble::Lost);
        }
        match code(error)?.as_str() {
            "40001" => Some(Trouble::Collision),
            // Ended by an administrator, by a crash, and not yet up again; or there was no room to note
            // one more conflict: then the transaction is undone, and a new one may pass.
            "57P01" | "57P02" | "57P03" | "53200" => Some(Trouble::Lost),
            _ => None,
        }
    }
}
