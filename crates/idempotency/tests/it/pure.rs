//! What goes over the wire, and what a key is, seen from outside.

use std::time::Duration;

use indelible_idempotency::{
    AppError, Attempt, ConsumerNamespace, InFlight, Json, KeyMinter, Mismatch, Outcome, OwnerToken,
    Reply, Request, parse_key,
};

type Typed = Outcome<String, u8>;

/// I-23: the five kinds, letter by letter; no recorded request, no hash, no cause.
#[test]
fn the_wire_shape() {
    let in_flight = |in_flight| Typed::InFlight(in_flight);
    let asked = |text: &str| Request::of(&text).unwrap().hash();
    let mismatch = Mismatch {
        recorded_request: Ok("a card number".to_owned()),
        recorded_hash: asked("a card number"),
        submitted_hash: asked("another"),
    };
    let error =
        AppError::GeneralValidation { message: "no".into(), cause: Some("a secret".into()) };
    for (outcome, expected) in [
        (Typed::PriorResult(7), r#"{"kind":"PreExisting","result":7}"#),
        (
            in_flight(InFlight::Uncommitted),
            r#"{"kind":"OperationInProgress","retryAfterSeconds":1,"indeterminate":false}"#,
        ),
        (
            in_flight(InFlight::Leased { remaining: Duration::from_secs(9) }),
            r#"{"kind":"OperationInProgress","retryAfterSeconds":1,"indeterminate":false}"#,
        ),
        (
            in_flight(InFlight::Indeterminate { lapsed: Duration::from_secs(9) }),
            r#"{"kind":"OperationInProgress","indeterminate":true}"#,
        ),
        (Typed::Mismatch(mismatch), r#"{"kind":"Mismatch"}"#),
        (
            Typed::PriorError(error),
            r#"{"kind":"Failed","code":"Invocation.GeneralValidation","message":"no"}"#,
        ),
    ] {
        let reply = outcome.into_attempt().unwrap_err();
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Reply<u8>>(&text).unwrap(), reply);
    }
    // A raw store's results go out as they were written.
    let raw = Reply::PreExisting { result: Json::parse("{\"a\": 1.50}").unwrap() };
    let text = serde_json::to_string(&raw).unwrap();
    assert_eq!(text, r#"{"kind":"PreExisting","result":{"a": 1.50}}"#);
    let created = serde_json::to_string(&Reply::Created { result: 7 }).unwrap();
    assert_eq!(created, r#"{"kind":"Created","result":7}"#);
}

/// I-5, I-24: a key holds what the parser and the minter promise, and is shown without anything
/// that a terminal acts on.
#[test]
fn keys_are_shown_harmlessly() {
    let orders = ConsumerNamespace::new("orders").unwrap();
    let key = parse_key(&orders, Some(" a\u{9b}31m\u{202e} ")).unwrap().unwrap();
    assert_eq!(key.value(), "a\u{9b}31m\u{202e}");
    assert_eq!(key.to_string(), "orders:a\\u{9b}31m\\u{202e}");
}

/// I-3, I-6: what a caller sent wrongly is a validation error of the service's own kind.
#[test]
fn refusals_are_validation_errors() {
    let orders = ConsumerNamespace::new("orders").unwrap();
    let blank = parse_key(&orders, Some(" ")).unwrap_err();
    let none = KeyMinter::new(orders).mint(Vec::<String>::new()).unwrap_err();
    for error in [AppError::from(blank), AppError::from(none)] {
        assert_eq!(error.class_tag(), "Invocation.GeneralValidation");
        assert!(!error.to_string().is_empty());
    }
}

/// An owner's token is read back as it was given, and nothing else is.
#[test]
fn owners_tokens() {
    let orders = ConsumerNamespace::new("orders").unwrap();
    let key = parse_key(&orders, Some("k")).unwrap().unwrap();
    let token: OwnerToken = "0b7f3c1a-5f5e-4c39-9f2e-6a1d2c3b4a5f".parse().unwrap();
    let attempt = Attempt::resume(key, token.clone());
    assert_eq!(attempt.owner().to_string().parse(), Ok(token));
    for text in ["", "a b", "a'b", "é", "\u{0}", &"a".repeat(65)] {
        assert!(text.parse::<OwnerToken>().is_err(), "{text:?}");
    }
}
