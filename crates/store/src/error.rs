//! What can go wrong, by operation: submitting, reading, waiting.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::backend::BackendError;
use crate::batch::Condition;
use crate::bounds::OutOfBounds;
use crate::position::Position;

/// Why a store stopped for good. Nothing is retried over a failed write or sync: what the disk
/// holds is not known any more, and only opening the store again finds out (D12).
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the store has stopped after position {durable}: {cause}; stop the process, fix the cause, and \
     open the store again"
)]
pub struct Poison {
    #[source]
    pub(crate) cause: Arc<BackendError>,
    pub(crate) durable: Position,
}

impl Poison {
    /// What failed.
    pub fn cause(&self) -> &BackendError {
        &self.cause
    }

    /// The last position that is known to be durable.
    pub fn durable(&self) -> Position {
        self.durable
    }
}

/// Why a position is not durable, or not in time.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The store stopped first. It is unknown whether the batch is on disk; no caller may be told
    /// that it happened.
    #[error(transparent)]
    Poisoned(Poison),
    /// The store has been paused for so long that callers are told. The batch may become durable
    /// later, or be lost: a caller repeats its request under the same id.
    #[error("it is unknown whether the batch becomes durable: {0}")]
    Paused(Pause),
    /// This store never gave out this position.
    #[error("position {asked} was never accepted; the last one is {last}")]
    NeverAccepted {
        /// The one asked for.
        asked: Position,
        /// The last one that was.
        last: Position,
    },
}

/// A batch was refused because of a precondition. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which of the batch's preconditions, from 0.
    pub index: usize,
    /// What it demanded.
    pub condition: Condition,
    /// What is there instead, in accepted state.
    pub found: Option<Bytes>,
    /// The state that refused the batch is durable once this position is: an answer that tells of
    /// the refusal waits for it (D2).
    pub position: Position,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, condition, found, .. } = self;
        write!(f, "precondition {index} on table {:?} is not met: ", condition.table.name())?;
        match found {
            None => f.write_str("the key has no value"),
            Some(value) => write!(f, "the key has another value, of {} bytes", value.len()),
        }
    }
}

impl std::error::Error for Refusal {}

/// Why a batch was not accepted. In every case nothing has changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A precondition is not met: a race was lost, or the caller is behind.
    #[error(transparent)]
    Refused(Refusal),
    /// It is larger than it may be.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
    /// The store was opened without this table.
    #[error("the store was opened without the table {0:?}")]
    UnknownTable(&'static str),
    /// There is no room now, and the caller did not want to wait.
    #[error("the store is busy: {waiting} batches wait for the disk")]
    Full {
        /// How many.
        waiting: usize,
    },
    /// A precondition could not be read.
    #[error("a precondition cannot be read: {0}")]
    Unreadable(Arc<BackendError>),
    /// There is no room, and the store has been paused for so long that callers are told.
    #[error(transparent)]
    Paused(Pause),
    /// The store has stopped.
    #[error(transparent)]
    Poisoned(Poison),
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
}

impl SubmitError {
    /// Whether a precondition is damaged: this store never accepts the batch.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Unreadable(error) if error.is_damage())
    }

    /// Whether the backend cannot be reached for now: the same batch may be accepted later.
    pub fn is_pause(&self) -> bool {
        match self {
            Self::Paused(_) => true,
            Self::Unreadable(error) => error.pauses(),
            _ => false,
        }
    }
}

/// Why something could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The backend could not: too many files are open, or damage.
    #[error("cannot read table {table:?}: {source}")]
    Backend {
        /// Which table.
        table: &'static str,
        /// Why.
        source: Arc<BackendError>,
    },
    /// The backend could not show all tables at one moment.
    #[error("cannot open a snapshot: {0}")]
    Snapshot(Arc<BackendError>),
    /// A row is not what its table's rows are like: damaged, or written by a newer version.
    #[error("a row of table {table:?} cannot be read: {what} (key {key:?})")]
    Row {
        /// Which table.
        table: &'static str,
        /// Its key.
        key: Bytes,
        /// What is wrong with it.
        what: String,
    },
    /// A scan asked for more than it may.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
    /// The store was opened without this table.
    #[error("the store was opened without the table {0:?}")]
    UnknownTable(&'static str),
    /// The store has stopped.
    #[error(transparent)]
    Poisoned(Poison),
}

impl ReadError {
    /// Whether a row is damaged, or written by a newer version: the same read never works on this
    /// store.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Backend { source, .. } | Self::Snapshot(source) => source.is_damage(),
            Self::Row { .. } => true,
            Self::OutOfBounds(_) | Self::UnknownTable(_) | Self::Poisoned(_) => false,
        }
    }

    /// Whether the backend cannot be reached for now: the same read may work later.
    pub fn is_pause(&self) -> bool {
        matches!(self, Self::Backend { source, .. } | Self::Snapshot(source) if source.pauses())
    }
}

/// A store in which nothing becomes durable for now. It goes on by itself when it can.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the store is paused and resumes by itself: {cause}")]
pub struct Pause {
    #[source]
    pub(crate) cause: Arc<BackendError>,
}

impl Pause {
    /// What the last try met.
    pub fn cause(&self) -> &BackendError {
        &self.cause
    }
}
