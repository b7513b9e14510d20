//! The codes that delivery emits, and what each does to the message.

use std::fmt;

/// What becomes of a message that met an error (see O-56).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It is refused for good.
    Reject,
    /// It is tried again.
    Retry,
    /// What it began is taken back.
    Rollback,
    /// It is for people.
    Escalate,
    /// The chain is marked as diverged.
    Diverge,
}

/// The codes of the specification (see O-45), and one more (see C-54).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// It came after its TTL (see O-10).
    MessageTtlExpired,
    /// It is known (see O-4). Not an error: the stored ACK is the answer.
    DeduplicationDetected,
    /// The proof in it was used by another message (see O-7).
    AttestationReplayDetected,
    /// The state is not the one that it names (see O-5).
    StateHashMismatch,
    /// No answer came in time (see O-11).
    DeliveryTimeout,
    /// No further attempt is allowed (see O-28).
    MaxRetriesExceeded,
    /// The entity waits for the end of a rollback.
    RollbackIncompleteReject,
    /// It is stamped later than clocks may differ (see C-54).
    MessageFromTheFuture,
}

impl ErrorCode {
    /// All codes, in the order of their numbers on disk.
    pub const ALL: [Self; 8] = [
        Self::MessageTtlExpired,
        Self::DeduplicationDetected,
        Self::AttestationReplayDetected,
        Self::StateHashMismatch,
        Self::DeliveryTimeout,
        Self::MaxRetriesExceeded,
        Self::RollbackIncompleteReject,
        Self::MessageFromTheFuture,
    ];

    const NAMES: [&str; 8] = [
        "MESSAGE_TTL_EXPIRED",
        "DEDUPLICATION_DETECTED",
        "ATTESTATION_REPLAY_DETECTED",
        "STATE_HASH_MISMATCH",
        "DELIVERY_TIMEOUT",
        "MAX_RETRIES_EXCEEDED",
        "ROLLBACK_INCOMPLETE_REJECT",
        "MESSAGE_FROM_THE_FUTURE",
    ];

    /// Its number, from 1.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The code with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }

    /// The code with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self::ALL[at])
    }

    /// What becomes of the message (see O-45). `None`: it is ignored, as a hit in the
    /// deduplication record is, or it ends in the dead letters, if its type has them.
    pub const fn disposition(self) -> Option<Disposition> {
        match self {
            Self::MessageTtlExpired
            | Self::AttestationReplayDetected
            | Self::StateHashMismatch
            | Self::RollbackIncompleteReject => Some(Disposition::Reject),
            Self::DeliveryTimeout | Self::MessageFromTheFuture => Some(Disposition::Retry),
            Self::DeduplicationDetected | Self::MaxRetriesExceeded => None,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::NAMES[*self as usize])
    }
}
