//! Rooms: kinds of machines that the host runs (D14). A row of the queue or of the timers names the
//! room before the machine's key, so that all machines have timers and recovery through the same
//! two tables.

use bytes::{BufMut, Bytes};
use indelible_slots::Slot;
use indelible_store::{Page, Read, ReadError, Scan, Seen};

use super::codec::{self, Malformed, Reader};

/// A kind of machine. Its number is in rows, and is never used for another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Room {
    /// Trees of executions. Keys are journal keys.
    Tree,
    /// Any other kind, by its number: [`LEDGER_ROOM`], [`DELIVERY_ROOM`], or one that the engine's embedder adds, from
    /// [`BROUGHT_MIN`] on.
    Other(u8),
}

/// Scopes of the ledger. Keys are a slot and the name of the scope.
pub const LEDGER_ROOM: u8 = 2;

/// Post offices: the messages of a namespace. Keys are a slot and the namespace.
pub const DELIVERY_ROOM: u8 = 3;

/// The first number of a kind that the embedder adds. Lower numbers are the engine's own.
pub const BROUGHT_MIN: u8 = 128;

/// A machine of another kind than a tree. Its key begins with its slot, as 12 bits and four
/// zero bits, and has at most 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomKey {
    /// The number of its kind.
    pub room: u8,
    /// Which machine of that kind.
    pub key: Bytes,
}

impl RoomKey {
    /// The slot of everything that belongs to this machine.
    pub fn slot(&self) -> Slot {
        Slot::at_start_of(&self.key)
    }

    /// Whether it is of a kind that the engine itself has.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.room, LEDGER_ROOM | DELIVERY_ROOM)
    }

    pub(crate) fn put(&self, out: &mut impl BufMut) {
        Room::Other(self.room).put(out);
        out.put_u16(u16::try_from(self.key.len()).expect("keys of rooms are below 64 KiB"));
        out.put_slice(&self.key);
    }

    /// Reads a key that follows the number of its room.
    pub(crate) fn read(room: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = reader.u16()?;
        let key = Bytes::copy_from_slice(reader.take(length.into())?);
        Ok(Self { room, key })
    }
}

impl Room {
    /// The room with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Tree),
            LEDGER_ROOM | DELIVERY_ROOM | BROUGHT_MIN.. => Some(Self::Other(number)),
            _ => None,
        }
    }

    pub(crate) fn put(self, out: &mut impl BufMut) {
        out.put_u8(match self {
            Self::Tree => 1,
            Self::Other(number) => number,
        });
    }

    /// None: the room is unknown.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        reader.u8().map(Self::from_number)
    }
}

/// Why a row with an unknown room is damage.
pub(crate) const UNKNOWN_ROOM: &str = "it belongs to an unknown room";

/// The rows of a scan. Rows with an unknown room are noted as damage and stay in the list, so that
/// readers go on behind them: one such row must not stop the timers and the recovery of all
/// machines.
pub(crate) fn rows<T>(
    read: &impl Read,
    scan: &Scan,
    decode: impl Fn(&Bytes) -> Result<T, ReadError>,
    unknown: impl Fn(&T) -> Option<&Bytes>,
) -> Result<Seen<Vec<T>>, ReadError> {
    codec::decoded(read, read.scan(scan)?, |page: Page| {
        let rows: Vec<T> =
            page.rows.iter().map(|(key, _)| decode(key)).collect::<Result<_, _>>()?;
        for key in rows.iter().filter_map(unknown) {
            let error = codec::damaged(&scan.table, key, UNKNOWN_ROOM);
            read.damage().note(&error.to_string());
        }
        Ok(rows)
    })
}
