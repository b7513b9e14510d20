//! The stored form of a journal's events, byte by byte in `docs/formats/journal-binary.md`.
//!
//! The unit is the batch: all events of one commit are one row, which can be read alone. The row
//! does not name its journal; the store's key does. One batch has one encoding, and what is written
//! under a version is read for ever (D12): a change is a new version beside this one. This module
//! knows nothing of stores, nor of the order of events: [`crate::Journal`] does.

mod cursor;
mod error;
#[cfg(test)]
mod fuzz;
mod number;
mod policy;
mod read;
#[cfg(test)]
mod tests;
mod varint;
mod write;

use bytes::Bytes;

pub use self::error::{DecodeError, EncodeError};
use crate::event::{Entry, Event, Record};
use crate::ids::ExecutionId;
/// The most members that the wait sets of one batch have in all. A range of members takes a few
/// bytes, so they are the one thing in a row whose memory the row's size does not bound.
pub use crate::wait::WAIT_MEMBERS_MAX;

/// The version that is written: a row's first byte.
pub const VERSION: u8 = 1;

/// A row's size beside its payloads, roughly: the header, and a few bytes an event.
const ROW_BYTES_GUESS: usize = 64;
const EVENT_BYTES_GUESS: usize = 48;

/// The row that holds these entries of `execution_id`'s journal.
pub fn encode(execution_id: &ExecutionId, entries: &[Entry]) -> Result<Vec<u8>, EncodeError> {
    let mut row = Vec::with_capacity(ROW_BYTES_GUESS + EVENT_BYTES_GUESS * entries.len());
    encode_into(&mut row, execution_id, entries)?;
    Ok(row)
}

/// Appends the row that holds these entries of `execution_id`'s journal; after an error, `out` is
/// as it was.
pub fn encode_into(
    out: &mut Vec<u8>,
    execution_id: &ExecutionId,
    entries: &[Entry],
) -> Result<(), EncodeError> {
    let before = out.len();
    let result = write::batch(out, execution_id, entries.iter().map(Entry::as_record));
    if result.is_err() {
        out.truncate(before);
    }
    result
}

/// Cuts entries into batches that rows can hold: nearly always one. More are needed when a guest
/// waits again and again on lists of thousands within one commit ([`WAIT_MEMBERS_MAX`]).
pub fn batches(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut waiting = 0_usize;
        let over = rest.iter().position(|entry| {
            if let Event::ExecutionAwaiting { waiting_on, .. } = entry.event() {
                let members = waiting_on.listed().map_or(0, <[u32]>::len);
                waiting = waiting.saturating_add(members);
            }
            waiting > WAIT_MEMBERS_MAX
        });
        // No entry exceeds the bound by itself: the journal refuses it.
        let (batch, after) = rest.split_at(over.unwrap_or(rest.len()).max(1).min(rest.len()));
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

/// The events of a row of `execution_id`'s journal. They are not checked to belong there:
/// [`crate::Journal::recover`] does that.
///
/// Payloads are views of the row, not copies: one that is kept keeps the whole row in memory.
#[expect(clippy::needless_pass_by_value, reason = "the records are views of the row: it is theirs")]
pub fn decode(execution_id: &ExecutionId, row: Bytes) -> Result<Vec<Record>, DecodeError> {
    read::batch(execution_id, &row)
}

/// The row that holds these records, accepted by a journal or not.
#[cfg(test)]
pub(crate) fn encode_records(
    execution_id: &ExecutionId,
    records: &[Record],
) -> Result<Vec<u8>, EncodeError> {
    let mut row = Vec::new();
    write::batch(&mut row, execution_id, records.iter())?;
    Ok(row)
}
