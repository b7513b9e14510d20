//! Timers: what is to happen when, the next one first.
//!
//! ```text
//! timers   due (8) ‖ room (1) ‖ the room's key
//! tree     01 ‖ journal key ‖ 00, or 01 ‖ child (4)
//! ```

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{JournalKey, Timestamp};
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::codec::{self, Malformed};
use super::{Room, TIMERS, keys, room};

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

/// A row, by its room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A timer of an execution.
    Tree(Timer),
    /// A row whose room this version does not know. It is noted as damage.
    UnknownRoom {
        /// When something was to happen.
        due: Timestamp,
        /// The key of the row.
        key: Bytes,
    },
}

impl Row {
    /// The execution's timer, if it is one.
    pub fn tree(self) -> Option<Timer> {
        if let Self::Tree(timer) = self { Some(timer) } else { None }
    }

    fn key(&self) -> Bytes {
        match self {
            Self::Tree(timer) => encode(timer),
            Self::UnknownRoom { key, .. } => key.clone(),
        }
    }

    /// When it is due.
    pub fn due(&self) -> Timestamp {
        match self {
            Self::Tree(timer) => timer.due,
            Self::UnknownRoom { due, .. } => *due,
        }
    }
}

/// Adds to a batch: this is to happen.
pub fn put(batch: &mut Batch, timer: &Timer) {
    batch.put(TIMERS, encode(timer), Bytes::new());
}

/// Adds to a batch: this is not to happen any more.
pub fn delete(batch: &mut Batch, timer: &Timer) {
    batch.delete(TIMERS, encode(timer));
}

/// The next rows after one, at most so many.
pub fn next(
    read: &impl Read,
    after: Option<&Row>,
    limit: usize,
) -> Result<Seen<Vec<Row>>, ReadError> {
    let mut scan = Scan::all(TIMERS, limit);
    if let Some(after) = after {
        scan.range.0 = Bound::Excluded(after.key());
    }
    rows(read, &scan)
}

/// The first rows from a time on, at most so many.
pub fn from(read: &impl Read, time: Timestamp, limit: usize) -> Result<Seen<Vec<Row>>, ReadError> {
    let mut scan = Scan::all(TIMERS, limit);
    scan.range.0 = Bound::Included(Bytes::copy_from_slice(&time.as_micros().to_be_bytes()));
    rows(read, &scan)
}

fn rows(read: &impl Read, scan: &Scan) -> Result<Seen<Vec<Row>>, ReadError> {
    room::rows(read, scan, decode, |row| match row {
        Row::Tree(_) => None,
        Row::UnknownRoom { key, .. } => Some(key),
    })
}

fn encode(timer: &Timer) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(timer.due.as_micros());
    Room::Tree.put(&mut out);
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

pub(crate) fn decode(key: &Bytes) -> Result<Row, ReadError> {
    codec::parse(&TIMERS, key, key, |reader| {
        let due = reader.timestamp()?;
        match Room::read(reader)? {
            Some(Room::Tree) => {}
            None => {
                reader.rest();
                return Ok(Row::UnknownRoom { due, key: key.clone() });
            }
        }
        let journal = keys::read_journal_key(reader)?;
        let child = match reader.u8()? {
            0 => None,
            1 => Some(reader.u32()?),
            _ => return Err(Malformed("it is of no known kind")),
        };
        Ok(Row::Tree(Timer { due, key: journal, child }))
    })
}
