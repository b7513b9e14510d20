//! Messages are sent again under their key; what must not be asked twice is asked once.

use indelible_client::api::Code;
use indelible_client::api::delivery::{EndpointSettings, RotateSecret, SecretText};
use indelible_client::{Client, Error};
use serde_json::{Value, json};

use crate::support::{Act, Peer, answer, refuse};

const ID: &str = "msg_0123456789abcdef0123456789abcdef01234567";
const TIME: &str = "2026-01-02T03:04:05.000006Z";

fn accepted() -> Act {
    answer(202, &json!({"message": ID, "endpoints": 2, "prior": false}))
}

fn endpoint() -> Value {
    json!({
        "endpoint": "e", "namespace": "shop", "settings": EndpointSettings::at("https://a.example"),
        "state": "enabled", "breaker": "closed", "queued": 0, "sending": 0,
    })
}

fn delivery() -> Value {
    json!({
        "endpoint": "e", "state": "queued", "attempts": 1, "may_have_arrived": true, "failures": [],
    })
}

fn message() -> Value {
    json!({
        "message": ID, "number": 7, "namespace": "shop", "topic": "a", "origin": "key k",
        "content_type": "application/json", "body_bytes": 2, "body": {}, "created_at": TIME,
        "deliveries": [delivery()],
    })
}

fn shop(peer: &Peer) -> Client {
    peer.client().in_namespace("shop").unwrap()
}

/// O-24, V-69: a message is sent again under its one key with the same bytes, which are those of the
/// caller.
#[tokio::test]
async fn one_key_on_every_attempt() {
    let lossy = || vec![Act::DropAfter, refuse(Code::Busy), accepted()];
    let raw = serde_json::value::RawValue::from_string(r#"{"b":1.50, "a":1}"#.to_owned()).unwrap();
    let peer = Peer::start(lossy()).await;
    let sent = shop(&peer).message("order.created").json(&raw).lane("7").idempotency_key("k 7");
    let sent = sent.await.unwrap();
    assert_eq!((sent.message.0.to_string().as_str(), sent.endpoints, sent.prior), (ID, 2, false));
    let seen = peer.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|request| request == &seen[0]), "{seen:?}");
    assert_eq!(
        (seen[0].method.as_str(), seen[0].target.as_str()),
        ("POST", "/v1/messages?namespace=shop")
    );
    assert_eq!(seen[0].header("idempotency-key"), Some("k 7"));
    let body = r#"{"topic":"order.created","lane_key":"7","body":{"b":1.50, "a":1}}"#;
    assert_eq!(seen[0].body, body);

    // Without a key, one is minted; the last body counts.
    let peer = Peer::start(lossy()).await;
    let message = peer.client().message("a").text("x").bytes(&b"\xff"[..]).content_type("b/c");
    message.await.unwrap();
    let seen = peer.seen();
    assert!(seen.iter().all(|request| request == &seen[0]), "{seen:?}");
    assert!(seen[0].header("idempotency-key").unwrap().len() > 30);
    assert_eq!(seen[0].body, r#"{"topic":"a","content_type":"b/c","base64":"/w=="}"#);

    let peer = Peer::start(vec![Act::DropAfter, refuse(Code::Mismatch)]).await;
    let error = peer.client().message("a").text("x").idempotency_key("k").await.unwrap_err();
    assert!(matches!(error, Error::Mismatch(_)), "{error:?}");
}

/// An answer that shows a secret, and a decision about a dead letter, are asked for once: a repetition
/// would lose the one, and take the other a second time.
#[tokio::test]
async fn what_is_sent_once() {
    let lost = |error: Error| match error {
        Error::Transport(lost) => assert!(lost.may_have_arrived && lost.attempts == 1),
        error => panic!("{error:?}"),
    };
    let once = async || Peer::start(vec![Act::DropAfter]).await;
    let settings = EndpointSettings::at("https://a.example");
    let peer = once().await;
    lost(peer.client().put_endpoint("e", &settings).await.unwrap_err());
    assert_eq!(peer.seen().len(), 1);
    let peer = once().await;
    lost(peer.client().rotate_secret("e", &RotateSecret::default()).await.unwrap_err());
    let peer = once().await;
    lost(peer.client().redeliver(ID, "e", "r", false).await.unwrap_err());
    let peer = once().await;
    lost(peer.client().abandon(ID, "e", "r").await.unwrap_err());

    // With a secret of the caller's, the same request makes the same endpoint.
    let put = answer(200, &json!({"endpoint": endpoint()}));
    let peer = Peer::start(vec![Act::DropAfter, put]).await;
    let settings = EndpointSettings { secrets: vec![SecretText("whsec_x".into())], ..settings };
    let put = peer.client().put_endpoint("e", &settings).await.unwrap();
    assert!(put.secret.is_none() && put.endpoint.settings.secrets.is_empty());
    let seen = peer.seen();
    assert_eq!((seen.len(), &seen[0]), (2, &seen[1]));
    let body: Value = serde_json::from_str(&seen[0].body).unwrap();
    assert_eq!(body["secrets"], json!(["whsec_x"]));
}

/// What is read and changed, where it is asked for, and that the answer is read.
#[tokio::test]
async fn paths() {
    let rotated = json!({"secret": "whsk_x", "public_key": "whpk_x"});
    let peer = Peer::start(vec![
        answer(201, &json!({"endpoint": endpoint(), "secret": "whsec_x"})),
        answer(200, &json!({"endpoints": [endpoint()]})),
        answer(200, &endpoint()),
        answer(200, &endpoint()),
        answer(200, &endpoint()),
        answer(200, &rotated),
        answer(200, &json!({})),
        answer(200, &json!({"messages": [message()], "next": 7})),
        answer(200, &json!({"messages": []})),
        answer(200, &json!({"messages": [message()]})),
        answer(200, &message()),
        answer(200, &delivery()),
        answer(200, &delivery()),
    ])
    .await;
    let client = shop(&peer);
    let put = client.put_endpoint("e", &EndpointSettings::at("https://a.example")).await.unwrap();
    assert_eq!(put.secret.unwrap().0, "whsec_x");
    assert_eq!(client.endpoints().await.unwrap().endpoints.len(), 1);
    client.endpoint("e").await.unwrap();
    client.enable_endpoint("e", "").await.unwrap();
    client.disable_endpoint("e", "it moves").await.unwrap();
    let rotation = RotateSecret { ed25519: true, ..RotateSecret::default() };
    let rotated = client.rotate_secret("e", &rotation).await.unwrap();
    assert_eq!(rotated.public_key.unwrap(), "whpk_x");
    client.delete_endpoint("e", "it is over").await.unwrap();
    let mut pages = client.messages().unwrap().limit(1);
    assert_eq!(pages.next().await.unwrap().unwrap().messages[0].number, 7);
    assert!(pages.next().await.unwrap().unwrap().messages.is_empty());
    assert!(pages.next().await.unwrap().is_none());
    let dead = client.dead_letters().unwrap().next().await.unwrap().unwrap();
    assert!(dead.messages[0].deliveries[0].may_have_arrived);
    client.message_info(ID).await.unwrap();
    client.redeliver(ID, "e", "it is back", false).await.unwrap();
    client.abandon(ID, "e", "by hand").await.unwrap();
    let seen = peer.seen();
    let seen: Vec<_> =
        seen.iter().map(|seen| (seen.method.as_str(), seen.target.as_str())).collect();
    let of_message = format!("/v1/messages/{ID}");
    assert_eq!(
        seen,
        [
            ("PUT", "/v1/endpoints/e?namespace=shop"),
            ("GET", "/v1/endpoints?namespace=shop"),
            ("GET", "/v1/endpoints/e?namespace=shop"),
            ("POST", "/v1/endpoints/e/enable?namespace=shop"),
            ("POST", "/v1/endpoints/e/disable?namespace=shop"),
            ("POST", "/v1/endpoints/e/secrets?namespace=shop"),
            ("DELETE", "/v1/endpoints/e?reason=it+is+over&namespace=shop"),
            ("GET", "/v1/messages?namespace=shop&limit=1"),
            ("GET", "/v1/messages?namespace=shop&limit=1&below=7"),
            ("GET", "/v1/dead-letters?namespace=shop"),
            ("GET", format!("{of_message}?namespace=shop").as_str()),
            ("POST", format!("{of_message}/endpoints/e/redeliver?namespace=shop").as_str()),
            ("POST", format!("{of_message}/endpoints/e/abandon?namespace=shop").as_str()),
        ]
    );
}
