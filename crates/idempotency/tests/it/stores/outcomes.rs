//! Every outcome, there and back.

use indelible_idempotency::store::StoreError;
use indelible_idempotency::{InFlight, Json, Mismatch, Outcome, Request, StoredError};

use crate::stores::support::{DAY, fresh, json, key, request};

/// I-8, I-10, I-11, I-24: a fresh attempt, its commit, and the same result from then on, whichever
/// way the request is written.
#[tokio::test]
async fn a_result_is_replayed() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let attempt = fresh(&mut store, "k", r#"{"a":1,"b":[2.50]}"#).await;
        // Long numbers come back with every digit.
        let result = json(r#"{"total":12345678901234567890.123456789}"#);
        store.commit(&attempt, &result).await.unwrap();
        tx.commit().await.unwrap();
        for text in [r#"{"a":1,"b":[2.50]}"#, r#" { "b": [2.5e0], "a": 1.0 } "#] {
            let mut tx = world.begin().await;
            let mut store = world.factory.with_tx(&mut tx);
            let outcome = store.begin(&key("k"), &request(text)).await.unwrap();
            assert_eq!(outcome, Outcome::PriorResult(result.clone()));
        }
        assert_eq!(world.sql("DELETE FROM idempotency_record WHERE status = 'committed'").await, 1);
    });
}

/// I-8, I-10, I-24: a permanent failure is replayed.
#[tokio::test]
async fn an_error_is_replayed() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let attempt = fresh(&mut store, "k", "1").await;
        let error = StoredError {
            class_tag: "shop.out-of-stock".into(),
            message: "no \u{0} \"glass\"".into(),
            cause: Some("sold".into()),
        };
        store.fail_permanent(&attempt, &error).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = world.begin().await;
        let outcome = world.factory.with_tx(&mut tx).begin(&key("k"), &request("1")).await;
        assert_eq!(outcome.unwrap(), Outcome::PriorError(error));
    });
}

/// I-10, I-24, C-4: a transient failure deletes the row, and the next begin is fresh, in the same
/// transaction and in the next.
#[tokio::test]
async fn a_transient_failure_leaves_nothing() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let attempt = fresh(&mut store, "k", "1").await;
        store.fail_transient(&attempt).await.unwrap();
        // Another request, too: nothing is bound to the key any more.
        let attempt = fresh(&mut store, "k", "2").await;
        store.fail_transient(&attempt).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(world.sql("DELETE FROM idempotency_record").await, 0);
        let mut tx = world.begin().await;
        _ = fresh(&mut world.factory.with_tx(&mut tx), "k", "3").await;
    });
}

/// I-12, I-24, I-28: another request under the key is a mismatch in every state of the first, and
/// the first stays as it is.
#[tokio::test]
async fn another_request_is_a_mismatch() {
    on_each!(|world| {
        let (first, second) = (request(r#"{"amount":1}"#), request(r#"{"amount":2}"#));
        let expected = Outcome::Mismatch(Mismatch {
            recorded_request: Ok(first.json().clone()),
            recorded_hash: first.hash(),
            submitted_hash: second.hash(),
        });
        let error = StoredError { class_tag: "t".into(), message: "m".into(), cause: None };
        for (value, state) in [("a", "in progress"), ("b", "committed"), ("c", "failed")] {
            let mut tx = world.begin().await;
            let mut store = world.factory.with_tx(&mut tx);
            let Outcome::FreshAttempt(attempt) = store.begin(&key(value), &first).await.unwrap()
            else {
                panic!("{value} is new");
            };
            match state {
                "committed" => store.commit(&attempt, &json("7")).await.unwrap(),
                "failed" => store.fail_permanent(&attempt, &error).await.unwrap(),
                _ => {}
            }
            tx.commit().await.unwrap();
            let mut tx = world.begin().await;
            let mut store = world.factory.with_tx(&mut tx);
            assert_eq!(store.begin(&key(value), &second).await.unwrap(), expected, "{state}");
            assert_eq!(store.take_over(&key(value), &second).await.unwrap(), expected, "{state}");
            // Nothing was overwritten: the first request still has its answer.
            let again = store.begin(&key(value), &first).await.unwrap();
            match state {
                "committed" => assert_eq!(again, Outcome::PriorResult(json("7"))),
                "failed" => assert_eq!(again, Outcome::PriorError(error.clone())),
                _ => assert!(matches!(again, Outcome::InFlight(InFlight::Leased { .. }))),
            }
        }
    });
}

/// I-25: only what is hashed is compared; what is recorded is the whole.
#[tokio::test]
async fn what_is_hashed_is_the_callers_choice() {
    on_each!(|world| {
        let sent = |trace: &str, amount: u32| {
            let whole = json(&format!(r#"{{"amount":{amount},"trace":"{trace}"}}"#));
            let hashed = json(&format!(r#"{{"amount":{amount}}}"#));
            Request::hashed_as(whole, &hashed)
        };
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let Outcome::FreshAttempt(attempt) = store.begin(&key("k"), &sent("x", 1)).await.unwrap()
        else {
            panic!("it is new");
        };
        store.commit(&attempt, &Json::null()).await.unwrap();
        let again = store.begin(&key("k"), &sent("y", 1)).await.unwrap();
        assert_eq!(again, Outcome::PriorResult(Json::null()));
        let Outcome::Mismatch(mismatch) = store.begin(&key("k"), &sent("x", 2)).await.unwrap()
        else {
            panic!("the amount counts");
        };
        assert_eq!(mismatch.recorded_request, Ok(json(r#"{"amount":1,"trace":"x"}"#)));
    });
}

/// I-20: equal keys in two namespaces of one table have nothing to do with each other, and a key of
/// one is refused by the store of another.
#[tokio::test]
async fn namespaces_are_apart() {
    on_each!(|world| {
        let payments = indelible_idempotency::ConsumerNamespace::new("payments").unwrap();
        let others = indelible_idempotency::store::Settings::new(payments.clone(), DAY, DAY);
        let others = world.with(others.unwrap());
        let theirs = indelible_idempotency::parse_key(&payments, Some("k")).unwrap().unwrap();
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let attempt = fresh(&mut store, "k", "1").await;
        store.commit(&attempt, &json("1")).await.unwrap();
        let refused = store.begin(&theirs, &request("1")).await.unwrap_err();
        assert!(matches!(refused, StoreError::ForeignKey { .. }), "{refused}");
        let mut store = others.with_tx(&mut tx);
        let outcome = store.begin(&theirs, &request("2")).await.unwrap();
        assert!(matches!(outcome, Outcome::FreshAttempt(_)), "{outcome:?}");
        let refused = store.commit(&attempt, &json("1")).await.unwrap_err();
        assert!(matches!(refused, StoreError::ForeignKey { .. }), "{refused}");
    });
}

/// I-5: the longest keys, and characters of every kind, come back as they went in.
#[tokio::test]
async fn every_key_is_stored_to_the_letter() {
    on_each!(|world| {
        let long = "\u{1F600}".repeat(255);
        let values =
            [&long, "k", "K", "k ", "ｋ", "ḱ", "k\u{301}", "'; --", "%", "\u{9b}", "\u{fffd}"];
        let mut tx = world.begin().await;
        for (index, value) in values.iter().enumerate() {
            // Trimmed, "k " is "k".
            if *value == "k " {
                continue;
            }
            let mut store = world.factory.with_tx(&mut tx);
            let attempt = fresh(&mut store, value, "1").await;
            store.commit(&attempt, &json(&index.to_string())).await.unwrap();
        }
        for (index, value) in values.iter().enumerate() {
            let mut store = world.factory.with_tx(&mut tx);
            let prior = store.begin(&key(value), &request("1")).await.unwrap();
            let expected = if *value == "k " { 1 } else { index };
            assert_eq!(prior, Outcome::PriorResult(json(&expected.to_string())), "{value:?}");
        }
    });
}
