//! Timers: what is to happen when, the next one first.
//!
//! ```text
//! timers   due (8) ‖ room (1) ‖ the room's key
//! tree     01 ‖ journal key ‖ 00, or 01 ‖ child (4)
//! brought along   80 to ff ‖ length of the key (2) ‖ key ‖ what is to happen
//! ```

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{JournalKey, Timestamp};
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::codec::{self, Malformed};
use super::{Room, RoomKey, TIMERS, keys, room};

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

/// A timer of a machine of a room that was brought along.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomTimer {
    /// When.
    pub due: Timestamp,
    /// Whose.
    pub key: RoomKey,
    /// What is to happen.
    pub what: Bytes,
}

/// A row, by its room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// A timer of an execution.
    Tree(Timer),
    /// A timer of a room that was brought along.
    Room(RoomTimer),
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
            Self::Room(timer) => encode_room(timer),
            Self::UnknownRoom { key, .. } => key.clone(),
        }
    }

    /// When it is due.
    pub fn due(&self) -> Timestamp {
        match self {
            Self::Tree(timer) => timer.due,
            Self::Room(timer) => timer.due,
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

/// Adds to a batch: this is to happen in a room that was brought along.
pub fn put_room(batch: &mut Batch, timer: &RoomTimer) {
    batch.put(TIMERS, encode_room(timer), Bytes::new());
}

/// Adds to a batch: this is not to happen there any more.
pub fn delete_room(batch: &mut Batch, timer: &RoomTimer) {
    batch.delete(TIMERS, encode_room(timer));
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
        Row::Tree(_) | Row::Room(_) => None,
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

fn encode_room(timer: &RoomTimer) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(timer.due.as_micros());
    timer.key.put(&mut out);
    out.put_slice(&timer.what);
    out.freeze()
}

pub(crate) fn decode(key: &Bytes) -> Result<Row, ReadError> {
    codec::parse(&TIMERS, key, key, |reader| {
        let due = reader.timestamp()?;
        match Room::read(reader)? {
            Some(Room::Tree) => {}
            Some(Room::Brought(room)) => {
                let key = RoomKey::read(room, reader)?;
                let what = Bytes::copy_from_slice(reader.rest());
                return Ok(Row::Room(RoomTimer { due, key, what }));
            }
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
