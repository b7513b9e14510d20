//! Which decision is allowed about which dead letter, and what it changes.

use indelible_journal::{Micros, Timestamp};

use super::decision::{DecisionPayload, DecisionType};
use super::entry::{Ancestor, Entry, EntryState, Profile, Status, distinct};
use crate::delivery::{Input, Outcome};
use crate::ids::{ContentHash, MessageId};
use crate::message::Origin;

/// What the credential of a person allows (see O-38).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// To read.
    Reader,
    /// To decide.
    Decider,
    /// Everything.
    Admin,
}

/// Under which authority a decision comes (see C-62).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Authority {
    /// A person alone. The flag says whether governance is configured.
    Person {
        /// What the person may do.
        role: Role,
        /// Whether there are members of governance who vote.
        governance_configured: bool,
    },
    /// A vote of governance.
    Governance,
}

/// What the receiver says of a message (see C-52).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverStatus {
    /// It was applied.
    Applied,
    /// It was refused for good.
    Rejected,
    /// It is not known, and nothing before the horizon is remembered.
    NotKnown {
        /// The receiver's purge horizon.
        horizon: Timestamp,
        /// The receiver's time when it answered.
        receiver_now: Timestamp,
    },
}

/// What is known beside the entry.
#[derive(Debug, Clone, Copy)]
pub struct DecisionFacts<'a> {
    /// The hash of the entry as it is stored.
    pub hash: ContentHash,
    /// Who decides.
    pub authority: Authority,
    /// What the receiver has said of messages that may have arrived.
    pub statuses: &'a [(MessageId, ReceiverStatus)],
    /// Whether the receiver honours `reissueOf`.
    pub honours_reissue_of: bool,
    /// How far clocks may differ.
    pub clock_skew_max: Micros,
}

/// Why a message that may have arrived is sent again all the same (see C-52).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// No attempt at it may have arrived.
    NotNeeded,
    /// The receiver says that it did not apply it.
    Receiver,
    /// The receiver refuses it if it knows any of its ancestors.
    ReissueOf,
    /// The person who decides states that it did not arrive.
    Statement,
}

/// A message that is issued again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reissue {
    /// The fresh id, that of [`Origin::Decision`].
    pub id: MessageId,
    /// Its origin.
    pub origin: Origin,
    /// All of its ancestors (see C-52), the oldest first.
    pub ancestors: Vec<Ancestor>,
}

impl Reissue {
    /// Its `reissueOf`: the ids of all messages before it, with their times.
    pub fn reissue_of(&self) -> Vec<(MessageId, Timestamp)> {
        distinct(&self.ancestors).collect()
    }
}

/// What a decision changes, all in one commit with its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The state of the entry.
    pub state: EntryState,
    /// What happens to its delivery; `None` if it goes on waiting.
    pub delivery: Option<Input<'static>>,
    /// The message that is issued again.
    pub reissue: Option<Reissue>,
    /// Those of its ancestors are [closed](EntryState::close), too.
    pub closes_ancestors: bool,
    /// What the sender is told.
    pub told: Option<Outcome>,
    /// Why it may be sent again.
    pub proof: Option<Proof>,
    /// An admin decided in place of governance (see C-62): the record says so.
    pub decided_alone: bool,
}

/// Why a decision does not apply. Nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecisionRefusal {
    /// The entry is not in the decision.
    #[error("the decision is about other entries")]
    OtherEntry,
    /// The entry is not the one that was decided about.
    #[error("the hash is not that of the entry: it was decided about another one")]
    OtherHash,
    /// It was decided before.
    #[error("the entry has been decided")]
    Decided,
    /// The person may not decide, or not about this one.
    #[error("this needs the authority to decide, or that of governance")]
    Authority,
    /// This type of decision is not for this profile.
    #[error("this decision is not for messages of this profile")]
    Profile,
    /// The fresh id is not the one of this entry.
    #[error("`newMessageId` is not the id that the entry gives")]
    NewMessageId,
    /// It may have arrived, and nothing proves that it did not.
    #[error(
        "the message may have arrived: ask the receiver, or state that it did not (`didNotArrive`)"
    )]
    MayHaveArrived,
    /// The receiver says that it arrived.
    #[error("the receiver has applied the message")]
    Arrived,
}

impl DecisionRefusal {
    /// The HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            Self::Authority => 403,
            Self::OtherHash | Self::Decided | Self::Arrived => 409,
            Self::OtherEntry | Self::Profile | Self::NewMessageId | Self::MayHaveArrived => 422,
        }
    }
}

/// What a verified decision does to one of its entries (see O-36, C-61). Of a bulk decision each
/// entry is decided apart: one that is refused does not stop the others.
pub fn decide(
    entry: &Entry,
    state: EntryState,
    payload: &DecisionPayload,
    facts: &DecisionFacts<'_>,
) -> Result<Decided, DecisionRefusal> {
    let named = payload.entries.iter().find(|named| named.dlq_entry_id.0 == entry.id);
    let named = named.ok_or(DecisionRefusal::OtherEntry)?;
    let decided_alone = check_authority(state, facts.authority)?;
    if named.hash.0 != facts.hash {
        return Err(DecisionRefusal::OtherHash);
    }
    if state.status != Status::PendingReview {
        return Err(DecisionRefusal::Decided);
    }
    let profile = entry.profile();
    if payload.edits.is_some() && profile != Profile::Oip {
        return Err(DecisionRefusal::Profile);
    }
    let kept = Decided {
        state,
        delivery: None,
        reissue: None,
        closes_ancestors: false,
        told: None,
        proof: None,
        decided_alone,
    };
    match payload.decision_type {
        DecisionType::GovernanceEscalation if state.escalated => Err(DecisionRefusal::Decided),
        // see O-36: it stays open, and only governance may decide.
        DecisionType::GovernanceEscalation => {
            Ok(Decided { state: EntryState { escalated: true, ..state }, ..kept })
        }
        DecisionType::Abandon => {
            let unknown = entry.unknown_messages().next().is_some();
            Ok(Decided {
                state: EntryState { status: Status::Abandoned, ..state },
                delivery: Some(Input::Abandon),
                // see C-52: never "not performed".
                told: Some(if unknown { Outcome::Indeterminate } else { Outcome::Abandoned }),
                closes_ancestors: true,
                ..kept
            })
        }
        DecisionType::Redeliver => {
            if profile != Profile::Webhook {
                return Err(DecisionRefusal::Profile);
            }
            // Under its own id a receiver cannot tell it from its ancestors.
            let proof = prove(entry, payload, facts, false)?;
            Ok(Decided {
                state: EntryState { status: Status::RetryQueued, ..state },
                delivery: Some(Input::Redeliver),
                proof: Some(proof),
                ..kept
            })
        }
        DecisionType::Retry => {
            let proof = prove(entry, payload, facts, facts.honours_reissue_of)?;
            let reissue = reissue(entry, facts.hash, proof);
            let wanted = payload.new_message_id.as_ref().map(|id| id.0);
            if wanted.is_some_and(|wanted| wanted != reissue.id) {
                return Err(DecisionRefusal::NewMessageId);
            }
            let (status, successor) = (Status::RetryQueued, Some(reissue.id));
            Ok(Decided {
                state: EntryState { status, successor, ..state },
                delivery: Some(Input::Reissue(reissue.id)),
                told: Some(Outcome::Reissued(reissue.id)),
                reissue: Some(reissue),
                proof: Some(proof),
                ..kept
            })
        }
    }
}

/// Whether this authority may decide about an entry (see O-38); whether it does so in place of
/// governance (see C-62).
fn check_authority(state: EntryState, authority: Authority) -> Result<bool, DecisionRefusal> {
    match authority {
        Authority::Governance => Ok(false),
        Authority::Person { role, governance_configured } => match (state.escalated, role) {
            (false, Role::Decider | Role::Admin) => Ok(false),
            (true, Role::Admin) if !governance_configured => Ok(true),
            _ => Err(DecisionRefusal::Authority),
        },
    }
}

/// Why a message may be sent again (see C-52).
fn prove(
    entry: &Entry,
    payload: &DecisionPayload,
    facts: &DecisionFacts<'_>,
    honours_reissue_of: bool,
) -> Result<Proof, DecisionRefusal> {
    let status_of = |id: MessageId| {
        let found = facts.statuses.iter().find(|(known, _)| *known == id);
        found.map(|(_, status)| *status)
    };
    // What the receiver says comes before what a person states.
    if entry.unknown_messages().any(|(id, _)| status_of(id) == Some(ReceiverStatus::Applied)) {
        return Err(DecisionRefusal::Arrived);
    }
    if entry.unknown_messages().next().is_none() {
        return Ok(Proof::NotNeeded);
    }
    let is_disproved = |(id, created): (MessageId, Timestamp)| match status_of(id) {
        Some(ReceiverStatus::Rejected) => true,
        Some(ReceiverStatus::NotKnown { horizon, receiver_now }) => {
            // The receiver may have applied and forgotten what is not later than its horizon; and a
            // copy on the wire can arrive after the question for as long as it is of use.
            let skew = Micros::new(facts.clock_skew_max.get().saturating_mul(2));
            let last = entry.ttl.map(|ttl| created.saturating_add(ttl).saturating_add(skew));
            created > horizon && last.is_some_and(|last| last < receiver_now)
        }
        Some(ReceiverStatus::Applied) | None => false,
    };
    if entry.unknown_messages().all(is_disproved) {
        return Ok(Proof::Receiver);
    }
    if honours_reissue_of {
        return Ok(Proof::ReissueOf);
    }
    if payload.did_not_arrive {
        return Ok(Proof::Statement);
    }
    Err(DecisionRefusal::MayHaveArrived)
}

/// The message that is issued again for an entry: one for each entry, however often it is asked for.
fn reissue(entry: &Entry, hash: ContentHash, proof: Proof) -> Reissue {
    let origin = Origin::Decision { reissue_of: entry.message_id(), entry: hash };
    let mut ancestors = entry.lineage();
    if matches!(proof, Proof::Receiver | Proof::Statement) {
        ancestors.iter_mut().for_each(|ancestor| ancestor.may_have_arrived = false);
    }
    Reissue { id: origin.message_id(), origin, ancestors }
}

/// What a receiver answers to a message with ancestors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReissueVerdict {
    /// It is applied, and a row is written for each ancestor in the same commit, so that a late copy
    /// of one meets it.
    Apply,
    /// One of them was applied.
    AlreadyApplied,
    /// One of them may have been applied and forgotten.
    Forgotten,
}

/// What a receiver does that honours `reissueOf` (see C-52). `is_known` says whether an id has a
/// row.
pub fn admit_reissue(
    ancestors: &[(MessageId, Timestamp)],
    horizon: Timestamp,
    is_known: impl Fn(MessageId) -> bool,
) -> ReissueVerdict {
    if ancestors.iter().any(|(id, _)| is_known(*id)) {
        return ReissueVerdict::AlreadyApplied;
    }
    if ancestors.iter().any(|(_, created)| *created <= horizon) {
        return ReissueVerdict::Forgotten;
    }
    ReissueVerdict::Apply
}
