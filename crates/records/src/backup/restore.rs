//! What a backup holds, put into an empty store.

use indelible_store::{Batch, Lost, PIPELINE, Store, SubmitError, Table};
use std::io::Read;

use super::read::{BackupError, Reader, Rows};
use super::{Counts, Header};

/// So many bytes are one batch, unless a row has more.
const BATCH_BYTES: usize = 4 << 20;

/// So many rows are one batch.
const BATCH_ROWS: usize = 10_000;

/// Why a backup cannot be put into a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// It is no backup that can be used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// It has a table that this version does not know.
    #[error("it has a table that is not known here: {0:?}")]
    UnknownTable(String),
    /// The store has something in it already.
    #[error("the store that it is to be put into is not empty")]
    NotEmpty,
    /// The store does not take it.
    #[error("the store does not take it: {0}")]
    Submit(#[from] SubmitError),
    /// What was put in was lost.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Puts a backup into an empty store, durably. `progress` is told how many bytes of it were read.
///
/// If it fails, some of the rows may be there: the store is not to be used.
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
