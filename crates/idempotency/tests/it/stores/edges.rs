//! Where a database does not do what one expects: old snapshots, commits that fail behind a
//! statement, plans that choose twice.

use std::path::Path;
use std::time::Duration;

use indelible_idempotency::store::{Operation, SQLITE_MIGRATION, SqliteStoreFactory, StoreError};
use indelible_idempotency::{InFlight, Outcome};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Executor as _, Pool, Sqlite, Transaction};

use crate::stores::support::{fresh, json, key, postgres, request, settings};

const OLDER: [&str; 2] = [
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
];

/// A database in SQLite's own default mode, without WAL, and an impatient pool.
async fn plain_sqlite(folder: &Path) -> Pool<Sqlite> {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("keys.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Delete)
        .busy_timeout(Duration::from_millis(20));
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
    sqlx::raw_sql(SQLITE_MIGRATION).execute(&pool).await.unwrap();
    pool
}

/// An open read transaction, as of a report, a backup or a lookup.
async fn read(pool: &Pool<Sqlite>) -> Transaction<'static, Sqlite> {
    let mut reader = pool.begin().await.unwrap();
    reader.execute("SELECT count(*) FROM idempotency_record").await.unwrap();
    reader
}

/// I-10, I-13: in SQLite without WAL, a `begin` outside a transaction that cannot commit its row
/// is an error, never a fresh attempt.
#[tokio::test]
async fn fresh_means_that_a_row_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let pool = plain_sqlite(folder.path()).await;
    let factory = SqliteStoreFactory::new(settings());
    let reader = read(&pool).await;
    let mut connection = pool.acquire().await.unwrap();
    let mut store = factory.in_connection(&mut connection);
    let first = store.begin(&key("k"), &request("1")).await;
    reader.rollback().await.unwrap();
    let second = store.begin(&key("k"), &request("1")).await;
    let fresh = |outcome: &Result<_, _>| matches!(outcome, Ok(Outcome::FreshAttempt(_)));
    assert!(!(fresh(&first) && fresh(&second)), "two fresh attempts: {first:?}, {second:?}");
}

/// C-34: the same of a take-over: one that is not stored is none.
#[tokio::test]
async fn taken_over_means_that_the_row_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let pool = plain_sqlite(folder.path()).await;
    let factory = SqliteStoreFactory::new(settings());
    let mut connection = pool.acquire().await.unwrap();
    let mut store = factory.in_connection(&mut connection);
    let old = fresh(&mut store, "k", "1").await;
    pool.execute("UPDATE idempotency_record SET lease_until = 0").await.unwrap();
    let reader = read(&pool).await;
    let taken = store.take_over(&key("k"), &request("1")).await;
    reader.rollback().await.unwrap();
    let late = store.commit(&old, &json("1")).await;
    let both = matches!(taken, Ok(Outcome::FreshAttempt(_))) && late.is_ok();
    assert!(!both, "two owners: {taken:?}, {late:?}");
}

/// I-10: giving up an attempt that an old snapshot cannot see is not done, and so not said to be.
#[tokio::test]
async fn forgotten_means_forgotten() {
    for isolation in OLDER {
        let world = postgres().await;
        let mut late = world.begin().await;
        late.execute(isolation).await.unwrap();
        late.execute("SELECT FROM idempotency_record").await.unwrap();
        let mut connection = world.pool.acquire().await.unwrap();
        let attempt = fresh(&mut world.factory.in_connection(&mut connection), "k", "1").await;
        let said = world.factory.with_tx(&mut late).fail_transient(&attempt).await;
        let committed = late.commit().await;
        let mut store = world.factory.in_connection(&mut connection);
        let then = store.begin(&key("k"), &request("1")).await.unwrap();
        if said.is_ok() && committed.is_ok() {
            assert!(matches!(then, Outcome::FreshAttempt(_)), "{isolation}: {then:?}");
        }
    }
}

/// I-10: an attempt that an old snapshot cannot see is not said to be gone.
#[tokio::test]
async fn an_attempt_that_is_not_seen_is_not_gone() {
    for isolation in OLDER {
        let world = postgres().await;
        let mut late = world.begin().await;
        late.execute(isolation).await.unwrap();
        late.execute("SELECT FROM idempotency_record").await.unwrap();
        let mut connection = world.pool.acquire().await.unwrap();
        let attempt = fresh(&mut world.factory.in_connection(&mut connection), "k", "1").await;
        let said = world.factory.with_tx(&mut late).commit(&attempt, &json("1")).await;
        assert!(matches!(said, Err(StoreError::RetryTransaction(_))), "{isolation}: {said:?}");
    }
}

/// C-3: a record outlives its execution: one that ended just now is not purged, however long it
/// took.
#[tokio::test]
async fn what_ended_just_now_is_not_purged() {
    on_each!(|world| {
        let mut connection = world.pool.acquire().await.unwrap();
        let mut store = world.factory.in_connection(&mut connection);
        let attempt = fresh(&mut store, "k", "1").await;
        // The work takes longer than the replay window; callers are told to come back meanwhile.
        world.sql("UPDATE idempotency_record SET expires_at = now() - interval '1 hour'").await;
        let mut store = world.factory.in_connection(&mut connection);
        let told = store.begin(&key("k"), &request("1")).await.unwrap();
        assert!(matches!(told, Outcome::InFlight(InFlight::Leased { .. })), "{told:?}");
        store.commit(&attempt, &json("1")).await.unwrap();
        store.purge_expired(10).await.unwrap();
        let again = store.begin(&key("k"), &request("1")).await.unwrap();
        assert_eq!(again, Outcome::PriorResult(json("1")));
    });
}

/// C-34: what has been committed is not called indeterminate by an old snapshot: whether a lease has
/// lapsed is judged as of its beginning.
#[tokio::test]
async fn an_old_snapshot_does_not_call_it_indeterminate() {
    for isolation in OLDER {
        let world = postgres().await;
        let mut connection = world.pool.acquire().await.unwrap();
        // A lease that has not lapsed when the snapshot is taken, and soon after it has.
        let (lease, attempt, mut late) = 'lease: {
            for power in 0..12 {
                let lease = Duration::from_millis(20 << power);
                let short = world.with(settings().lease(lease).unwrap());
                let mut store = short.in_connection(&mut connection);
                let attempt = fresh(&mut store, "k", "1").await;
                let mut late = world.begin().await;
                late.execute(isolation).await.unwrap();
                let leased = "SELECT lease_until > now() FROM idempotency_record";
                if sqlx::query_scalar(leased).fetch_one(&mut *late).await.unwrap() {
                    break 'lease (lease, attempt, late);
                }
                late.rollback().await.unwrap();
                short.in_connection(&mut connection).fail_transient(&attempt).await.unwrap();
            }
            panic!("a transaction does not begin within a minute");
        };
        world.factory.in_connection(&mut connection).commit(&attempt, &json("1")).await.unwrap();
        let lapses = sqlx::query("SELECT pg_sleep($1)").bind(lease.as_secs_f64());
        lapses.execute(&mut *late).await.unwrap();
        let said = world.factory.with_tx(&mut late).begin(&key("k"), &request("1")).await.unwrap();
        assert!(
            matches!(said, Outcome::InFlight(InFlight::Leased { .. })),
            "{isolation}: {said:?}"
        );
    }
}

/// I-13: a `begin` does not wait for another transaction, whatever its snapshot.
#[tokio::test]
async fn an_old_snapshot_does_not_wait() {
    for isolation in OLDER {
        let world = postgres().await;
        let mut late = world.begin().await;
        late.execute(isolation).await.unwrap();
        late.execute("SELECT FROM idempotency_record").await.unwrap();
        // Anything that waits is told apart from what does not.
        late.execute("SET LOCAL lock_timeout = '2s'").await.unwrap();
        let mut connection = world.pool.acquire().await.unwrap();
        let attempt = fresh(&mut world.factory.in_connection(&mut connection), "k", "1").await;
        let mut ending = world.begin().await;
        world.factory.with_tx(&mut ending).commit(&attempt, &json("1")).await.unwrap();
        let said = world.factory.with_tx(&mut late).begin(&key("k"), &request("1")).await;
        assert!(
            !matches!(&said, Err(StoreError::Database(_))),
            "{isolation}: it waited for a lock: {said:?}"
        );
    }
}

/// I-13: calls of this library do not deadlock each other.
#[tokio::test(flavor = "multi_thread")]
async fn late_owners_do_not_deadlock() {
    let world = postgres().await;
    let mut connection = world.pool.acquire().await.unwrap();
    let mut store = world.factory.in_connection(&mut connection);
    let a = fresh(&mut store, "a", "1").await;
    let b = fresh(&mut store, "b", "1").await;
    world.sql("UPDATE idempotency_record SET lease_until = now() - interval '1 hour'").await;
    // The owner of b takes over a, and the owner of a takes over b; both then end their own.
    let mut one = world.begin().await;
    let mut two = world.begin().await;
    let taken = world.factory.with_tx(&mut one).take_over(&key("a"), &request("1")).await;
    assert!(matches!(taken, Ok(Outcome::FreshAttempt(_))));
    let taken = world.factory.with_tx(&mut two).take_over(&key("b"), &request("1")).await;
    assert!(matches!(taken, Ok(Outcome::FreshAttempt(_))));
    let factory = world.factory.clone();
    let first = tokio::spawn(async move {
        let said = factory.with_tx(&mut one).commit(&b, &json("1")).await;
        one.rollback().await.unwrap();
        said
    });
    let second = world.factory.with_tx(&mut two).commit(&a, &json("1")).await;
    two.rollback().await.unwrap();
    let first = first.await.unwrap();
    let text = format!("{first:?} {second:?}");
    assert!(!text.contains("40P01"), "{text}");
}

/// A purge deletes as many as it was told, whatever the planner thinks of the table: here it was
/// analyzed when it had a single row.
#[tokio::test]
async fn a_purge_keeps_to_its_number() {
    let world = postgres().await;
    let mut connection = world.pool.acquire().await.unwrap();
    let mut store = world.factory.in_connection(&mut connection);
    let attempt = fresh(&mut store, "first", "1").await;
    store.commit(&attempt, &json("1")).await.unwrap();
    world.sql("ANALYZE idempotency_record").await;
    for number in 0..5 {
        let attempt = fresh(&mut store, &format!("k{number}"), "1").await;
        store.commit(&attempt, &json("1")).await.unwrap();
    }
    world.sql(crate::stores::purge::EXPIRE).await;
    let mut store = world.factory.in_connection(&mut connection);
    assert_eq!(store.purge_expired(2).await.unwrap(), 2);
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Money {
    order: u32,
    cents: u32,
}

/// C-31, I-12: another operation under the same key is another request, though its fields are equal.
#[tokio::test]
async fn operations_do_not_answer_for_each_other() {
    const CHARGE: Operation<Money, u32> = Operation::new("charge");
    const REFUND: Operation<Money, u32> = Operation::new("refund");
    let world = postgres().await;
    let mut tx = world.begin().await;
    let asked = Money { order: 1, cents: 500 };
    let mut store = world.factory.with_tx(&mut tx).typed_as(CHARGE);
    let Outcome::FreshAttempt(attempt) = store.begin(&key("k"), &asked).await.unwrap() else {
        panic!("it is new");
    };
    store.commit(&attempt, &1).await.unwrap();
    let mut store = world.factory.with_tx(&mut tx).typed_as(REFUND);
    let said = store.begin(&key("k"), &asked).await.unwrap();
    assert!(matches!(said, Outcome::Mismatch(_)), "{said:?}");
}

/// Times without end, set by an operator, do not make the row unreadable.
#[tokio::test]
async fn infinite_times() {
    let world = postgres().await;
    let mut connection = world.pool.acquire().await.unwrap();
    let mut store = world.factory.in_connection(&mut connection);
    let attempt = fresh(&mut store, "k", "1").await;
    world.sql("UPDATE idempotency_record SET expires_at = 'infinity'").await;
    let mut store = world.factory.in_connection(&mut connection);
    let looked = store.lookup(&key("k")).await.map(|_| ());
    let begun = store.begin(&key("k"), &request("1")).await.map(|_| ());
    store.commit(&attempt, &json("1")).await.unwrap();
    let twice = match store.commit(&attempt, &json("1")).await {
        Err(StoreError::AlreadyEnded { same: true, .. }) => Ok(()),
        other => other,
    };
    world.sql("UPDATE idempotency_record SET lease_until = 'infinity'").await;
    let mut store = world.factory.in_connection(&mut connection);
    let begun_lease = store.begin(&key("k"), &request("1")).await.map(|_| ());
    let all = [looked, begun, twice, begun_lease];
    assert!(all.iter().all(Result::is_ok), "{all:#?}");
}
