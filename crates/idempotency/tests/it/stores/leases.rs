//! Owners that die between two transactions (C-34).

use std::time::Duration;

use indelible_idempotency::store::{OnLapse, Operation, RecordState, StoreError};
use indelible_idempotency::{InFlight, Outcome, Request};

use crate::stores::support::{DAY, fresh, json, key, request, settings};

/// Every lease ended an hour ago: the clock is moved by moving the leases.
const LAPSE: &str = "UPDATE idempotency_record SET lease_until = now() - interval '1 hour'";

/// C-34: a caller that meets a lapsed attempt is told Indeterminate, never gets it as fresh; taking
/// over is an explicit call; the old owner comes too late.
#[tokio::test]
async fn taking_over_is_explicit() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let old = fresh(&mut world.factory.with_tx(&mut tx), "k", "1").await;
        tx.commit().await.unwrap();

        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        for outcome in [
            store.begin(&key("k"), &request("1")).await.unwrap(),
            // Before the lease has lapsed, not even that helps.
            store.take_over(&key("k"), &request("1")).await.unwrap(),
        ] {
            let Outcome::InFlight(InFlight::Leased { remaining }) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(remaining > Duration::from_secs(30) && remaining <= Duration::from_secs(60));
        }
        tx.commit().await.unwrap();
        world.sql(LAPSE).await;

        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        for _ in 0..2 {
            let outcome = store.begin(&key("k"), &request("1")).await.unwrap();
            let Outcome::InFlight(in_flight @ InFlight::Indeterminate { lapsed }) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(lapsed >= Duration::from_secs(3_600));
            assert_eq!(in_flight.retry_after(), None);
        }
        let record = store.lookup(&key("k")).await.unwrap().unwrap();
        assert_eq!(record.state, RecordState::InProgress { lease: None });

        let taken = store.take_over(&key("k"), &request("1")).await.unwrap();
        let Outcome::FreshAttempt(new) = taken else { panic!("{taken:?}") };
        assert_ne!(new.owner(), old.owner());
        tx.commit().await.unwrap();

        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        for late in [
            store.commit(&old, &json("1")).await,
            store.fail_transient(&old).await,
            store.renew(&old).await,
        ] {
            assert!(matches!(late, Err(StoreError::Superseded { .. })), "{late:?}");
        }
        let again = store.take_over(&key("k"), &request("1")).await.unwrap();
        assert!(matches!(again, Outcome::InFlight(InFlight::Leased { .. })), "{again:?}");
        store.commit(&new, &json("2")).await.unwrap();
        let late = store.commit(&old, &json("2")).await;
        assert!(matches!(late, Err(StoreError::Superseded { .. })), "{late:?}");
        let record = store.lookup(&key("k")).await.unwrap().unwrap();
        assert_eq!(record.owners, 2);
    });
}

/// C-34: what is declared harmless to do twice is taken over by the next begin.
#[tokio::test]
async fn idempotent_operations_restart() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        const HARMLESS: Operation<u8, u8> = Operation::new("harmless").idempotent();
        let mut store = world.factory.with_tx(&mut tx).typed_as(HARMLESS);
        let outcome = store.begin(&key("k"), &1).await.unwrap();
        let Outcome::FreshAttempt(old) = outcome else { panic!("{outcome:?}") };
        let other = fresh(&mut world.factory.with_tx(&mut tx), "other", "1").await;
        tx.commit().await.unwrap();
        world.sql(LAPSE).await;
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx).typed_as(HARMLESS);
        let outcome = store.begin(&key("k"), &1).await.unwrap();
        let Outcome::FreshAttempt(new) = outcome else { panic!("{outcome:?}") };
        let late = store.commit(&old, &1).await;
        assert!(matches!(late, Err(StoreError::Superseded { .. })), "{late:?}");
        store.commit(&new, &2).await.unwrap();
        // By settings, for all operations of a factory.
        let restarting = world.with(settings().on_lapse(OnLapse::Restart));
        let mut store = restarting.with_tx(&mut tx);
        let outcome = store.begin(&key("other"), &request("1")).await.unwrap();
        assert!(matches!(outcome, Outcome::FreshAttempt(_)), "{outcome:?}");
        let late = store.commit(&other, &json("1")).await;
        assert!(matches!(late, Err(StoreError::Superseded { .. })), "{late:?}");
    });
}

/// C-34: late is not superseded: an owner whose lease lapsed ends or renews its attempt as long as
/// no other caller has taken it over.
#[tokio::test]
async fn a_late_owner_may_end_what_is_still_its_own() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let one = fresh(&mut world.factory.with_tx(&mut tx), "one", "1").await;
        let two = fresh(&mut world.factory.with_tx(&mut tx), "two", "1").await;
        tx.commit().await.unwrap();
        world.sql(LAPSE).await;
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        store.commit(&one, &json("1")).await.unwrap();
        store.renew(&two).await.unwrap();
        let seen = store.begin(&key("two"), &request("1")).await.unwrap();
        assert!(matches!(seen, Outcome::InFlight(InFlight::Leased { .. })), "{seen:?}");
        let seen = store.take_over(&key("one"), &request("1")).await.unwrap();
        assert_eq!(seen, Outcome::PriorResult(json("1")));
    });
}

/// C-34: an operator takes over with the request that `lookup` shows, whatever part of it was
/// compared.
#[tokio::test]
async fn taking_over_what_lookup_shows() {
    on_each!(|world| {
        const ORDER: Operation<u8, u8> = Operation::new("order");
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx).typed_as(ORDER);
        _ = store.begin(&key("k"), &1).await.unwrap();
        tx.commit().await.unwrap();
        world.sql(LAPSE).await;
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let record = store.lookup(&key("k")).await.unwrap().unwrap();
        let asked = Request::recorded(record.request.unwrap(), record.hash);
        let taken = store.take_over(&key("k"), &asked).await.unwrap();
        let Outcome::FreshAttempt(attempt) = taken else { panic!("{taken:?}") };
        store.commit(&attempt, &json("7")).await.unwrap();
        let mut store = world.factory.with_tx(&mut tx).typed_as(ORDER);
        assert_eq!(store.begin(&key("k"), &1).await.unwrap(), Outcome::PriorResult(7));
    });
}

/// C-34: a lease of one's own length.
#[tokio::test]
async fn the_lease_is_configurable() {
    on_each!(|world| {
        let long = world.with(settings().lease(DAY).unwrap());
        let mut tx = world.begin().await;
        let mut store = long.with_tx(&mut tx);
        _ = fresh(&mut store, "k", "1").await;
        let seen = store.begin(&key("k"), &request("1")).await.unwrap();
        let Outcome::InFlight(InFlight::Leased { remaining }) = seen else { panic!("{seen:?}") };
        assert!(remaining > DAY / 2);
    });
}
