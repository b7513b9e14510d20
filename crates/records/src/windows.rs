//! Operations and idempotency keys: records that outlive the execution they led to, and expire
//! after their own window (C-3). `operations` and `idempotency_keys` define what a record says;
//! here a record is bytes and the time when it expires.
//!
//! ```text
//! operations, idempotency_keys   namespace with its length (2 + n) ‖ id or key
//! answers                        namespace with its length ‖ root hash in hexadecimal ‖ : ‖ key
//!                                -> 00, or 01 ‖ when it may go (8) ‖ the record, sealed
//! expiries                       when (8) ‖ which table (1) ‖ key there
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{Namespace, OperationKey, RootHash, Timestamp};
use indelible_slots::Slot;
use indelible_store::{Batch, Expect, Read, ReadError, Seen, Table};

use super::codec::{self, Malformed, Reader};
use super::{ANSWERS, EXPIRIES, IDEMPOTENCY_KEYS, OPERATIONS, keys};

#[cfg(feature = "store")]
pub use super::purge::{PurgeError, PurgeReport, purge};

const VERSION: u8 = 1;

/// Capacity for a window and a record without an outcome and with a short key.
const RECORD_BYTES_GUESS: usize = 160;

/// A kind of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The record of an operation, by operation id.
    Operation = 1,
    /// The record of a caller's idempotency key, by that key.
    IdempotencyKey = 2,
    /// The answer to a request under a key of another slot (see C-80), by its target and the key.
    Answer = 3,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Operation, Self::IdempotencyKey, Self::Answer];

    pub(crate) fn table(self) -> Table {
        match self {
            Self::Operation => OPERATIONS,
            Self::IdempotencyKey => IDEMPOTENCY_KEYS,
            Self::Answer => ANSWERS,
        }
    }
}

/// Identifies a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id {
    /// The kind of the record.
    pub kind: Kind,
    /// Ids and keys are unique within a namespace.
    pub namespace: Namespace,
    /// The operation id, or the key; for an answer, its target and the key.
    pub name: String,
}

impl Id {
    /// The record of an operation.
    pub fn operation(operation: &OperationKey) -> Self {
        let OperationKey { namespace, operation_id } = operation;
        Self { kind: Kind::Operation, namespace: namespace.clone(), name: operation_id.to_string() }
    }

    /// The record of a caller's key in a namespace.
    pub fn idempotency_key(namespace: &Namespace, key: &str) -> Self {
        let (namespace, name) = (namespace.clone(), key.to_owned());
        Self { kind: Kind::IdempotencyKey, namespace, name }
    }

    /// The answer to a request under a key of another slot, whose target is this tree, or the
    /// [server](crate::idempotency_keys::SERVER) (see C-80).
    pub fn for_answer(namespace: &Namespace, target: &RootHash, key: &str) -> Self {
        let (namespace, name) = (namespace.clone(), format!("{target}:{key}"));
        Self { kind: Kind::Answer, namespace, name }
    }

    /// The id of the record in this row.
    pub(crate) fn read(kind: Kind, key: &Bytes) -> Result<Self, ReadError> {
        let damaged = |what| codec::damaged(&kind.table(), key, what);
        let mut reader = Reader(key);
        let namespace = reader.text().map_err(|Malformed(what)| damaged(what))?;
        let namespace = Namespace::new(namespace);
        let namespace = namespace.map_err(|_| damaged("the name of its namespace is invalid"))?;
        let name = str::from_utf8(reader.0).map_err(|_| damaged("a text is not UTF-8"))?;
        Ok(Self { kind, namespace, name: name.to_owned() })
    }

    /// The slot that the record is in.
    pub fn slot(&self) -> Slot {
        self.kind.table().slot_of(&self.key())
    }

    pub(crate) fn key(&self) -> Bytes {
        keys::namespaced(&self.namespace, &self.name)
    }
}

/// The body of a record.
pub trait RecordBody: Sized {
    /// Appends its bytes.
    fn put(&self, out: &mut BytesMut);

    /// Decodes exactly these bytes; encoding the result gives them again. Err: why that is not
    /// possible.
    fn read(bytes: &Bytes) -> Result<Self, &'static str>;
}

/// A record with its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowedRecord<R> {
    /// When it expires. None while the operation is in progress: such a record is never purged
    /// (C-3).
    pub expires_at: Option<Timestamp>,
    /// The body of the record.
    pub record: R,
}

impl<R> WindowedRecord<R> {
    /// No outcome is on record: the operation goes on or, if it is volatile, was lost (see C-39).
    pub fn is_in_progress(&self) -> bool {
        self.expires_at.is_none()
    }
}

/// Adds to a batch: the record becomes `after` (or is deleted), if it still is `before` (or
/// absent).
pub fn replace<R: RecordBody>(
    batch: &mut Batch,
    id: &Id,
    before: Option<&WindowedRecord<R>>,
    after: Option<&WindowedRecord<R>>,
) {
    let (table, key) = (id.kind.table(), id.key());
    let expect = match before {
        None => Expect::Absent,
        Some(before) => Expect::Equal(encode(table, &key, before)),
    };
    batch.expect(table, key.clone(), expect);
    let expiry =
        |record: Option<&WindowedRecord<R>>| Some(expiry(record?.expires_at?, id.kind, &key));
    let (old, new) = (expiry(before), expiry(after));
    if old != new {
        if let Some(old) = old {
            batch.delete(EXPIRIES, old);
        }
        if let Some(new) = new {
            batch.put(EXPIRIES, new, Bytes::new());
        }
    }
    match after {
        Some(after) => batch.put(table, key.clone(), encode(table, &key, after)),
        None => batch.delete(table, key),
    };
}

/// One record.
pub fn get<R: RecordBody>(
    read: &impl Read,
    id: &Id,
) -> Result<Seen<Option<WindowedRecord<R>>>, ReadError> {
    let (table, key) = (id.kind.table(), id.key());
    let seen = read.get(table, &key)?;
    codec::decoded(read, seen, |value| value.map(|value| decode(table, &key, &value)).transpose())
}

fn encode<R: RecordBody>(table: Table, key: &[u8], windowed: &WindowedRecord<R>) -> Bytes {
    let mut body = BytesMut::with_capacity(RECORD_BYTES_GUESS);
    match windowed.expires_at {
        None => body.put_u8(0),
        Some(at) => {
            body.put_u8(1);
            body.put_u64(at.as_micros());
        }
    }
    windowed.record.put(&mut body);
    codec::seal(&table, key, VERSION, &body)
}

pub(crate) fn decode<R: RecordBody>(
    table: Table,
    key: &Bytes,
    value: &Bytes,
) -> Result<WindowedRecord<R>, ReadError> {
    let (expires_at, record) = unseal(table, key, value)?;
    let record = R::read(&record).map_err(|what| codec::damaged(&table, key, what))?;
    Ok(WindowedRecord { expires_at, record })
}

/// When a record expires, and its body.
pub(crate) fn unseal(
    table: Table,
    key: &Bytes,
    value: &Bytes,
) -> Result<(Option<Timestamp>, Bytes), ReadError> {
    let sealed = codec::unseal(&table, key, VERSION, value)?;
    let mut reader = Reader(&sealed);
    let expires_at = match reader.u8() {
        Ok(0) => Ok(None),
        Ok(1) => reader.timestamp().map(Some),
        Ok(_) => Err(Malformed("its window is of unknown kind")),
        Err(error) => Err(error),
    };
    let expires_at = expires_at.map_err(|error| codec::damaged(&table, key, error.0))?;
    Ok((expires_at, sealed.slice_ref(reader.0)))
}

pub(crate) fn expiry(at: Timestamp, kind: Kind, key: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(9 + key.len());
    out.put_u64(at.as_micros());
    out.put_u8(kind as u8);
    out.put_slice(key);
    out.freeze()
}

/// When a record expires, its kind, and its key.
pub(crate) fn read_expiry(entry: &Bytes) -> Result<(Timestamp, Kind, Bytes), ReadError> {
    let mut reader = Reader(entry);
    let parts = reader.timestamp().and_then(|at| {
        let number = reader.u8()?;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == number);
        Ok((at, kind.ok_or(Malformed("it is of unknown kind"))?, entry.slice(9..)))
    });
    parts.map_err(|error| codec::damaged(&EXPIRIES, entry, error.0))
}
