//! Backups: everything in a store at one position, as a stream of bytes that can be verified by
//! itself, and restoring a store from it. `docs/formats/backup.md` describes the bytes.
//!
//! - [`Writer`]: a snapshot, piece by piece. [`Reader`]: the same bytes back, verified.
//! - [`restore()`]: puts what a reader gives into an empty store.
//!
//! Rows are copied as they are stored, seals included: a backup does not decode them, and a value
//! under the wrong key would be found damaged after a restore, too.

mod frame;
mod read;
mod restore;
mod write;

use indelible_journal::Timestamp;
use indelible_slots::Slot;
use indelible_store::{Batch, Position, Store, SubmitError};

pub use self::read::{BackupError, Reader, Rows};
pub use self::restore::{RestoreError, restore};
pub use self::write::Writer;
use crate::audit;

/// The version of the format. A backup of a higher version is refused.
pub const VERSION: u32 = 2;

/// What a backup is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The position in the log of the store that it was taken from.
    pub position: Position,
    /// When it was made, by the clock of the process that made it.
    pub made_at: Timestamp,
}

/// What is in a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// How many tables.
    pub tables: u32,
    /// How many rows they have.
    pub rows: u64,
    /// How many bytes the keys and values of the rows have.
    pub bytes: u64,
}

/// Records that a backup is taken (C-38): before its snapshot, so that the record is a part of the
/// backup, and before a byte of it leaves.
pub async fn note_taken(store: &Store, entry: &audit::Entry) -> Result<Position, SubmitError> {
    let mut batch = Batch::in_slots(Slot::SERVER);
    audit::put(&mut batch, entry);
    store.submit(batch).await
}

impl Counts {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}
