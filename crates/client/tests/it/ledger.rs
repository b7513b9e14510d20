//! Transactions under a key, an operation id or a number of the caller's; what is read of a ledger.

use indelible_client::api::Code;
use indelible_client::api::ledger::VaultSettings;
use indelible_client::{Error, Identity, OperationId};
use serde_json::{Value, json};

use crate::support::{Act, Peer, answer, raw, refuse};

const INCARNATION: &str = "01234567-89ab-7fff-bfff-ffffffffffff";
const HASH: &str = "00000000000000000000000000000000000000000000000000000000000000aa";
const TIME: &str = "2026-01-02T03:04:05.000006Z";

fn committed() -> Act {
    answer(
        200,
        &json!({"verdict": "Fresh", "height": 3, "incarnation": INCARNATION, "restores": 0}),
    )
}

fn operations() -> Value {
    json!([{"add": {"key": "a", "delta": 1, "unit": "EUR"}}])
}

/// V-4, V-69, Q-9: a transaction is sent again under its one name with the same bytes: a key, an
/// operation id, one that is minted, or a client's number.
#[tokio::test]
async fn one_name_on_every_attempt() {
    let id = OperationId::mint();
    let lossy = || vec![Act::DropAfter, refuse(Code::Busy), committed()];
    let pin = INCARNATION;
    let text = operations().to_string();

    let peer = Peer::start(lossy()).await;
    let vault = peer.client().in_namespace("shop").unwrap().vault("wal lets");
    let transaction = vault.transact(&operations()).idempotency_key("pay 7").incarnation(pin);
    assert_eq!(transaction.await.unwrap().height, Some(3));
    let seen = thrice(&peer);
    assert_eq!(seen.target, "/v1/vaults/wal%20lets/transactions?namespace=shop");
    assert_eq!(seen.header("idempotency-key"), Some("pay 7"));
    assert_eq!(seen.body, format!(r#"{{"incarnation":"{pin}","operations":{text}}}"#));

    let peer = Peer::start(lossy()).await;
    peer.client().ledger().transact(&operations()).operation_id(id).await.unwrap();
    let seen = thrice(&peer);
    assert_eq!(seen.target, "/v1/ledger/transactions");
    assert_eq!(seen.header("indelible-operation-id"), Some(id.to_string().as_str()));

    let peer = Peer::start(lossy()).await;
    peer.client().ledger().transact(&operations()).await.unwrap();
    let seen = thrice(&peer);
    seen.header("indelible-operation-id").unwrap().parse::<OperationId>().unwrap();

    let peer = Peer::start(lossy()).await;
    let vault = peer.client().vault("w");
    vault.transact(&operations()).sequence("till", 7).attempt(2).await.unwrap();
    let seen = thrice(&peer);
    let body = r#"{"client_id":"till","sequence":7,"attempt":2,"operations":"#;
    assert_eq!(seen.body, format!("{body}{text}}}"));
    assert_eq!(seen.header("idempotency-key"), None);
    assert_eq!(seen.header("indelible-operation-id"), None);
}

#[track_caller]
fn thrice(peer: &Peer) -> crate::support::Seen {
    let seen = peer.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|request| request == &seen[0]), "{seen:?}");
    seen[0].clone()
}

/// A refusal of an operation is the answer, also when an earlier attempt got none: it was given after
/// the name was looked up. What waits for a person is not waited for.
#[tokio::test]
async fn refusals_are_answers() {
    for code in [Code::BelowMin, Code::SequenceGap, Code::SequenceMismatch] {
        let peer = Peer::start(vec![Act::DropAfter, refuse(code)]).await;
        let error = peer.client().ledger().transact(&operations()).await.unwrap_err();
        let Error::Refused(problem) = error else { panic!("{error:?}") };
        assert_eq!((problem.code, peer.seen().len()), (code, 2));
    }
    let peer = Peer::start(vec![refuse(Code::OnHold), committed()]).await;
    let error = peer.client().ledger().transact(&operations()).await.unwrap_err();
    let Error::Transport(lost) = error else { panic!("{error:?}") };
    assert!(!lost.may_have_arrived);
    assert_eq!(peer.seen().len(), 1);
    let peer = Peer::start(Vec::new()).await;
    let numbered = peer.client().ledger().transact(&operations()).sequence("c", 7);
    let Error::Transport(lost) = numbered.await.unwrap_err() else { panic!() };
    assert_eq!(lost.identity, Some(Identity::Sequence { client_id: "c".into(), sequence: 7 }));
}

fn entry(height: u64) -> Value {
    json!({
        "transaction": {
            "height": height, "id": INCARNATION, "time": TIME, "actor": "client:app",
            "origin": {"key": "k"}, "kind": "single",
            "writes": [[{"get": {"key": "a"}}]], "before": [], "state_hash": HASH, "head": HASH,
        },
        "results": [{"got": {"entity": null}}],
    })
}

/// What is read, where it is asked for, and that it is read.
#[tokio::test]
async fn what_is_read() {
    let vault = json!({
        "vault": "w", "namespace": "shop", "incarnation": INCARNATION, "height": 3, "time": TIME,
        "head": HASH, "state_hash": HASH, "created_at": TIME, "log_from": 0, "restores": 0,
    });
    let state = json!({"height": 3, "time": TIME, "head": HASH, "state_hash": HASH});
    let stream = json!({
        "client_id": "c", "restores": 0, "last_committed_sequence": 0, "next_attempt": 1,
    });
    let peer = Peer::start(vec![
        answer(201, &vault),
        answer(200, &json!({"vaults": [vault], "next": "w"})),
        answer(200, &json!({"vaults": []})),
        answer(200, &vault),
        answer(200, &state),
        answer(200, &json!({"height": 3, "key": "a/b", "entity": null})),
        answer(200, &json!({"height": 3, "entities": []})),
        answer(200, &json!({"height": 3, "versions": [], "next": 2})),
        answer(200, &json!({"height": 3, "versions": []})),
        answer(200, &json!({"height": 3, "transactions": [entry(2)]})),
        answer(200, &entry(2)),
        answer(200, &stream),
        answer(200, &json!({})),
        answer(200, &json!({"name_free_at": TIME})),
        raw(200, "content-type: application/jsonl\r\n", "{}\n"),
        answer(200, &json!({})),
    ])
    .await;
    let client = peer.client().in_namespace("shop").unwrap();
    let settings = VaultSettings { log_retention_seconds: Some(9) };
    assert_eq!(client.put_vault("w", &settings).await.unwrap().height, 3);
    let mut vaults = client.vaults().unwrap();
    assert_eq!(vaults.next().await.unwrap().unwrap().vaults.len(), 1);
    vaults.next().await.unwrap().unwrap();
    client.vault_info("w").await.unwrap();
    let ledger = client.vault("w");
    assert_eq!(ledger.state(Some(3)).await.unwrap().height, 3);
    assert!(ledger.entity("a/b", None).await.unwrap().entity.is_none());
    ledger.entities("a", Some(2)).unwrap().limit(5).next().await.unwrap().unwrap();
    let mut history = ledger.history("a").unwrap();
    history.next().await.unwrap().unwrap();
    history.next().await.unwrap().unwrap();
    ledger.transactions(2).unwrap().next().await.unwrap().unwrap();
    assert_eq!(ledger.transaction(2).await.unwrap().transaction.height, 2);
    assert_eq!(ledger.client_state("c", Some(4)).await.unwrap().next_attempt, Some(1));
    ledger.hand_over("c", "client:new", "rotated").await.unwrap();
    client.delete_vault("w", Some(INCARNATION), "it is over").await.unwrap();
    let mut export = ledger.export().await.unwrap();
    assert_eq!(export.next().await.unwrap().unwrap(), "{}\n");
    assert!(export.next().await.unwrap().is_none());
    assert!(matches!(ledger.export().await.unwrap_err(), Error::Malformed(_)));
    let seen = peer.seen();
    let asked: Vec<_> =
        seen.iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect();
    let expected = [
        "PUT /v1/vaults/w?namespace=shop",
        "GET /v1/vaults?namespace=shop",
        "GET /v1/vaults?namespace=shop&after=w",
        "GET /v1/vaults/w?namespace=shop",
        "GET /v1/vaults/w/state?at=3&namespace=shop",
        "GET /v1/vaults/w/entities/a%2Fb?namespace=shop",
        "GET /v1/vaults/w/entities?at=2&prefix=a&namespace=shop&limit=5",
        "GET /v1/vaults/w/entities/a/history?namespace=shop",
        "GET /v1/vaults/w/entities/a/history?namespace=shop&before=2",
        "GET /v1/vaults/w/transactions?namespace=shop&from=2",
        "GET /v1/vaults/w/transactions/2?namespace=shop",
        "GET /v1/vaults/w/clients/c?sequence=4&namespace=shop",
        "PUT /v1/vaults/w/clients/c/owner?namespace=shop",
        &format!("DELETE /v1/vaults/w?incarnation={INCARNATION}&reason=it+is+over&namespace=shop"),
        "GET /v1/vaults/w/export?namespace=shop",
        "GET /v1/vaults/w/export?namespace=shop",
    ];
    assert_eq!(asked, expected);
    assert_eq!(seen[0].body, r#"{"log_retention_seconds":9}"#);
    assert_eq!(seen[12].body, r#"{"owner":"client:new","reason":"rotated"}"#);
}

/// A watch that breaks goes on above the last height that was seen; a transaction that is missing, or
/// comes twice, is not passed on.
#[tokio::test]
async fn a_watch_goes_on() {
    let event =
        |height: u64| format!("id: {height}\nevent: transaction\ndata: {}\n\n", entry(height));
    let stream = |text: String| {
        let head =
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
        Act::Write(format!("{head}{text}").into_bytes())
    };
    let cut = event(5);
    let peer = Peer::start(vec![
        stream(format!("{}{}", event(4), &cut[..cut.len() / 2])),
        Act::DropAfter,
        stream(event(5)),
        stream(event(7)),
    ])
    .await;
    let mut watch = peer.client().vault("w").watch(3).unwrap();
    for height in [4, 5] {
        assert_eq!(watch.next().await.unwrap().unwrap().transaction.height, height);
        assert_eq!(watch.height(), height);
    }
    let error = watch.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Malformed(_)), "{error:?}");
    let seen = peer.seen();
    let from: Vec<_> = seen.iter().map(|seen| seen.header("last-event-id").unwrap()).collect();
    assert_eq!(from, ["3", "4", "4", "5"]);
    assert!(seen.iter().all(|seen| seen.target == "/v1/vaults/w/events"));
}
