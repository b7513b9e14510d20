//! Timers, the next one to be due first.
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
    /// When it is due.
    pub due: Timestamp,
    /// The execution that it is of.
    pub key: JournalKey,
    /// The promise that it is for: a sleep, or a call that is to be tried again. None for the
    /// execution itself: its next attempt, or the end of its time to clean up.
    pub child: Option<u32>,
}

/// A timer of a machine of a kind that the embedder added.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomTimer {
    /// When it is due.
    pub due: Timestamp,
    /// The machine that it is of.
    pub key: RoomKey,
    /// What the machine is told then.
    pub what: Bytes,
}

/// A row, by the kind of its machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// A timer of an execution.
    Tree(Timer),
    /// A timer of a machine of a kind that the embedder added.
    Room(RoomTimer),
    /// A row with a room that this version does not know. The row is noted as damage.
    UnknownRoom {
        /// When the timer is due.
        due: Timestamp,
        /// The key of the row.
        key: Bytes,
    },
}

impl Row {
    /// The execution's timer, if the row is one.
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

/// Adds to a batch: this timer is set.
pub fn put(batch: &mut Batch, timer: &Timer) {
    batch.put(TIMERS, encode(timer), Bytes::new());
}

/// Adds to a batch: this timer is deleted.
pub fn delete(batch: &mut Batch, timer: &Timer) {
    batch.delete(TIMERS, encode(timer));
}

/// Adds to a batch: this timer of a kind that the embedder added is set.
pub fn put_room(batch: &mut Batch, timer: &RoomTimer) {
    batch.put(TIMERS, encode_room(timer), Bytes::new());
}

/// Adds to a batch: this timer of a kind that the embedder added is deleted.
pub fn delete_room(batch: &mut Batch, timer: &RoomTimer) {
    batch.delete(TIMERS, encode_room(timer));
}

/// Rows after `after`, at most `limit`.
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

/// The first rows from a time on, at most `limit`.
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
            Some(Room::Other(room)) => {
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
            _ => return Err(Malformed("it is of unknown kind")),
        };
        Ok(Row::Tree(Timer { due, key: journal, child }))
    })
}
