//! A server of one vault in memory: it stores what the ledger says is to be stored, in one commit, and
//! can be killed after any.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use indelible_journal::{Namespace, Payload, Timestamp};
use indelible_ledger::{
    Actor, Amount, Answer, Applied, Attempt, ClientId, Condition, Content, Context, Entity,
    EntityKey, Incarnation, Limits, Operation, Reads, Receipt, Record, Request, RestoreCount, Run,
    Scope, Sequence, SequenceReads, Stream, TransactionId, Unit, Vault, VaultName, write,
};

pub(crate) fn scope() -> Scope {
    let vault = Some(VaultName::new("wallets").unwrap());
    Scope { namespace: Namespace::new("shop").unwrap(), vault }
}

pub(crate) fn incarnation() -> Incarnation {
    Incarnation::from_bytes([7; 16])
}

pub(crate) fn key(text: &str) -> EntityKey {
    EntityKey::new(text).unwrap()
}

pub(crate) fn client(text: &str) -> ClientId {
    ClientId::new(text).unwrap()
}

pub(crate) fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

pub(crate) fn attempt(number: u32) -> Option<Attempt> {
    Attempt::new(number).ok()
}

pub(crate) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

pub(crate) fn json(text: &str) -> Content {
    Content::value(Payload::json(text.to_owned()))
}

pub(crate) fn euro(quantity: i128) -> Content {
    Content::amount(quantity, unit("EUR"))
}

pub(crate) fn unit(text: &str) -> Unit {
    Unit::new(text).unwrap()
}

pub(crate) fn set(under: &str, content: Content) -> Operation {
    Operation::Set { key: key(under), content, expires_at: None, condition: None }
}

pub(crate) fn set_if(under: &str, content: Content, condition: Condition) -> Operation {
    Operation::Set { key: key(under), content, expires_at: None, condition: Some(condition) }
}

pub(crate) fn add(to: &str, delta: i128) -> Operation {
    let (unit, min, max, condition) = (None, None, None, None);
    Operation::Add { key: key(to), delta, unit, min, max, condition }
}

pub(crate) fn check(of: &str, condition: Condition) -> Operation {
    Operation::Check { key: key(of), condition }
}

pub(crate) fn get(of: &str) -> Operation {
    Operation::Get { key: key(of) }
}

pub(crate) fn delete(of: &str) -> Operation {
    Operation::Delete { key: key(of), condition: None }
}

pub(crate) fn transfer(from: &str, to: &str, quantity: i128) -> Operation {
    let (from, to, unit, min, max) = (key(from), key(to), None, Some(0), None);
    Operation::Transfer { from, to, quantity, unit, min, max }
}

pub(crate) fn single(operations: Vec<Operation>) -> Request {
    Request::single(operations, &Limits::DEFAULT).unwrap()
}

pub(crate) fn batch(writes: Vec<Vec<Operation>>) -> Request {
    Request::batch(writes, &Limits::DEFAULT).unwrap()
}

/// The entities of a vault, as rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entities(pub(crate) BTreeMap<EntityKey, Entity>);

impl Entities {
    pub(crate) fn store(&mut self, applied: &Applied) {
        for change in &applied.changes {
            let before = self.0.get(&change.key).map(Entity::summary);
            assert_eq!(before, change.before);
            match &change.after {
                Some(entity) => self.0.insert(change.key.clone(), entity.clone()),
                None => self.0.remove(&change.key),
            };
        }
    }
}

impl Reads for Entities {
    type Error = Infallible;

    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, Infallible> {
        Ok(self.0.get(key).cloned())
    }
}

/// Everything that is stored.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) vault: Vault,
    pub(crate) entities: Entities,
    pub(crate) streams: BTreeMap<ClientId, Stream>,
    pub(crate) receipts: BTreeMap<(ClientId, Sequence), Arc<Receipt>>,
    /// Answers that a kill forgets.
    pub(crate) cached: BTreeMap<(ClientId, Sequence), Arc<Receipt>>,
    pub(crate) log: Vec<Record>,
    pub(crate) restores: RestoreCount,
    pub(crate) now: Timestamp,
    pub(crate) ids: u128,
}

struct Stored<'a>(&'a Server, &'a ClientId);

impl Reads for Stored<'_> {
    type Error = Infallible;

    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, Infallible> {
        Ok(self.0.entities.0.get(key).cloned())
    }
}

impl SequenceReads for Stored<'_> {
    fn cached(&mut self, sequence: Sequence) -> Option<Arc<Receipt>> {
        self.0.cached.get(&(self.1.clone(), sequence)).cloned()
    }

    fn receipt(&mut self, sequence: Sequence) -> Result<Option<Arc<Receipt>>, Infallible> {
        Ok(self.0.receipts.get(&(self.1.clone(), sequence)).cloned())
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            vault: Vault::new(&scope(), incarnation()),
            entities: Entities::default(),
            streams: BTreeMap::new(),
            receipts: BTreeMap::new(),
            cached: BTreeMap::new(),
            log: Vec::new(),
            restores: RestoreCount::default(),
            now: at(1_000_000),
            ids: 0,
        }
    }

    /// The rows stay; what was in memory only is gone.
    pub(crate) fn kill(&mut self) {
        self.cached.clear();
    }

    pub(crate) fn stream(&self, of: &str) -> Option<&Stream> {
        self.streams.get(&client(of))
    }

    /// Carries out a run, and stores exactly what it says, before its answers are known.
    pub(crate) fn run_as(&mut self, actor: &str, run: Run) -> Vec<Answer> {
        let actor = Actor::new(actor);
        let of = run.client().clone();
        let mut vault = self.vault.clone();
        let mut stream = self.streams.get(&of).cloned();
        let mut ids = self.ids;
        let mint = || {
            ids += 1;
            TransactionId::from_bytes(ids.to_be_bytes())
        };
        let limits = Limits::DEFAULT;
        let context =
            Context { now: self.now, actor: &actor, restores: self.restores, limits: &limits };
        let reads = &mut Stored(self, &of);
        let written = write(&mut vault, &mut stream, run, mint, &context, reads).unwrap();
        self.ids = ids;
        self.vault = vault;
        if written.stream_changed {
            self.streams.insert(of.clone(), stream.expect("it has changed"));
        } else {
            assert_eq!(self.streams.get(&of), stream.as_ref(), "what changed is to be stored");
        }
        for applied in &written.applied {
            self.entities.store(applied);
            let origin = &applied.record.transaction.origin;
            let indelible_ledger::Origin::Client { sequence, .. } = origin else {
                panic!("a client's number");
            };
            self.receipts.insert((of.clone(), *sequence), applied.receipt.clone());
            self.cached.insert((of.clone(), *sequence), applied.receipt.clone());
            self.log.push(applied.record.clone());
        }
        written.answers
    }

    pub(crate) fn run(
        &mut self,
        of: &str,
        tried: Option<Attempt>,
        writes: Vec<(u64, Request)>,
    ) -> Vec<Answer> {
        let writes = writes.into_iter().map(|(number, request)| (sequence(number), request));
        let run = Run::new(client(of), tried, writes.collect(), &Limits::DEFAULT).unwrap();
        self.run_as("client:app", run)
    }

    pub(crate) fn send(
        &mut self,
        of: &str,
        number: u64,
        tried: Option<Attempt>,
        request: &Request,
    ) -> Answer {
        self.run(of, tried, vec![(number, request.clone())]).remove(0)
    }

    pub(crate) fn balance(&self, of: &str) -> Option<i128> {
        match &self.entities.0.get(&key(of))?.content {
            Content::Amount(Amount { quantity, .. }) => Some(*quantity),
            Content::Value(_) => None,
        }
    }
}
