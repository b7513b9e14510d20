//! The bytes that are hashed. Integers are low byte first; texts have their length before them, in 32
//! bits; each choice has a number before it. So no bytes have two readings.

use indelible_journal::{Codec, Payload};

use crate::hashes::ValueHash;
use crate::names::{EntityKey, Scope, Unit};
use crate::numbers::{Attempt, Incarnation};
use crate::operation::{Condition, Operation};
use crate::proof::Checkpoint;
use crate::request::Kind;
use crate::transaction::{Origin, Transaction};
use crate::value::{Amount, Content, ContentSummary, EntitySummary};

const GENESIS: &[u8] = b"indelible.ledger.genesis.v1";
const CHECKPOINT: &[u8] = b"indelible.ledger.checkpoint.v1";
const ENTITY: &[u8] = b"indelible.ledger.entity.v1";
const TRANSACTION_VERSION: u8 = 1;

pub(super) fn genesis(scope: &Scope, incarnation: Incarnation) -> Vec<u8> {
    let mut out = Encoder::new(GENESIS);
    out.scope(scope);
    out.raw(incarnation.as_bytes());
    out.0
}

pub(super) fn checkpoint(checkpoint: &Checkpoint) -> Vec<u8> {
    let mut out = Encoder::new(CHECKPOINT);
    out.scope(&checkpoint.scope);
    out.raw(checkpoint.incarnation.as_bytes());
    out.u64(checkpoint.height.get());
    out.raw(checkpoint.head.as_bytes());
    out.raw(checkpoint.state_hash.as_bytes());
    out.0
}

/// The element of the state hash that an entity is.
pub(super) fn entity(key: &EntityKey, entity: &EntitySummary) -> Vec<u8> {
    let mut out = Encoder::new(ENTITY);
    out.text(key.as_str());
    out.u64(entity.version.get());
    out.option(entity.expires_at, |out, at| out.u64(at.as_micros()));
    out.content(&entity.content);
    out.0
}

pub(super) fn transaction(incarnation: Incarnation, transaction: &Transaction) -> Vec<u8> {
    let mut out = Encoder(Vec::with_capacity(256));
    out.u8(TRANSACTION_VERSION);
    out.raw(incarnation.as_bytes());
    out.u64(transaction.height.get());
    out.raw(transaction.id.as_bytes());
    out.u64(transaction.time.as_micros());
    out.text(transaction.actor.as_str());
    out.origin(&transaction.origin);
    let request = &transaction.request;
    out.u8(match request.kind() {
        Kind::Single => 1,
        Kind::Batch => 2,
    });
    out.len(request.writes().count());
    for write in request.writes() {
        out.len(write.len());
        for operation in write {
            out.operation(operation);
        }
    }
    out.0
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn new(domain: &[u8]) -> Self {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(domain);
        Self(out)
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    fn u64(&mut self, number: u64) {
        self.raw(&number.to_le_bytes());
    }

    fn i128(&mut self, number: i128) {
        self.raw(&number.to_le_bytes());
    }

    fn len(&mut self, len: usize) {
        let len = u32::try_from(len).expect("a transaction is bounded far below");
        self.raw(&len.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.len(text.len());
        self.raw(text.as_bytes());
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn scope(&mut self, scope: &Scope) {
        self.text(scope.namespace.as_str());
        self.option(scope.vault.as_ref(), |out, vault| out.text(vault.as_str()));
    }

    fn origin(&mut self, origin: &Origin) {
        match origin {
            Origin::Client { client, sequence, attempt } => {
                self.u8(1);
                self.text(client.as_str());
                self.u64(sequence.get());
                self.raw(&attempt.map_or(0, Attempt::get).to_le_bytes());
            }
            Origin::Key(key) => {
                self.u8(2);
                self.text(key.as_str());
            }
            Origin::Operation(id) => {
                self.u8(3);
                self.text(id.as_str());
            }
            Origin::Promise(id) => {
                self.u8(4);
                self.text(&id.to_string());
            }
            Origin::Message { source, id } => {
                self.u8(5);
                self.text(source.as_str());
                self.text(id.as_str());
            }
            Origin::Expiry => self.u8(6),
        }
    }

    /// Number 8 is kept for `send`.
    fn operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Set { key, content, expires_at, condition } => {
                self.u8(1);
                self.text(key.as_str());
                self.content_of(content);
                self.option(*expires_at, |out, at| out.u64(at.as_micros()));
                self.condition(condition.as_ref());
            }
            Operation::Delete { key, condition } => {
                self.u8(2);
                self.text(key.as_str());
                self.condition(condition.as_ref());
            }
            Operation::Check { key, condition } => {
                self.u8(3);
                self.text(key.as_str());
                self.condition(Some(condition));
            }
            Operation::Get { key } => {
                self.u8(4);
                self.text(key.as_str());
            }
            Operation::Add { key, delta, unit, min, max, condition } => {
                self.u8(5);
                self.text(key.as_str());
                self.i128(*delta);
                self.bounds(unit.as_ref(), *min, *max);
                self.condition(condition.as_ref());
            }
            Operation::Transfer { from, to, quantity, unit, min, max } => {
                self.u8(6);
                self.text(from.as_str());
                self.text(to.as_str());
                self.i128(*quantity);
                self.bounds(unit.as_ref(), *min, *max);
            }
            Operation::Start { function, input: Payload { codec, bytes } } => {
                self.u8(7);
                self.text(function.as_str());
                self.value(*codec, ValueHash::of(bytes));
            }
        }
    }

    fn bounds(&mut self, unit: Option<&Unit>, min: Option<i128>, max: Option<i128>) {
        self.option(unit, |out, unit| out.text(unit.as_str()));
        self.option(min, Self::i128);
        self.option(max, Self::i128);
    }

    fn condition(&mut self, condition: Option<&Condition>) {
        match condition {
            None => self.u8(0),
            Some(Condition::Absent) => self.u8(1),
            Some(Condition::Present) => self.u8(2),
            Some(Condition::Version(version)) => {
                self.u8(3);
                self.u64(version.get());
            }
            Some(Condition::Content(content)) => {
                self.u8(4);
                self.content_of(content);
            }
            Some(Condition::Hash(hash)) => {
                self.u8(5);
                self.raw(hash.as_bytes());
            }
        }
    }

    fn content_of(&mut self, content: &Content) {
        match content {
            Content::Value(value) => {
                self.u8(1);
                self.value(value.payload().codec, value.hash());
            }
            Content::Amount(amount) => self.amount(amount),
        }
    }

    fn content(&mut self, content: &ContentSummary) {
        match content {
            ContentSummary::Value { codec, hash } => {
                self.u8(1);
                self.value(*codec, *hash);
            }
            ContentSummary::Amount(amount) => self.amount(amount),
        }
    }

    fn value(&mut self, codec: Codec, hash: ValueHash) {
        self.u8(codec.number());
        self.raw(hash.as_bytes());
    }

    fn amount(&mut self, amount: &Amount) {
        self.u8(2);
        self.i128(amount.quantity);
        self.text(amount.unit.as_str());
    }
}
