//! Lists, details, health.

use indelible_client::api::Code;
use indelible_client::api::execution::State;
use indelible_client::api::log::Level;
use indelible_client::{Error, Filter, UnresolvedFilter};
use serde_json::json;

use crate::support::{Act, Peer, answer, raw, refuse};

/// Pages follow one another by their cursors, within the namespace, and end.
#[tokio::test]
async fn pages_to_the_end() {
    let peer = Peer::start(vec![
        answer(200, &json!({"executions": [], "next": "c&1"})),
        Act::DropAfter,
        answer(200, &json!({"executions": []})),
    ])
    .await;
    let client = peer.client().in_namespace("eu").unwrap();
    let filter = Filter::all().state(State::Running).state(State::Stuck);
    let filter = filter.function("order").latest_only();
    let mut pages = client.executions(&filter).unwrap().limit(5);
    assert!(pages.next().await.unwrap().is_some());
    assert_eq!(pages.cursor(), Some("c&1"));
    assert!(pages.next().await.unwrap().is_some());
    assert!(pages.next().await.unwrap().is_none());
    let seen = peer.seen();
    assert_eq!(seen.len(), 3);
    let first =
        "/v1/executions?state=running%2Cstuck&function=order&latest=true&namespace=eu&limit=5";
    assert_eq!(seen[0].target, first);
    assert_eq!(seen[1].target, format!("{first}&cursor=c%261"));
    assert_eq!(seen[2], seen[1]);
}

/// A server that goes in a circle does not catch a client in it.
#[tokio::test]
async fn a_page_that_follows_itself() {
    let page = answer(200, &json!({"events": [{"a": 1}], "next": 7}));
    let peer = Peer::start(vec![page.clone(), page]).await;
    let mut pages = peer.client().journal("abab", Some("1.2")).unwrap();
    let events = pages.next().await.unwrap().unwrap();
    assert_eq!(events.events[0].get(), r#"{"a":1}"#);
    let error = pages.next().await.unwrap_err();
    assert!(matches!(error, Error::Malformed(_)), "{error:?}");
    assert_eq!(peer.seen()[1].target, "/v1/executions/abab/journal?attempts=1.2&from=7");
}

/// Logs have no end: a page is asked for again where the one before ended, also if nothing came.
#[tokio::test]
async fn logs_are_followed() {
    let line = json!({"at": "2026-01-01T00:00:00Z", "execution_id": "abab.0", "attempts": "1.1",
        "level": "warn", "message": "m", "fields": {"a": "b"}, "new": 1});
    let peer = Peer::start(vec![
        answer(200, &json!({"lines": [], "next": "1_7", "more": true})),
        Act::DropAfter,
        answer(200, &json!({"lines": [line], "next": "2_0", "more": false})),
        answer(200, &json!({"lines": [], "next": "2_0", "more": false})),
    ])
    .await;
    let mut logs = peer.client().logs("abab").unwrap().limit(5);
    assert_eq!(logs.cursor(), None);
    assert!(logs.next().await.unwrap().more);
    let page = logs.next().await.unwrap();
    assert_eq!((page.lines[0].level, page.more), (Level::Warn, false));
    assert_eq!(page.lines[0].fields["a"], "b");
    assert!(logs.next().await.unwrap().lines.is_empty());
    assert_eq!(logs.cursor(), Some("2_0"));
    let targets: Vec<_> = peer.seen().into_iter().map(|seen| seen.target).collect();
    let path = "/v1/executions/abab/logs?limit=5";
    let after = |from| format!("{path}&from={from}");
    assert_eq!(targets, [path.to_owned(), after("1_7"), after("1_7"), after("2_0")]);
}

/// V-59: of an id that is too old, nothing is known, and that is said.
#[tokio::test]
async fn an_expired_operation() {
    let peer = Peer::start(vec![refuse(Code::Expired)]).await;
    let error = peer.client().operation("o").await.unwrap_err();
    assert!(matches!(error, Error::Expired(_)), "{error:?}");
    assert_eq!(peer.seen()[0].target, "/v1/operations/o");
}

/// Whether a server is ready is asked once, and no is an answer.
#[tokio::test]
async fn health_and_readiness() {
    let peer = Peer::start(vec![
        answer(200, &json!({})),
        raw(503, "", ""),
        refuse(Code::Stopping),
        answer(200, &json!({})),
        Act::DropAfter,
    ])
    .await;
    let client = peer.client();
    assert!(client.ready().await.unwrap());
    assert!(!client.ready().await.unwrap());
    assert!(!client.ready().await.unwrap());
    client.health().await.unwrap();
    assert!(matches!(client.health().await.unwrap_err(), Error::Transport(_)));
    assert_eq!(peer.seen().len(), 5);
}

/// The rest of what is read: where it is asked for, and that it is read.
#[tokio::test]
async fn the_rest() {
    let peer = Peer::start(vec![
        answer(200, &json!({"components": []})),
        answer(200, &json!({"name": "shop", "active": "d", "versions": [], "functions": []})),
        answer(200, &json!({"functions": []})),
        answer(200, &json!({"tokens": []})),
        answer(200, &json!({"actor": "client:ci", "roles": ["call"], "namespaces": ["eu"]})),
        answer(200, &json!({"entries": [], "next": "b"})),
        answer(200, &json!({"entries": []})),
        answer(200, &json!({"unresolved": []})),
        answer(200, &json!({"executions": []})),
    ])
    .await;
    let client = peer.client();
    client.components().await.unwrap();
    client.component("shop").await.unwrap();
    client.functions().await.unwrap();
    client.tokens().await.unwrap();
    assert_eq!(client.whoami().await.unwrap().actor, "client:ci");
    let mut audit = client.audit().unwrap();
    audit.next().await.unwrap().unwrap();
    audit.next().await.unwrap().unwrap();
    let open = client.unresolved(&UnresolvedFilter::open()).unwrap();
    open.starting_at("u").next().await.unwrap().unwrap();
    client.tree("abab").unwrap().next().await.unwrap().unwrap();
    let targets: Vec<_> = peer.seen().into_iter().map(|seen| seen.target).collect();
    let expected = [
        "/v1/components",
        "/v1/components/shop",
        "/v1/functions",
        "/v1/tokens",
        "/v1/whoami",
        "/v1/audit",
        "/v1/audit?cursor=b",
        "/v1/unresolved?cursor=u",
        "/v1/executions/abab/tree",
    ];
    assert_eq!(targets, expected);
}
