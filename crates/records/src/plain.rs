//! Tables whose rows are a key and a sealed body, without an index: components, the audit
//! record, settings.

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{ComponentDigest, Timestamp};
use indelible_store::{Batch, Read, ReadError, Scan, Seen, Table};

use super::codec::{self, Malformed, Reader};
use super::{AUDIT, COMPONENTS, SETTINGS};

const VERSION: u8 = 1;

fn put(batch: &mut Batch, table: Table, key: Bytes, body: &[u8]) {
    let value = codec::seal(&table, &key, VERSION, body);
    batch.put(table, key, value);
}

fn get(read: &impl Read, table: Table, key: &Bytes) -> Result<Seen<Option<Bytes>>, ReadError> {
    let seen = read.get(table, key)?;
    codec::decoded(read, seen, |value| value.map(|value| unseal(&table, key, &value)).transpose())
}

/// The body of a row of one of these tables.
pub(crate) fn unseal(table: &Table, key: &Bytes, value: &Bytes) -> Result<Bytes, ReadError> {
    codec::unseal(table, key, VERSION, value)
}

/// Components, whole, by their digest.
pub mod components {
    use super::*;

    /// Adds a component to a batch, under the digest that it has.
    pub fn put(batch: &mut Batch, component: &[u8]) -> ComponentDigest {
        let digest = ComponentDigest::of(component);
        super::put(batch, COMPONENTS, key(&digest), component);
        digest
    }

    /// Adds to a batch: this component goes.
    pub fn delete(batch: &mut Batch, digest: &ComponentDigest) {
        batch.delete(COMPONENTS, key(digest));
    }

    /// A component.
    pub fn get(
        read: &impl Read,
        digest: &ComponentDigest,
    ) -> Result<Seen<Option<Bytes>>, ReadError> {
        super::get(read, COMPONENTS, &key(digest))
    }

    fn key(digest: &ComponentDigest) -> Bytes {
        Bytes::copy_from_slice(digest.as_bytes())
    }
}

/// Settings, by name.
pub mod settings {
    use super::*;

    /// Adds to a batch: this setting has this value.
    pub fn put(batch: &mut Batch, name: &str, value: &[u8]) {
        super::put(batch, SETTINGS, key(name), value);
    }

    /// Adds to a batch: this setting goes.
    pub fn delete(batch: &mut Batch, name: &str) {
        batch.delete(SETTINGS, key(name));
    }

    /// A setting.
    pub fn get(read: &impl Read, name: &str) -> Result<Seen<Option<Bytes>>, ReadError> {
        super::get(read, SETTINGS, &key(name))
    }

    fn key(name: &str) -> Bytes {
        Bytes::copy_from_slice(name.as_bytes())
    }
}

/// Who did what: written in the same commit as what was done (C-38).
pub mod audit {
    use indelible_slots::Slot;

    use super::*;

    /// An entry.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Entry {
        /// When.
        pub at: Timestamp,
        /// Tells entries of one moment apart. It begins with the slot of what the entry is about.
        pub id: [u8; 16],
        /// Who, what and why, in its room's words.
        pub body: Bytes,
    }

    impl Entry {
        /// The slot of what it is about.
        pub fn slot(&self) -> Slot {
            Slot::at_start_of(&self.id)
        }
    }

    /// Adds an entry to a batch.
    pub fn put(batch: &mut Batch, entry: &Entry) {
        super::put(batch, AUDIT, key(entry.at, &entry.id), &entry.body);
    }

    fn key(at: Timestamp, id: &[u8; 16]) -> Bytes {
        let mut key = BytesMut::with_capacity(24);
        key.put_u64(at.as_micros());
        key.put_slice(id);
        key.freeze()
    }

    /// The newest entries before a time, at most so many.
    pub fn before(
        read: &impl Read,
        time: Timestamp,
        limit: usize,
    ) -> Result<Seen<Vec<Entry>>, ReadError> {
        // No entry is before the first of a moment.
        before_entry(read, time, &[0; 16], limit)
    }

    /// The newest entries before the one of this time and id, at most so many: where a page ended,
    /// the next one goes on, also within one moment.
    pub fn before_entry(
        read: &impl Read,
        time: Timestamp,
        id: &[u8; 16],
        limit: usize,
    ) -> Result<Seen<Vec<Entry>>, ReadError> {
        let mut scan = Scan::all(AUDIT, limit).reversed();
        scan.range.1 = std::ops::Bound::Excluded(key(time, id));
        codec::decoded(read, read.scan(&scan)?, |page| {
            page.rows.iter().map(|(key, value)| decode(key, value)).collect()
        })
    }

    /// The time of the newest entry. What the entry says is not looked at: it may be damaged.
    pub fn newest(read: &impl Read) -> Result<Seen<Option<Timestamp>>, ReadError> {
        read.scan(&Scan::all(AUDIT, 1).reversed())?.try_map(|page| {
            page.rows.first().map(|(key, _)| read_key(key).map(|(at, _)| at)).transpose()
        })
    }

    fn read_key(key: &Bytes) -> Result<(Timestamp, [u8; 16]), ReadError> {
        let mut reader = Reader(key);
        let parts = reader.timestamp().and_then(|at| Ok((at, reader.array()?)));
        let parts = parts.and_then(|parts| reader.end().map(|()| parts));
        parts.map_err(|Malformed(what)| codec::damaged(&AUDIT, key, what))
    }

    pub(crate) fn decode(key: &Bytes, value: &Bytes) -> Result<Entry, ReadError> {
        let body = unseal(&AUDIT, key, value)?;
        let (at, id) = read_key(key)?;
        Ok(Entry { at, id, body })
    }
}
