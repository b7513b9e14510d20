//! Operations and idempotency keys: records that outlive the execution they led to and go by a
//! window of their own (C-3). What a record says is in `operations` and `idempotency_keys`; here it
//! is bytes, and when it may go.
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
pub use super::purge::{PurgeError, Purged, purge};

const VERSION: u8 = 1;

/// Room for a window and a record without an outcome and with a short key.
const RECORD_BYTES_GUESS: usize = 160;

/// Records of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// By operation id.
    Operation = 1,
    /// By a caller's idempotency key.
    IdempotencyKey = 2,
    /// What was answered under a key of another slot (see C-80), by what it was done to and the
    /// key.
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

/// Which record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id {
    /// Of which kind.
    pub kind: Kind,
    /// Ids and keys are unique within a namespace.
    pub namespace: Namespace,
    /// The operation id, or the key; of an answer, what it was done to, and the key.
    pub name: String,
}

impl Id {
    /// An operation.
    pub fn operation(operation: &OperationKey) -> Self {
        let OperationKey { namespace, operation_id } = operation;
        Self { kind: Kind::Operation, namespace: namespace.clone(), name: operation_id.to_string() }
    }

    /// A caller's key in a namespace.
    pub fn idempotency_key(namespace: &Namespace, key: &str) -> Self {
        let (namespace, name) = (namespace.clone(), key.to_owned());
        Self { kind: Kind::IdempotencyKey, namespace, name }
    }

    /// The answer to a request under a key of another slot, that changed this tree, or the
    /// [server](crate::idempotency_keys::SERVER) (see C-80).
    pub fn answer(namespace: &Namespace, target: &RootHash, key: &str) -> Self {
        let (namespace, name) = (namespace.clone(), format!("{target}:{key}"));
        Self { kind: Kind::Answer, namespace, name }
    }

    /// The one that this row is of.
    pub(crate) fn read(kind: Kind, key: &Bytes) -> Result<Self, ReadError> {
        let damaged = |what| codec::damaged(&kind.table(), key, what);
        let mut reader = Reader(key);
        let namespace = reader.text().map_err(|Malformed(what)| damaged(what))?;
        let namespace = Namespace::new(namespace);
        let namespace = namespace.map_err(|_| damaged("its namespace has no proper name"))?;
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

/// What a record says, in bytes.
pub trait RecordBody: Sized {
    /// Adds its bytes.
    fn put(&self, out: &mut BytesMut);

    /// Reads one that has exactly these bytes, and puts no others. Err: why it is none.
    fn read(bytes: &Bytes) -> Result<Self, &'static str>;
}

/// A record with its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windowed<R> {
    /// From when on it may go. None while it is in progress: it is never purged then (C-3).
    pub expires_at: Option<Timestamp>,
    /// What it says.
    pub record: R,
}

impl<R> Windowed<R> {
    /// No outcome is on record: what it is about goes on or, if it is volatile, was lost (see
    /// C-39).
    pub fn is_in_progress(&self) -> bool {
        self.expires_at.is_none()
    }
}

/// Adds to a batch: the record becomes `after` (or goes), if it still is `before` (or absent).
pub fn replace<R: RecordBody>(
    batch: &mut Batch,
    id: &Id,
    before: Option<&Windowed<R>>,
    after: Option<&Windowed<R>>,
) {
    let (table, key) = (id.kind.table(), id.key());
    let expect = match before {
        None => Expect::Absent,
        Some(before) => Expect::Equal(encode(table, &key, before)),
    };
    batch.expect(table, key.clone(), expect);
    let expiry = |record: Option<&Windowed<R>>| Some(expiry(record?.expires_at?, id.kind, &key));
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
) -> Result<Seen<Option<Windowed<R>>>, ReadError> {
    let (table, key) = (id.kind.table(), id.key());
    let seen = read.get(table, &key)?;
    codec::decoded(read, seen, |value| value.map(|value| decode(table, &key, &value)).transpose())
}

fn encode<R: RecordBody>(table: Table, key: &[u8], windowed: &Windowed<R>) -> Bytes {
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
) -> Result<Windowed<R>, ReadError> {
    let (expires_at, record) = unseal(table, key, value)?;
    let record = R::read(&record).map_err(|what| codec::damaged(&table, key, what))?;
    Ok(Windowed { expires_at, record })
}

/// From when on a record may go, and its bytes.
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
        Ok(_) => Err(Malformed("its window is of no known kind")),
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

/// When, of which kind, and the key there.
pub(crate) fn read_expiry(entry: &Bytes) -> Result<(Timestamp, Kind, Bytes), ReadError> {
    let mut reader = Reader(entry);
    let parts = reader.timestamp().and_then(|at| {
        let number = reader.u8()?;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == number);
        Ok((at, kind.ok_or(Malformed("it is of no known kind"))?, entry.slice(9..)))
    });
    parts.map_err(|error| codec::damaged(&EXPIRIES, entry, error.0))
}
