//! The lines of an export as JSON.

use data_encoding::BASE64;
use indelible_idempotency::RequestHash;
use indelible_journal::{Codec, Namespace, OperationId, PromiseId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::hashes::{ChainHash, StateHash, ValueHash};
use crate::names::{Actor, ClientId, EntityKey, OriginId, Scope, VaultName};
use crate::numbers::{Attempt, Height, Incarnation, Sequence, TransactionId};
use crate::proof::{self, LtHash};
use crate::request::{Kind, Request};
use crate::value::{ContentSummary, EntitySummary};
use crate::wire::{self, Form, Text};
use crate::{transaction, value};

/// What the first line says that it is.
pub const FORMAT: &str = "indelible-ledger";
/// The version of the format.
pub const VERSION: u32 = 1;

/// A line with its end.
pub(super) fn line(content: &impl Serialize) -> String {
    let mut line = serde_json::to_string(content).expect("text into memory");
    line.push('\n');
    line
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    namespace: Text<Namespace>,
    vault: Option<Text<VaultName>>,
    incarnation: Text<Incarnation>,
    height: u64,
    head: Text<ChainHash>,
    state_hash: Text<StateHash>,
    /// Base64 of the lanes. A vault begins with zeros, which are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    lanes: Option<String>,
    pub(super) digest: Text<ChainHash>,
}

impl Header {
    pub(super) fn of(start: &proof::Checkpoint, state: &LtHash) -> Self {
        let lanes = (start.height > Height::ZERO).then(|| BASE64.encode(&state.to_bytes()));
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            namespace: Text(start.scope.namespace.clone()),
            vault: start.scope.vault.clone().map(Text),
            incarnation: Text(start.incarnation),
            height: start.height.get(),
            head: Text(start.head),
            state_hash: Text(start.state_hash),
            lanes,
            digest: Text(start.digest()),
        }
    }

    pub(super) fn checkpoint(&self) -> proof::Checkpoint {
        let vault = self.vault.as_ref().map(|Text(vault)| vault.clone());
        proof::Checkpoint {
            scope: Scope { namespace: self.namespace.0.clone(), vault },
            incarnation: self.incarnation.0,
            height: Height::new(self.height),
            head: self.head.0,
            state_hash: self.state_hash.0,
        }
    }

    /// The lanes, if these are any.
    pub(super) fn state(&self) -> Option<LtHash> {
        match &self.lanes {
            None => Some(LtHash::default()),
            Some(lanes) => LtHash::from_bytes(&BASE64.decode(lanes.as_bytes()).ok()?),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    height: u64,
    id: Text<TransactionId>,
    time: Text<Timestamp>,
    actor: String,
    origin: Origin,
    kind: RequestKind,
    writes: Vec<Vec<wire::Operation>>,
    before: Vec<Before>,
    state_hash: Text<StateHash>,
    head: Text<ChainHash>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RequestKind {
    Single,
    Batch,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Origin {
    Client(Client),
    Key(Text<OriginId>),
    Operation(Text<OperationId>),
    Promise(Text<PromiseId>),
    Message(Message),
    Expiry,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    id: Text<ClientId>,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    source: Text<OriginId>,
    id: Text<OriginId>,
}

/// An entity before the transaction.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    key: Text<EntityKey>,
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Text<Timestamp>>,
    was: Summary,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Summary {
    Value(ValueSummary),
    Amount(wire::Amount),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueSummary {
    codec: Text<Codec>,
    hash: Text<ValueHash>,
}

impl Record {
    pub(super) fn of(record: &transaction::Record) -> Self {
        let transaction = &record.transaction;
        Self {
            height: transaction.height.get(),
            id: Text(transaction.id),
            time: Text(transaction.time),
            actor: transaction.actor.as_str().to_owned(),
            origin: Origin::of(&transaction.origin),
            kind: match transaction.request.kind() {
                Kind::Single => RequestKind::Single,
                Kind::Batch => RequestKind::Batch,
            },
            writes: wire::writes(&transaction.request, Form::Exported),
            before: record.before.iter().map(Before::of).collect(),
            state_hash: Text(record.state_hash),
            head: Text(record.head),
        }
    }

    /// The record; `None` if something in it cannot be.
    pub(super) fn read(self) -> Option<transaction::Record> {
        let read = |write: Vec<wire::Operation>| {
            write.into_iter().map(wire::Operation::read).collect::<Option<Vec<_>>>()
        };
        let writes = self.writes.into_iter().map(read).collect::<Option<Vec<_>>>()?;
        let kind = match self.kind {
            RequestKind::Single => Kind::Single,
            RequestKind::Batch => Kind::Batch,
        };
        // The chain does not know of request hashes.
        let request = Request::stored(kind, writes, RequestHash::from_bytes([0; 32]));
        let transaction = transaction::Transaction {
            id: self.id.0,
            height: Height::new(self.height),
            time: self.time.0,
            origin: self.origin.read()?,
            request,
            actor: Actor::new(&self.actor),
        };
        let before = self.before.into_iter().map(Before::read).collect();
        let (state_hash, head) = (self.state_hash.0, self.head.0);
        Some(transaction::Record { transaction, before, state_hash, head })
    }
}

impl Origin {
    fn of(origin: &transaction::Origin) -> Self {
        match origin {
            transaction::Origin::Client { client, sequence, attempt } => Self::Client(Client {
                id: Text(client.clone()),
                sequence: sequence.get(),
                attempt: attempt.map(Attempt::get),
            }),
            transaction::Origin::Key(key) => Self::Key(Text(key.clone())),
            transaction::Origin::Operation(id) => Self::Operation(Text(id.clone())),
            transaction::Origin::Promise(id) => Self::Promise(Text(id.clone())),
            transaction::Origin::Message { source, id } => {
                Self::Message(Message { source: Text(source.clone()), id: Text(id.clone()) })
            }
            transaction::Origin::Expiry => Self::Expiry,
        }
    }

    fn read(self) -> Option<transaction::Origin> {
        Some(match self {
            Self::Client(Client { id, sequence, attempt }) => transaction::Origin::Client {
                client: id.0,
                sequence: Sequence::new(sequence).ok()?,
                attempt: attempt.map(Attempt::new).transpose().ok()?,
            },
            Self::Key(Text(key)) => transaction::Origin::Key(key),
            Self::Operation(Text(id)) => transaction::Origin::Operation(id),
            Self::Promise(Text(id)) => transaction::Origin::Promise(id),
            Self::Message(Message { source, id }) => {
                transaction::Origin::Message { source: source.0, id: id.0 }
            }
            Self::Expiry => transaction::Origin::Expiry,
        })
    }
}

impl Before {
    fn of((key, entity): &(EntityKey, EntitySummary)) -> Self {
        let was = match &entity.content {
            ContentSummary::Value { codec, hash } => {
                Summary::Value(ValueSummary { codec: Text(*codec), hash: Text(*hash) })
            }
            ContentSummary::Amount(amount) => Summary::Amount(wire::Amount::of(amount)),
        };
        let expires_at = entity.expires_at.map(Text);
        Self { key: Text(key.clone()), version: entity.version.get(), expires_at, was }
    }

    fn read(self) -> (EntityKey, EntitySummary) {
        let content = match self.was {
            Summary::Value(ValueSummary { codec, hash }) => {
                ContentSummary::Value { codec: codec.0, hash: hash.0 }
            }
            Summary::Amount(amount) => value::ContentSummary::Amount(amount.read()),
        };
        let version = Height::new(self.version);
        let expires_at = self.expires_at.map(|Text(at)| at);
        (self.key.0, EntitySummary { version, expires_at, content })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Last {
    pub(super) end: End,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    pub(super) height: u64,
    pub(super) head: Text<ChainHash>,
}

impl Last {
    /// How such a line begins, and no other.
    pub(super) const START: &[u8] = b"{\"end\":";

    pub(super) fn of(height: Height, head: ChainHash) -> Self {
        Self { end: End { height: height.get(), head: Text(head) } }
    }
}
