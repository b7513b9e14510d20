//! SQLite in a file, with a write-ahead log that is synced by every commit.
//!
//! It has one writer at a time, so its clients share one connection for writing and queue for it.
//! Where each has its own instead, they wait by SQLite's busy time-out: they look again after
//! pauses of up to 100 ms, and how they happen to meet decides over the figures.

use std::time::Duration;

use indelible_idempotency::store::{SQLITE_MIGRATION, Settings, SqliteStoreFactory};
use indelible_idempotency::{ConsumerNamespace, Outcome};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::load::{ACCOUNTS, Base, Call, Form, REPLAYED};

const TABLES: &str = "
CREATE TABLE effect (id INTEGER PRIMARY KEY, note TEXT NOT NULL) STRICT;
CREATE TABLE entry (id INTEGER PRIMARY KEY, account INTEGER NOT NULL, amount INTEGER NOT NULL)
STRICT;
CREATE TABLE account (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, balance INTEGER NOT NULL) STRICT;
WITH RECURSIVE series (number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM series LIMIT 10000)
INSERT INTO account SELECT number, 'owner ' || number, 0 FROM series;
";

pub(crate) struct Sqlite {
    folder: TempDir,
    /// The one connection for writing; none where each client writes on its own.
    writer: Option<Mutex<SqliteConnection>>,
    factory: SqliteStoreFactory,
    namespace: ConsumerNamespace,
}

/// How clients come to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// On one connection, one after the other.
    Queue,
    /// Each on its own.
    Each,
}

impl Sqlite {
    pub(crate) async fn start(writers: Writers) -> Self {
        let namespace = ConsumerNamespace::new("bench").unwrap();
        let day = Duration::from_secs(86_400);
        let settings = Settings::new(namespace.clone(), day, day).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let factory = SqliteStoreFactory::new(settings);
        let mut started = Self { folder, writer: None, factory, namespace };
        let mut connection = started.connect().await;
        sqlx::raw_sql(SQLITE_MIGRATION).execute(&mut connection).await.unwrap();
        sqlx::raw_sql(TABLES).execute(&mut connection).await.unwrap();
        if writers == Writers::Queue {
            started.writer = Some(Mutex::new(connection));
        }
        started
    }

    /// What a transaction does besides the library.
    async fn work(&self, connection: &mut SqliteConnection, form: Form, number: u64) {
        let number = i64::try_from(number).unwrap();
        if matches!(form, Form::Typical | Form::TypicalBare) {
            let account = number % i64::try_from(ACCOUNTS).unwrap();
            let sql = "SELECT balance FROM account WHERE id = ?1";
            let balance: i64 =
                sqlx::query_scalar(sql).bind(account).fetch_one(&mut *connection).await.unwrap();
            let sql = "UPDATE account SET balance = ?2 WHERE id = ?1";
            let update = sqlx::query(sql).bind(account).bind(balance + 1);
            update.execute(&mut *connection).await.unwrap();
            let sql = "INSERT INTO entry (account, amount) VALUES (?1, ?2)";
            let insert = sqlx::query(sql).bind(account).bind(number);
            insert.execute(&mut *connection).await.unwrap();
        }
        let insert = sqlx::query("INSERT INTO effect (note) VALUES (?1)").bind("what was done");
        insert.execute(connection).await.unwrap();
    }

    async fn write(&self, connection: &mut SqliteConnection, form: Form, number: u64) {
        let call = Call::new(&self.namespace, number);
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        if matches!(form, Form::SmallBare | Form::TypicalBare) {
            self.work(&mut transaction, form, number).await;
        } else if form == Form::SmallEmpty {
            sqlx::query("SELECT 1").execute(&mut *transaction).await.unwrap();
            self.work(&mut transaction, form, number).await;
            sqlx::query("SELECT 1").execute(&mut *transaction).await.unwrap();
        } else {
            let mut store = self.factory.with_tx(&mut transaction);
            let begun = store.begin(&call.key, &call.request).await.unwrap();
            let Outcome::FreshAttempt(attempt) = begun else {
                panic!("{number} comes once: {begun:?}");
            };
            self.work(&mut transaction, form, number).await;
            self.factory.with_tx(&mut transaction).commit(&attempt, &call.result).await.unwrap();
        }
        transaction.commit().await.unwrap();
    }

    async fn read(&self, connection: &mut SqliteConnection, number: u64) {
        let account = i64::try_from(number % ACCOUNTS).unwrap();
        let sql = "SELECT owner FROM account WHERE id = ?1";
        let _: String = sqlx::query_scalar(sql).bind(account).fetch_one(connection).await.unwrap();
    }

    async fn replay(&self, connection: &mut SqliteConnection, number: u64) {
        let call = Call::new(&self.namespace, number % REPLAYED);
        let begun = self.factory.in_connection(connection).begin(&call.key, &call.request).await;
        assert!(matches!(begun.unwrap(), Outcome::PriorResult(_)));
    }
}

impl Base for Sqlite {
    type Connection = SqliteConnection;

    async fn connect(&self) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(self.folder.path().join("bench.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(600))
            .connect()
            .await
            .unwrap()
    }

    async fn run(&self, connection: &mut SqliteConnection, form: Form, number: u64) {
        match (form, &self.writer) {
            (Form::Read, _) => self.read(connection, number).await,
            (Form::Replay, _) => self.replay(connection, number).await,
            (Form::ReadInTransaction | Form::ReplayInTransaction, _) => {
                let mut transaction = connection.begin().await.unwrap();
                match form {
                    Form::ReadInTransaction => self.read(&mut transaction, number).await,
                    _ => self.replay(&mut transaction, number).await,
                }
                transaction.commit().await.unwrap();
            }
            (_, Some(writer)) => self.write(&mut *writer.lock().await, form, number).await,
            (_, None) => self.write(connection, form, number).await,
        }
    }
}
