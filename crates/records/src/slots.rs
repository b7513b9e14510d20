//! The slot of each row, from its table and key (D13): one function for each form of key. Every key
//! has a slot: one that no version ever wrote is the server's.

use indelible_slots::{Slot, of_key, of_operation, of_vault};

use crate::Room;
use crate::codec::Reader;
use crate::windows::Kind;

/// The key begins with the root hash of a tree.
pub(crate) fn tree(key: &[u8]) -> Slot {
    Slot::at_start_of(key)
}

/// Behind this many bytes the key has a hash that begins with a slot.
pub(crate) fn behind<const BYTES: usize>(key: &[u8]) -> Slot {
    Slot::at_start_of(key.get(BYTES..).unwrap_or_default())
}

/// The key is a time or a ticket, a number of a room, and the key of a machine.
pub(crate) fn room(key: &[u8]) -> Slot {
    match key.get(8).and_then(|room| Room::from_number(*room)) {
        Some(Room::Tree) => behind::<9>(key),
        // The length of the machine's key comes first.
        Some(Room::Other(_)) => behind::<11>(key),
        None => Slot::SERVER,
    }
}

/// The key is a name that ends with a zero, this many bytes, and a journal key.
pub(crate) fn behind_name<const BYTES: usize>(key: &[u8]) -> Slot {
    let end = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
    Slot::at_start_of(key.get(end + 1 + BYTES..).unwrap_or_default())
}

/// The key is a namespace, a label's name and its value, which end with a zero each, a time and a
/// journal key.
pub(crate) fn labelled(key: &[u8]) -> Slot {
    let place = key.splitn(4, |byte| *byte == 0).nth(3);
    behind::<8>(place.unwrap_or_default())
}

/// The key is an operation id in its namespace.
pub(crate) fn operation(key: &[u8]) -> Slot {
    namespaced(key).map_or(Slot::SERVER, |(namespace, id)| of_operation(namespace, id))
}

/// The key is an idempotency key in its namespace.
pub(crate) fn idempotency_key(key: &[u8]) -> Slot {
    namespaced(key).map_or(Slot::SERVER, |(namespace, key)| of_key(namespace, key))
}

/// The key is a namespace and a root hash in hexadecimal.
pub(crate) fn answer(key: &[u8]) -> Slot {
    let slot = namespaced(key).and_then(|(_, name)| name.get(..3)?.parse().ok());
    slot.unwrap_or(Slot::SERVER)
}

/// The key is the name of a ledger's scope: a namespace, and a vault in it.
pub(crate) fn vault(key: &[u8]) -> Slot {
    let slot = namespaced(key).and_then(|(namespace, vault)| {
        let vault = vault.strip_prefix('\u{1}').or_else(|| (vault == "\0").then_some(""))?;
        Some(of_vault(namespace, vault))
    });
    slot.unwrap_or(Slot::SERVER)
}

/// The key begins with the incarnation of a ledger's scope, a UUID that ends with its slot.
pub(crate) fn incarnation(key: &[u8]) -> Slot {
    let digits = key.get(14..16).map(|end| u16::from_be_bytes([end[0] & 0x0f, end[1]]));
    digits.and_then(Slot::new).unwrap_or(Slot::SERVER)
}

/// The key is the id of a message, which begins with its slot.
pub(crate) fn message(key: &[u8]) -> Slot {
    Slot::at_start_of(key)
}

/// The key begins with a namespace: everything in it is in the slot of its ledger.
pub(crate) fn namespace(key: &[u8]) -> Slot {
    Reader(key).text().map_or(Slot::SERVER, |namespace| of_vault(namespace, ""))
}

/// The key is the time when a record expires, its kind and its key.
pub(crate) fn expiry(key: &[u8]) -> Slot {
    let Some((kind, key)) = key.get(8..).and_then(<[u8]>::split_first) else { return Slot::SERVER };
    let kind = Kind::ALL.into_iter().find(|known| *known as u8 == *kind);
    kind.map_or(Slot::SERVER, |kind| kind.table().slot_of(key))
}

fn namespaced(key: &[u8]) -> Option<(&str, &str)> {
    let mut reader = Reader(key);
    let namespace = reader.text().ok()?;
    Some((namespace, str::from_utf8(reader.0).ok()?))
}
