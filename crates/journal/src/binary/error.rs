//! Why a batch cannot be written, and why a row cannot be read.

use super::{VERSION, WAIT_MEMBERS_MAX};
use crate::event::Sequence;
use crate::names::NameError;

/// Why entries are not a batch that can be stored: a mistake of the caller, except for
/// [`EncodeError::TooManyWaiting`], which [`super::batches`] avoids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A row says where it stands by its first event, so there must be one.
    #[error("a batch has at least one event")]
    Empty,
    /// Only the first event's place is stored; the others follow it.
    #[error("event {found} cannot follow event {after} in a batch")]
    NotConsecutive {
        /// The event before.
        after: Sequence,
        /// The event that should have been next to it.
        found: Sequence,
    },
    /// The event says something that the format leaves out because no accepted journal can say
    /// otherwise: these entries are not of this execution's journal.
    #[error("event {sequence} cannot be stored: {what}")]
    Unstorable {
        /// Which event.
        sequence: Sequence,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The wait sets of a batch have too many members in all.
    #[error("with event {sequence} the batch waits on more than {WAIT_MEMBERS_MAX} promises")]
    TooManyWaiting {
        /// The event that is one too many.
        sequence: Sequence,
    },
}

/// Why bytes are not a batch. Offsets count from the row's first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The row is in a format that this build does not know.
    #[error(
        "the row has format version {found}, and this build reads version {known}: it was \
         written by a newer Indelible, or it is no journal"
    )]
    UnknownVersion {
        /// The row's version.
        found: u8,
        /// The newest version that this build knows.
        known: u8,
    },
    /// The row is too short for what it says it holds.
    #[error("the row is cut short: it ends within what begins at byte {offset}")]
    Truncated {
        /// Where the field that is not all there begins.
        offset: usize,
    },
    /// A field holds what nobody writes.
    #[error("malformed at byte {offset}: {what}")]
    Malformed {
        /// Where the field begins.
        offset: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A field holds a text that is not a name.
    #[error("malformed at byte {offset}: not a name")]
    Name {
        /// Where the text begins, with its length.
        offset: usize,
        /// What is wrong with it.
        source: NameError,
    },
    /// The row goes on after its last event.
    #[error("the last event ends at byte {offset}, and {count} more bytes follow")]
    TrailingBytes {
        /// Where the first of them stands.
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
