//! The typed form (I-16), and types that change while records stay.

use indelible_idempotency::store::{Operation, StoreError};
use indelible_idempotency::{AppError, Json, Mismatch, Outcome, Reply, Request};
use serde::{Deserialize, Serialize};

use crate::stores::support::key;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct PlaceOrder {
    item: String,
    cents: u128,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: u64,
}

const PLACE_ORDER: Operation<PlaceOrder, Receipt> = Operation::new("place-order");

fn order(cents: u128) -> PlaceOrder {
    PlaceOrder { item: "glass".into(), cents }
}

/// I-16, I-24, I-26: round trips in the service's own types, numbers beyond 64 bits included.
#[tokio::test]
async fn round_trips() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx).typed_as(PLACE_ORDER);
        let outcome = store.begin(&key("k"), &order(u128::MAX)).await.unwrap();
        let Outcome::FreshAttempt(attempt) = outcome else { panic!("{outcome:?}") };
        store.commit(&attempt, &Receipt { number: u64::MAX }).await.unwrap();
        let outcome = store.begin(&key("k"), &order(u128::MAX)).await.unwrap();
        assert_eq!(outcome, Outcome::PriorResult(Receipt { number: u64::MAX }));
        // A float could not tell these two apart.
        let outcome = store.begin(&key("k"), &order(u128::MAX - 1)).await.unwrap();
        let Outcome::Mismatch(mismatch) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(mismatch.recorded_request, Ok(order(u128::MAX)));
        assert_eq!(outcome.into_attempt(), Err(Reply::Mismatch));

        let outcome = store.begin(&key("e"), &order(1)).await.unwrap();
        let Outcome::FreshAttempt(attempt) = outcome else { panic!("{outcome:?}") };
        let error = AppError::GeneralValidation { message: "sold out".into(), cause: None };
        store.fail_permanent(&attempt, &error).await.unwrap();
        let outcome = store.begin(&key("e"), &order(1)).await.unwrap();
        assert_eq!(outcome, Outcome::PriorError(error));
        let reply = outcome.into_attempt().unwrap_err();
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"Failed","code":"Invocation.GeneralValidation","message":"sold out"}"#
        );
    });
}

/// I-17, I-24: a recorded result that the current type cannot read is an error of its own, and the
/// record stays.
#[tokio::test]
async fn drift_of_the_result_is_told() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct NewReceipt {
        number: u64,
        signature: String,
    }
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx).typed_as(PLACE_ORDER);
        let outcome = store.begin(&key("k"), &order(1)).await.unwrap();
        let Outcome::FreshAttempt(attempt) = outcome else { panic!("{outcome:?}") };
        store.commit(&attempt, &Receipt { number: 7 }).await.unwrap();
        const DRIFTED: Operation<PlaceOrder, NewReceipt> = Operation::new("place-order");
        let mut drifted = world.factory.with_tx(&mut tx).typed_as(DRIFTED);
        let refused = drifted.begin(&key("k"), &order(1)).await.unwrap_err();
        let StoreError::IncompatibleState(why) = refused else { panic!("{refused}") };
        assert_eq!(why.what, "result");
        assert!(why.why.contains("signature"), "{why}");
        let mut store = world.factory.with_tx(&mut tx).typed_as(PLACE_ORDER);
        let outcome = store.begin(&key("k"), &order(1)).await.unwrap();
        assert_eq!(outcome, Outcome::PriorResult(Receipt { number: 7 }));
    });
}

/// I-18, I-24: a recorded request that the current type cannot read does not hide the mismatch.
#[tokio::test]
async fn drift_of_the_request_is_not_fatal() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut raw = world.factory.with_tx(&mut tx);
        let old = Request::new(Json::parse(r#"{"article":"glass"}"#).unwrap());
        let outcome = raw.begin(&key("k"), &old).await.unwrap();
        let Outcome::FreshAttempt(attempt) = outcome else { panic!("{outcome:?}") };
        raw.commit(&attempt, &Json::null()).await.unwrap();
        let mut store = raw.typed_as(PLACE_ORDER);
        let outcome = store.begin(&key("k"), &order(1)).await.unwrap();
        let Outcome::Mismatch(Mismatch { recorded_request, recorded_hash, submitted_hash }) =
            outcome
        else {
            panic!("{outcome:?}");
        };
        assert_eq!(recorded_request.unwrap_err().what, "request");
        assert_eq!(recorded_hash, old.hash());
        assert_eq!(submitted_hash, PLACE_ORDER.request(&order(1)).unwrap().hash());
    });
}

/// I-25, I-26: the hash is kept apart from the type: a field that is new, or differs between
/// repetitions, makes no other request.
#[tokio::test]
async fn what_is_hashed_survives_evolution() {
    #[derive(Debug, Serialize, Deserialize)]
    struct NewOrder {
        item: String,
        cents: u128,
        #[serde(default)]
        sent_at: u64,
    }
    const NEW: Operation<NewOrder, Receipt> =
        Operation::new("place-order").hashing(|order| Json::of(&(&order.item, order.cents)));
    const OLD: Operation<PlaceOrder, Receipt> =
        Operation::new("place-order").hashing(|order| Json::of(&(&order.item, order.cents)));
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx).typed_as(OLD);
        let outcome = store.begin(&key("k"), &order(5)).await.unwrap();
        let Outcome::FreshAttempt(attempt) = outcome else { panic!("{outcome:?}") };
        store.commit(&attempt, &Receipt { number: 1 }).await.unwrap();
        let mut store = world.factory.with_tx(&mut tx).typed_as(NEW);
        for sent_at in [1, 2] {
            let again = NewOrder { item: "glass".into(), cents: 5, sent_at };
            let outcome = store.begin(&key("k"), &again).await.unwrap();
            let Outcome::PriorResult(receipt) = outcome else { panic!("{outcome:?}") };
            assert_eq!(receipt, Receipt { number: 1 });
        }
        let other = NewOrder { item: "glass".into(), cents: 6, sent_at: 1 };
        let outcome = store.begin(&key("k"), &other).await.unwrap();
        let Outcome::Mismatch(mismatch) = outcome else { panic!("{outcome:?}") };
        assert_eq!(mismatch.recorded_request.unwrap().sent_at, 0);
    });
}

/// I-17: what is said of a record that does not fit has no recorded value in it.
#[tokio::test]
async fn no_recorded_value_is_in_an_error() {
    on_each!(|world| {
        const CARD: Operation<u8, String> = Operation::new("card");
        const NUMBER: Operation<u8, u64> = Operation::new("card");
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx).typed_as(CARD);
        let outcome = store.begin(&key("k"), &1).await.unwrap();
        let Outcome::FreshAttempt(attempt) = outcome else { panic!("{outcome:?}") };
        store.commit(&attempt, &"4111 1111 1111 1111".to_owned()).await.unwrap();
        let mut store = world.factory.with_tx(&mut tx).typed_as(NUMBER);
        let refused = store.begin(&key("k"), &1).await.unwrap_err();
        assert!(matches!(refused, StoreError::IncompatibleState(_)), "{refused}");
        assert!(!format!("{refused:?}").contains("4111"), "{refused:?}");
    });
}

/// What cannot be recorded is refused before the database hears of it: the transaction goes on.
#[tokio::test]
async fn what_is_too_large_is_refused_first() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        const ECHO: Operation<String, String> = Operation::new("echo");
        let mut store = world.factory.with_tx(&mut tx).typed_as(ECHO);
        let large = "x".repeat(2 << 20);
        let refused = store.begin(&key("k"), &large).await.unwrap_err();
        assert!(matches!(refused, StoreError::Json(_)), "{refused}");
        let outcome = store.begin(&key("k"), &"x".to_owned()).await.unwrap();
        let Outcome::FreshAttempt(attempt) = outcome else { panic!("{outcome:?}") };
        let refused = store.commit(&attempt, &large).await.unwrap_err();
        assert!(matches!(refused, StoreError::Json(_)), "{refused}");
        store.commit(&attempt, &"y".to_owned()).await.unwrap();
        tx.commit().await.unwrap();
    });
}
