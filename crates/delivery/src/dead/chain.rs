//! The chain of decisions: each record has the hash of the one before it, and is kept for ever.

use bytes::Bytes;
use indelible_journal::Timestamp;

use super::decision::{Decision, DecisionType};
use super::rules::Proof;
use crate::bytes::{Decoder, Encoder, Malformed};
use crate::ids::{ContentHash, EntryId, MessageId};
use crate::signing::PublicKey;

const VERSION: u8 = 1;

/// The record of one decision about one entry (see O-37). It is never deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRecord {
    /// The hash of the record before it; of zeros for the first.
    pub previous: ContentHash,
    /// The entry.
    pub entry: EntryId,
    /// What was decided.
    pub decision_type: DecisionType,
    /// The fresh id; present if and only if it is a retry.
    pub new_message_id: Option<MessageId>,
    /// Why the message may be sent again.
    pub proof: Option<Proof>,
    /// An admin decided in place of governance (see C-62).
    pub decided_alone: bool,
    /// When the server took it.
    pub taken_at: Timestamp,
    /// What was signed. The records of a bulk decision have the same.
    pub decision: Decision,
}

/// Where a chain is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// A record does not follow the one before it.
    #[error("record {at} does not follow the one before it")]
    Link {
        /// Which record, from 0.
        at: usize,
    },
    /// A signature does not fit.
    #[error("the signature of record {at} does not fit")]
    Signature {
        /// Which record, from 0.
        at: usize,
    },
}

impl DecisionRecord {
    /// What stands before the first record.
    pub const GENESIS: ContentHash = ContentHash::from_bytes([0; 32]);

    /// The hash that the next record has.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(&[&b"indelible.decision.record.v1"[..], &self.encode()].concat())
    }

    /// Its row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        out.raw(self.previous.as_bytes());
        out.raw(self.entry.as_bytes());
        out.u8(match self.decision_type {
            DecisionType::Retry => 1,
            DecisionType::Abandon => 2,
            DecisionType::GovernanceEscalation => 3,
            DecisionType::Redeliver => 4,
        });
        out.option(self.new_message_id, |out, id| out.raw(id.as_bytes()));
        out.u8(match self.proof {
            None => 0,
            Some(Proof::NotNeeded) => 1,
            Some(Proof::Receiver) => 2,
            Some(Proof::ReissueOf) => 3,
            Some(Proof::Statement) => 4,
        });
        out.bool(self.decided_alone);
        out.time(self.taken_at);
        out.raw(self.decision.key.as_bytes());
        out.raw(&self.decision.signature);
        out.bytes(&self.decision.bytes);
        out.finish()
    }

    /// The record of a row.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            Ok(Self {
                previous: ContentHash::from_bytes(from.array()?),
                entry: EntryId::from_bytes(from.array()?),
                decision_type: match from.u8()? {
                    1 => DecisionType::Retry,
                    2 => DecisionType::Abandon,
                    3 => DecisionType::GovernanceEscalation,
                    4 => DecisionType::Redeliver,
                    _ => return Err(Malformed("a decision is of unknown kind")),
                },
                new_message_id: from.option(|from| from.array().map(MessageId::from_bytes))?,
                proof: match from.u8()? {
                    0 => None,
                    1 => Some(Proof::NotNeeded),
                    2 => Some(Proof::Receiver),
                    3 => Some(Proof::ReissueOf),
                    4 => Some(Proof::Statement),
                    _ => return Err(Malformed("a proof is of unknown kind")),
                },
                decided_alone: from.bool()?,
                taken_at: from.time()?,
                decision: Decision {
                    key: PublicKey::from_bytes(from.array()?),
                    signature: from.array()?,
                    bytes: Bytes::copy_from_slice(from.bytes()?),
                },
            })
        })
    }
}

/// Verifies a chain from the record after `head`; the hash of its last record.
pub fn verify_chain<'a>(
    head: ContentHash,
    records: impl IntoIterator<Item = &'a DecisionRecord>,
) -> Result<ContentHash, ChainFault> {
    let mut head = head;
    for (at, record) in records.into_iter().enumerate() {
        if record.previous != head {
            return Err(ChainFault::Link { at });
        }
        record.decision.check_signature().map_err(|_| ChainFault::Signature { at })?;
        head = record.hash();
    }
    Ok(head)
}
