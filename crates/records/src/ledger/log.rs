//! The log: each transaction as a line of an export, with the hash of its request and its results.
//! Where retention has cut the log off, a checkpoint stands in the place of the last transaction that
//! went (C-44).
//!
//! ```text
//! ledger_log   01 ‖ request hash (32) ‖ length (4) ‖ line ‖ count (4) ‖ results
//!              02 ‖ time (8) ‖ head (32) ‖ lanes (2048)
//! result       01 ‖ version (8)                                    set
//!              02 ‖ 00, or 01 ‖ version (8)                        deleted
//!              03                                                  checked
//!              04 ‖ 00, or 01 ‖ entity                             got
//!              05 ‖ version (8) ‖ balance (16)                     added
//!              06 ‖ version (8) ‖ balance (16) ‖ balance (16)      transferred
//!              07 ‖ operation id with its length                   started
//! ```

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_idempotency::RequestHash;
use indelible_journal::OperationId;
use indelible_ledger::{
    ChainHash, Height, Incarnation, OperationResult, Receipt, Record, Success, Vault, export,
};
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::entities::{put_bytes, put_entity, read_entity};
use super::scopes::read_lanes;
use super::{VERSION, key_of};
use crate::LEDGER_LOG;
use crate::codec::{self, Malformed, Reader};

const TRANSACTION: u8 = 1;
const CHECKPOINT: u8 = 2;

/// The head of a scope at a height.
pub type Checkpoint = Vault;

/// A transaction in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The transaction and its proof.
    pub record: Record,
    /// What each operation answered.
    pub results: Vec<OperationResult>,
}

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogRow {
    /// A transaction.
    Entry(Box<LogEntry>),
    /// Where the log begins: the transactions up to here are gone.
    Checkpoint(Box<Checkpoint>),
}

impl LogEntry {
    /// What is known of the transaction under its name (C-44).
    pub fn receipt(&self) -> Arc<Receipt> {
        let Record { transaction, head, .. } = &self.record;
        let success = Success {
            transaction: transaction.id,
            height: transaction.height,
            time: transaction.time,
            head: *head,
            results: self.results.clone(),
        };
        Arc::new(Receipt { hash: transaction.request.hash(), success })
    }
}

/// Adds to a batch: the transaction is in the log.
pub fn put(batch: &mut Batch, incarnation: Incarnation, record: &Record, receipt: &Receipt) {
    let line = export::record_line(record);
    let results = &receipt.success.results;
    let mut body = BytesMut::with_capacity(64 + line.len() + 32 * results.len());
    body.put_u8(TRANSACTION);
    body.put_slice(receipt.hash.as_bytes());
    put_bytes(&mut body, line.as_bytes());
    body.put_u32(u32::try_from(results.len()).expect("operations are bounded"));
    results.iter().for_each(|result| put_result(&mut body, result));
    codec::put(batch, LEDGER_LOG, row(incarnation, record.transaction.height), VERSION, &body);
}

/// Adds to a batch: the log begins above this height, with this head.
pub fn put_checkpoint(batch: &mut Batch, checkpoint: &Checkpoint) {
    let mut body = BytesMut::with_capacity(2_100);
    body.put_u8(CHECKPOINT);
    body.put_u64(checkpoint.time().as_micros());
    body.put_slice(checkpoint.head().as_bytes());
    body.put_slice(&checkpoint.state().to_bytes());
    let row = row(checkpoint.incarnation(), checkpoint.height());
    codec::put(batch, LEDGER_LOG, row, VERSION, &body);
}

/// Adds to a batch: the row at this height is gone.
pub fn delete(batch: &mut Batch, incarnation: Incarnation, height: Height) {
    batch.delete(LEDGER_LOG, row(incarnation, height));
}

/// The transaction with this height, while the log has it.
pub fn get(
    read: &impl Read,
    incarnation: Incarnation,
    height: Height,
) -> Result<Seen<Option<LogEntry>>, ReadError> {
    let row = row(incarnation, height);
    let seen = codec::get(read, LEDGER_LOG, &row, |value| decode(&row, value))?;
    Ok(seen.map(|row| match row {
        Some(LogRow::Entry(entry)) => Some(*entry),
        Some(LogRow::Checkpoint(_)) | None => None,
    }))
}

/// The checkpoint at this height, if the log begins there.
pub fn checkpoint(
    read: &impl Read,
    incarnation: Incarnation,
    height: Height,
) -> Result<Seen<Option<Checkpoint>>, ReadError> {
    let row = row(incarnation, height);
    let seen = codec::get(read, LEDGER_LOG, &row, |value| decode(&row, value))?;
    Ok(seen.map(|row| match row {
        Some(LogRow::Checkpoint(checkpoint)) => Some(*checkpoint),
        Some(LogRow::Entry(_)) | None => None,
    }))
}

/// Transactions from this height on, at most `limit`. A page also ends when it has many bytes.
pub fn rows(
    read: &impl Read,
    incarnation: Incarnation,
    from: Height,
    limit: usize,
) -> Result<Seen<Vec<LogEntry>>, ReadError> {
    let mut scan = Scan::prefix(LEDGER_LOG, key_of(incarnation, &[]), limit);
    scan.range.0 = std::ops::Bound::Included(row(incarnation, from));
    let rows = codec::scan_large(read, scan, decode)?;
    Ok(rows.map(|(rows, _)| {
        let entry = |row| match row {
            LogRow::Entry(entry) => Some(*entry),
            LogRow::Checkpoint(_) => None,
        };
        rows.into_iter().filter_map(entry).collect()
    }))
}

fn row(incarnation: Incarnation, height: Height) -> Bytes {
    key_of(incarnation, &[&height.get().to_be_bytes()])
}

pub(super) fn decode(row: &Bytes, value: &Bytes) -> Result<LogRow, ReadError> {
    let place = row.first_chunk::<16>().zip(row.get(16..).and_then(|rest| rest.try_into().ok()));
    let (incarnation, height) = place
        .map(|(incarnation, height)| {
            (Incarnation::from_bytes(*incarnation), Height::new(u64::from_be_bytes(height)))
        })
        .ok_or_else(|| {
            codec::damaged(&LEDGER_LOG, row, "its key is not an incarnation and a height")
        })?;
    let body = codec::unseal(&LEDGER_LOG, row, VERSION, value)?;
    codec::parse(&LEDGER_LOG, row, &body, |reader| match reader.u8()? {
        TRANSACTION => {
            let entry = read_entry(reader)?;
            if entry.record.transaction.height != height {
                return Err(Malformed("its transaction has another height"));
            }
            Ok(LogRow::Entry(Box::new(entry)))
        }
        CHECKPOINT => {
            let time = reader.timestamp()?;
            let head = ChainHash::from_bytes(reader.array()?);
            let state = read_lanes(reader)?;
            let checkpoint = Vault::stored(incarnation, height, time, head, state);
            Ok(LogRow::Checkpoint(Box::new(checkpoint)))
        }
        _ => Err(Malformed("it is of unknown kind")),
    })
}

fn read_entry(reader: &mut Reader<'_>) -> Result<LogEntry, Malformed> {
    let hash = RequestHash::from_bytes(reader.array()?);
    let length = reader.u32()?;
    let line = reader.take(length as usize)?;
    let record =
        export::read_record(line, hash).ok_or(Malformed("its line is not a transaction"))?;
    let count = reader.u32()?;
    let results = (0..count).map(|_| read_result(reader)).collect::<Result<Vec<_>, _>>()?;
    Ok(LogEntry { record, results })
}

fn put_result(out: &mut BytesMut, result: &OperationResult) {
    match result {
        OperationResult::Set { version } => {
            out.put_u8(1);
            out.put_u64(version.get());
        }
        OperationResult::Deleted { version } => {
            out.put_u8(2);
            out.put_u8(u8::from(version.is_some()));
            if let Some(version) = version {
                out.put_u64(version.get());
            }
        }
        OperationResult::Checked => out.put_u8(3),
        OperationResult::Got(entity) => {
            out.put_u8(4);
            out.put_u8(u8::from(entity.is_some()));
            if let Some(entity) = entity {
                put_entity(out, entity);
            }
        }
        OperationResult::Added { version, balance } => {
            out.put_u8(5);
            out.put_u64(version.get());
            out.put_i128(*balance);
        }
        OperationResult::Transferred { version, from_balance, to_balance } => {
            out.put_u8(6);
            out.put_u64(version.get());
            out.put_i128(*from_balance);
            out.put_i128(*to_balance);
        }
        OperationResult::Started { operation } => {
            out.put_u8(7);
            codec::put_text(out, operation.as_str());
        }
    }
}

fn read_result(reader: &mut Reader<'_>) -> Result<OperationResult, Malformed> {
    let version = |reader: &mut Reader<'_>| reader.u64().map(Height::new);
    let balance = |reader: &mut Reader<'_>| reader.array().map(i128::from_be_bytes);
    Ok(match reader.u8()? {
        1 => OperationResult::Set { version: version(reader)? },
        2 => {
            let version = if reader.bool()? { Some(version(reader)?) } else { None };
            OperationResult::Deleted { version }
        }
        3 => OperationResult::Checked,
        4 => OperationResult::Got(if reader.bool()? { Some(read_entity(reader)?) } else { None }),
        5 => OperationResult::Added { version: version(reader)?, balance: balance(reader)? },
        6 => OperationResult::Transferred {
            version: version(reader)?,
            from_balance: balance(reader)?,
            to_balance: balance(reader)?,
        },
        7 => {
            let operation = OperationId::new(reader.text()?);
            let operation = operation.map_err(|_| Malformed("an operation id is none"))?;
            OperationResult::Started { operation }
        }
        _ => return Err(Malformed("a result is of unknown kind")),
    })
}
