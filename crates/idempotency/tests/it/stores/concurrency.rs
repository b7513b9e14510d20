//! Many at once (I-13). The long runs with crashes are in `tests/it/chaos`.

use std::sync::Arc;
use std::time::Duration;

use indelible_idempotency::store::StoreError;
use indelible_idempotency::{InFlight, Outcome};
use sqlx::Executor as _;
use tokio::sync::Barrier;

use crate::stores::support::{fresh, json, key, postgres, request, settings, sqlite};

const ISOLATION: [&str; 3] = [
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
];

/// I-13, I-24: under a concurrent insert the loser is told at once that it is in flight, whatever its
/// request, and its transaction goes on.
#[tokio::test]
async fn the_loser_goes_on() {
    for isolation in ISOLATION {
        let world = postgres().await;
        world.sql("CREATE TABLE note (text text NOT NULL)").await;
        let mut winner = world.begin().await;
        winner.execute(isolation).await.unwrap();
        let attempt = fresh(&mut world.factory.with_tx(&mut winner), "k", "1").await;
        let mut loser = world.begin().await;
        loser.execute(isolation).await.unwrap();
        for asked in ["1", "2"] {
            let outcome = world.factory.with_tx(&mut loser).begin(&key("k"), &request(asked)).await;
            assert_eq!(outcome.unwrap(), Outcome::InFlight(InFlight::Uncommitted), "{isolation}");
        }
        // Other keys are not in the way. (A serializable transaction that writes where another one
        // has read, on the same page of an index, may be told to run again.)
        if isolation != ISOLATION[2] {
            _ = fresh(&mut world.factory.with_tx(&mut loser), "other", "1").await;
        }
        loser.execute("INSERT INTO note VALUES ('lost')").await.unwrap();
        loser.commit().await.unwrap();
        world.factory.with_tx(&mut winner).commit(&attempt, &json("1")).await.unwrap();
        winner.commit().await.unwrap();
        assert_eq!(world.sql("DELETE FROM note").await, 1);
        let mut tx = world.begin().await;
        let outcome = world.factory.with_tx(&mut tx).begin(&key("k"), &request("1")).await;
        assert_eq!(outcome.unwrap(), Outcome::PriorResult(json("1")));
    }
}

/// I-13: with a wait, the loser gets the winner's result as soon as it is committed, or in flight
/// after the wait; its transaction goes on either way.
#[tokio::test]
async fn the_loser_may_wait() {
    let world = postgres().await;
    let mut winner = world.begin().await;
    let attempt = fresh(&mut world.factory.with_tx(&mut winner), "k", "1").await;
    let waiting = world.with(settings().in_flight_wait(Duration::from_secs(600)));
    let mut loser = world.begin().await;
    let short = Duration::from_millis(20);
    let outcome =
        waiting.with_tx(&mut loser).in_flight_wait(short).begin(&key("k"), &request("1")).await;
    assert_eq!(outcome.unwrap(), Outcome::InFlight(InFlight::Uncommitted));
    let losing = tokio::spawn(async move {
        let outcome = waiting.with_tx(&mut loser).begin(&key("k"), &request("1")).await;
        loser.execute("SELECT 1").await.unwrap();
        outcome.unwrap()
    });
    world.factory.with_tx(&mut winner).commit(&attempt, &json("1")).await.unwrap();
    winner.commit().await.unwrap();
    assert_eq!(losing.await.unwrap(), Outcome::PriorResult(json("1")));
}

/// I-13: with a wait, the loser takes the place of a winner that rolls back.
#[tokio::test]
async fn the_loser_may_win_after_all() {
    let world = postgres().await;
    let mut winner = world.begin().await;
    _ = fresh(&mut world.factory.with_tx(&mut winner), "k", "1").await;
    let mut loser = world.begin().await;
    let waiting = world.with(settings().in_flight_wait(Duration::from_secs(600)));
    let losing = tokio::spawn(async move {
        let outcome = waiting.with_tx(&mut loser).begin(&key("k"), &request("2")).await;
        matches!(outcome.unwrap(), Outcome::FreshAttempt(_))
    });
    winner.rollback().await.unwrap();
    assert!(losing.await.unwrap());
}

/// I-13: where the transaction's snapshot is older than what it meets, it is told to run again, and
/// nothing else.
#[tokio::test]
async fn an_old_snapshot_is_told_to_run_again() {
    for isolation in &ISOLATION[1..] {
        let world = postgres().await;
        let mut late = world.begin().await;
        late.execute(*isolation).await.unwrap();
        // The snapshot is taken here.
        late.execute("SELECT FROM idempotency_record").await.unwrap();
        let mut early = world.begin().await;
        let attempt = fresh(&mut world.factory.with_tx(&mut early), "k", "1").await;
        world.factory.with_tx(&mut early).commit(&attempt, &json("1")).await.unwrap();
        early.commit().await.unwrap();
        let refused = world.factory.with_tx(&mut late).begin(&key("k"), &request("1")).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StoreError::RetryTransaction(_)), "{isolation}: {refused:?}");
        late.rollback().await.unwrap();
        let mut again = world.begin().await;
        again.execute(*isolation).await.unwrap();
        let outcome = world.factory.with_tx(&mut again).begin(&key("k"), &request("1")).await;
        assert_eq!(outcome.unwrap(), Outcome::PriorResult(json("1")));
    }
}

/// C-34, I-13: a commit in an old snapshot, after a take-over that it cannot see, is refused at every
/// level.
#[tokio::test]
async fn a_take_over_that_is_not_seen_still_counts() {
    for isolation in ISOLATION {
        let world = postgres().await;
        let mut connection = world.pool.acquire().await.unwrap();
        let old = fresh(&mut world.factory.in_connection(&mut connection), "k", "1").await;
        let mut late = world.begin().await;
        late.execute(isolation).await.unwrap();
        late.execute("SELECT FROM idempotency_record").await.unwrap();
        world.sql("UPDATE idempotency_record SET lease_until = now() - interval '1 hour'").await;
        let mut store = world.factory.in_connection(&mut connection);
        let taken = store.take_over(&key("k"), &request("1")).await.unwrap();
        let Outcome::FreshAttempt(new) = taken else { panic!("{taken:?}") };
        let refused = world.factory.with_tx(&mut late).commit(&old, &json("1")).await.unwrap_err();
        match refused {
            StoreError::Superseded { .. } => assert_eq!(isolation, ISOLATION[0]),
            StoreError::RetryTransaction(_) => assert_ne!(isolation, ISOLATION[0]),
            other => panic!("{other:?}"),
        }
        late.rollback().await.unwrap();
        world.factory.in_connection(&mut connection).commit(&new, &json("2")).await.unwrap();
    }
}

/// C-34: of many callers that take over at once, one does; none waits for another.
#[tokio::test(flavor = "multi_thread")]
async fn one_takes_over() {
    on_each!(|world| {
        let mut connection = world.pool.acquire().await.unwrap();
        _ = fresh(&mut world.factory.in_connection(&mut connection), "k", "1").await;
        drop(connection);
        world.sql("UPDATE idempotency_record SET lease_until = now() - interval '1 hour'").await;
        let world = Arc::new(world);
        let barrier = Arc::new(Barrier::new(32));
        let tasks: Vec<_> = (0..32)
            .map(|_| {
                let (world, barrier) = (Arc::clone(&world), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    let mut tx = world.begin().await;
                    let mut store = world.factory.with_tx(&mut tx);
                    let outcome = store.take_over(&key("k"), &request("1")).await.unwrap();
                    tx.commit().await.unwrap();
                    match outcome {
                        Outcome::FreshAttempt(_) => 1,
                        Outcome::InFlight(InFlight::Uncommitted | InFlight::Leased { .. }) => 0,
                        other => panic!("{other:?}"),
                    }
                })
            })
            .collect();
        let mut taken = 0;
        for task in tasks {
            taken += task.await.unwrap();
        }
        assert_eq!(taken, 1);
    });
}

/// C-34, I-13: a take-over that is not committed is in flight to others, and a rolled back one leaves
/// the row to the next.
#[tokio::test]
async fn a_take_over_is_part_of_the_transaction() {
    let world = postgres().await;
    let mut connection = world.pool.acquire().await.unwrap();
    _ = fresh(&mut world.factory.in_connection(&mut connection), "k", "1").await;
    world.sql("UPDATE idempotency_record SET lease_until = now() - interval '1 hour'").await;
    let mut one = world.begin().await;
    let mut two = world.begin().await;
    let taken = world.factory.with_tx(&mut one).take_over(&key("k"), &request("1")).await.unwrap();
    assert!(matches!(taken, Outcome::FreshAttempt(_)), "{taken:?}");
    let other = world.factory.with_tx(&mut two).take_over(&key("k"), &request("1")).await.unwrap();
    assert_eq!(other, Outcome::InFlight(InFlight::Uncommitted));
    one.rollback().await.unwrap();
    let other = world.factory.with_tx(&mut two).take_over(&key("k"), &request("1")).await.unwrap();
    assert!(matches!(other, Outcome::FreshAttempt(_)), "{other:?}");
}

/// I-13: two transactions that begin two keys in opposite order do not wait for each other.
#[tokio::test]
async fn no_deadlock() {
    let world = postgres().await;
    let mut one = world.begin().await;
    let mut two = world.begin().await;
    _ = fresh(&mut world.factory.with_tx(&mut one), "a", "1").await;
    _ = fresh(&mut world.factory.with_tx(&mut two), "b", "1").await;
    let wait = Duration::from_millis(20);
    for (tx, value) in [(&mut one, "b"), (&mut two, "a")] {
        let mut store = world.factory.with_tx(tx).in_flight_wait(wait);
        let outcome = store.begin(&key(value), &request("1")).await.unwrap();
        assert_eq!(outcome, Outcome::InFlight(InFlight::Uncommitted));
    }
    one.commit().await.unwrap();
    two.commit().await.unwrap();
}

/// I-13: a purge, a forgotten attempt and a commit that are not committed yet do not make a begin
/// wait: it sees what was before.
#[tokio::test]
async fn uncommitted_ends_are_not_waited_for() {
    let world = postgres().await;
    let mut connection = world.pool.acquire().await.unwrap();
    let mut store = world.factory.in_connection(&mut connection);
    let purged = fresh(&mut store, "purged", "1").await;
    store.commit(&purged, &json("1")).await.unwrap();
    let committed = fresh(&mut store, "committed", "1").await;
    let forgotten = fresh(&mut store, "forgotten", "1").await;
    world.sql(crate::stores::purge::EXPIRE).await;
    let mut ending = world.begin().await;
    let mut store = world.factory.with_tx(&mut ending);
    assert_eq!(store.purge_expired(10).await.unwrap(), 1);
    store.commit(&committed, &json("2")).await.unwrap();
    store.fail_transient(&forgotten).await.unwrap();
    let mut store = world.factory.in_connection(&mut connection);
    let seen = store.begin(&key("purged"), &request("1")).await.unwrap();
    assert_eq!(seen, Outcome::PriorResult(json("1")));
    for value in ["committed", "forgotten"] {
        let seen = store.begin(&key(value), &request("1")).await.unwrap();
        assert!(matches!(seen, Outcome::InFlight(InFlight::Leased { .. })), "{seen:?}");
    }
    // Nor does another purge.
    assert_eq!(store.purge_expired(10).await.unwrap(), 0);
}

/// I-13: SQLite has one writer: who would become the second one, or has an old snapshot, is told to
/// run again.
#[tokio::test]
async fn sqlite_tells_to_run_again() {
    let world = sqlite().await;
    let mut plain = world.pool.begin().await.unwrap();
    let mut store = world.factory.with_tx(&mut plain);
    assert_eq!(store.lookup(&key("k")).await.unwrap(), None);
    let mut writer = world.begin().await;
    let attempt = fresh(&mut world.factory.with_tx(&mut writer), "other", "1").await;
    world.factory.with_tx(&mut writer).commit(&attempt, &json("1")).await.unwrap();
    writer.commit().await.unwrap();
    let mut store = world.factory.with_tx(&mut plain);
    let refused = store.begin(&key("k"), &request("1")).await.unwrap_err();
    assert!(matches!(refused, StoreError::RetryTransaction(_)), "{refused:?}");
    plain.rollback().await.unwrap();
    let mut plain = world.pool.begin().await.unwrap();
    _ = fresh(&mut world.factory.with_tx(&mut plain), "k", "1").await;
    plain.commit().await.unwrap();
}
