//! Decisions as people sign them: exact bytes, with the key of the person who decides.

use std::collections::BTreeSet;

use bytes::Bytes;
use indelible_journal::{Micros, Timestamp};
use indelible_ledger::json::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::domains;
use crate::bounds::{BULK_ENTRIES_MAX, RATIONALE_BYTES_MAX};
use crate::ids::{ContentHash, EntryId, MessageId};
use crate::names::Maker;
use crate::signing::{Ed25519Key, PublicKey};

/// How old a decision may be when it comes. An entry is decided once, so this only keeps a decision
/// that was signed and put away from being used later.
const AGE_MAX: Micros = Micros::from_secs(60 * 60);
/// How far the clock of the person who decides may be ahead.
const AHEAD_MAX: Micros = Micros::from_secs(5 * 60);

/// What is decided (see O-36). `REDELIVER` is this project's own (see C-61).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DecisionType {
    /// The message is issued again under a fresh id.
    Retry,
    /// It is given up.
    Abandon,
    /// Governance decides.
    GovernanceEscalation,
    /// The message is sent again under the same id.
    Redeliver,
}

/// An entry, and what it was when it was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EntryReference {
    /// The entry.
    pub dlq_entry_id: Text<EntryId>,
    /// Its hash (see C-61).
    pub hash: Text<ContentHash>,
}

/// The four questions of the analysis (see O-35).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Analysis {
    /// Whether the failure is permanent.
    pub permanent: bool,
    /// Whether it is systemic.
    pub systemic: bool,
    /// Whether a retry is likely to succeed.
    pub retry_likely_to_succeed: bool,
    /// Whether governance is needed.
    pub governance_needed: bool,
}

/// What a message that is issued again has another of (see O-36). Of the `oip` profile alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Edits {
    /// Its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Its atomicity strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atomicity: Option<String>,
    /// Its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// What a person signs (see O-37). A bulk decision has several entries: the list is frozen (see C-61).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DecisionPayload {
    /// When it was decided, by the clock of the person.
    pub decision_at: Text<Timestamp>,
    /// Who decides.
    pub decision_maker: Text<Maker>,
    /// What is decided.
    pub decision_type: DecisionType,
    /// About which entries.
    pub entries: Vec<EntryReference>,
    /// The fresh id; present if and only if one entry is retried. Those of a bulk decision are in
    /// its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_message_id: Option<Text<MessageId>>,
    /// Why.
    pub rationale: String,
    /// The person states that no attempt at these messages has arrived (see C-52).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub did_not_arrive: bool,
    /// What the analysis came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// What the fresh message has another of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<Edits>,
    /// How many entries of a bulk decision are carried out in a second at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<u32>,
}

/// A decision as it came and is stored: the exact bytes (see C-59), and whose signature is over
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The payload, as JSON.
    pub bytes: Bytes,
    /// The key.
    pub key: PublicKey,
    /// The signature.
    pub signature: [u8; 64],
}

/// A key that a person has registered (see C-59).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredKey {
    /// Whose key it is.
    pub maker: Maker,
    /// The key.
    pub key: PublicKey,
    /// Since when.
    pub registered_at: Timestamp,
    /// Since when it decides nothing more.
    pub revoked_at: Option<Timestamp>,
}

/// Why a decision is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    /// The key is not registered.
    #[error("the key is not registered")]
    UnknownKey,
    /// The key was revoked.
    #[error("the key was revoked")]
    RevokedKey,
    /// The key belongs to another person than the one that decides.
    #[error("the key is not that of the decision-maker")]
    ForeignKey,
    /// The signature is not over these bytes.
    #[error("the signature does not fit the decision")]
    Signature,
    /// The payload is malformed.
    #[error("the decision is malformed: {0}")]
    Malformed(&'static str),
    /// It was signed too long ago, or in the future.
    #[error("the decision was signed at another time than now")]
    Stale,
}

impl DecisionPayload {
    /// Its bytes, and the signature over them: what the command line sends.
    pub fn sign(&self, key: &Ed25519Key) -> Decision {
        let bytes = serde_json::to_vec(self).expect("texts and lists are JSON");
        let signature = key.sign(&[domains::DECISION, &bytes].concat());
        Decision { bytes: bytes.into(), key: key.public(), signature }
    }

    fn check(&self, now: Timestamp) -> Result<(), DecisionError> {
        let malformed = |why| Err(DecisionError::Malformed(why));
        let Text(at) = self.decision_at;
        if now.saturating_since(at) > AGE_MAX || at.saturating_since(now) > AHEAD_MAX {
            return Err(DecisionError::Stale);
        }
        if self.rationale.trim().is_empty() || self.rationale.len() > RATIONALE_BYTES_MAX {
            return malformed("the rationale is blank or too long");
        }
        if self.entries.is_empty() || self.entries.len() > BULK_ENTRIES_MAX {
            return malformed("it has no entries, or too many");
        }
        let distinct: BTreeSet<_> = self.entries.iter().map(|entry| entry.dlq_entry_id.0).collect();
        if distinct.len() < self.entries.len() {
            return malformed("an entry is in it twice");
        }
        let is_single_retry = self.decision_type == DecisionType::Retry && self.entries.len() == 1;
        // see O-37: present if and only if the type is RETRY.
        if self.new_message_id.is_some() != is_single_retry {
            return malformed("`newMessageId` is present if and only if one entry is retried");
        }
        if self.rate_per_second == Some(0) {
            return malformed("`ratePerSecond` is 0");
        }
        Ok(())
    }
}

impl Decision {
    /// The payload, if it is signed by the person that it names, now (see O-37, C-59). `registered`
    /// is what is known of the key.
    pub fn verify(
        &self,
        registered: Option<&RegisteredKey>,
        now: Timestamp,
    ) -> Result<DecisionPayload, DecisionError> {
        let known = registered.filter(|known| known.key == self.key);
        let known = known.ok_or(DecisionError::UnknownKey)?;
        if known.revoked_at.is_some_and(|revoked| revoked <= now) {
            return Err(DecisionError::RevokedKey);
        }
        // The bytes are read only after this: what is malformed may be hostile, too.
        self.check_signature()?;
        let payload: DecisionPayload = serde_json::from_slice(&self.bytes)
            .map_err(|_| DecisionError::Malformed("it is not JSON of this form"))?;
        if payload.decision_maker.0 != known.maker {
            return Err(DecisionError::ForeignKey);
        }
        payload.check(now)?;
        Ok(payload)
    }

    /// Whether the signature is over the bytes.
    pub(super) fn check_signature(&self) -> Result<(), DecisionError> {
        let signed = [domains::DECISION, &self.bytes].concat();
        let good = self.key.verifies(&signed, &self.signature);
        if good { Ok(()) } else { Err(DecisionError::Signature) }
    }
}
