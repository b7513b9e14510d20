//! What a transaction costs without a store: the state hash alone, a transfer, a client's write.
//! `apply` finds its entities in a map, so what it leaves out is reading and writing rows.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use indelible_journal::{Namespace, Payload, Timestamp};
use indelible_ledger::proof::LtHash;
use indelible_ledger::{
    Actor, Application, ClientId, Content, Context, Entity, EntityKey, Height, Incarnation, Limits,
    Operation, Origin, Proposal, Reads, Receipt, Request, RestoreCount, Run, Scope, Sequence,
    SequenceReads, Stream, TransactionId, Unit, Vault, write,
};

struct Rows(BTreeMap<EntityKey, Entity>);

impl Reads for Rows {
    type Error = Infallible;

    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, Infallible> {
        Ok(self.0.get(key).cloned())
    }
}

impl SequenceReads for Rows {
    fn cached(&mut self, _: Sequence) -> Option<Arc<Receipt>> {
        None
    }

    fn receipt(&mut self, _: Sequence) -> Result<Option<Arc<Receipt>>, Infallible> {
        Ok(None)
    }
}

fn key(text: &str) -> EntityKey {
    EntityKey::new(text).expect("it is a key")
}

fn account(quantity: i128) -> Entity {
    let unit = Unit::new("EUR").expect("it is a unit");
    let content = Content::amount(quantity, unit);
    Entity { content, version: Height::new(1), expires_at: None }
}

fn vault() -> Vault {
    let namespace = Namespace::new("bench").expect("it is a name");
    Vault::new(&Scope { namespace, vault: None }, Incarnation::from_bytes([1; 16]))
}

fn rows() -> Rows {
    let names = (0..1_000).map(|n| (key(&format!("account-{n}")), account(1 << 60)));
    Rows(names.collect())
}

fn transfer() -> Operation {
    let (from, to, unit, min, max) = (key("account-1"), key("account-2"), None, Some(0), None);
    Operation::Transfer { from, to, quantity: 1, unit, min, max }
}

fn ledger(criterion: &mut Criterion) {
    let limits = Limits::DEFAULT;
    let (of, summary) = (key("account-1"), account(7).summary());
    let mut state = LtHash::default();
    criterion.bench_function("state hash: add", |bench| {
        bench.iter(|| state.add(black_box(&of), black_box(&summary)));
    });
    criterion.bench_function("state hash: digest", |bench| bench.iter(|| state.digest()));

    criterion.bench_function("request: a transfer, checked and hashed", |bench| {
        bench.iter(|| Request::single(vec![transfer()], &limits).expect("it is within bounds"));
    });
    let value = Content::value(Payload::json(r#"{"name":"Ada","address":{"city":"Zürich"}}"#));
    criterion.bench_function("request: a small value, checked and hashed", |bench| {
        bench.iter(|| {
            let (key, content) = (of.clone(), value.clone());
            let set = Operation::Set { key, content, expires_at: None, condition: None };
            Request::single(vec![set], &limits).expect("it is within bounds")
        });
    });

    let request = Request::single(vec![transfer()], &limits).expect("it is within bounds");
    let actor = Actor::new("client:bench");
    let (mut head, mut stored) = (vault(), rows());
    criterion.bench_function("apply: a transfer", |bench| {
        bench.iter(|| {
            let proposal = Proposal {
                id: TransactionId::from_bytes([1; 16]),
                origin: Origin::Expiry,
                request: request.clone(),
                actor: actor.clone(),
            };
            match head.apply(proposal, Timestamp::EPOCH, &limits, &mut stored) {
                Ok(Application::Applied(applied)) => applied,
                other => panic!("{other:?}"),
            }
        });
    });

    let client = ClientId::new("bench").expect("it is a client id");
    let context = Context {
        now: Timestamp::EPOCH,
        actor: &actor,
        restores: RestoreCount::default(),
        limits: &limits,
    };
    let mut stream: Option<Stream> = None;
    criterion.bench_function("write: a run of ten transfers", |bench| {
        bench.iter(|| {
            let next = stream.as_ref().map_or(0, Stream::last_sequence) + 1;
            let numbered = (next..next + 10)
                .map(|number| (Sequence::new(number).expect("from 1"), request.clone()));
            let run = Run::new(client.clone(), None, numbered.collect(), &limits)
                .expect("they are consecutive");
            let mint = || TransactionId::from_bytes([1; 16]);
            write(&mut head, &mut stream, run, mint, &context, &mut stored)
        });
    });
}

criterion_group!(benches, ledger);
criterion_main!(benches);
