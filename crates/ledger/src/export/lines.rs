//! The lines of an export as JSON.

use data_encoding::BASE64;
use indelible_idempotency::RequestHash;
use indelible_journal::{Codec, Namespace, OperationId, PromiseId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hashes::{ChainHash, StateHash, ValueHash};
use crate::json::{self, Text};
use crate::names::{Actor, ClientId, EntityKey, OriginId, Scope, VaultName};
use crate::numbers::{Attempt, Height, Incarnation, Sequence, TransactionId};
use crate::proof::{self, LtHash};
use crate::request::{Kind, Request};
use crate::transaction;
use crate::value::{ContentSummary, EntitySummary};

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

/// A transaction with its proof: a line of an export, and an entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its place in the order of its scope, from 1.
    pub height: u64,
    /// Its id.
    pub id: Text<TransactionId>,
    /// The server's time, never less than that of the transaction before it.
    pub time: Text<Timestamp>,
    /// Who asked: `user:…`, `client:…` or `system:…`.
    pub actor: String,
    /// Under which name it came.
    pub origin: Origin,
    /// Whether it was one write or a batch.
    pub kind: RequestKind,
    /// The operations of each write.
    pub writes: Vec<Vec<json::Operation>>,
    /// The entities that it changed or removed, as they were before, by ascending keys.
    pub before: Vec<Before>,
    /// The hash of the state after it.
    pub state_hash: Text<StateHash>,
    /// The head of the chain after it.
    pub head: Text<ChainHash>,
}

/// Whether a request is one write or a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// One write.
    Single,
    /// Several writes, all or none.
    Batch,
}

/// The name under which a transaction came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Origin {
    /// A client's number.
    Client(Client),
    /// An idempotency key.
    Key(Text<OriginId>),
    /// An operation id.
    Operation(Text<OperationId>),
    /// A step of an execution.
    Promise(Text<PromiseId>),
    /// A message from outside.
    Message(Message),
    /// Entities whose time had come.
    Expiry,
}

/// A client's number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Whose stream.
    pub id: Text<ClientId>,
    /// The number in it.
    pub sequence: u64,
    /// The attempt, if the client counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// A message from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who sent it.
    pub source: Text<OriginId>,
    /// Its id there.
    pub id: Text<OriginId>,
}

/// An entity before the transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// Its key.
    pub key: Text<EntityKey>,
    /// The height of its last change before.
    pub version: u64,
    /// When it was to be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Text<Timestamp>>,
    /// What it held.
    pub was: Summary,
}

/// What an entity holds, with the hash of a value in place of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Summary {
    /// A value.
    Value(ValueSummary),
    /// An amount.
    Amount(json::Amount),
}

/// A value without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueSummary {
    /// How the bytes are encoded.
    pub codec: Text<Codec>,
    /// The SHA-256 of the bytes.
    pub hash: Text<ValueHash>,
}

impl Summary {
    /// For a client.
    pub fn of(content: &ContentSummary) -> Self {
        match content {
            ContentSummary::Value { codec, hash } => {
                Self::Value(ValueSummary { codec: Text(*codec), hash: Text(*hash) })
            }
            ContentSummary::Amount(amount) => Self::Amount(json::Amount::of(amount)),
        }
    }
}

impl Record {
    /// For a file, and for a client.
    pub fn of(record: &transaction::Record) -> Self {
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
            writes: json::writes(&transaction.request),
            before: record.before.iter().map(Before::of).collect(),
            state_hash: Text(record.state_hash),
            head: Text(record.head),
        }
    }

    /// The record; `None` if something in it cannot be. The chain does not know of request hashes.
    pub(super) fn read(self, hash: RequestHash) -> Option<transaction::Record> {
        let read = |write: Vec<json::Operation>| {
            write.into_iter().map(json::Operation::read).collect::<Result<Vec<_>, _>>()
        };
        let writes = self.writes.into_iter().map(read).collect::<Result<Vec<_>, _>>().ok()?;
        let kind = match self.kind {
            RequestKind::Single => Kind::Single,
            RequestKind::Batch => Kind::Batch,
        };
        let request = Request::stored(kind, writes, hash);
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
        let was = Summary::of(&entity.content);
        let expires_at = entity.expires_at.map(Text);
        Self { key: Text(key.clone()), version: entity.version.get(), expires_at, was }
    }

    fn read(self) -> (EntityKey, EntitySummary) {
        let content = match self.was {
            Summary::Value(ValueSummary { codec, hash }) => {
                ContentSummary::Value { codec: codec.0, hash: hash.0 }
            }
            Summary::Amount(amount) => ContentSummary::Amount(amount.read()),
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
