//! The rows of delivery (O): messages, and for each namespace its post office: endpoints, deliveries,
//! and indexes of what is open. The rules are those of `indelible-delivery`; here its values become
//! bytes.
//!
//! ```text
//! messages     id (20)
//! deliveries   namespace with its length ‖ 00                                          the office
//!              namespace with its length ‖ 01 ‖ endpoint (4)                           endpoints
//!              namespace with its length ‖ 02 ‖ number (8) ‖ endpoint (4)              deliveries
//!              namespace with its length ‖ 03 ‖ endpoint (4) ‖ number (8)              queued
//!              namespace with its length ‖ 04 ‖ endpoint (4) ‖ number (8)              being sent
//!              namespace with its length ‖ 05 ‖ endpoint (4) ‖ lane key ‖ 00 ‖ number (8)   in a lane
//!              namespace with its length ‖ 06 ‖ number (8) ‖ endpoint (4)              dead
//!              namespace with its length ‖ 07 ‖ number (8)                             messages, by number
//! ```
//!
//! The messages of a namespace are numbered in the order in which they were accepted, from 1; a
//! delivery has the number of its message. Lane keys have no zero byte.

pub(crate) mod check;
mod deliveries;
mod messages;
mod office;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_delivery::Malformed as Undecodable;
use indelible_journal::Namespace;
use indelible_slots::of_vault;
use indelible_store::{ReadError, Table};

pub use self::deliveries::{
    DeliveryKey, OpenRow, StoredDelivery, dead, delete_dead, delete_delivery, delete_open,
    deliveries_of, delivery, lane_row, lanes, open, put_dead, put_delivery, put_open,
};
pub use self::messages::{
    MessageNumber, StoredMessage, delete_message, message, message_of_number, messages_below,
    put_message,
};
pub use self::office::{
    EndpointId, OfficeRow, StoredEndpoint, endpoints, office, put_endpoint, put_office,
};
use crate::DELIVERIES;
use crate::codec::{self, Malformed, Reader};
use crate::room::{DELIVERY_ROOM, RoomKey};

/// Each kind of value has version 1.
const VERSION: u8 = 1;

const OFFICE: u8 = 0;
const ENDPOINT: u8 = 1;
const DELIVERY: u8 = 2;
const QUEUED: u8 = 3;
const SENDING: u8 = 4;
const LANE: u8 = 5;
const DEAD: u8 = 6;
const NUMBER: u8 = 7;

/// A key in a namespace.
fn key_of(namespace: &Namespace, kind: u8, parts: &[&[u8]]) -> Bytes {
    let name = namespace.as_str();
    let rest: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = BytesMut::with_capacity(3 + name.len() + rest);
    codec::put_text(&mut out, name);
    out.put_u8(kind);
    parts.iter().for_each(|part| out.put_slice(part));
    out.freeze()
}

/// What follows the namespace in a key: its kind, and the rest.
fn read_key<'a>(table: &Table, row: &'a Bytes) -> Result<(Namespace, u8, Reader<'a>), ReadError> {
    let mut reader = Reader(row);
    let mut read = || {
        let namespace = Namespace::new(reader.text()?);
        Ok((namespace.map_err(|_| Malformed("its namespace is none"))?, reader.u8()?))
    };
    let (namespace, kind) = read().map_err(|Malformed(what)| codec::damaged(table, row, what))?;
    Ok((namespace, kind, reader))
}

fn undecodable(error: Undecodable) -> Malformed {
    Malformed(error.0)
}

/// The key of the post office of a namespace: its slot, and the namespace.
pub fn room_key(namespace: &Namespace) -> RoomKey {
    let name = namespace.as_str();
    let mut out = BytesMut::with_capacity(2 + name.len());
    out.put_u16(of_vault(name, "").get() << 4);
    out.put_slice(name.as_bytes());
    RoomKey { room: DELIVERY_ROOM, key: out.freeze() }
}

/// The namespace of a post office.
pub fn namespace_of(key: &RoomKey) -> Result<Namespace, ReadError> {
    let name = str::from_utf8(key.key.get(2..).unwrap_or_default());
    let namespace = name.ok().and_then(|name| Namespace::new(name).ok());
    namespace.ok_or_else(|| codec::damaged(&DELIVERIES, &key.key, "its namespace is none"))
}
