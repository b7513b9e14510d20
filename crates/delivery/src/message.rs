//! Messages as they are sent: where they come from, and bytes that never change.

use bytes::Bytes;
use indelible_journal::{Namespace, PromiseId, Timestamp};
use indelible_ledger::{OriginId, TransactionId};
use indelible_slots::Slot;
use sha2::{Digest as _, Sha256};

use crate::bounds::BODY_BYTES_MAX;
use crate::bytes::{Decoder, Encoder, Malformed};
use crate::ids::{ContentHash, MessageId};
use crate::names::{ContentType, LaneKey, Topic};

const VERSION: u8 = 1;
const ORIGIN_DOMAIN: &[u8] = b"indelible.message.origin.v1";

/// What caused a message. The same cause makes the same id, so that a replay sends nothing twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A step of an execution.
    Promise(PromiseId),
    /// An operation of a transaction of the ledger.
    Transaction {
        /// The transaction.
        id: TransactionId,
        /// Which of its operations, from 0.
        index: u32,
        /// The slot of its vault.
        slot: Slot,
    },
    /// A caller's idempotency key.
    Key {
        /// Whose key.
        namespace: Namespace,
        /// The key.
        key: OriginId,
    },
    /// A decision that issues a dead message again.
    Decision {
        /// The message that died.
        reissue_of: MessageId,
        /// The hash of its dead letter, which is decided once.
        entry: ContentHash,
    },
}

impl Origin {
    /// The slot of what caused the message (C-77): both are written in one commit.
    pub fn slot(&self) -> Slot {
        match self {
            Self::Promise(id) => Slot::at_start_of(id.root().as_bytes()),
            Self::Transaction { slot, .. } => *slot,
            Self::Key { namespace, key } => {
                indelible_slots::of_key(namespace.as_str(), key.as_str())
            }
            Self::Decision { reissue_of, .. } => reissue_of.slot(),
        }
    }

    /// The id of the message that it causes: a hash over it, in its slot.
    pub fn message_id(&self) -> MessageId {
        let mut out = Encoder::domain(ORIGIN_DOMAIN);
        self.encode(&mut out);
        let hash: [u8; 32] = Sha256::digest(out.finish()).into();
        let mut id: [u8; 20] = hash[..20].try_into().expect("a hash has 32 bytes");
        self.slot().stamp(&mut id);
        MessageId::from_bytes(id)
    }

    fn encode(&self, out: &mut Encoder) {
        match self {
            Self::Promise(id) => {
                out.u8(1);
                out.text(&id.to_string());
            }
            Self::Transaction { id, index, slot } => {
                out.u8(2);
                out.raw(id.as_bytes());
                out.u32(*index);
                out.u16(slot.get());
            }
            Self::Key { namespace, key } => {
                out.u8(3);
                out.text(namespace.as_str());
                out.text(key.as_str());
            }
            Self::Decision { reissue_of, entry } => {
                out.u8(4);
                out.raw(reissue_of.as_bytes());
                out.raw(entry.as_bytes());
            }
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            1 => Self::Promise(from.parsed()?),
            2 => Self::Transaction {
                id: TransactionId::from_bytes(from.array()?),
                index: from.u32()?,
                slot: Slot::new(from.u16()?).ok_or(Malformed("a slot is not one"))?,
            },
            3 => Self::Key { namespace: from.parsed()?, key: from.parsed()? },
            4 => Self::Decision {
                reissue_of: MessageId::from_bytes(from.array()?),
                entry: ContentHash::from_bytes(from.array()?),
            },
            _ => return Err(Malformed("an origin is of unknown kind")),
        })
    }
}

/// A message that is sent, the same for all endpoints that get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What caused it.
    pub origin: Origin,
    /// Whose endpoints get it.
    pub namespace: Namespace,
    /// What it is about; endpoints choose by it.
    pub topic: Topic,
    /// Messages with one key are sent in their order. `None`: in any.
    pub lane_key: Option<LaneKey>,
    /// How the body is to be read.
    pub content_type: ContentType,
    /// The body. No attempt changes a byte of it.
    pub body: Bytes,
    /// From when its TTL counts (C-60).
    pub created: Timestamp,
}

/// The body is larger than a message may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body has {0} bytes; at most {BODY_BYTES_MAX} are allowed")]
pub struct BodyTooLarge(pub usize);

impl Message {
    /// Whether its body is within the bound.
    pub fn check(&self) -> Result<(), BodyTooLarge> {
        let bytes = self.body.len();
        if bytes > BODY_BYTES_MAX { Err(BodyTooLarge(bytes)) } else { Ok(()) }
    }

    /// Its id, which every attempt has (impl O-24): that of its origin.
    pub fn id(&self) -> MessageId {
        self.origin.message_id()
    }

    /// What two messages of one origin are compared by: everything but their time (C-60).
    pub fn conflict_hash(&self) -> ContentHash {
        let mut out = Encoder::domain(b"indelible.message.conflict.v1");
        self.encode_content(&mut out);
        ContentHash::of(&out.finish())
    }

    fn encode_content(&self, out: &mut Encoder) {
        out.text(self.namespace.as_str());
        out.text(self.topic.as_str());
        out.option(self.lane_key.as_ref(), |out, key| out.text(key.as_str()));
        out.text(self.content_type.as_str());
        out.bytes(&self.body);
    }

    /// Its row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        self.origin.encode(&mut out);
        self.encode_content(&mut out);
        out.time(self.created);
        out.finish()
    }

    /// The message of a row.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            Ok(Self {
                origin: Origin::decode(from)?,
                namespace: from.parsed()?,
                topic: from.parsed()?,
                lane_key: from.option(Decoder::parsed)?,
                content_type: from.parsed()?,
                body: from.owned()?,
                created: from.time()?,
            })
        })
    }
}
