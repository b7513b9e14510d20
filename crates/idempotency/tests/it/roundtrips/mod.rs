//! What each call costs PostgreSQL: round trips, counted on the wire, and the index that it uses.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

mod proxy;

use std::time::Duration;

use indelible_idempotency::store::{
    POSTGRES_MIGRATION, PostgresStoreFactory, Settings, StoreError,
};
use indelible_idempotency::{
    Attempt, ConsumerNamespace, IdempotencyKey, InFlight, Json, Outcome, Request, StoredError,
    parse_key,
};
use indelible_postgres_fixture::shared;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Connection as _, PgConnection};

use crate::roundtrips::proxy::Proxy;

/// A database, a store on it, and two connections whose round trips are counted.
struct Wire {
    proxy: Proxy,
    factory: PostgresStoreFactory,
    connection: PgConnection,
    second: PgConnection,
}

impl Wire {
    /// Every statement has been prepared on both connections, as on those of a service that runs.
    async fn warm() -> Self {
        let database = shared().create_database("roundtrips");
        shared().sql(&database, POSTGRES_MIGRATION).unwrap();
        let proxy = Proxy::start(shared().host(), shared().port()).await;
        let options = PgConnectOptions::new_without_pgpass()
            .host(shared().host())
            .port(proxy.port())
            .username("postgres")
            .password(shared().password())
            .database(&database)
            .ssl_mode(PgSslMode::Disable);
        let day = Duration::from_secs(86_400);
        let settings = Settings::new(namespace(), day, day).unwrap();
        let mut wire = Self {
            proxy,
            factory: PostgresStoreFactory::new(settings),
            connection: PgConnection::connect_with(&options).await.unwrap(),
            second: PgConnection::connect_with(&options).await.unwrap(),
        };
        for name in ["warm-1", "warm-2"] {
            use_everything(&wire.factory, &mut wire.connection, name).await;
            std::mem::swap(&mut wire.connection, &mut wire.second);
        }
        wire
    }
}

async fn use_everything(factory: &PostgresStoreFactory, connection: &mut PgConnection, name: &str) {
    let mut transaction = connection.begin().await.unwrap();
    let mut store = factory.in_transaction(&mut transaction).await.unwrap();
    let committed = begin_fresh(store.begin(&key(name), &request(1)).await);
    let failed = begin_fresh(store.begin(&key(&format!("{name}-b")), &request(1)).await);
    let forgotten = begin_fresh(store.begin(&key(&format!("{name}-c")), &request(1)).await);
    store.renew(&committed).await.unwrap();
    store.commit(&committed, &result()).await.unwrap();
    store.commit(&committed, &result()).await.unwrap_err();
    store.fail_permanent(&failed, &error()).await.unwrap();
    store.fail_transient(&forgotten).await.unwrap();
    store.lookup(&key(name)).await.unwrap();
    store.purge_expired(1).await.unwrap();
    transaction.commit().await.unwrap();
}

fn namespace() -> ConsumerNamespace {
    ConsumerNamespace::new("roundtrips").unwrap()
}

fn key(name: &str) -> IdempotencyKey {
    parse_key(&namespace(), Some(name)).unwrap().unwrap()
}

fn request(number: u32) -> Request {
    Request::of(&number).unwrap()
}

fn result() -> Json {
    Json::of(&"done").unwrap()
}

fn error() -> StoredError {
    StoredError { class_tag: "test".to_owned(), message: "no".to_owned(), cause: None }
}

type Begun = Result<Outcome<Json, Json, StoredError>, StoreError>;

fn begin_fresh(begun: Begun) -> Attempt {
    match begun.unwrap() {
        Outcome::FreshAttempt(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}

/// Runs something, checks how many round trips it took, and gives what came of it.
macro_rules! takes {
    ($proxy:expr, $count:literal, $call:expr) => {{
        let before = $proxy.round_trips();
        let value = $call.await;
        assert_eq!($proxy.round_trips() - before, $count, "{}", stringify!($call));
        value
    }};
}

/// I-13: begin and commit add two round trips to a transaction, `in_transaction` one; whatever
/// `begin` finds, it is one.
#[tokio::test]
async fn begin_is_one_and_each_end_is_one() {
    let Wire { proxy, factory, mut connection, mut second } = Wire::warm().await;

    // The transaction by itself.
    let transaction = takes!(proxy, 1, connection.begin()).unwrap();
    takes!(proxy, 1, transaction.commit()).unwrap();

    let mut transaction = takes!(proxy, 1, connection.begin()).unwrap();
    let mut store = takes!(proxy, 1, factory.in_transaction(&mut transaction)).unwrap();
    let attempt = begin_fresh(takes!(proxy, 1, store.begin(&key("a"), &request(1))));

    // Meanwhile another transaction sees no row, and is told at once.
    let mut other = takes!(proxy, 1, second.begin()).unwrap();
    let mut other_store = factory.with_tx(&mut other);
    let found = takes!(proxy, 2, other_store.begin(&key("a"), &request(1))).unwrap();
    assert_eq!(found, Outcome::InFlight(InFlight::Uncommitted));
    takes!(proxy, 1, other.commit()).unwrap();

    takes!(proxy, 1, store.commit(&attempt, &result())).unwrap();
    takes!(proxy, 1, transaction.commit()).unwrap();

    // Repetitions, of this request and of another.
    let mut store = factory.in_connection(&mut second);
    let found = takes!(proxy, 1, store.begin(&key("a"), &request(1))).unwrap();
    assert_eq!(found, Outcome::PriorResult(result()));
    let found = takes!(proxy, 1, store.begin(&key("a"), &request(2))).unwrap();
    assert!(matches!(found, Outcome::Mismatch(_)), "{found:?}");
}

/// I-10: the other ends, and what else an owner calls, are one round trip each; to find out that
/// an end was said before takes one more.
#[tokio::test]
async fn other_ends_are_one() {
    let Wire { proxy, factory, mut connection, .. } = Wire::warm().await;
    let mut store = factory.in_connection(&mut connection);

    let attempt = begin_fresh(takes!(proxy, 1, store.begin(&key("a"), &request(1))));
    let found = takes!(proxy, 1, store.begin(&key("a"), &request(1))).unwrap();
    assert!(matches!(found, Outcome::InFlight(InFlight::Leased { .. })), "{found:?}");
    takes!(proxy, 1, store.renew(&attempt)).unwrap();
    takes!(proxy, 1, store.fail_transient(&attempt)).unwrap();

    let attempt = begin_fresh(takes!(proxy, 1, store.begin(&key("a"), &request(1))));
    takes!(proxy, 1, store.fail_permanent(&attempt, &error())).unwrap();
    takes!(proxy, 2, store.fail_permanent(&attempt, &error())).unwrap_err();
    let found = takes!(proxy, 1, store.begin(&key("a"), &request(1))).unwrap();
    assert_eq!(found, Outcome::PriorError(error()));
    takes!(proxy, 1, store.lookup(&key("a"))).unwrap();
    takes!(proxy, 1, store.purge_expired(10)).unwrap();
}

/// I-13: keys are found by the primary key also in a table that PostgreSQL knows nothing about yet:
/// any other index would be read for a whole namespace, by plans that are kept while it grows.
#[tokio::test]
async fn keys_are_found_by_the_primary_key() {
    let Wire { factory, mut connection, .. } = Wire::warm().await;
    let scans = "SELECT pg_stat_get_xact_numscans('idempotency_record_pkey'::regclass),
                        pg_stat_get_xact_numscans('idempotency_record_expires_at'::regclass)";
    // PostgreSQL keeps a plan from the sixth time on.
    for number in 0..8 {
        let name = format!("key-{number}");
        let mut transaction = connection.begin().await.unwrap();
        let (_, before): (i64, i64) =
            sqlx::query_as(scans).fetch_one(&mut *transaction).await.unwrap();
        let mut store = factory.with_tx(&mut transaction);
        let attempt = begin_fresh(store.begin(&key(&name), &request(1)).await);
        store.renew(&attempt).await.unwrap();
        store.commit(&attempt, &result()).await.unwrap();
        let found = store.begin(&key(&name), &request(1)).await.unwrap();
        assert_eq!(found, Outcome::PriorResult(result()));
        store.lookup(&key(&name)).await.unwrap();
        let (by_key, by_time): (i64, i64) =
            sqlx::query_as(scans).fetch_one(&mut *transaction).await.unwrap();
        assert!(by_key > 0, "round {number}");
        assert_eq!(by_time - before, 0, "round {number}");
        transaction.commit().await.unwrap();
    }
}
