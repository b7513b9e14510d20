//! The bytes of every format, as they are for ever. `docs/formats/ledger.md` describes them; the
//! program in `vectors/` computed the hashes on its own from that description.

use indelible_journal::{Codec, FunctionName, OperationId, Payload, PromiseId};
use indelible_ledger::proof::{Checkpoint, canonical_bytes, genesis, next_head};
use indelible_ledger::{
    Actor, Amount, Condition, Content, ContentSummary, EntityKey, EntitySummary, Height, Operation,
    Origin, OriginId, Request, Scope, StateHash, Transaction, TransactionId, ValueHash,
};
use serde::Deserialize;

use crate::support::{
    at, attempt, batch, check, client, delete, euro, get, incarnation, json, key, scope, sequence,
    set, set_if, single, unit,
};

/// One of each operation, with everything that it can have.
pub(crate) fn every_operation() -> Vec<Operation> {
    let raw = Content::value(Payload::new(Codec::RAW, vec![0, 255]));
    vec![
        set("a", json(r#"{"x":1}"#)),
        set("a", raw.clone()),
        set("a", euro(-5)),
        Operation::Set {
            key: key("é\"\\"),
            content: json("{\n}"),
            expires_at: Some(at(1_700_000_000_000_001)),
            condition: Some(Condition::Absent),
        },
        set_if("a", euro(1), Condition::Content(euro(i128::MIN))),
        set_if("a", euro(1), Condition::Content(raw)),
        delete("a"),
        Operation::Delete { key: key("a"), condition: Some(Condition::Version(Height::new(3))) },
        check("a", Condition::Present),
        check("a", Condition::Hash(ValueHash::of(b"1"))),
        get("a"),
        Operation::Add {
            key: key("a"),
            delta: i128::MAX,
            unit: Some(unit("EUR")),
            min: Some(-1),
            max: Some(0),
            condition: Some(Condition::Present),
        },
        Operation::Add {
            key: key("a"),
            delta: 1,
            unit: None,
            min: None,
            max: None,
            condition: None,
        },
        Operation::Transfer {
            from: key("a"),
            to: key("b"),
            quantity: 2,
            unit: Some(unit("EUR")),
            min: Some(0),
            max: Some(9),
        },
        Operation::Start {
            function: FunctionName::new("ship").unwrap(),
            input: Payload::json("{}"),
        },
    ]
}

/// One of each kind of entity.
pub(crate) fn summaries() -> Vec<(EntityKey, EntitySummary)> {
    let value = ContentSummary::Value { codec: Codec::JSON, hash: ValueHash::of(b"1") };
    let amount = |quantity| ContentSummary::Amount(Amount { quantity, unit: unit("EUR") });
    let summary = |version, expires_at: Option<u64>, content| EntitySummary {
        version: Height::new(version),
        expires_at: expires_at.map(at),
        content,
    };
    vec![
        (key("a"), summary(1, None, value.clone())),
        (key("é"), summary(2, Some(1_000_000), value)),
        (key("cash"), summary(3, None, amount(-5))),
    ]
}

fn transaction(height: u64, origin: Origin, request: Request) -> Transaction {
    Transaction {
        id: TransactionId::from_bytes([3; 16]),
        height: Height::new(height),
        time: at(1_700_000_000_000_000),
        origin,
        request,
        actor: Actor::new("client:app"),
    }
}

fn origin(text: &str) -> OriginId {
    OriginId::new(text).unwrap()
}

/// One of each origin; between them they have every operation, as single writes and as a batch.
pub(crate) fn every_transaction() -> Vec<Transaction> {
    let promise: PromiseId = format!("{}.0.2", "ab".repeat(32)).parse().unwrap();
    let all = every_operation();
    vec![
        transaction(
            1,
            Origin::Client { client: client("c"), sequence: sequence(9), attempt: attempt(2) },
            single(vec![get("a")]),
        ),
        transaction(
            2,
            Origin::Client { client: client("c"), sequence: sequence(u64::MAX), attempt: None },
            batch(vec![vec![get("a")], vec![get("b"), get("c")]]),
        ),
        transaction(3, Origin::Key(origin("key-1")), single(all)),
        transaction(4, Origin::Operation(OperationId::new("op").unwrap()), single(vec![get("a")])),
        transaction(5, Origin::Promise(promise), single(vec![get("a")])),
        transaction(
            6,
            Origin::Message { source: origin("shop"), id: origin("msg_1") },
            single(vec![get("a")]),
        ),
        transaction(7, Origin::Expiry, single(vec![delete("a")])),
    ]
}

#[derive(Deserialize)]
struct Vectors {
    genesis: String,
    genesis_of_namespace: String,
    transactions: Vec<String>,
    heads: Vec<String>,
    checkpoint: String,
    request_hashes: Vec<String>,
}

/// D12: the canonical bytes of each origin and each operation, and the chain over them.
#[test]
fn golden_bytes() {
    let vectors: Vectors = serde_json::from_str(include_str!("../../vectors/chain.json")).unwrap();
    let mut head = genesis(&scope(), incarnation());
    assert_eq!(head.to_string(), vectors.genesis);
    let namespace = Scope { vault: None, ..scope() };
    assert_eq!(genesis(&namespace, incarnation()).to_string(), vectors.genesis_of_namespace);
    let state_hash = StateHash::from_bytes([5; 32]);
    let transactions = every_transaction();
    assert_eq!(transactions.len(), vectors.transactions.len());
    for (at, transaction) in transactions.iter().enumerate() {
        let bytes = canonical_bytes(incarnation(), transaction);
        let hex = data_encoding::HEXLOWER.encode(&bytes);
        assert_eq!(hex, vectors.transactions[at], "{:?}", transaction.origin);
        head = next_head(head, incarnation(), transaction, state_hash);
        assert_eq!(head.to_string(), vectors.heads[at]);
        let hash = transaction.request.hash().to_string();
        assert_eq!(hash, vectors.request_hashes[at], "{:?}", transaction.origin);
    }
    let height = Height::new(7);
    let checkpoint =
        Checkpoint { scope: scope(), incarnation: incarnation(), height, head, state_hash };
    assert_eq!(checkpoint.digest().to_string(), vectors.checkpoint);
}
