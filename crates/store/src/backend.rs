//! `Backend`: what a backend has to do. Everything else (positions, preconditions, the overlay,
//! group commit, back-pressure, pauses, poison) is the pipeline's, and the same over every backend.
//!
//! A backend's commit is one of two kinds:
//! - it changes the rows (embedded, memory): [`Backend::applied`] is as its default;
//! - it appends the group to a log, and the rows follow later (a database with a log table, D10).
//!   The pipeline keeps what is durable and not applied in memory, over the rows.
//!
//! A backend passes the suite of `indelible-store-conformance`.

use std::io;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;

use crate::batch::Write;
use crate::damage::DamageLog;
use crate::position::Sequence;
use crate::table::Table;

/// Why a backend could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The operating system said no.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done, as in "cannot …".
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// What is stored is not what was written.
    #[error("damaged data: {what}")]
    Damaged {
        /// What is wrong, and where.
        what: String,
    },
    /// The backend stopped by itself earlier, in its background work.
    #[error("the storage backend has stopped: {what}")]
    Stopped {
        /// What is known of the reason.
        what: String,
    },
    /// Another writer has taken the store over: nothing that this one commits counts any more.
    #[error("another writer owns this store now: {what}")]
    Fenced {
        /// What is known of the other writer.
        what: String,
    },
    /// Groups are missing whose commits had returned: callers were told that they are durable.
    #[error("commits up to group {acknowledged} were acknowledged, but some of them are missing")]
    CommitsMissing {
        /// The last group whose commit had returned.
        acknowledged: Sequence,
    },
    /// The backend cannot be reached. Of a commit: nothing of the group is committed, or ever will
    /// be by this try.
    #[error("the backend cannot be reached: {what}")]
    Unavailable {
        /// What was tried, and what came of it.
        what: String,
    },
    /// The connection was lost during a commit: the group may be committed, or may be later.
    #[error("it is unknown whether the group was committed: {what}")]
    UnknownOutcome {
        /// What was tried, and what came of it.
        what: String,
    },
}

impl BackendError {
    /// Whether stored data is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    /// Whether the cause may go away by itself. Such an error of a commit pauses the store: the same
    /// group is tried again. Any other poisons it, because what the backend holds is not known any
    /// more, or is not this writer's any more (D12).
    pub fn pauses(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::UnknownOutcome { .. } => true,
            Self::Io { .. }
            | Self::Damaged { .. }
            | Self::Stopped { .. }
            | Self::Fenced { .. }
            | Self::CommitsMissing { .. } => false,
        }
    }
}

/// What a backend knows of a sequence whose commit did not return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The group is there, and would survive whatever a commit that returned survives.
    There,
    /// The group is not there, and all groups before it are. An earlier try may still arrive.
    NotThere,
    /// A group before it is missing.
    EarlierMissing,
}

/// What a caller needs to know of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupKind {
    /// Its value.
    Value,
    /// Whether it has one.
    Existence,
}

/// One of many keys that are looked up together.
#[derive(Debug)]
pub struct Lookup<'a> {
    /// The table of the key.
    pub table: &'a Table,
    /// The key.
    pub key: &'a [u8],
    /// What is asked.
    pub wanted: LookupKind,
    /// The answer: `None` if the key has no value. Where only its existence is wanted, `Some` may
    /// hold any bytes.
    pub found: Option<Bytes>,
}

/// Keys could not be looked up.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct LookupError {
    /// Which of the lookups failed; the first if none is to blame.
    pub index: usize,
    /// Why.
    pub source: BackendError,
}

/// Runs work of a backend. A panic becomes an error: waiting callers get an answer, and this thread
/// survives.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, BackendError>) -> Result<T, BackendError> {
    caught_as(|what| BackendError::Stopped { what }, work)
}

/// Runs a read of a backend. A panic is damage: the read met bytes that the backend never writes.
pub(crate) fn caught_reading<T>(
    work: impl FnOnce() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    caught_as(|what| BackendError::Damaged { what }, work)
}

fn caught_as<T>(
    failed: impl FnOnce(String) -> BackendError,
    work: impl FnOnce() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(failed(format!("it panicked: {what}")))
    })
}

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the smallest key.
    Forward,
    /// From the largest key.
    Backward,
}

/// Keys from here to there.
pub type KeyRange = (Bound<Bytes>, Bound<Bytes>);

/// Takes the rows of a scan, until it has enough.
pub type Visit<'a> = dyn FnMut(Bytes, Bytes) -> ControlFlow<()> + 'a;

/// Shows rows to a visitor, in a direction, until it has enough.
pub(crate) fn visit_rows(
    mut rows: impl DoubleEndedIterator<Item = Result<(Bytes, Bytes), BackendError>>,
    direction: Direction,
    visit: &mut Visit<'_>,
) -> Result<(), BackendError> {
    loop {
        let row = match direction {
            Direction::Forward => rows.next(),
            Direction::Backward => rows.next_back(),
        };
        let Some((key, value)) = row.transpose()? else { return Ok(()) };
        if visit(key, value).is_break() {
            return Ok(());
        }
    }
}

/// A backend. One pipeline owns it: `commit` and `has_sequence` are never called twice at once, the
/// rest may be, also while a commit runs.
///
/// When a pipeline starts over it, the rows show every group that was ever committed. A call returns
/// within seconds, with [`BackendError::Unavailable`] if nothing else: a pause is told by the writer,
/// between two calls.
pub trait Backend: Send + Sync + 'static {
    /// The value of a key, after all commits up to [`applied`](Self::applied) at least. A later one
    /// may show or not, but never before it is durable.
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError>;

    /// Whether a key has a value; as `get`, without fetching it.
    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool, BackendError> {
        Ok(self.get(table, key)?.is_some())
    }

    /// Answers many lookups at once, each as `get` or `contains` would. The keys may be seen at
    /// different moments. A backend across a network makes one round trip of it.
    fn look_up(&self, lookups: &mut [Lookup<'_>]) -> Result<(), LookupError> {
        for (index, lookup) in lookups.iter_mut().enumerate() {
            let Lookup { table, key, wanted, .. } = *lookup;
            let found = match wanted {
                LookupKind::Value => self.get(table, key),
                LookupKind::Existence => {
                    self.contains(table, key).map(|exists| exists.then(Bytes::new))
                }
            };
            lookup.found = found.map_err(|source| LookupError { index, source })?;
        }
        Ok(())
    }

    /// All tables as they are now: after all commits up to [`applied`](Self::applied) at least;
    /// each later one shows whole or not at all.
    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError>;

    /// Commits a group: all its writes or none, each key once. Returns when they would survive a
    /// power loss. Groups come in the order of their sequences, without a gap.
    ///
    /// After an error that [pauses](BackendError::pauses) the same group comes again, under the same
    /// sequence, unless [`has_sequence`](Self::has_sequence) says that it is there. It takes effect
    /// once, also if the earlier try arrives in between: the sequence is the group's identity.
    /// After any other error the pipeline stops and never calls this again.
    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError>;

    /// Whether a group is there for which the store is paused; the backend may not have been given it
    /// yet. Another writer's group at this sequence is [`BackendError::Fenced`]. A backend that never
    /// pauses the store is never asked.
    fn has_sequence(&self, sequence: Sequence) -> Result<Presence, BackendError> {
        let what = format!("it cannot tell whether it has group {sequence}");
        Err(BackendError::Stopped { what })
    }

    /// The last group that is in the rows, with all before it: what `get` and `snapshot` show from
    /// now on. It never goes back, and in the end reaches the last group that was committed.
    fn applied(&self) -> Sequence {
        Sequence::MAX
    }

    /// Gives back the space of what was deleted from a table, as far as the backend can. May take
    /// long; everything else goes on meanwhile.
    fn reclaim(&self, table: &Table) -> Result<(), BackendError>;

    /// How much a table takes on disk, roughly; 0 where there is none.
    fn disk_bytes(&self, table: &Table) -> u64;

    /// Where its background work notes damage; the pipeline over it notes there what reads find.
    fn damage(&self) -> Arc<DamageLog> {
        Arc::default()
    }

    /// Brings everything into a state from which opening is quick. Called once, last.
    fn close(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// All tables at one moment.
pub trait BackendSnapshot: Send + Sync {
    /// The value of a key.
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError>;

    /// Visits the rows of a range in order, until the visitor breaks. The range is never the wrong
    /// way round: some key could be in it.
    fn scan(
        &self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), BackendError>;
}
