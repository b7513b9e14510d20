//! PostgreSQL with `fsync` on, on a server of its own, over 127.0.0.1.

use std::time::Duration;

use indelible_idempotency::store::{POSTGRES_MIGRATION, PostgresStoreFactory, Settings};
use indelible_idempotency::{ConsumerNamespace, Outcome};
use indelible_postgres_fixture::{Cluster, Options};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Connection as _, PgConnection};

use crate::load::{ACCOUNTS, Base, Call, Form, REPLAYED};

const TABLES: &str = "
CREATE TABLE effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text NOT NULL);
CREATE TABLE entry (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account bigint NOT NULL,
                    amount bigint NOT NULL);
CREATE TABLE account (id bigint PRIMARY KEY, owner text NOT NULL, balance bigint NOT NULL);
INSERT INTO account SELECT number, 'owner ' || number, 0 FROM generate_series(0, 9999) AS number;
ANALYZE account;
";

pub(crate) struct Postgres {
    cluster: Cluster,
    factory: PostgresStoreFactory,
    namespace: ConsumerNamespace,
}

impl Postgres {
    pub(crate) fn start(clients: usize) -> Self {
        let settings = vec![("shared_buffers".to_owned(), "256MB".to_owned())];
        let connections_max = u32::try_from(clients).unwrap() * 2 + 20;
        let cluster = Cluster::start(Options { fsync: true, connections_max, settings }).unwrap();
        cluster.sql("postgres", POSTGRES_MIGRATION).unwrap();
        cluster.sql("postgres", TABLES).unwrap();
        let namespace = ConsumerNamespace::new("bench").unwrap();
        let day = Duration::from_secs(86_400);
        let settings = Settings::new(namespace.clone(), day, day).unwrap();
        Self { cluster, factory: PostgresStoreFactory::new(settings), namespace }
    }

    /// What a transaction does besides the library.
    async fn work(&self, connection: &mut PgConnection, form: Form, number: u64) {
        let number = i64::try_from(number).unwrap();
        if matches!(form, Form::Typical | Form::TypicalBare) {
            let account = number % i64::try_from(ACCOUNTS).unwrap();
            let sql = "SELECT balance FROM account WHERE id = $1";
            let balance: i64 =
                sqlx::query_scalar(sql).bind(account).fetch_one(&mut *connection).await.unwrap();
            let sql = "UPDATE account SET balance = $2 WHERE id = $1";
            let update = sqlx::query(sql).bind(account).bind(balance + 1);
            update.execute(&mut *connection).await.unwrap();
            let sql = "INSERT INTO entry (account, amount) VALUES ($1, $2)";
            let insert = sqlx::query(sql).bind(account).bind(number);
            insert.execute(&mut *connection).await.unwrap();
        }
        let insert = sqlx::query("INSERT INTO effect (note) VALUES ($1)").bind("what was done");
        insert.execute(connection).await.unwrap();
    }

    async fn read(&self, connection: &mut PgConnection, number: u64) {
        let account = i64::try_from(number % ACCOUNTS).unwrap();
        let sql = "SELECT owner FROM account WHERE id = $1";
        let _: String = sqlx::query_scalar(sql).bind(account).fetch_one(connection).await.unwrap();
    }

    async fn replay(&self, connection: &mut PgConnection, number: u64) {
        let call = Call::new(&self.namespace, number % REPLAYED);
        let begun = self.factory.in_connection(connection).begin(&call.key, &call.request).await;
        assert!(matches!(begun.unwrap(), Outcome::PriorResult(_)));
    }
}

impl Base for Postgres {
    type Connection = PgConnection;

    async fn connect(&self) -> PgConnection {
        let options = PgConnectOptions::new_without_pgpass()
            .host(self.cluster.host())
            .port(self.cluster.port())
            .username("postgres")
            .password(self.cluster.password())
            .database("postgres")
            .ssl_mode(PgSslMode::Disable);
        PgConnection::connect_with(&options).await.unwrap()
    }

    async fn run(&self, connection: &mut PgConnection, form: Form, number: u64) {
        match form {
            Form::Read => return self.read(connection, number).await,
            Form::Replay => return self.replay(connection, number).await,
            _ => {}
        }
        let mut transaction = connection.begin().await.unwrap();
        match form {
            Form::Small | Form::Typical => {
                let call = Call::new(&self.namespace, number);
                let mut store = self.factory.with_tx(&mut transaction);
                let begun = store.begin(&call.key, &call.request).await.unwrap();
                let Outcome::FreshAttempt(attempt) = begun else {
                    panic!("{number} comes once: {begun:?}");
                };
                self.work(&mut transaction, form, number).await;
                self.factory
                    .with_tx(&mut transaction)
                    .commit(&attempt, &call.result)
                    .await
                    .unwrap();
            }
            Form::SmallEmpty => {
                sqlx::query("SELECT 1").execute(&mut *transaction).await.unwrap();
                self.work(&mut transaction, form, number).await;
                sqlx::query("SELECT 1").execute(&mut *transaction).await.unwrap();
            }
            Form::SmallBare | Form::TypicalBare => self.work(&mut transaction, form, number).await,
            Form::ReadInTransaction | Form::Read => self.read(&mut transaction, number).await,
            Form::ReplayInTransaction | Form::Replay => {
                self.replay(&mut transaction, number).await;
            }
        }
        transaction.commit().await.unwrap();
    }
}
