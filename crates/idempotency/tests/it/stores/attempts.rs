//! Ending attempts: once, by their owner, and again with the same words.

use indelible_idempotency::store::{RecordState, StoreError};
use indelible_idempotency::{Attempt, InFlight, Outcome, StoredError};

use crate::stores::support::{DAY, fresh, json, key, request};

fn error(message: &str) -> StoredError {
    StoredError { class_tag: "t".into(), message: message.into(), cause: None }
}

/// I-10: what has ended has ended, and is not ended again: not even in the same way, since whatever
/// else is in that transaction would be done twice. Nothing changes.
#[tokio::test]
async fn an_attempt_ends_once() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let committed = fresh(&mut store, "committed", "1").await;
        store.commit(&committed, &json("1")).await.unwrap();
        let failed = fresh(&mut store, "failed", "1").await;
        store.fail_permanent(&failed, &error("no")).await.unwrap();
        let forgotten = fresh(&mut store, "forgotten", "1").await;
        store.fail_transient(&forgotten).await.unwrap();

        let is = |refused: Result<(), StoreError>, expected: (&str, bool)| {
            let StoreError::AlreadyEnded { status, same, .. } = refused.unwrap_err() else {
                panic!("it has ended");
            };
            assert_eq!((status, same), expected);
        };
        is(store.commit(&committed, &json("1")).await, ("committed", true));
        is(store.commit(&committed, &json("2")).await, ("committed", false));
        is(store.fail_permanent(&committed, &error("no")).await, ("committed", false));
        is(store.fail_transient(&committed).await, ("committed", false));
        is(store.renew(&committed).await, ("committed", false));
        is(store.fail_permanent(&failed, &error("no")).await, ("failed", true));
        is(store.commit(&failed, &json("1")).await, ("failed", false));
        is(store.fail_permanent(&failed, &error("other")).await, ("failed", false));
        is(store.fail_transient(&failed).await, ("failed", false));
        is(store.renew(&failed).await, ("failed", false));
        for refused in [
            store.commit(&forgotten, &json("1")).await,
            store.fail_permanent(&forgotten, &error("no")).await,
            store.fail_transient(&forgotten).await,
            store.renew(&forgotten).await,
        ] {
            assert!(matches!(refused, Err(StoreError::NoAttempt { .. })), "{refused:?}");
        }
        tx.commit().await.unwrap();

        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let again = store.begin(&key("committed"), &request("1")).await.unwrap();
        assert_eq!(again, Outcome::PriorResult(json("1")));
        let again = store.begin(&key("failed"), &request("1")).await.unwrap();
        assert_eq!(again, Outcome::PriorError(error("no")));
    });
}

/// I-14, I-10: the row lives and dies with the caller's transaction: rolled back, nothing was.
#[tokio::test]
async fn a_rollback_takes_the_attempt_with_it() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let attempt = fresh(&mut store, "k", "1").await;
        store.commit(&attempt, &json("1")).await.unwrap();
        tx.rollback().await.unwrap();
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let late = store.commit(&attempt, &json("1")).await.unwrap_err();
        assert!(matches!(late, StoreError::NoAttempt { .. }), "{late}");
        _ = fresh(&mut store, "k", "2").await;
        let late = store.commit(&attempt, &json("1")).await.unwrap_err();
        assert!(matches!(late, StoreError::Superseded { .. }), "{late}");
        // The owner's token is what counts, and the transaction is still usable.
        tx.commit().await.unwrap();
    });
}

/// I-10: an attempt can be ended elsewhere, by its token.
#[tokio::test]
async fn an_attempt_is_resumed_by_its_token() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let attempt = fresh(&mut world.factory.with_tx(&mut tx), "k", "1").await;
        tx.commit().await.unwrap();
        let token = attempt.owner().to_string();
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let forged = Attempt::resume(key("k"), "somebody-else".parse().unwrap());
        let refused = store.commit(&forged, &json("1")).await.unwrap_err();
        assert!(matches!(refused, StoreError::Superseded { .. }), "{refused}");
        let resumed = Attempt::resume(key("k"), token.parse().unwrap());
        store.commit(&resumed, &json("1")).await.unwrap();
        tx.commit().await.unwrap();
    });
}

/// I-10, I-13: begun twice in one transaction, the second time is in flight.
#[tokio::test]
async fn twice_in_one_transaction() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let attempt = fresh(&mut store, "k", "1").await;
        let again = store.begin(&key("k"), &request("1")).await.unwrap();
        assert!(matches!(again, Outcome::InFlight(InFlight::Leased { .. })), "{again:?}");
        store.commit(&attempt, &json("1")).await.unwrap();
        let again = store.begin(&key("k"), &request("1")).await.unwrap();
        assert_eq!(again, Outcome::PriorResult(json("1")));
    });
}

/// What support staff sees of a key.
#[tokio::test]
async fn lookup_tells_everything() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        assert_eq!(store.lookup(&key("k")).await.unwrap(), None);
        let attempt = fresh(&mut store, "k", r#"{"a":1}"#).await;
        let record = store.lookup(&key("k")).await.unwrap().unwrap();
        assert_eq!(record.request, Ok(json(r#"{"a":1}"#)));
        assert_eq!(record.hash, request(r#"{"a":1}"#).hash());
        assert_eq!((record.owners, record.ended_at), (1, None));
        assert!(matches!(record.state, RecordState::InProgress { lease: Some(_) }));
        let window = record.expires_at.duration_since(record.created_at).unwrap();
        // I-19; the two columns are read off the clock one after the other.
        assert_eq!(window.as_secs(), DAY.as_secs());
        store.commit(&attempt, &json("2")).await.unwrap();
        let record = store.lookup(&key("k")).await.unwrap().unwrap();
        assert_eq!(record.state, RecordState::Committed(Ok(json("2"))));
        assert!(record.ended_at.is_some_and(|ended| ended >= record.created_at));
        let attempt = fresh(&mut store, "f", "1").await;
        store.fail_permanent(&attempt, &error("no")).await.unwrap();
        let record = store.lookup(&key("f")).await.unwrap().unwrap();
        assert_eq!(record.state, RecordState::Failed(Ok(error("no"))));
    });
}
