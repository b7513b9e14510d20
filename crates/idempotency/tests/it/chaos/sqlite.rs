//! SQLite as the database under test.

use std::time::Duration;

use indelible_idempotency::store::{
    IdempotencyStoreFactory, SQLITE_MIGRATION, SqliteClient, SqliteStoreFactory,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Row as _, SqliteConnection};
use tempfile::TempDir;

use crate::chaos::base::{Base, Note, Trouble, code};
use crate::chaos::postgres::settings;

/// Writers queue.
pub(crate) const IMMEDIATE: &str = "BEGIN IMMEDIATE";
/// A transaction that turns into a writer too late is refused.
pub(crate) const DEFERRED: &str = "BEGIN";

const TABLES: &str = "
CREATE TABLE effect (key_value TEXT NOT NULL, note TEXT NOT NULL) STRICT;
CREATE TABLE lost (key_value TEXT NOT NULL, note TEXT NOT NULL) STRICT;
";

/// A database in a file of its own.
pub(crate) struct Sqlite {
    folder: TempDir,
    opening: &'static str,
    factory: SqliteStoreFactory,
}

impl Sqlite {
    pub(crate) async fn new(opening: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Self { folder, opening, factory: SqliteStoreFactory::new(settings()) };
        let mut connection = made.connect().await.unwrap();
        sqlx::raw_sql(SQLITE_MIGRATION).execute(&mut connection).await.unwrap();
        sqlx::raw_sql(TABLES).execute(&mut connection).await.unwrap();
        made
    }
}

impl Base for Sqlite {
    type Db = sqlx::Sqlite;
    type Client = SqliteClient;

    fn factory(&self) -> &IdempotencyStoreFactory<SqliteClient> {
        &self.factory
    }

    fn opening(&self) -> &'static str {
        self.opening
    }

    async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        SqliteConnectOptions::new()
            .filename(self.folder.path().join("chaos.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // No test loses power.
            .synchronous(SqliteSynchronous::Off)
            .busy_timeout(Duration::from_secs(60))
            .connect()
            .await
    }

    async fn note(
        &self,
        connection: &mut SqliteConnection,
        note: Note,
        key: &str,
        text: &str,
    ) -> Result<(), sqlx::Error> {
        let sql = match note {
            Note::Effect => "INSERT INTO effect (key_value, note) VALUES (?1, ?2)",
            Note::Lost => "INSERT INTO lost (key_value, note) VALUES (?1, ?2)",
        };
        sqlx::query(sql).bind(key).bind(text).execute(connection).await.map(drop)
    }

    async fn lapse(&self, connection: &mut SqliteConnection, key: &str) -> Result<(), sqlx::Error> {
        let sql = "UPDATE idempotency_record SET lease_until = 0
                   WHERE key_value = ?1 AND status = 'in_progress'";
        sqlx::query(sql).bind(key).execute(connection).await.map(drop)
    }

    async fn notes(&self, note: Note) -> Vec<(String, String)> {
        let sql = match note {
            Note::Effect => "SELECT key_value, note FROM effect",
            Note::Lost => "SELECT key_value, note FROM lost",
        };
        let mut connection = self.connect().await.unwrap();
        let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    async fn records(&self) -> Vec<(String, String, Option<String>)> {
        let sql = "SELECT key_value, status, result_payload FROM idempotency_record";
        let mut connection = self.connect().await.unwrap();
        let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }

    fn trouble(&self, error: &sqlx::Error) -> Option<Trouble> {
        // Busy, and locked, with whatever stands in the higher bits.
        match code(error)?.parse::<i32>().ok()? & 0xff {
            5 | 6 => Some(Trouble::Collision),
            _ => None,
        }
    }
}
