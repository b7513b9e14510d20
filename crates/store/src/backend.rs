//! `Backend`: what a backend has to do. Everything else (positions, preconditions, the overlay,
//! group commit, back-pressure, poison) is the pipeline's, and the same over every backend.
//!
//! A backend passes the suite of `indelible-store-conformance`.

use std::io;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;

use crate::batch::Write;
use crate::damage::DamageLog;
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
    #[error("the storage engine has stopped: {what}")]
    Stopped {
        /// What is known of the reason.
        what: String,
    },
}

impl BackendError {
    /// Whether stored data is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

/// Runs work of a backend. A panic becomes an error: callers that wait get an answer, and the caller's
/// thread goes on.
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

/// A backend. One pipeline owns it: `commit` is never called twice at once, the rest may be, also
/// while a commit runs.
pub trait Backend: Send + Sync + 'static {
    /// The value of a key, after all commits that have returned. A commit under way may show or
    /// not.
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError>;

    /// Whether a key has a value; as `get`, without fetching it.
    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool, BackendError> {
        Ok(self.get(table, key)?.is_some())
    }

    /// All tables as they are now: after all commits that have returned; one under way shows
    /// whole or not at all.
    fn snapshot(&self) -> Box<dyn BackendSnapshot>;

    /// Applies all writes at once, and returns when they would survive a power loss. Each key
    /// occurs once. After an error nobody knows what is on disk: the pipeline stops, and never
    /// calls this again.
    fn commit(&self, writes: Vec<Write>) -> Result<(), BackendError>;

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
