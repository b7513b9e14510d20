//! Why a batch cannot be written, and why a row cannot be read.

use super::{VERSION, WAIT_MEMBERS_MAX};
use crate::event::Sequence;
use crate::names::NameError;

/// Why entries are not a batch that can be stored: a mistake of the calling code, except for
/// [`EncodeError::TooManyWaiting`], which [`super::batches`] avoids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A row has the sequence of its first event, so there must be one.
    #[error("a batch must have at least one event")]
    Empty,
    /// Only the first event's sequence is stored; the others follow it.
    #[error("event {found} cannot follow event {after} in a batch")]
    NotConsecutive {
        /// The sequence before.
        after: Sequence,
        /// The sequence that should have been the next.
        found: Sequence,
    },
    /// The event differs from what the format leaves out because every accepted journal has it:
    /// these entries are not of this execution's journal.
    #[error("event {sequence} cannot be stored: {what}")]
    Unstorable {
        /// The event's sequence.
        sequence: Sequence,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The wait sets of a batch have too many members in all.
    #[error("with event {sequence} the batch waits on more than {WAIT_MEMBERS_MAX} promises")]
    TooManyWaiting {
        /// The first event that is too many.
        sequence: Sequence,
    },
}

/// Why bytes are not a batch. Offsets count from the row's first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The row is in a format that this build does not know.
    #[error(
        "the row has format version {found}, but this build reads version {known}: a newer \
         Indelible wrote it, or it is not a journal"
    )]
    UnknownVersion {
        /// The row's version.
        found: u8,
        /// The newest version that this build knows.
        known: u8,
    },
    /// The row is too short for what it claims to hold.
    #[error("the row is cut short: it ends within the item that begins at byte {offset}")]
    Truncated {
        /// Where the incomplete field begins.
        offset: usize,
    },
    /// A field has a value that no encoder writes.
    #[error("malformed at byte {offset}: {what}")]
    Malformed {
        /// Where the field begins.
        offset: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A field holds a text that is not a name.
    #[error("malformed at byte {offset}: invalid name")]
    Name {
        /// Where the text begins, with its length.
        offset: usize,
        /// What is wrong with it.
        source: NameError,
    },
    /// The row goes on after its last event.
    #[error("the last event ends at byte {offset}, but {count} more bytes follow")]
    TrailingBytes {
        /// Where the first trailing byte is.
        offset: usize,
        /// How many there are.
        count: usize,
    },
}

impl DecodeError {
    pub(super) fn unknown_version(found: u8) -> Self {
        Self::UnknownVersion { found, known: VERSION }
    }
}
