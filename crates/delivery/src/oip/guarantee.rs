//! What each type of message is promised: its TTL, its retries, what a receiver checks.

use std::fmt;
use std::str::FromStr;

use indelible_journal::{Backoff, Idempotency, Micros, RetryBound, Timestamp};

use crate::attempt::Busy503;
use crate::delivery::{Ending, Policy};
use crate::schedule::{Schedule, worst_case};

/// The types of messages (see O-52), with the kinds of `GOVERNANCE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageType {
    /// A transaction that a mirror applies.
    StateSync,
    /// A regulatory action.
    RegulatoryAction,
    /// A lock is acquired or released.
    LockManagement,
    /// A question.
    Query,
    /// An acknowledgement.
    Ack,
    /// A sign of life.
    Heartbeat,
    /// A proposal of governance.
    Proposal,
    /// A vote of governance.
    Vote,
    /// What governance has decided.
    Execute,
}

/// How much depends on a message.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Priority {
    /// It can fail.
    Normal,
    /// Of a regulatory action: it must arrive (see O-1).
    Critical,
}

impl MessageType {
    /// All types.
    pub const ALL: [Self; 9] = [
        Self::StateSync,
        Self::RegulatoryAction,
        Self::LockManagement,
        Self::Query,
        Self::Ack,
        Self::Heartbeat,
        Self::Proposal,
        Self::Vote,
        Self::Execute,
    ];

    /// `messageType` and `subType`, as they are on the wire.
    pub const fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::StateSync => ("STATE_SYNC", None),
            Self::RegulatoryAction => ("REGULATORY_ACTION", None),
            Self::LockManagement => ("LOCK_MANAGEMENT", None),
            Self::Query => ("QUERY", None),
            Self::Ack => ("ACK", None),
            Self::Heartbeat => ("HEARTBEAT", None),
            Self::Proposal => ("GOVERNANCE", Some("PROPOSAL")),
            Self::Vote => ("GOVERNANCE", Some("VOTE")),
            Self::Execute => ("GOVERNANCE", Some("EXECUTE")),
        }
    }

    /// The type of these names. Types other than `GOVERNANCE` may have any `subType`, or none.
    pub fn from_names(name: &str, sub: Option<&str>) -> Option<Self> {
        Self::ALL.into_iter().find(|known| match known.names() {
            (known, None) => known == name,
            (known, wanted) => known == name && wanted == sub,
        })
    }

    /// Whether it changes state of users. The others have no rows in the deduplication record
    /// (see C-67).
    pub const fn has_rows(self) -> bool {
        !matches!(self, Self::Query | Self::Ack | Self::Heartbeat)
    }

    /// The recommended TTL (see O-13). It says nothing about how long the procedure takes that the
    /// message starts (see O-15).
    pub const fn recommended_ttl(self) -> Micros {
        Micros::from_secs(match self {
            Self::StateSync | Self::Vote => 300,
            Self::RegulatoryAction | Self::Proposal | Self::Execute => 600,
            Self::LockManagement => 120,
            Self::Query => 30,
            Self::Ack => 60,
            Self::Heartbeat => 15,
        })
    }

    /// What a receiver checks beside the id (see O-8).
    pub const fn strategy(self) -> IdempotencyStrategy {
        match self {
            Self::StateSync | Self::RegulatoryAction => IdempotencyStrategy::MessageIdPlusStateHash,
            Self::LockManagement => IdempotencyStrategy::MessageIdPlusNonce,
            _ => IdempotencyStrategy::MessageId,
        }
    }
}

/// `TYPE`, or `GOVERNANCE KIND`.
impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.names() {
            (name, None) => f.pad(name),
            (name, Some(sub)) => write!(f, "{name} {sub}"),
        }
    }
}

/// The text is no type of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown message type")]
pub struct UnknownType;

impl FromStr for MessageType {
    type Err = UnknownType;

    fn from_str(text: &str) -> Result<Self, UnknownType> {
        Self::ALL.into_iter().find(|known| known.to_string() == text).ok_or(UnknownType)
    }
}

/// What a receiver checks beside the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdempotencyStrategy {
    /// Nothing.
    MessageId,
    /// That the state is the one that the message names.
    MessageIdPlusStateHash,
    /// That the nonce is the next, if there is one (see O-6).
    MessageIdPlusNonce,
}

/// Where a message comes from, as far as a proof of it must be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// It carries the id of a transaction of CANTON, which is consumed once (see O-7).
    Canton,
    /// Any other.
    Other,
}

/// Minimum TTL of assets that change often (see O-14).
pub const HIGH_FREQUENCY_TTL_MIN: Micros = Micros::from_secs(5);
/// Minimum TTL of assets under an active regulatory action (see O-14).
pub const UNDER_ACTION_TTL_MIN: Micros = Micros::from_secs(600);

/// The longer of the sender's TTL and the minimum of the asset's class (see O-12).
pub fn resolve_ttl(sender: Micros, asset_min: Option<Micros>) -> Micros {
    asset_min.map_or(sender, |min| sender.max(min))
}

/// What a message is promised: a contract, never sent (see O-8, O-57). `semantics` is always
/// `AT_LEAST_ONCE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantee {
    /// How long it is of use.
    pub ttl: Micros,
    /// What a receiver checks beside the id.
    pub strategy: IdempotencyStrategy,
    /// Whether the proof in it is consumed once.
    pub require_attestation_check: bool,
    /// When it is tried again.
    pub schedule: Schedule,
    /// What becomes of it when no further attempt is allowed.
    pub ending: Ending,
}

/// A guarantee that the specification does not allow (see O-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GuaranteeError {
    /// A message of CANTON whose proof is not checked.
    #[error("messages that originate from CANTON require the attestation check")]
    AttestationCheck,
    /// A CRITICAL regulatory action with a dead letter queue, or with an end.
    #[error("CRITICAL regulatory actions are retried for ever and have no dead letters")]
    Critical,
}

/// Retries, base and cap in milliseconds, and what follows the last.
type Row = (Option<u32>, u64, u64, Ending);

/// The table (see O-21).
const fn row(of: MessageType, priority: Priority) -> Row {
    use Ending::{DeadLetter, Never, Nothing};
    match (of, priority) {
        (MessageType::RegulatoryAction, Priority::Critical) => (None, 500, 5_000, Never),
        (MessageType::RegulatoryAction, Priority::Normal) => (Some(10), 1_000, 30_000, DeadLetter),
        (MessageType::StateSync, _) => (Some(5), 2_000, 60_000, DeadLetter),
        (MessageType::LockManagement, _) => (Some(7), 1_000, 30_000, DeadLetter),
        (MessageType::Query, _) => (Some(3), 1_000, 10_000, Nothing),
        (MessageType::Ack, _) => (Some(3), 500, 5_000, Nothing),
        (MessageType::Heartbeat, _) => (Some(0), 0, 0, Nothing),
        (MessageType::Proposal, _) => (Some(5), 2_000, 30_000, DeadLetter),
        (MessageType::Vote, _) => (Some(3), 1_000, 10_000, DeadLetter),
        (MessageType::Execute, _) => (Some(7), 2_000, 60_000, DeadLetter),
    }
}

const fn retry(of: MessageType, priority: Priority) -> (Backoff, RetryBound, Ending) {
    let (retries, base, cap, ending) = row(of, priority);
    let bound = match retries {
        Some(most) => RetryBound::Bounded(most),
        None => RetryBound::Unbounded,
    };
    (Backoff { base: Micros::from_millis(base), cap: Micros::from_millis(cap) }, bound, ending)
}

impl Guarantee {
    /// The guarantee of the table (see O-1, O-9, O-21).
    pub fn of(of: MessageType, priority: Priority, source: SourceKind, ttl: Micros) -> Self {
        let (backoff, bound, ending) = retry(of, priority);
        Self {
            ttl,
            strategy: of.strategy(),
            require_attestation_check: source == SourceKind::Canton,
            schedule: Schedule::Exponential { backoff, bound },
            ending,
        }
    }

    /// Whether it is one that such a message may have (see O-9).
    pub fn check(
        &self,
        of: MessageType,
        priority: Priority,
        source: SourceKind,
    ) -> Result<(), GuaranteeError> {
        if source == SourceKind::Canton && !self.require_attestation_check {
            return Err(GuaranteeError::AttestationCheck);
        }
        let is_critical = of == MessageType::RegulatoryAction && priority == Priority::Critical;
        if is_critical && self.ending != Ending::Never {
            return Err(GuaranteeError::Critical);
        }
        Ok(())
    }

    /// What it allows for a message that was stamped then. Receivers of this profile tell
    /// repetitions, so an unknown end is followed by another attempt.
    pub fn policy(&self, stamped: Timestamp) -> Policy<'_> {
        // see C-14: a CRITICAL message is stamped anew for each round, and never expires.
        let expires = self.ending != Ending::Never;
        Policy {
            schedule: &self.schedule,
            class: Idempotency::Idem,
            expires_at: expires.then(|| stamped.saturating_add(self.ttl)),
            busy: Busy503::Unknown,
            ending: self.ending,
        }
    }
}

/// The longest time that the retries of a type can take (see O-23); `None` if it is unbounded.
pub fn retry_window(of: MessageType, priority: Priority) -> Option<Micros> {
    let (backoff, bound, _) = retry(of, priority);
    worst_case(bound, backoff.cap)
}
