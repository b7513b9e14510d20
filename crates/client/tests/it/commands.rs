//! Signals, cancels, decisions, deployments: under one key on every attempt.

use indelible_client::api::Code;
use indelible_client::api::unresolved::Resolution;
use indelible_client::{Error, Identity};
use serde_json::{Value, json};

use crate::support::{Act, Peer, Seen, answer, refuse};

/// A peer that loses the first answer, is busy, and then answers.
async fn peer(body: &Value) -> Peer {
    Peer::start(vec![Act::DropAfter, refuse(Code::Busy), answer(200, body)]).await
}

/// What came, which was the same three times.
#[track_caller]
fn thrice(peer: &Peer) -> Seen {
    let seen = peer.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|request| request == &seen[0]), "{seen:?}");
    assert!(seen[0].header("idempotency-key").is_some_and(|key| !key.is_empty()));
    seen[0].clone()
}

/// V-3, V-6: each command is minted a key before its first attempt, and repeated under it.
#[tokio::test]
async fn commands_are_repeated_under_one_key() {
    let server = peer(&json!({"delivery_id": 4})).await;
    let sent = server.client().signal("abab", "paid/now", &json!({"by": "me"})).await.unwrap();
    assert_eq!(sent.delivery_id, 4);
    let seen = thrice(&server);
    assert_eq!((seen.method.as_str(), seen.body.as_str()), ("POST", r#"{"by":"me"}"#));
    assert_eq!(seen.target, "/v1/executions/abab/signals/paid%2Fnow");

    let server = peer(&json!({"already": true})).await;
    assert!(server.client().cancel("abab.0", "late").await.unwrap().already);
    let seen = thrice(&server);
    assert_eq!(seen.target, "/v1/executions/abab.0/cancel");
    assert_eq!(seen.body, r#"{"reason":"late"}"#);

    let server = peer(&json!({})).await;
    server.client().release("abab", "mended").await.unwrap();
    assert_eq!(thrice(&server).target, "/v1/executions/abab/release");

    let server = peer(&json!({})).await;
    server.client().fail("abab", "hopeless").await.unwrap();
    assert_eq!(thrice(&server).target, "/v1/executions/abab/fail");

    let server = peer(&json!({})).await;
    let resolve = server.client().resolve("abab.1", Resolution::DidNotHappen {}, "looked");
    resolve.idempotency_key("decision 1").await.unwrap();
    let seen = thrice(&server);
    assert_eq!(seen.header("idempotency-key"), Some("decision 1"));
    assert_eq!(seen.target, "/v1/unresolved/abab.1/resolve");
    assert_eq!(seen.body, r#"{"resolution":{"kind":"did_not_happen"},"reason":"looked"}"#);

    let server = peer(&json!({})).await;
    let now = "2026-11-17T18:00:00Z";
    server.client().confirm_retention_clock(now, "it was off").await.unwrap();
    let seen = thrice(&server);
    assert_eq!(seen.target, "/v1/retention/clock/confirm");
    assert_eq!(seen.body, format!(r#"{{"time":"{now}","reason":"it was off"}}"#));

    let server = peer(&json!({"already": false})).await;
    assert!(!server.client().lift_hold("looked").await.unwrap().already);
    let seen = thrice(&server);
    assert_eq!(seen.target, "/v1/hold/lift");
    assert_eq!(seen.body, r#"{"reason":"looked"}"#);

    let server =
        peer(&json!({"name": "shop", "digest": "d", "known": false, "functions": []})).await;
    server.client().deploy("shop", &b"\0asm"[..]).await.unwrap();
    let seen = thrice(&server);
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("PUT", "/v1/components/shop"));
    assert_eq!(seen.header("content-type"), Some("application/wasm"));
    assert_eq!(seen.body, "\0asm");

    let token =
        json!({"id": "t", "name": "n", "roles": [], "namespaces": [], "created_at": "then"});
    let server = peer(&token).await;
    server.client().revoke_token("t").await.unwrap();
    let seen = thrice(&server);
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("DELETE", "/v1/tokens/t"));
}

/// A key that was used for something else is an error of its own.
#[tokio::test]
async fn a_key_for_something_else() {
    let server = Peer::start(vec![refuse(Code::Mismatch)]).await;
    let error = server.client().cancel("abab", "").idempotency_key("k").await.unwrap_err();
    assert!(matches!(error, Error::Mismatch(_)), "{error:?}");
}

/// A command whose answer never comes names its key.
#[tokio::test]
async fn a_lost_command_names_its_key() {
    let server = Peer::start(Vec::new()).await;
    let error = server.client().cancel("abab", "").await.unwrap_err();
    let Error::Transport(lost) = error else { panic!("{error:?}") };
    let key = server.seen()[0].header("idempotency-key").map(str::to_owned);
    assert_eq!(lost.identity, key.map(Identity::Key));
}
