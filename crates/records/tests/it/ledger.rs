//! The ledger's rows: what is stored reads back, and a byte that changes, or a row that is missing, is
//! found.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use indelible_idempotency::RequestHash;
use indelible_journal::{Micros, Namespace, OperationId};
use indelible_ledger::{
    Actor, Answer, Attempt, ClientId, Context, Entity, EntityKey, Height, Incarnation, Limits,
    Origin, OriginId, Proposal, Reads, Receipt, Request, RestoreCount, Run, Scope, Sequence,
    SequenceReads, Stream, TransactionId, Vault, VaultName, json,
};
use indelible_records::ledger::{
    self, LiveScope, LogEntry, ScopeRow, StoredOrigin, WriteName, put_log,
};
use indelible_records::{
    LEDGER_ENTITIES, LEDGER_HISTORY, LEDGER_LOG, LEDGER_ORIGINS, LEDGER_SCOPES, TABLES, check,
};
use indelible_slots::of_vault;
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, Scan, Store};
use indelible_test_store::rows::at;
use uuid::Uuid;

pub(crate) fn scope() -> Scope {
    let vault = Some(VaultName::new("wallets").unwrap());
    Scope { namespace: Namespace::new("shop").unwrap(), vault }
}

fn incarnation() -> Incarnation {
    let uuid = Uuid::from_u128(0x0198_c0de_0000_7000_8000_0000_0000_0001);
    Incarnation::new(of_vault("shop", "wallets").stamp_uuid(uuid))
}

#[derive(Default)]
struct Entities(BTreeMap<EntityKey, Entity>);

impl Reads for Entities {
    type Error = std::convert::Infallible;

    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, Self::Error> {
        Ok(self.0.get(key).cloned())
    }
}

impl SequenceReads for Entities {
    fn cached(&mut self, _: Sequence) -> Option<Arc<Receipt>> {
        None
    }

    fn receipt(&mut self, _: Sequence) -> Result<Option<Arc<Receipt>>, Self::Error> {
        Ok(None)
    }
}

fn request(operations: &str) -> Request {
    let operations: Vec<json::Operation> = serde_json::from_str(operations).unwrap();
    let operations = operations.into_iter().map(|operation| operation.read().unwrap()).collect();
    Request::single(operations, &Limits::DEFAULT).unwrap()
}

/// What a vault leaves in the store.
pub(crate) struct Filled {
    entries: Vec<LogEntry>,
    entities: BTreeMap<EntityKey, Entity>,
    live: LiveScope,
    streams: Vec<(ClientId, Stream)>,
    named: Vec<(WriteName, StoredOrigin)>,
}

/// A vault with a transaction of every origin that a door has, every operation, every result, and a
/// client's stream of every kind.
pub(crate) fn fill(batch: &mut Batch) -> Filled {
    let id = incarnation();
    let mut vault = Vault::new(&scope(), id);
    let mut reads = Entities::default();
    let mut filled = Filled {
        entries: Vec::new(),
        entities: BTreeMap::new(),
        live: LiveScope {
            vault: vault.clone(),
            created_at: at(1),
            log_from: Height::ZERO,
            log_retention: Some(Micros::from_secs(1_000_000)),
            compacts_at: Some(at(99)),
        },
        streams: Vec::new(),
        named: Vec::new(),
    };
    let actor = Actor::new("client:app");
    let mut next = 0;
    let mut mint = || {
        next += 1;
        TransactionId::new(Uuid::from_u128(next))
    };
    let writes = [
        r#"[{"set":{"key":"größe","to":{"value":{"codec":"json","value":{"a":[1]}}},"expires_at":"2026-01-02T03:04:05Z"}},
            {"add":{"key":"alice","delta":"9","unit":"EUR"}},{"add":{"key":"bob","delta":"-9","unit":"EUR","min":"-10"}}]"#,
        r#"[{"get":{"key":"größe"}},{"get":{"key":"none"}},{"check":{"key":"none","condition":"absent"}},
            {"transfer":{"from":"alice","to":"bob","quantity":"4","min":"0","max":"5"}},
            {"start":{"function":"shop/order","input":{"codec":"json","value":1}}}]"#,
        r#"[{"delete":{"key":"größe"}},{"delete":{"key":"none"}},
            {"set":{"key":"raw","to":{"value":{"codec":"raw","base64":"AP8="}}}}]"#,
    ];
    let restores = RestoreCount::new(2);
    let limits = Limits::DEFAULT;
    let context = Context { now: at(1_000), actor: &actor, restores, limits: &limits };
    let number = |number| Sequence::new(number).unwrap();
    let attempt = Attempt::new(7).ok();
    let client = ClientId::new("app-1").unwrap();
    let mut stream = None;
    let run: Vec<_> = writes
        .iter()
        .enumerate()
        .map(|(at, write)| (number(at as u64 + 1), request(write)))
        .collect();
    let run = Run::new(client.clone(), attempt, run, &limits).unwrap();
    let written =
        indelible_ledger::write(&mut vault, &mut stream, run, &mut mint, &context, &mut reads);
    let mut applied = written.unwrap().applied;
    assert_eq!(applied.len(), 3);
    for one in &applied {
        for change in &one.changes {
            match &change.after {
                Some(entity) => _ = reads.0.insert(change.key.clone(), entity.clone()),
                None => _ = reads.0.remove(&change.key),
            }
        }
    }
    // A refusal of every kind that a stream remembers.
    let broke = r#"[{"transfer":{"from":"alice","to":"bob","quantity":"400","min":"0"}}]"#;
    for (name, sequence, operations) in [
        ("app-1", 4, broke),
        (
            "app-2",
            1,
            r#"[{"set":{"key":"raw","to":{"amount":{"quantity":"1","unit":"x"}},"condition":"absent"}}]"#,
        ),
        ("app-3", 5, broke),
    ] {
        let client = ClientId::new(name).unwrap();
        let mut own = (name == "app-1").then(|| stream.clone()).flatten();
        let run =
            Run::one(client.clone(), number(sequence), Attempt::new(8).ok(), request(operations));
        let written =
            indelible_ledger::write(&mut vault, &mut own, run, &mut mint, &context, &mut reads);
        assert!(written.unwrap().stream_changed);
        filled.streams.push((client, own.unwrap()));
    }
    let key = WriteName::Key(OriginId::new("order 7 ✓").unwrap());
    let operation = WriteName::Operation(OperationId::new("op-1").unwrap());
    for (name, operations) in [
        (&key, r#"[{"add":{"key":"alice","delta":"1"}}]"#),
        (&operation, r#"[{"add":{"key":"bob","delta":"1"}}]"#),
    ] {
        let (id, origin, actor) = (mint(), name.origin(), actor.clone());
        let proposal = Proposal { id, origin, request: request(operations), actor };
        let indelible_ledger::Application::Applied(one) =
            vault.apply(proposal, at(1_000), &limits, &mut reads).unwrap()
        else {
            panic!("it is applied")
        };
        for change in &one.changes {
            reads.0.insert(change.key.clone(), change.after.clone().unwrap());
        }
        let height = one.record.transaction.height;
        filled.named.push((name.clone(), StoredOrigin::Committed(height)));
        applied.push(one);
    }
    let (_, stream) = &filled.streams[1];
    let Some(indelible_ledger::StreamRefusal::Condition(refusal)) =
        stream.refused.as_ref().map(|refused| refused.refusal.clone())
    else {
        panic!("a condition did not hold")
    };
    assert!(refusal.current_value.is_some());
    let refused = WriteName::Key(OriginId::new("refused").unwrap());
    let hash = RequestHash::from_bytes([3; 32]);
    filled.named.push((refused, StoredOrigin::Refused(hash, refusal)));

    batch.touch(of_vault("shop", "wallets"));
    for one in &applied {
        let height = one.record.transaction.height;
        put_log(batch, id, &one.record, &one.receipt);
        one.changes.iter().for_each(|change| ledger::change(batch, id, height, change));
        if let Origin::Client { client, sequence, .. } = &one.record.transaction.origin {
            ledger::put_sequence(batch, id, client, *sequence, Some(height));
        }
        let results = one.receipt.success.results.clone();
        filled.entries.push(LogEntry { record: one.record.clone(), results });
    }
    for (client, stream) in &filled.streams {
        ledger::put_stream(batch, id, client, stream);
    }
    for (name, led_to) in &filled.named {
        ledger::put_origin(batch, id, name, at(1_000), Some(led_to));
    }
    filled.live.vault = vault;
    filled.entities = reads.0;
    ledger::put_scope(batch, &scope(), &ScopeRow::Live(Box::new(filled.live.clone())));
    let gone = Scope { vault: Some(VaultName::new("gone").unwrap()), ..scope() };
    let deleted = ScopeRow::Deleted { incarnation: id, free_at: at(5_000) };
    batch.touch(of_vault("shop", "gone"));
    ledger::put_scope(batch, &gone, &deleted);
    filled
}

/// What was stored is there.
pub(crate) fn assert_filled(store: &Store, filled: &Filled) {
    let id = incarnation();
    let row = ledger::scope(store, &scope()).unwrap().value;
    assert_eq!(row, Some(ScopeRow::Live(Box::new(filled.live.clone()))));
    let log = ledger::log_entries(store, id, Height::new(1), 100).unwrap().value;
    assert_eq!(log, filled.entries);
    let (entities, _) = ledger::entities(store, id, "", None, 100).unwrap().value;
    assert_eq!(entities, filled.entities.clone().into_iter().collect::<Vec<_>>());
    for (client, stream) in &filled.streams {
        assert_eq!(ledger::stream(store, id, client).unwrap().value.as_ref(), Some(stream));
    }
    for (name, led_to) in &filled.named {
        assert_eq!(ledger::origin(store, id, name).unwrap().value.as_ref(), Some(led_to));
    }
    let client = ClientId::new("app-1").unwrap();
    let height = ledger::sequence(store, id, &client, Sequence::new(2).unwrap()).unwrap().value;
    assert_eq!(height, Some(Height::new(2)));
    let receipt = filled.entries[1].receipt();
    let answer = Answer::PriorResult(receipt.clone());
    assert!(answer.is_success());
    assert_eq!(receipt.hash, filled.entries[1].record.transaction.request.hash());
}

fn store() -> (Store, Filled) {
    let store = Store::start(Arc::new(MemoryBackend::new()), &TABLES, Bounds::DEFAULT).unwrap();
    let mut batch = Batch::in_slots(indelible_slots::SlotSet::empty());
    let filled = fill(&mut batch);
    commit(&store, batch);
    (store, filled)
}

fn commit(store: &Store, batch: Batch) {
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
}

fn problems(store: &Store) -> u64 {
    check::check(store, &mut |_| {}).unwrap().problems_count
}

/// D12, D13: rows read back as what they were, each in the slot of its vault; a bit that flips in any
/// of them, and a row of the log, of an entity or of a name that is missing, is a problem.
#[test]
fn what_is_stored_reads_back_and_is_checked() {
    let (store, filled) = store();
    assert_filled(&store, &filled);
    assert_eq!(check::check(&store, &mut |_| {}).unwrap().problems, []);
    for table in [LEDGER_SCOPES, LEDGER_ENTITIES, LEDGER_HISTORY, LEDGER_LOG, LEDGER_ORIGINS] {
        let rows = store.scan(&Scan::all(table, 100)).unwrap().value.rows;
        assert!(!rows.is_empty());
        for (key, value) in rows {
            let mut changes: Vec<Option<Bytes>> = (0..value.len().min(24))
                .map(|step| {
                    let at = step * value.len() / value.len().min(24);
                    let mut flipped = value.to_vec();
                    flipped[at] ^= 1 << (at % 8);
                    Some(flipped.into())
                })
                .collect();
            if [LEDGER_LOG, LEDGER_ENTITIES].contains(&table) {
                changes.push(None);
            }
            for change in changes {
                let mut batch = Batch::new();
                match &change {
                    Some(flipped) => batch.put(table, key.clone(), flipped.clone()),
                    None => batch.delete(table, key.clone()),
                };
                commit(&store, batch);
                assert!(problems(&store) > 0, "{} {key:?} {change:?}", table.name());
                let mut batch = Batch::new();
                batch.put(table, key.clone(), value.clone());
                commit(&store, batch);
            }
        }
    }
    assert_eq!(problems(&store), 0);
    // What the log leads to is missing.
    let client = ClientId::new("app-1").unwrap();
    let mut batch = Batch::new();
    ledger::put_sequence(&mut batch, incarnation(), &client, Sequence::new(2).unwrap(), None);
    commit(&store, batch);
    assert!(problems(&store) > 0);
}

/// A vault's rows go piece by piece, and those of no other incarnation.
#[test]
fn a_vault_is_purged() {
    let (store, _) = store();
    let other = Incarnation::from_bytes([9; 16]);
    let mut batch = Batch::new();
    assert!(!ledger::purge(&store, &mut batch, other, 100).unwrap());
    assert!(batch.writes().is_empty());
    for round in 0.. {
        let mut batch = Batch::new();
        let more = ledger::purge(&store, &mut batch, incarnation(), 4).unwrap();
        assert!(batch.writes().len() <= 4);
        commit(&store, batch);
        if !more {
            assert!(round > 3);
            break;
        }
    }
    for table in [LEDGER_ENTITIES, LEDGER_HISTORY, LEDGER_LOG, LEDGER_ORIGINS] {
        assert_eq!(store.scan(&Scan::all(table, 100)).unwrap().value.rows, [], "{}", table.name());
    }
}
