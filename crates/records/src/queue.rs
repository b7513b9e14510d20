//! The work queue: the machines to run, in the order of their tickets.
//!
//! ```text
//! queue   ticket (8) ‖ room (1) ‖ the room's key
//! tree    01 ‖ journal key
//! brought along   80 to ff ‖ length of the key (2) ‖ key
//! ```

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::JournalKey;
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::{QUEUE, Room, RoomKey, codec, keys, room};

/// An execution to run, and its ticket. Tickets rise with time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Smaller ones go first.
    pub ticket: u64,
    /// The execution to run.
    pub key: JournalKey,
}

/// A row, by the kind of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// An execution.
    Tree(Entry),
    /// A machine of a kind that the embedder added, and its ticket.
    Room(u64, RoomKey),
    /// The key of a row with a room that this version does not know. The row is noted as damage.
    UnknownRoom(Bytes),
}

impl Row {
    /// The execution, if the row is of one.
    pub fn tree(self) -> Option<Entry> {
        if let Self::Tree(entry) = self { Some(entry) } else { None }
    }

    fn key(&self) -> Bytes {
        match self {
            Self::Tree(entry) => encode(entry),
            Self::Room(ticket, key) => encode_room(*ticket, key),
            Self::UnknownRoom(key) => key.clone(),
        }
    }
}

/// Adds to a batch: this execution is to be run.
pub fn put(batch: &mut Batch, entry: &Entry) {
    batch.put(QUEUE, encode(entry), Bytes::new());
}

/// Adds to a batch: this execution is no longer to be run.
pub fn delete(batch: &mut Batch, entry: &Entry) {
    batch.delete(QUEUE, encode(entry));
}

/// Adds to a batch: this machine of a kind that the embedder added is to be run.
pub fn put_room(batch: &mut Batch, ticket: u64, key: &RoomKey) {
    batch.put(QUEUE, encode_room(ticket, key), Bytes::new());
}

/// Adds to a batch: this machine is no longer to be run.
pub fn delete_room(batch: &mut Batch, ticket: u64, key: &RoomKey) {
    batch.delete(QUEUE, encode_room(ticket, key));
}

/// The executions that a batch adds to the queue.
pub fn put_by(batch: &Batch) -> Vec<Entry> {
    let puts = batch.writes().iter().filter(|write| write.table == QUEUE && write.value.is_some());
    puts.filter_map(|write| decode(&write.key).ok()?.tree()).collect()
}

/// Whether this entry is in the queue.
pub fn holds(read: &impl Read, entry: &Entry) -> Result<bool, ReadError> {
    Ok(read.get(QUEUE, &encode(entry))?.value.is_some())
}

/// Rows after `after`, at most `limit`.
pub fn next(
    read: &impl Read,
    after: Option<&Row>,
    limit: usize,
) -> Result<Seen<Vec<Row>>, ReadError> {
    let mut scan = Scan::all(QUEUE, limit);
    if let Some(after) = after {
        scan.range.0 = Bound::Excluded(after.key());
    }
    room::rows(read, &scan, decode, |row| match row {
        Row::Tree(_) | Row::Room(..) => None,
        Row::UnknownRoom(key) => Some(key),
    })
}

fn encode(entry: &Entry) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(entry.ticket);
    Room::Tree.put(&mut out);
    keys::put_journal_key(&mut out, &entry.key);
    out.freeze()
}

fn encode_room(ticket: u64, key: &RoomKey) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(ticket);
    key.put(&mut out);
    out.freeze()
}

pub(crate) fn decode(key: &Bytes) -> Result<Row, ReadError> {
    codec::parse(&QUEUE, key, key, |reader| {
        let ticket = reader.u64()?;
        Ok(match Room::read(reader)? {
            Some(Room::Tree) => Row::Tree(Entry { ticket, key: keys::read_journal_key(reader)? }),
            Some(Room::Other(room)) => Row::Room(ticket, RoomKey::read(room, reader)?),
            None => {
                reader.rest();
                Row::UnknownRoom(key.clone())
            }
        })
    })
}
