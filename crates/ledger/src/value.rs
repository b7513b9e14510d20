//! What a vault holds: entities, each a value or an amount.

use indelible_journal::{Codec, Payload, Timestamp};

use crate::hashes::ValueHash;
use crate::names::Unit;
use crate::numbers::Height;

/// Bytes with a codec, and their hash. The hash stands for the bytes wherever two values are compared
/// or proved, so that replacing a value does not hash the old one again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    payload: Payload,
    hash: ValueHash,
}

impl Value {
    /// Hashes the bytes.
    pub fn new(payload: Payload) -> Self {
        let hash = ValueHash::of(&payload.bytes);
        Self { payload, hash }
    }

    /// A value with its hash, as they were stored together.
    pub fn stored(payload: Payload, hash: ValueHash) -> Self {
        Self { payload, hash }
    }

    /// The bytes and their codec.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// The hash of the bytes.
    pub fn hash(&self) -> ValueHash {
        self.hash
    }
}

/// A number of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    /// How many; below zero is allowed unless an operation says otherwise.
    pub quantity: i128,
    /// Of what.
    pub unit: Unit,
}

/// What an entity holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Bytes.
    Value(Value),
    /// A number that `add` and `transfer` change.
    Amount(Amount),
}

impl Content {
    /// A value.
    pub fn value(payload: Payload) -> Self {
        Self::Value(Value::new(payload))
    }

    /// An amount.
    pub fn amount(quantity: i128, unit: Unit) -> Self {
        Self::Amount(Amount { quantity, unit })
    }

    /// The bytes of a value; 0 for an amount.
    pub fn value_bytes(&self) -> usize {
        match self {
            Self::Value(value) => value.payload.bytes.len(),
            Self::Amount(_) => 0,
        }
    }

    /// What stands for the content in proofs.
    pub fn summary(&self) -> ContentSummary {
        match self {
            Self::Value(value) => {
                ContentSummary::Value { codec: value.payload.codec, hash: value.hash }
            }
            Self::Amount(amount) => ContentSummary::Amount(amount.clone()),
        }
    }
}

/// An entity as it stands under its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// What it holds.
    pub content: Content,
    /// The height of its last change.
    pub version: Height,
    /// When `system:expiry` deletes it. Until that transaction it exists, for conditions and reads
    /// (C-84): no rule here looks at the time.
    pub expires_at: Option<Timestamp>,
}

impl Entity {
    /// An entity of which only the summary is known.
    pub(crate) fn unseen(summary: &EntitySummary) -> Self {
        let EntitySummary { version, expires_at, content } = summary.clone();
        let content = match content {
            ContentSummary::Value { codec, hash } => {
                Content::Value(Value { payload: Payload::new(codec, Vec::new()), hash })
            }
            ContentSummary::Amount(amount) => Content::Amount(amount),
        };
        Self { content, version, expires_at }
    }

    /// What stands for the entity in proofs.
    pub fn summary(&self) -> EntitySummary {
        EntitySummary {
            version: self.version,
            expires_at: self.expires_at,
            content: self.content.summary(),
        }
    }
}

/// An entity without the bytes of its value: what the state hash is made of, what a refusal shows and
/// what an export says of an entity before it was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntitySummary {
    /// The height of its last change.
    pub version: Height,
    /// When it is to be deleted.
    pub expires_at: Option<Timestamp>,
    /// What it holds.
    pub content: ContentSummary,
}

/// What an entity holds, with the hash of a value in place of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentSummary {
    /// Bytes with this hash.
    Value {
        /// How the bytes are encoded.
        codec: Codec,
        /// The hash of the bytes.
        hash: ValueHash,
    },
    /// An amount.
    Amount(Amount),
}
