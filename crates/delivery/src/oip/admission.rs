//! What a receiver does with an envelope whose signature is good: every check in its order, before
//! anything changes (see O-53, C-56).

use bytes::Bytes;
use indelible_journal::Timestamp;

use super::envelope::Envelope;
use super::error::ErrorCode;
use crate::ids::ContentHash;
use crate::inbox::{Deduplication, Known, PurgeHorizon, Reception, Verdict, judge};
use crate::names::ForeignId;

/// What is known beside the envelope.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionFacts<'a> {
    /// The receiver's clock.
    pub clock: Timestamp,
    /// Up to when it has forgotten ids.
    pub horizon: PurgeHorizon,
    /// How long it remembers them.
    pub windows: &'a Deduplication,
    /// Whether the sender may send this.
    pub is_authorized: bool,
    /// What is known of the id.
    pub known: Option<Known<'a>>,
    /// Whether a message has a row that this one was issued again for.
    pub knows_ancestor: bool,
    /// The message that consumed the proof in this one.
    pub attestation_used_by: Option<&'a ForeignId>,
    /// Whether a rollback of the entity is not finished.
    pub rollback_incomplete: bool,
    /// The hash of the entity's state (see C-55).
    pub state_hash: Option<ContentHash>,
    /// The nonce that comes next for the asset, if nonces are used there.
    pub next_nonce: Option<u64>,
}

/// What an envelope meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission<'a> {
    /// It is applied, in one commit with its row, its proof and rows for its ancestors.
    Apply,
    /// A copy of it is being processed.
    InFlight,
    /// The stored acknowledgement is sent again (see C-12).
    RepeatAck(&'a Bytes),
    /// It was applied, or a message that it was issued again for. Its sender counts it as delivered.
    AlreadyApplied,
    /// Another message has the id.
    Mismatch,
    /// It is refused.
    Refused(AdmissionRefusal),
}

/// Why an envelope is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionRefusal {
    /// The sender may not send this.
    #[error("the sender has not the authority")]
    Authority,
    /// The TTL is longer than ids are remembered (see O-60).
    #[error("`ttlSeconds` is longer than the deduplication window allows")]
    TtlTooLong,
    /// One of the codes of the specification.
    #[error("{0}")]
    Code(ErrorCode),
    /// A message that it was issued again for may have been applied and forgotten (see C-52).
    #[error("a message that this one was issued again for may have been forgotten")]
    AncestorForgotten,
    /// Another nonce comes next (see O-6).
    #[error("another nonce comes next")]
    Nonce,
}

/// Judges an envelope that was opened (see C-56). Size, format and signature were checked when it
/// was opened.
pub fn admit<'a>(envelope: &Envelope, facts: &AdmissionFacts<'a>) -> Admission<'a> {
    let refused = |code| Admission::Refused(AdmissionRefusal::Code(code));
    let of = envelope.message_type();
    let now = facts.horizon.now(facts.clock);
    let stamped = envelope.header.timestamp.0;
    let hash = envelope.conflict_hash();
    // see C-67: questions and the like have no rows.
    let known = facts.known.filter(|_| of.has_rows());

    if !facts.is_authorized {
        return Admission::Refused(AdmissionRefusal::Authority);
    }
    if facts.windows.is_ahead(stamped, now) {
        return refused(ErrorCode::MessageFromTheFuture);
    }
    if envelope.ttl() > facts.windows.ttl_max(of) {
        return Admission::Refused(AdmissionRefusal::TtlTooLong);
    }
    // see O-10: the last moment is in time.
    if stamped.saturating_add(envelope.ttl()) < now {
        return match known {
            Some(Known::Row(row)) if row.conflict_hash == hash => match row.reception {
                Reception::Accepted { .. } => Admission::AlreadyApplied,
                Reception::Rejected(code) => refused(code),
            },
            _ => refused(ErrorCode::MessageTtlExpired),
        };
    }
    match judge(known, hash) {
        Verdict::Fresh => {}
        Verdict::InFlight => return Admission::InFlight,
        Verdict::PriorResult(ack) => return Admission::RepeatAck(ack),
        Verdict::PriorError(code) => return refused(code),
        Verdict::Mismatch => return Admission::Mismatch,
    }
    if facts.knows_ancestor {
        return Admission::AlreadyApplied;
    }
    let mut ancestors = envelope.reissue_of.iter();
    if ancestors.any(|ancestor| ancestor.timestamp.0 <= facts.horizon.get()) {
        return Admission::Refused(AdmissionRefusal::AncestorForgotten);
    }
    // see O-7, C-33: the proof is bound to the message that consumed it, and may be repeated by it.
    let own = &envelope.header.message_id.0;
    if envelope.attestation.is_some() && facts.attestation_used_by.is_some_and(|used| used != own) {
        return refused(ErrorCode::AttestationReplayDetected);
    }
    if facts.rollback_incomplete {
        return refused(ErrorCode::RollbackIncompleteReject);
    }
    // see O-5
    let wanted = envelope.current_state_hash.map(|hash| hash.0);
    if wanted.is_some() && wanted != facts.state_hash {
        return refused(ErrorCode::StateHashMismatch);
    }
    // see O-6
    let nonces = envelope.nonce.zip(facts.next_nonce);
    if nonces.is_some_and(|(found, next)| found != next) {
        return Admission::Refused(AdmissionRefusal::Nonce);
    }
    Admission::Apply
}
