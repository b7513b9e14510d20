//! Timers: what is to happen when, the next one first.
//!
//! ```text
//! timers   due (8) ‖ journal key ‖ 00, or 01 ‖ child (4)
//! ```

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{JournalKey, Timestamp};
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::codec::{self, Malformed, Reader};
use super::{TIMERS, keys};

/// A timer of an execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    /// When.
    pub due: Timestamp,
    /// Whose.
    pub key: JournalKey,
    /// Which of its promises: a sleep, or a call that is to be tried again. None for the
    /// execution itself: its own next attempt.
    pub child: Option<u32>,
}

/// Adds to a batch: this is to happen.
pub fn put(batch: &mut Batch, timer: &Timer) {
    batch.put(TIMERS, encode(timer), Bytes::new());
}

/// Adds to a batch: this is not to happen any more.
pub fn delete(batch: &mut Batch, timer: &Timer) {
    batch.delete(TIMERS, encode(timer));
}

/// The next timers after one, at most so many.
pub fn next(
    read: &impl Read,
    after: Option<&Timer>,
    limit: usize,
) -> Result<Seen<Vec<Timer>>, ReadError> {
    let mut scan = Scan::all(TIMERS, limit);
    if let Some(after) = after {
        scan.range.0 = Bound::Excluded(encode(after));
    }
    codec::decoded(read, read.scan(&scan)?, |page| {
        page.rows.iter().map(|(key, _)| decode(key)).collect()
    })
}

/// The first timers from a time on, at most so many.
pub fn from(
    read: &impl Read,
    time: Timestamp,
    limit: usize,
) -> Result<Seen<Vec<Timer>>, ReadError> {
    let mut scan = Scan::all(TIMERS, limit);
    scan.range.0 = Bound::Included(Bytes::copy_from_slice(&time.as_micros().to_be_bytes()));
    codec::decoded(read, read.scan(&scan)?, |page| {
        page.rows.iter().map(|(key, _)| decode(key)).collect()
    })
}

fn encode(timer: &Timer) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(timer.due.as_micros());
    keys::put_journal_key(&mut out, &timer.key);
    match timer.child {
        None => out.put_u8(0),
        Some(child) => {
            out.put_u8(1);
            out.put_u32(child);
        }
    }
    out.freeze()
}

pub(crate) fn decode(key: &Bytes) -> Result<Timer, ReadError> {
    let read = || {
        let mut reader = Reader(key);
        let due = reader.timestamp()?;
        let journal = keys::read_journal_key(&mut reader)?;
        let child = match reader.u8()? {
            0 => None,
            1 => Some(reader.u32()?),
            _ => return Err(Malformed("it is of no known kind")),
        };
        reader.end()?;
        Ok(Timer { due, key: journal, child })
    };
    read().map_err(|Malformed(what)| codec::damaged(&TIMERS, key, what))
}
