//! Rooms: kinds of machines that the host runs (D14). A row of the queue or of the timers names its
//! room before that room's key, so that every room has timers and recovery by the same two tables.

use bytes::{BufMut, Bytes};
use indelible_store::{Page, Read, ReadError, Scan, Seen};

use super::codec::{self, Malformed, Reader};

/// A room. Numbers are in rows: none is ever used for another room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Room {
    /// Trees of executions. Keys are journal keys.
    Tree = 1,
}

impl Room {
    /// The room with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Tree),
            _ => None,
        }
    }

    pub(crate) fn put(self, out: &mut impl BufMut) {
        out.put_u8(self as u8);
    }

    /// None: no room that is known.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        reader.u8().map(Self::from_number)
    }
}

/// Why a row of an unknown room is damage.
pub(crate) const UNKNOWN_ROOM: &str = "it belongs to no room that is known";

/// The rows of a scan. Those of unknown rooms are noted as damage and stay in the list, so that
/// readers go on behind them: one row that makes no sense must not stop what all rooms wait for.
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
