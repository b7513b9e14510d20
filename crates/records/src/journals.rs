//! Journals: the rows that hold an execution's entries, read page by page. Only
//! [`executions::advance`](super::executions::advance) writes them.

use std::ops::Bound;

use bytes::Bytes;
use indelible_journal::{ExecutionId, JournalKey, Record, binary};
use indelible_store::{Read, ReadError, Scan, Seen, prefix_range};

use super::{JOURNALS, codec, keys};

/// The version of the seal; the body has its own version.
pub(crate) const VERSION: u8 = 1;

/// A part of a journal. The records are not checked yet: `Journal::recover` does that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    /// In order, without a gap.
    pub records: Vec<Record>,
    /// The sequence to go on from, if there may be more.
    pub next: Option<u64>,
}

/// Entries of a journal from this sequence on, from at most `rows_max` rows.
pub fn read(
    read: &impl Read,
    key: &JournalKey,
    from: u64,
    rows_max: usize,
) -> Result<Seen<Events>, ReadError> {
    let start = if from == 0 { keys::journal_row(key, 0) } else { row_with(read, key, from)? };
    let (_, end) = prefix_range(keys::journal_key(key));
    let scan = Scan { range: (Bound::Included(start), end), ..Scan::all(JOURNALS, rows_max) };
    let seen = read.scan(&scan)?;
    codec::decoded(read, seen, |page| {
        let mut events = Events::default();
        for (row, value) in &page.rows {
            events.records.append(&mut decode(key.execution_id(), row, value)?);
        }
        if page.more {
            // Rows are never empty, so the last record is the last row's.
            events.next = events.records.last().map(|record| record.sequence.get() + 1);
        }
        let before = events.records.partition_point(|record| record.sequence.get() < from);
        events.records.drain(..before);
        Ok(events)
    })
}

/// The key of the row that has this entry, or where it would be.
fn row_with(read: &impl Read, key: &JournalKey, event: u64) -> Result<Bytes, ReadError> {
    let at = keys::journal_row(key, event);
    let (start, _) = prefix_range(keys::journal_key(key));
    let scan = Scan { range: (start, Bound::Included(at.clone())), ..Scan::all(JOURNALS, 1) };
    let page = read.scan(&scan.reversed())?.value;
    Ok(page.rows.into_iter().next().map_or(at, |(row, _)| row))
}

/// The records of a row. Their sequences count from the one in its key.
pub(crate) fn decode(
    execution: &ExecutionId,
    row: &Bytes,
    value: &Bytes,
) -> Result<Vec<Record>, ReadError> {
    let body = codec::unseal(&JOURNALS, row, VERSION, value)?;
    let records = binary::decode(execution, body)
        .map_err(|error| codec::damaged(&JOURNALS, row, error.to_string()))?;
    let first = records.first().map(|record| record.sequence.get());
    if first != Some(split(row)?.1) {
        return Err(codec::damaged(
            &JOURNALS,
            row,
            "the sequence of its first event differs from its key",
        ));
    }
    Ok(records)
}

/// The journal that a row belongs to, and the sequence of its first entry.
pub(crate) fn split(row: &Bytes) -> Result<(JournalKey, u64), ReadError> {
    codec::parse(&JOURNALS, row, row, |reader| Ok((keys::read_journal_key(reader)?, reader.u64()?)))
}
