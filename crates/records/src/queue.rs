//! The work queue: which executions are to be run, in the order of their tickets.
//!
//! ```text
//! queue   ticket (8) ‖ journal key
//! ```

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::JournalKey;
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::codec::{self, Reader};
use super::{QUEUE, keys};

/// An entry: what is to be run, and when it is its turn. Whoever makes tickets makes them rise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Smaller ones first.
    pub ticket: u64,
    /// What is to be run.
    pub key: JournalKey,
}

/// Adds to a batch: this is to be run.
pub fn put(batch: &mut Batch, entry: &Entry) {
    batch.put(QUEUE, encode(entry), Bytes::new());
}

/// Adds to a batch: this is no longer to be run.
pub fn delete(batch: &mut Batch, entry: &Entry) {
    batch.delete(QUEUE, encode(entry));
}

/// Whether this is to be run.
pub fn holds(read: &impl Read, entry: &Entry) -> Result<bool, ReadError> {
    Ok(read.get(QUEUE, &encode(entry))?.value.is_some())
}

/// The next entries after one, at most so many.
pub fn next(
    read: &impl Read,
    after: Option<&Entry>,
    limit: usize,
) -> Result<Seen<Vec<Entry>>, ReadError> {
    let mut scan = Scan::all(QUEUE, limit);
    if let Some(after) = after {
        scan.range.0 = Bound::Excluded(encode(after));
    }
    codec::decoded(read, read.scan(&scan)?, |page| {
        page.rows.iter().map(|(key, _)| decode(key)).collect()
    })
}

fn encode(entry: &Entry) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(entry.ticket);
    keys::put_journal_key(&mut out, &entry.key);
    out.freeze()
}

pub(crate) fn decode(key: &Bytes) -> Result<Entry, ReadError> {
    let mut reader = Reader(key);
    let entry = reader.u64().and_then(|ticket| {
        let key = keys::read_journal_key(&mut reader)?;
        Ok(Entry { ticket, key })
    });
    let entry = entry.and_then(|entry| reader.end().map(|()| entry));
    entry.map_err(|error| codec::damaged(&QUEUE, key, error.0))
}
