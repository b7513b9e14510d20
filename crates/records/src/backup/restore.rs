//! Puts a backup into an empty store.

use indelible_store::{Batch, Lost, PIPELINE, Store, SubmitError, Table};
use std::io::Read;

use super::read::{BackupError, Reader, Rows};
use super::{Counts, Header};

/// The bytes of a batch, unless one row has more.
const BATCH_BYTES: usize = 4 << 20;

/// The most rows of a batch.
const BATCH_ROWS: usize = 10_000;

/// Why a backup cannot be put into a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup cannot be used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The backup has a table that this version does not know.
    #[error("it has an unknown table: {0:?}")]
    UnknownTable(String),
    /// The store is not empty.
    #[error("the store to restore into is not empty")]
    NotEmpty,
    /// The store refused a batch.
    #[error("the store refused the rows: {0}")]
    Submit(#[from] SubmitError),
    /// Restored rows were lost before they were durable.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Puts a backup into an empty store, durably. `progress` gets the number of bytes read so far.
///
/// After an error some of the rows may be there: the store must not be used.
pub fn restore<R: Read>(
    mut reader: Reader<R>,
    store: &Store,
    progress: &mut dyn FnMut(u64),
) -> Result<(Header, Counts), RestoreError> {
    if store.accepted().number() > 0 {
        return Err(RestoreError::NotEmpty);
    }
    let mut batch = Batch::new();
    let mut table: Option<Table> = None;
    while let Some(Rows { table: name, rows }) = reader.next()? {
        if table.is_none_or(|table| table.name() != name) {
            let known = store.tables().iter().find(|known| known.name() == name);
            let known = known.filter(|known| **known != PIPELINE);
            table = Some(*known.ok_or(RestoreError::UnknownTable(name))?);
        }
        let Some(table) = table else { continue };
        for (key, value) in rows {
            if !batch.writes().is_empty()
                && (batch.bytes() + key.len() + value.len() > BATCH_BYTES
                    || batch.writes().len() >= BATCH_ROWS)
            {
                store.submit_blocking(std::mem::take(&mut batch))?;
            }
            batch.put(table, key, value);
        }
        progress(reader.bytes());
    }
    store.submit_blocking(batch)?;
    store.durable(store.accepted()).wait()?;
    Ok((*reader.header(), *reader.counts()))
}
