//! Whose transaction it is (I-14, I-15).

use indelible_idempotency::Outcome;
use indelible_idempotency::store::StoreError;
use sqlx::{Connection as _, Executor as _};

use crate::stores::support::{fresh, json, key, postgres, request, sqlite};

/// I-15: `in_transaction` insists on a transaction, and leaves the connection as it was.
#[tokio::test]
async fn in_transaction_insists() {
    on_each!(|world| {
        let mut connection = world.pool.acquire().await.unwrap();
        let refused = world.factory.in_transaction(&mut connection).await.err().unwrap();
        assert!(matches!(refused, StoreError::NoTransaction), "{refused}");
        let mut tx = connection.begin().await.unwrap();
        let mut store = world.factory.in_transaction(&mut tx).await.unwrap();
        _ = fresh(&mut store, "k", "1").await;
        tx.rollback().await.unwrap();
        let refused = world.factory.in_transaction(&mut connection).await.err().unwrap();
        assert!(matches!(refused, StoreError::NoTransaction), "{refused}");
        // Nothing was left open behind the refusals.
        _ = fresh(&mut world.factory.in_connection(&mut connection), "k", "1").await;
        drop(connection);
        assert_eq!(world.sql("DELETE FROM idempotency_record").await, 1);
    });
}

/// I-15: PostgreSQL itself is asked: a transaction that a statement opened counts, one that a
/// statement ended does not, whatever sqlx believes.
#[tokio::test]
async fn postgres_is_asked() {
    let world = postgres().await;
    let mut connection = world.pool.acquire().await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    _ = world.factory.in_transaction(&mut connection).await.unwrap();
    connection.execute("COMMIT").await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    tx.execute("COMMIT").await.unwrap();
    let refused = world.factory.in_transaction(&mut tx).await.err().unwrap();
    assert!(matches!(refused, StoreError::NoTransaction), "{refused}");
}

/// I-15, I-14: `in_connection` takes any connection; without a transaction each call is one.
#[tokio::test]
async fn without_a_transaction() {
    on_each!(|world| {
        let mut connection = world.pool.acquire().await.unwrap();
        let mut other = world.pool.acquire().await.unwrap();
        let mut store = world.factory.in_connection(&mut connection);
        let attempt = fresh(&mut store, "k", "1").await;
        let seen = world.factory.in_connection(&mut other).begin(&key("k"), &request("1")).await;
        assert!(matches!(seen.unwrap(), Outcome::InFlight(_)));
        store.commit(&attempt, &json("1")).await.unwrap();
        let seen = world.factory.in_connection(&mut other).begin(&key("k"), &request("1")).await;
        assert_eq!(seen.unwrap(), Outcome::PriorResult(json("1")));
    });
}

/// I-14: no call ends the caller's transaction: what was written before and after stays open.
#[tokio::test]
async fn the_transaction_stays_the_callers() {
    on_each!(|world| {
        world.sql("CREATE TABLE effect (id integer NOT NULL)").await;
        let mut tx = world.begin().await;
        tx.execute("INSERT INTO effect VALUES (1)").await.unwrap();
        let mut store = world.factory.with_tx(&mut tx);
        let attempt = fresh(&mut store, "a", "1").await;
        store.renew(&attempt).await.unwrap();
        store.commit(&attempt, &json("1")).await.unwrap();
        let attempt = fresh(&mut store, "b", "1").await;
        store.fail_transient(&attempt).await.unwrap();
        _ = store.begin(&key("a"), &request("2")).await.unwrap();
        _ = store.commit(&attempt, &json("1")).await.unwrap_err();
        _ = store.lookup(&key("a")).await.unwrap();
        store.purge_expired(10).await.unwrap();
        tx.execute("INSERT INTO effect VALUES (2)").await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(world.sql("DELETE FROM effect").await, 0);
        assert_eq!(world.sql("DELETE FROM idempotency_record").await, 0);
    });
}

/// I-14: savepoints are the caller's too: what is rolled back to one was not begun.
#[tokio::test]
async fn savepoints() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut inner = tx.begin().await.unwrap();
        _ = fresh(&mut world.factory.with_tx(&mut inner), "k", "1").await;
        inner.rollback().await.unwrap();
        let attempt = fresh(&mut world.factory.with_tx(&mut tx), "k", "2").await;
        world.factory.with_tx(&mut tx).commit(&attempt, &json("1")).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(world.sql("DELETE FROM idempotency_record").await, 1);
    });
}

/// I-15, I-20: another table, in a schema of its own; two tables share no keys.
#[tokio::test]
async fn another_table() {
    let world = postgres().await;
    world.sql("CREATE SCHEMA shop").await;
    world.sql("CREATE TABLE shop.\"Keys\" (LIKE idempotency_record INCLUDING ALL)").await;
    let keys = world.with(crate::stores::support::settings().table("shop.Keys").unwrap());
    keys.check(&mut world.pool.acquire().await.unwrap()).await.unwrap();
    let mut one = world.begin().await;
    let mut other = world.begin().await;
    _ = fresh(&mut world.factory.with_tx(&mut one), "k", "1").await;
    // Both uncommitted: the lock of the one is not the lock of the other.
    _ = fresh(&mut keys.with_tx(&mut other), "k", "1").await;

    let world = sqlite().await;
    let migration = indelible_idempotency::store::SQLITE_MIGRATION;
    let migration = migration.replace("idempotency_record", "keys_2");
    sqlx::raw_sql(sqlx::AssertSqlSafe(migration)).execute(&world.pool).await.unwrap();
    let keys = world.with(crate::stores::support::settings().table("main.keys_2").unwrap());
    keys.check(&mut world.pool.acquire().await.unwrap()).await.unwrap();
    let mut tx = world.begin().await;
    _ = fresh(&mut world.factory.with_tx(&mut tx), "k", "1").await;
    _ = fresh(&mut keys.with_tx(&mut tx), "k", "1").await;
}
