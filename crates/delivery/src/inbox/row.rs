//! What is remembered of a message that arrived, and what a copy of it meets.

use bytes::Bytes;
use indelible_journal::Timestamp;

use crate::bytes::{Decoder, Encoder, Malformed};
use crate::ids::ContentHash;
use crate::names::{ForeignId, SourceName};
use crate::oip::ErrorCode;

const VERSION: u8 = 1;

/// A message whose signature is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Whose key verified it (see C-53).
    pub source: SourceName,
    /// Its id there.
    pub id: ForeignId,
    /// What copies under one id are compared by (see C-60).
    pub conflict_hash: ContentHash,
    /// When it was signed, if the signature says so.
    pub signed: Option<Timestamp>,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reception {
    /// It was taken, and this was the acknowledgement.
    Accepted {
        /// The bytes that were answered, which are answered again (see C-12).
        ack: Bytes,
        /// What it led to: an execution, or a transaction. The trace follows it.
        effect: Box<str>,
    },
    /// It was refused for good, and is refused again (see C-53).
    Rejected(ErrorCode),
}

/// The row of a message, written in the commit of its effect (see C-53, O-61).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRow {
    /// The hash of the message.
    pub conflict_hash: ContentHash,
    /// What became of it.
    pub reception: Reception,
    /// When it first came.
    pub received: Timestamp,
    /// Until when the row is kept. Of a source of the `inbox` profile, every copy prolongs it
    /// (see C-54).
    pub kept_until: Timestamp,
}

/// What is known of an id.
#[derive(Debug, Clone, Copy)]
pub enum Known<'a> {
    /// A message under it is being processed, by this process.
    InFlight(ContentHash),
    /// A message under it has a row.
    Row(&'a InboxRow),
}

/// What a message meets under its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It is new: process it.
    Fresh,
    /// A copy of it is being processed: wait for that.
    InFlight,
    /// It was taken before: answer the stored acknowledgement (see C-12).
    PriorResult(&'a Bytes),
    /// It was refused for good before: refuse it again.
    PriorError(ErrorCode),
    /// Another message has the id.
    Mismatch,
}

/// What a message with this hash meets (see O-3, O-4, C-53). A transient failure has left no row, so
/// a retry of it is fresh.
pub fn judge(known: Option<Known<'_>>, conflict_hash: ContentHash) -> Verdict<'_> {
    match known {
        None => Verdict::Fresh,
        Some(Known::InFlight(hash)) if hash == conflict_hash => Verdict::InFlight,
        Some(Known::Row(row)) if row.conflict_hash == conflict_hash => match &row.reception {
            Reception::Accepted { ack, .. } => Verdict::PriorResult(ack),
            Reception::Rejected(code) => Verdict::PriorError(*code),
        },
        Some(Known::InFlight(_) | Known::Row(_)) => Verdict::Mismatch,
    }
}

impl InboxRow {
    /// Its row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        out.raw(self.conflict_hash.as_bytes());
        match &self.reception {
            Reception::Accepted { ack, effect } => {
                out.u8(1);
                out.bytes(ack);
                out.text(effect);
            }
            Reception::Rejected(code) => {
                out.u8(2);
                out.u8(code.number());
            }
        }
        out.time(self.received);
        out.time(self.kept_until);
        out.finish()
    }

    /// The row of these bytes.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            let conflict_hash = ContentHash::from_bytes(from.array()?);
            let reception = match from.u8()? {
                1 => Reception::Accepted { ack: from.owned()?, effect: from.text()?.into() },
                2 => {
                    let code = ErrorCode::from_number(from.u8()?);
                    Reception::Rejected(code.ok_or(Malformed("an error code is not one"))?)
                }
                _ => return Err(Malformed("a reception is of unknown kind")),
            };
            let (received, kept_until) = (from.time()?, from.time()?);
            Ok(Self { conflict_hash, reception, received, kept_until })
        })
    }
}
