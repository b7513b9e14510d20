//! Envelopes: a message between two servers, and the exact bytes that are signed.
//!
//! On the wire the envelope is a text in an outer object, with the key and the signature beside it.
//! So what is verified are the bytes that came, and nothing is serialized again (see C-59).

use data_encoding::BASE64;
use indelible_journal::{Micros, Timestamp};
use indelible_ledger::json::Text;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::guarantee::{MessageType, Priority, SourceKind};
use crate::bounds::{ANCESTORS_MAX, ENVELOPE_BYTES_MAX};
use crate::bytes::Encoder;
use crate::dead::{Signer, domains};
use crate::ids::ContentHash;
use crate::names::ForeignId;
use crate::signing::PublicKey;

/// The longest name of a chain, a target or a scope, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The most entries of a routing slip.
const SLIP_MAX: usize = 64;

/// The outer object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    #[serde(borrow)]
    envelope: std::borrow::Cow<'a, str>,
    key: Text<PublicKey>,
    signature: String,
}

/// How the chains of a message keep together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Atomicity {
    /// Each on its own.
    BestEffort,
    /// All, in the end.
    Guaranteed,
    /// All or none.
    AllOrNothing,
}

/// Who sends what, and when it was stamped (see C-60).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Header {
    /// The id, which every attempt has.
    pub message_id: Text<ForeignId>,
    /// The type.
    pub message_type: String,
    /// The kind of a type that has kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_type: Option<String>,
    /// From when the TTL counts.
    pub timestamp: Text<Timestamp>,
    /// Who sends.
    pub source_chain_id: String,
    /// How much depends on it.
    pub priority: Priority,
}

/// Where it goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Routing {
    /// How long it is of use.
    pub ttl_seconds: u64,
    /// To which chain.
    pub target: String,
    /// To which part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// How its chains keep together.
    pub atomicity: Atomicity,
    /// How long each phase may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_timeouts: Option<PhaseTimeouts>,
    /// Where it has been.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slip: Vec<serde_json::Value>,
}

/// How long each phase may take, in seconds (see O-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PhaseTimeouts {
    /// PREPARE.
    pub prepare: u64,
    /// COMMIT.
    pub commit: u64,
    /// FINALIZE.
    pub finalize: u64,
}

/// A proof from outside that is consumed once (see O-7).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Attestation {
    /// Where it comes from: `CANTON`.
    pub origin: String,
    /// Its id there.
    pub transaction_id: Text<ForeignId>,
}

/// A message for which this one was issued again (see C-52).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ReissuedMessage {
    /// Its id.
    pub message_id: Text<ForeignId>,
    /// When it was made.
    pub timestamp: Text<Timestamp>,
}

/// A message between two servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Envelope {
    /// Who sends what.
    pub header: Header,
    /// Where it goes.
    pub routing: Routing,
    /// What it says.
    pub body: Box<RawValue>,
    /// The hash of the state that it is for (see O-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_state_hash: Option<Text<ContentHash>>,
    /// Its number among those of one asset (see O-6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    /// A proof from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Attestation>,
    /// The messages for which it was issued again, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reissue_of: Vec<ReissuedMessage>,
}

/// Why an envelope is not one. It leaves no row (see O-19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is too large.
    #[error("the envelope has {0} bytes; at most {ENVELOPE_BYTES_MAX} are allowed")]
    TooLarge(usize),
    /// It does not have its form.
    #[error("the envelope is malformed: {0}")]
    Malformed(&'static str),
    /// The key is none of the sender's.
    #[error("the key is none of this source's")]
    UnknownKey,
    /// The signature is not over these bytes.
    #[error("the signature does not fit the envelope")]
    Signature,
}

impl Envelope {
    /// Its bytes on the wire, signed (see C-59).
    pub fn sign(&self, signer: &impl Signer) -> Vec<u8> {
        let envelope = serde_json::to_string(self).expect("texts, numbers and lists are JSON");
        let signature = signer.sign(&[domains::MESSAGE, envelope.as_bytes()].concat());
        let (envelope, key) = (envelope.into(), Text(signer.public()));
        let wire = Wire { envelope, key, signature: BASE64.encode(&signature) };
        serde_json::to_vec(&wire).expect("texts are JSON")
    }

    /// Reads an envelope, and verifies it with the keys of its sender: size and format first, then
    /// the signature (see C-56).
    pub fn open(wire: &[u8], keys: &[PublicKey]) -> Result<Self, EnvelopeError> {
        if wire.len() > ENVELOPE_BYTES_MAX {
            return Err(EnvelopeError::TooLarge(wire.len()));
        }
        let malformed = EnvelopeError::Malformed;
        let wire: Wire<'_> =
            serde_json::from_slice(wire).map_err(|_| malformed("it has not the outer form"))?;
        let signature = BASE64
            .decode(wire.signature.as_bytes())
            .map_err(|_| malformed("the signature is not base64"))?;
        let envelope: Self = serde_json::from_str(&wire.envelope)
            .map_err(|_| malformed("it has not the form of an envelope"))?;
        envelope.check().map_err(malformed)?;
        let Text(key) = wire.key;
        if !keys.contains(&key) {
            return Err(EnvelopeError::UnknownKey);
        }
        if !key.verifies(&[domains::MESSAGE, wire.envelope.as_bytes()].concat(), &signature) {
            return Err(EnvelopeError::Signature);
        }
        Ok(envelope)
    }

    /// What its fields must be beside their form.
    fn check(&self) -> Result<(), &'static str> {
        let Self { header, routing, .. } = self;
        let message_type = self.try_message_type().ok_or("`messageType` is unknown")?;
        if header.message_id.0.as_str().contains('.') {
            return Err("`messageId` has a dot");
        }
        let names = [&header.source_chain_id, &routing.target];
        let is_name = |name: &String| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        if !names.into_iter().chain(&routing.scope).all(is_name) {
            return Err("`sourceChainId`, `target` or `scope` is empty or too long");
        }
        // see O-11: without phases there is the TTL of the message alone.
        if routing.atomicity == Atomicity::BestEffort && routing.phase_timeouts.is_some() {
            return Err("BEST_EFFORT has no `phaseTimeouts`");
        }
        if routing.slip.len() > SLIP_MAX || self.reissue_of.len() > ANCESTORS_MAX {
            return Err("`slip` or `reissueOf` is too long");
        }
        // see O-5
        let names_state =
            matches!(message_type, MessageType::StateSync | MessageType::RegulatoryAction);
        if names_state && self.current_state_hash.is_none() {
            return Err("`currentStateHash` is missing");
        }
        if self.nonce.is_some() && message_type != MessageType::LockManagement {
            return Err("`nonce` is of LOCK_MANAGEMENT alone");
        }
        Ok(())
    }

    fn try_message_type(&self) -> Option<MessageType> {
        MessageType::from_names(&self.header.message_type, self.header.sub_type.as_deref())
    }

    /// Its type.
    pub fn message_type(&self) -> MessageType {
        self.try_message_type().expect("an envelope is checked when it is read")
    }

    /// Where it comes from, as far as a proof must be checked (see O-9).
    pub fn source_kind(&self) -> SourceKind {
        match &self.attestation {
            Some(attestation) if attestation.origin == "CANTON" => SourceKind::Canton,
            _ => SourceKind::Other,
        }
    }

    /// How long it is of use.
    pub fn ttl(&self) -> Micros {
        Micros::from_secs(self.routing.ttl_seconds)
    }

    /// What two messages under one id are compared by (see C-60): everything but the timestamp, the
    /// TTL, the routing slip and the signature, which differ between rounds.
    pub fn conflict_hash(&self) -> ContentHash {
        let Self { header, routing, .. } = self;
        let mut out = Encoder::domain(b"indelible.envelope.conflict.v1");
        out.text(&self.message_type().to_string());
        out.bool(header.priority == Priority::Critical);
        out.text(&header.source_chain_id);
        out.text(&routing.target);
        out.option(routing.scope.as_deref(), Encoder::text);
        out.u8(match routing.atomicity {
            Atomicity::BestEffort => 1,
            Atomicity::Guaranteed => 2,
            Atomicity::AllOrNothing => 3,
        });
        out.option(routing.phase_timeouts, |out, timeouts| {
            let PhaseTimeouts { prepare, commit, finalize } = timeouts;
            [prepare, commit, finalize].into_iter().for_each(|seconds| out.u64(seconds));
        });
        out.text(self.body.get());
        out.option(self.current_state_hash, |out, Text(hash)| out.raw(hash.as_bytes()));
        out.option(self.nonce, Encoder::u64);
        out.option(self.attestation.as_ref(), |out, attestation| {
            out.text(&attestation.origin);
            out.text(attestation.transaction_id.0.as_str());
        });
        out.list(&self.reissue_of, |out, message| out.text(message.message_id.0.as_str()));
        ContentHash::of(&out.finish())
    }
}
