//! Why a transaction is refused: codes with their numbers, and the first operation that failed.

use std::fmt;

use indelible_journal::Payload;

use crate::names::EntityKey;
use crate::value::EntitySummary;

/// What a program matches on. Names and numbers are for ever: 1 to 6 are those of Q-19.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// There is an entity, and the condition wants none.
    KeyExists,
    /// There is no entity.
    KeyNotFound,
    /// The entity has another version.
    VersionMismatch,
    /// The entity holds something else.
    ValueMismatch,
    /// The number has been committed (C-7). A success.
    AlreadyCommitted,
    /// A number before this one is missing.
    SequenceGap,
    /// Less than `min` would remain.
    BelowMin,
    /// More than `max` would be there.
    AboveMax,
    /// The entity is no amount, or one of another unit.
    UnitMismatch,
    /// The amount would not fit 128 bits.
    AmountOverflow,
    /// The values that `get` returns are larger than a transaction may answer.
    ResultTooLarge,
    /// The stream has no further number (C-49).
    SequenceExhausted,
    /// The attempt was overtaken by a refusal (C-42).
    StaleAttempt,
    /// Another request has this number (C-5).
    SequenceMismatch,
}

impl Code {
    /// All codes, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::KeyExists,
        Self::KeyNotFound,
        Self::VersionMismatch,
        Self::ValueMismatch,
        Self::AlreadyCommitted,
        Self::SequenceGap,
        Self::BelowMin,
        Self::AboveMax,
        Self::UnitMismatch,
        Self::AmountOverflow,
        Self::ResultTooLarge,
        Self::SequenceExhausted,
        Self::StaleAttempt,
        Self::SequenceMismatch,
    ];

    const NAMES: [&str; 14] = [
        "KEY_EXISTS",
        "KEY_NOT_FOUND",
        "VERSION_MISMATCH",
        "VALUE_MISMATCH",
        "ALREADY_COMMITTED",
        "SEQUENCE_GAP",
        "BELOW_MIN",
        "ABOVE_MAX",
        "UNIT_MISMATCH",
        "AMOUNT_OVERFLOW",
        "RESULT_TOO_LARGE",
        "SEQUENCE_EXHAUSTED",
        "STALE_ATTEMPT",
        "SEQUENCE_MISMATCH",
    ];

    /// Its number, from 1.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The code with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }

    /// Its name, as the API has it.
    pub const fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The first operation that failed, and what it met. Nothing of the transaction took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which operation, from 0, over all writes of a batch; [`Request::place`](crate::Request::place)
    /// says where that is.
    pub index: usize,
    /// Why.
    pub code: Code,
    /// The entity that it is about.
    pub key: EntityKey,
    /// What the operation met under the key: version, and amount or hash of the value.
    pub current: Option<EntitySummary>,
    /// The value that it met, unless that is larger than
    /// [`REFUSED_VALUE_BYTES_MAX`](crate::bounds::REFUSED_VALUE_BYTES_MAX).
    pub current_value: Option<Payload>,
}
