//! Deletes records of operations and keys when their window is over (C-3).

use std::ops::Bound;

use bytes::Bytes;
use indelible_journal::Timestamp;
use indelible_slots::SlotSet;
use indelible_store::{
    Batch, Expect, Position, ReadError, Scan, Snapshot, Store, SubmitError, Table,
};

use super::windows::{read_expiry, unseal};
use super::{EXPIRIES, retention};

/// What a purge did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PurgeReport {
    /// How many records were deleted.
    pub records: usize,
    /// The bytes of these records and of their index entries.
    pub bytes: usize,
    /// Whether more may be due.
    pub more: bool,
    /// The deletions are for good when this is durable.
    pub position: Option<Position>,
    /// Records that stay because they, or their index entries, cannot be read, with the reason: the
    /// first ones.
    pub unreadable: Vec<String>,
}

/// How many unreadable records are reported.
const UNREADABLE_MAX: usize = 10;

/// Why a purge stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PurgeError {
    /// Something could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The batch was not accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// Deletes records whose window is over, at most `limit`, in one batch. If one of them changes at
/// the same moment, the store refuses the whole batch; the next purge deletes the rest.
pub async fn purge(store: &Store, now: Timestamp, limit: usize) -> Result<PurgeReport, PurgeError> {
    let (batch, mut purged) = due(store, now, limit, &mut None)?;
    if !batch.writes().is_empty() {
        purged.position = Some(store.submit(batch).await?);
    }
    Ok(purged)
}

/// The batch of a purge, and its report. `passed` is the last index entry that earlier purges
/// looked at: the purge goes on behind it.
pub(crate) fn due(
    store: &Store,
    now: Timestamp,
    limit: usize,
    passed: &mut Option<Bytes>,
) -> Result<(Batch, PurgeReport), ReadError> {
    let (snapshot, bounds) = (store.snapshot()?, store.bounds());
    let limit = limit.clamp(1, bounds.scan_rows_max.min(bounds.batch_conditions_max));
    let end = Bound::Excluded(Bytes::copy_from_slice(&(now.as_micros() + 1).to_be_bytes()));
    let mut scan = Scan { range: (Bound::Unbounded, end), ..Scan::all(EXPIRIES, limit) };
    if let Some(passed) = passed {
        scan = scan.after(passed.clone());
    }
    let (mut batch, mut purged) = (Batch::in_slots(SlotSet::empty()), PurgeReport::default());
    let mut entries = 0;
    loop {
        let page = snapshot.scan(&scan)?.value;
        for (entry, _) in &page.rows {
            // Records may be large, and the batch holds their values, too.
            if entries == limit || purged.bytes >= retention::step_bytes_max(bounds) {
                purged.more = true;
                return Ok((batch, purged));
            }
            match snapshot.damage().noted(record_of(&snapshot, entry)) {
                Ok(record) => {
                    if let Some((table, key, value)) = record {
                        purged.records += 1;
                        purged.bytes += key.len() + value.len();
                        batch.expect(table, key.clone(), Expect::Equal(value)).delete(table, key);
                    }
                    entries += 1;
                    purged.bytes += entry.len();
                    batch.touch(EXPIRIES.slot_of(entry));
                    batch.delete(EXPIRIES, entry.clone());
                }
                // A damaged record does not stop the purge of the others.
                Err(error) if error.is_damage() => {
                    if purged.unreadable.len() < UNREADABLE_MAX {
                        purged.unreadable.push(error.to_string());
                    }
                }
                Err(error) => return Err(error),
            }
            *passed = Some(entry.clone());
        }
        match page.rows.into_iter().next_back() {
            Some((entry, _)) if page.more => scan = scan.after(entry),
            _ => return Ok((batch, purged)),
        }
    }
}

/// The record to delete with its index entry. The record decides, not the index: a record that does
/// not expire at this time stays.
fn record_of(
    snapshot: &Snapshot,
    entry: &Bytes,
) -> Result<Option<(Table, Bytes, Bytes)>, ReadError> {
    let (expires_at, kind, key) = read_expiry(entry)?;
    let table = kind.table();
    let Some(value) = snapshot.get(table, &key)?.value else { return Ok(None) };
    let expires = unseal(table, &key, &value)?.0 == Some(expires_at);
    Ok(expires.then_some((table, key, value)))
}
