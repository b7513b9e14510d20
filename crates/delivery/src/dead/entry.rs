//! The entry of a dead letter: what never changes of it, sealed, and the little that does.

use std::fmt;

use bytes::Bytes;
use indelible_journal::{Micros, Timestamp};

use super::domains;
use crate::attempt::FailureRecord;
use crate::bounds::DAY;
use crate::bytes::{Decoder, Encoder, Malformed};
use crate::delivery::{DeadReason, Delivery, State};
use crate::ids::{ContentHash, EntryId, MessageId};
use crate::message::Message;
use crate::names::EndpointName;
use crate::oip::MessageType;
use crate::signing::{Ed25519Key, PublicKey};

const VERSION: u8 = 1;
const STATE_VERSION: u8 = 1;
/// How long an entry is kept after it is decided, unless configured otherwise (see O-29).
pub const RETENTION: Micros = Micros::from_secs(30 * DAY);

/// Which rules a message follows (D16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The delivery specification, to the letter.
    Oip,
    /// Messages to any receiver.
    Webhook,
}

/// A message that died, verbatim (see O-29).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Original {
    /// A message of the `webhook` profile.
    Webhook {
        /// The message.
        message: Message,
        /// Where it was to go.
        endpoint: EndpointName,
    },
    /// A message of the `oip` profile.
    Envelope {
        /// Its id.
        id: MessageId,
        /// Its type.
        message_type: MessageType,
        /// `sourceChainId`.
        source: Box<str>,
        /// When it was stamped.
        stamped: Timestamp,
        /// The bytes that were signed.
        bytes: Bytes,
        /// The routing slip when it died, as JSON.
        routing_slip: Option<Box<str>>,
    },
}

/// A message that this one was issued again for, or an earlier series of attempts at it (see C-61).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ancestor {
    /// Its dead letter.
    pub entry: EntryId,
    /// Its id.
    pub message: MessageId,
    /// When it was made.
    pub created: Timestamp,
    /// It may have arrived, and nothing has proved that it did not.
    pub may_have_arrived: bool,
}

/// What is known of a dead letter when it is entered (see O-29). It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// The message.
    pub original: Original,
    /// How long the message was of use; `None` if always.
    pub ttl: Option<Micros>,
    /// Why it died.
    pub reason: DeadReason,
    /// An attempt at it ended unknown (see C-52).
    pub may_have_arrived: bool,
    /// Every failed attempt.
    pub failures: Vec<FailureRecord>,
    /// What it was issued again for, the oldest first.
    pub ancestors: Vec<Ancestor>,
    /// When it died.
    pub entered_at: Timestamp,
    /// Until when it is kept, once it is decided.
    pub retention_until: Timestamp,
}

/// The messages of ancestors, each once.
pub(super) fn distinct(ancestors: &[Ancestor]) -> impl Iterator<Item = (MessageId, Timestamp)> {
    let is_first =
        |at: usize| !ancestors[..at].iter().any(|earlier| earlier.message == ancestors[at].message);
    let of = |at: usize| (ancestors[at].message, ancestors[at].created);
    (0..ancestors.len()).filter(move |at| is_first(*at)).map(of)
}

/// The id of the dead letter that a delivery becomes after so many attempts: the same after a
/// replay, and another for each series of attempts.
pub fn entry_id(message: MessageId, endpoint: Option<&EndpointName>, attempts: u32) -> EntryId {
    let mut out = Encoder::domain(b"indelible.entry.id.v1");
    out.raw(message.as_bytes());
    out.option(endpoint, |out, name| out.text(name.as_str()));
    out.u32(attempts);
    let hash = ContentHash::of(&out.finish());
    let mut id: [u8; 20] = hash.as_bytes()[..20].try_into().expect("a hash has 32 bytes");
    message.slot().stamp(&mut id);
    EntryId::from_bytes(id)
}

/// What signs: the server's key, behind whatever holds it.
pub trait Signer {
    /// Signs these bytes.
    fn sign(&self, bytes: &[u8]) -> [u8; 64];
    /// The key that verifies.
    fn public(&self) -> PublicKey;
}

impl Signer for Ed25519Key {
    fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        Self::sign(self, bytes)
    }

    fn public(&self) -> PublicKey {
        Self::public(self)
    }
}

impl Entry {
    /// The dead letter of a webhook (see O-28); `None` if the delivery is not dead.
    pub fn of_webhook(
        message: Message,
        endpoint: EndpointName,
        ttl: Option<Micros>,
        delivery: &Delivery,
        ancestors: Vec<Ancestor>,
        retention: Micros,
    ) -> Option<Self> {
        let State::Dead { at, reason } = delivery.state else { return None };
        Some(Self {
            id: entry_id(message.id(), Some(&endpoint), delivery.attempts),
            original: Original::Webhook { message, endpoint },
            ttl,
            reason,
            may_have_arrived: delivery.may_have_arrived,
            failures: delivery.failures.clone(),
            ancestors,
            entered_at: at,
            retention_until: at.saturating_add(retention),
        })
    }

    /// Its profile.
    pub fn profile(&self) -> Profile {
        match self.original {
            Original::Webhook { .. } => Profile::Webhook,
            Original::Envelope { .. } => Profile::Oip,
        }
    }

    /// The id of its message.
    pub fn message_id(&self) -> MessageId {
        match &self.original {
            Original::Webhook { message, .. } => message.id(),
            Original::Envelope { id, .. } => *id,
        }
    }

    /// When its message was made.
    pub fn created(&self) -> Timestamp {
        match &self.original {
            Original::Webhook { message, .. } => message.created,
            Original::Envelope { stamped, .. } => *stamped,
        }
    }

    /// Messages of which it is unknown whether they arrived: its own, and those that it was issued
    /// again for (see C-52). If m1 may have arrived and m2, issued again for it, was never sent, m2 is
    /// no proof about m1.
    pub fn unknown_messages(&self) -> impl Iterator<Item = (MessageId, Timestamp)> {
        let own = self.may_have_arrived.then(|| (self.message_id(), self.created()));
        let ancestors = self.ancestors.iter().filter(|ancestor| ancestor.may_have_arrived);
        own.into_iter().chain(ancestors.map(|ancestor| (ancestor.message, ancestor.created)))
    }

    /// The messages that it was issued again for, with their times, the oldest first. A series of
    /// attempts at the same message is none.
    pub fn reissue_of(&self) -> Vec<(MessageId, Timestamp)> {
        distinct(&self.ancestors).filter(|(id, _)| *id != self.message_id()).collect()
    }

    /// It, and those that it was issued again for, as the ancestors of a successor.
    pub fn lineage(&self) -> Vec<Ancestor> {
        let mut lineage = self.ancestors.clone();
        lineage.push(Ancestor {
            entry: self.id,
            message: self.message_id(),
            created: self.created(),
            may_have_arrived: self.may_have_arrived,
        });
        lineage
    }

    /// Seals it (see O-38, C-59): its bytes, and the server's signature over them.
    pub fn seal(&self, signer: &impl Signer) -> SealedEntry {
        let bytes = self.encode();
        let signature = signer.sign(&[domains::ENTRY, &bytes].concat());
        SealedEntry { bytes: bytes.into(), key: signer.public(), signature }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        out.raw(self.id.as_bytes());
        match &self.original {
            Original::Webhook { message, endpoint } => {
                out.u8(1);
                out.bytes(&message.encode());
                out.text(endpoint.as_str());
            }
            Original::Envelope { id, message_type, source, stamped, bytes, routing_slip } => {
                out.u8(2);
                out.raw(id.as_bytes());
                out.text(&message_type.to_string());
                out.text(source);
                out.time(*stamped);
                out.bytes(bytes);
                out.option(routing_slip.as_deref(), Encoder::text);
            }
        }
        out.option(self.ttl, Encoder::micros);
        out.u8(self.reason.number());
        out.bool(self.may_have_arrived);
        out.list(&self.failures, |out, failure| failure.encode(out));
        out.list(&self.ancestors, |out, ancestor| {
            out.raw(ancestor.entry.as_bytes());
            out.raw(ancestor.message.as_bytes());
            out.time(ancestor.created);
            out.bool(ancestor.may_have_arrived);
        });
        out.time(self.entered_at);
        out.time(self.retention_until);
        out.finish()
    }

    fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            Ok(Self {
                id: EntryId::from_bytes(from.array()?),
                original: match from.u8()? {
                    1 => Original::Webhook {
                        message: Message::decode(from.bytes()?)?,
                        endpoint: from.parsed()?,
                    },
                    2 => Original::Envelope {
                        id: MessageId::from_bytes(from.array()?),
                        message_type: from.parsed()?,
                        source: from.text()?.into(),
                        stamped: from.time()?,
                        bytes: from.owned()?,
                        routing_slip: from.option(|from| from.text().map(Into::into))?,
                    },
                    _ => return Err(Malformed("a message is of unknown kind")),
                },
                ttl: from.option(Decoder::micros)?,
                reason: DeadReason::from_number(from.u8()?)
                    .ok_or(Malformed("a reason is not one"))?,
                may_have_arrived: from.bool()?,
                failures: from.list(FailureRecord::decode)?,
                ancestors: from.list(|from| {
                    Ok(Ancestor {
                        entry: EntryId::from_bytes(from.array()?),
                        message: MessageId::from_bytes(from.array()?),
                        created: from.time()?,
                        may_have_arrived: from.bool()?,
                    })
                })?,
                entered_at: from.time()?,
                retention_until: from.time()?,
            })
        })
    }
}

/// An entry as it is stored: the exact bytes, and the signature of the server that entered it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedEntry {
    bytes: Bytes,
    key: PublicKey,
    signature: [u8; 64],
}

/// The stored entry is not the one that was entered (see O-38): governance is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntegrityError {
    /// Its bytes are malformed.
    #[error("the entry is damaged: {0}")]
    Malformed(#[from] Malformed),
    /// The key that signed it is none of the server's.
    #[error("the entry is signed with a key that is none of this server's")]
    ForeignKey,
    /// The signature is not over its bytes.
    #[error("the signature of the entry does not fit its bytes: one of them was changed")]
    Signature,
}

impl SealedEntry {
    /// The entry, if it is the one that was entered (see O-38). Keys that the server had before
    /// stay valid for what they signed.
    pub fn open(&self, server_keys: &[PublicKey]) -> Result<Entry, IntegrityError> {
        if !server_keys.contains(&self.key) {
            return Err(IntegrityError::ForeignKey);
        }
        if !self.key.verifies(&[domains::ENTRY, &self.bytes].concat(), &self.signature) {
            return Err(IntegrityError::Signature);
        }
        Ok(Entry::decode(&self.bytes)?)
    }

    /// The hash that a decision signs.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(&[domains::ENTRY, &self.bytes].concat())
    }

    /// Its row: the key and the signature before the bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        out.raw(self.key.as_bytes());
        out.raw(&self.signature);
        out.bytes(&self.bytes);
        out.finish()
    }

    /// The sealed entry of a row. Whether it is whole is for [`open`](Self::open) to say.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            let (key, signature) = (PublicKey::from_bytes(from.array()?), from.array()?);
            Ok(Self { key, signature, bytes: from.owned()? })
        })
    }
}

impl fmt::Debug for SealedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedEntry({})", self.hash())
    }
}

/// The life of an entry (see O-29).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// It waits for a decision.
    PendingReview,
    /// Its message was sent again, or issued again.
    RetryQueued,
    /// It was given up.
    Abandoned,
    /// The last of its successors arrived.
    Recovered,
}

impl Status {
    /// All of them, in the order of their numbers on disk.
    pub const ALL: [Self; 4] =
        [Self::PendingReview, Self::RetryQueued, Self::Abandoned, Self::Recovered];

    /// Its number, from 1.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PendingReview => "PENDING_REVIEW",
            Self::RetryQueued => "RETRY_QUEUED",
            Self::Abandoned => "ABANDONED",
            Self::Recovered => "RECOVERED",
        })
    }
}

/// What changes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryState {
    /// Where it stands.
    pub status: Status,
    /// It is for governance alone to decide (see O-36).
    pub escalated: bool,
    /// The message that was issued again for it (see C-61).
    pub successor: Option<MessageId>,
}

impl EntryState {
    /// That of a new entry.
    pub const NEW: Self = Self { status: Status::PendingReview, escalated: false, successor: None };

    /// The last successor arrived: in the same commit every ancestor is recovered (see C-61).
    pub fn recover(self) -> Self {
        match self.status {
            Status::RetryQueued => Self { status: Status::Recovered, ..self },
            _ => self,
        }
    }

    /// A successor was given up, and so is this (see C-52).
    pub fn close(self) -> Self {
        match self.status {
            Status::RetryQueued => Self { status: Status::Abandoned, ..self },
            _ => self,
        }
    }

    /// Whether the entry may be deleted (see O-31, C-61). Its decisions stay.
    pub fn may_go(self, retention_until: Timestamp, now: Timestamp) -> bool {
        matches!(self.status, Status::Abandoned | Status::Recovered) && retention_until < now
    }

    /// Its row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(STATE_VERSION);
        out.u8(self.status.number());
        out.bool(self.escalated);
        out.option(self.successor, |out, id| out.raw(id.as_bytes()));
        out.finish()
    }

    /// The state of a row.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, STATE_VERSION, |from| {
            let number = from.u8()?;
            let status = Status::ALL.into_iter().find(|status| status.number() == number);
            Ok(Self {
                status: status.ok_or(Malformed("a status is not one"))?,
                escalated: from.bool()?,
                successor: from.option(|from| from.array().map(MessageId::from_bytes))?,
            })
        })
    }
}
