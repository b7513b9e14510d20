//! The record of an operation: which execution a client's request led to (C-31). A repeated
//! request finds it and attaches; another request under the same id is a conflict (V-9, C-6).
//!
//! ```text
//! body, version 1:   01 ‖ root hash (32) ‖ request hash (32) ‖ accepted at (8) ‖ attempt (4)
//! body, version 2:   02 ‖ as above ‖ the caller's idempotency key
//! body, version 3:   03 ‖ as version 1 ‖ length of the key (2) ‖ the key, or nothing ‖ the end
//! ```
//! Version 2 is that of an operation which a key led to, version 1 that of all others, and version 3
//! that of either when its tree is gone: the record outlives the execution, with its outcome (C-3).
//! The end is the last event of the root's journal, as a line of the export.
//! Numbers are big-endian; the request hash is [`Binding`]. It is looked up before any id is made of
//! the component's digest, so that a new version does not make an old request new.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use indelible_journal::{
    Attempt, Ending, Event, ExecutionId, JournalKey, OperationKey, RootHash, Timestamp, json,
};
use indelible_operations::retention::{Age, Retention};
use indelible_operations::{Binding, id};
use indelible_records::windows::{self, Id, Kind, Windowed};
use indelible_store::ReadError;

use crate::keys::{self, Keyed};
use crate::shared::Shared;
use crate::tree::Tree;

const VERSION: u8 = 1;
const VERSION_WITH_KEY: u8 = 2;
const VERSION_WITH_END: u8 = 3;

/// The bytes that every record has.
const BODY_BYTES: usize = 77;

/// A request to start something, under its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) operation: OperationKey,
    pub(crate) root: RootHash,
    pub(crate) binding: Binding,
    /// The key that it came under.
    pub(crate) keyed: Option<Keyed>,
}

/// What is known of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) root: RootHash,
    /// What was asked for.
    pub(crate) binding: Binding,
    /// When it was accepted: its deadline counts from there.
    pub(crate) accepted_at: Timestamp,
    /// The attempt that goes on, or ended it (C-32).
    pub(crate) attempt: Attempt,
    /// The caller's key that led to it: its record goes when this one does.
    pub(crate) key: Option<String>,
    /// The last event of its root's journal, as a line of the export, if its tree is gone.
    pub(crate) end: Option<Bytes>,
}

impl Record {
    pub(crate) fn encode(&self) -> Bytes {
        let key = self.key.as_deref().unwrap_or("");
        let end = self.end.as_deref().unwrap_or(&[]);
        let mut body = BytesMut::with_capacity(BODY_BYTES + 2 + key.len() + end.len());
        body.put_u8(match (&self.key, &self.end) {
            (_, Some(_)) => VERSION_WITH_END,
            (Some(_), None) => VERSION_WITH_KEY,
            (None, None) => VERSION,
        });
        body.put_slice(self.root.as_bytes());
        body.put_slice(self.binding.as_bytes());
        body.put_u64(self.accepted_at.as_micros());
        body.put_u32(self.attempt.get());
        if self.end.is_some() {
            body.put_u16(u16::try_from(key.len()).expect("a key has at most 255 characters"));
        }
        body.put_slice(key.as_bytes());
        body.put_slice(end);
        body.freeze()
    }

    pub(crate) fn decode(body: &Bytes) -> Option<Self> {
        let mut body = body.clone();
        if body.len() < BODY_BYTES {
            return None;
        }
        let version = body.get_u8();
        let mut bytes = [0; 32];
        body.copy_to_slice(&mut bytes);
        let root = RootHash::from_bytes(bytes);
        body.copy_to_slice(&mut bytes);
        let binding = Binding::from_bytes(bytes);
        let accepted_at = Timestamp::from_micros(body.get_u64())?;
        let attempt = Attempt::new(body.get_u32())?;
        let text = |bytes: &[u8]| Some(str::from_utf8(bytes).ok()?.to_owned());
        let (key, end) = match (version, body.is_empty()) {
            (VERSION, true) => (None, None),
            (VERSION_WITH_KEY, false) => (Some(text(&body)?), None),
            (VERSION_WITH_END, false) => {
                let length = usize::from(body.try_get_u16().ok()?);
                if body.len() <= length {
                    return None;
                }
                let key = body.split_to(length);
                (if key.is_empty() { None } else { Some(text(&key)?) }, Some(body))
            }
            _ => return None,
        };
        Some(Self { root, binding, accepted_at, attempt, key, end })
    }

    /// How the operation ended, if the record has that: its tree is gone.
    pub(crate) fn ending(&self) -> Option<Ending> {
        let line = str::from_utf8(self.end.as_ref()?).ok()?;
        ending(json::parse_line(line).ok()?.1.event)
    }
}

/// The end of an execution that this event is.
pub(crate) fn ending(event: Event) -> Option<Ending> {
    match event {
        Event::ExecutionCompleted { result } => Some(Ending::Completed(result)),
        Event::ExecutionFailed { error } => Some(Ending::Failed(error)),
        Event::ExecutionCancelled { reason } => Some(Ending::Cancelled(reason)),
        _ => None,
    }
}

/// Why a record cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the record of operation {0} cannot be read: it was written by a newer version")]
    Unknown(String),
    #[error("the record of the key {0} cannot be read: it was written by a newer version")]
    UnknownKey(String),
}

impl RecordError {
    /// Whether the record is damaged, or written by a newer version.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Read(error) => error.is_damage(),
            Self::Unknown(_) | Self::UnknownKey(_) => true,
        }
    }
}

pub(crate) fn row(operation: &OperationKey) -> Id {
    let (namespace, name) = (operation.namespace.clone(), operation.operation_id.to_string());
    Id { kind: Kind::Operation, namespace, name }
}

fn read(shared: &Shared, operation: &OperationKey) -> Result<Option<Windowed>, RecordError> {
    Ok(windows::get(&shared.store, &row(operation))?.value)
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) record: Record,
    /// No outcome is on record: it goes on or, if it is volatile, was lost (C-39).
    pub(crate) in_progress: bool,
}

/// What is known of an operation.
pub(crate) fn find(
    shared: &Shared,
    operation: &OperationKey,
) -> Result<Option<Known>, RecordError> {
    let Some(windowed) = read(shared, operation)? else { return Ok(None) };
    match Record::decode(&windowed.body) {
        Some(record) => Ok(Some(Known { record, in_progress: windowed.expires_at.is_none() })),
        None => Err(RecordError::Unknown(operation.operation_id.to_string())),
    }
}

fn retention(shared: &Shared) -> Retention {
    shared.options.retention().expect("it was checked when the engine was opened")
}

/// What the id of a request means that has no record (C-3). It is asked after the look for one: a
/// record that goes in between leaves an id that is expired by then. The wall clock alone does not
/// judge: set back, it would make an id new whose record was purged.
pub(crate) fn age(shared: &Shared, operation: &OperationKey) -> Age {
    let now = shared.clock.now().max(shared.retention_clock.purged());
    retention(shared).age(&operation.operation_id, now)
}

/// Until when a record stays that is of something which is over now. The record is purged by the
/// retention clock, so its window does not begin before what that says: a wall clock that is behind
/// would have it purged at once.
pub(crate) fn expires_at(shared: &Shared, made: Option<Timestamp>) -> Timestamp {
    let now = shared.clock.now().max(shared.retention_clock.time());
    retention(shared).after(made, now).unwrap_or(Timestamp::MAX)
}

/// A change of a record, for the next commit.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) id: Id,
    pub(crate) before: Option<Windowed>,
    pub(crate) after: Windowed,
}

impl Change {
    /// The operation has begun. While it goes on its record does not expire (C-3).
    pub(crate) fn begun(request: &Request, now: Timestamp) -> Self {
        let record = Record {
            root: request.root,
            binding: request.binding,
            accepted_at: now,
            attempt: Attempt::FIRST,
            key: request.keyed.as_ref().map(|keyed| keyed.key.value().to_owned()),
            end: None,
        };
        let after = Windowed { expires_at: None, body: record.encode() };
        Self { id: row(&request.operation), before: None, after }
    }
}

impl Tree {
    /// The root is over: its record stays for its window, and until its id is recognized as expired
    /// (V-56, V-58, C-3).
    pub(crate) fn operation_ended(&mut self, shared: &Shared, root: &JournalKey) {
        let operation = self.operation_of(root);
        let made = operation.and_then(|operation| id::created_at(&operation.operation_id));
        let expires_at = expires_at(shared, made);
        let mut key = None;
        self.change_operation(shared, root, |after| {
            after.expires_at = Some(expires_at);
            key = Record::decode(&after.body).and_then(|record| record.key);
        });
        let (Some(key), Some(operation)) = (key, self.operation_of(root)) else { return };
        let pending = self.key_change().take();
        match keys::ended(shared, pending, &operation.namespace, &key, expires_at) {
            Ok(change) => *self.key_change() = change,
            Err(error) => shared.trouble(&error.to_string()),
        }
    }

    /// The root is tried again (C-32).
    pub(crate) fn operation_retried(&mut self, shared: &Shared, next: &JournalKey) {
        let attempt = next.attempts().own();
        self.change_operation(shared, next, |after| {
            if let Some(record) = Record::decode(&after.body) {
                after.body = Record { attempt, ..record }.encode();
            }
        });
    }

    fn change_operation(
        &mut self,
        shared: &Shared,
        root: &JournalKey,
        change: impl FnOnce(&mut Windowed),
    ) {
        let Some(operation) = self.operation_of(root) else { return };
        if self.operation_change().is_none() {
            match read(shared, &operation) {
                Ok(Some(before)) => {
                    let (before, after) = (Some(before.clone()), before);
                    *self.operation_change() = Some(Change { id: row(&operation), before, after });
                }
                // Without a record nothing is lost: it only says where to look.
                Ok(None) => return,
                Err(error) => return shared.trouble(&error.to_string()),
            }
        }
        if let Some(pending) = self.operation_change() {
            change(&mut pending.after);
        }
    }

    /// When the root's operation was accepted; for one without a record, when this attempt began.
    pub(crate) fn operation_accepted_at(
        &mut self,
        shared: &Shared,
        root: &JournalKey,
    ) -> Timestamp {
        let body = match self.operation_change() {
            Some(change) => Some(change.after.body.clone()),
            None => self
                .operation_of(root)
                .and_then(|operation| read(shared, &operation).ok().flatten())
                .map(|windowed| windowed.body),
        };
        let record = body.as_ref().and_then(Record::decode);
        record.map_or_else(|| shared.clock.now(), |record| record.accepted_at)
    }
}

/// The execution of an operation.
pub(crate) fn execution(record: &Record) -> ExecutionId {
    ExecutionId::root_of(record.root)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of all versions, as they are described: they must still read.
    #[test]
    fn records_of_all_versions_read() {
        let record = Record {
            root: RootHash::from_bytes([0xaa; 32]),
            binding: Binding::from_bytes([0xbb; 32]),
            accepted_at: Timestamp::from_micros(0x0102).expect("it is a time"),
            attempt: Attempt::new(3).expect("it is one"),
            key: None,
            end: None,
        };
        let read = |bytes: &[u8]| Record::decode(&Bytes::copy_from_slice(bytes));
        let mut bytes = vec![1];
        bytes.extend([0xaa; 32]);
        bytes.extend([0xbb; 32]);
        bytes.extend([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3]);
        assert_eq!(record.encode(), bytes);
        assert_eq!(read(&bytes), Some(record.clone()));
        assert_eq!(read(&bytes[..76]), None);
        assert_eq!(read(&[&bytes, &b"k"[..]].concat()), None, "version 1 has no key");
        bytes[0] = 2;
        assert_eq!(read(&bytes), None, "version 2 has one");
        bytes.extend("key 1 ✓".as_bytes());
        let record = Record { key: Some("key 1 ✓".to_owned()), ..record };
        assert_eq!(record.encode(), bytes);
        assert_eq!(read(&bytes), Some(record.clone()));
        bytes.push(0xff);
        assert_eq!(read(&bytes), None, "a key is text");
        bytes[0] = 4;
        assert_eq!(read(&bytes), None);
        // With the end, and the key or none.
        let root = "aa".repeat(32);
        let line = format!(
            "{{\"v\":2,\"execution\":\"{root}@3\",\"sequence\":7,\
             \"timestamp\":\"2026-01-02T03:04:05.000006Z\",\"event\":\"ExecutionCompleted\",\
             \"data\":{{\"result\":{{\"codec\":\"json\",\"value\":[1]}}}}}}\n"
        );
        for key in [Some("key 1 ✓"), None] {
            bytes.truncate(77);
            bytes[0] = 3;
            let text = key.unwrap_or_default();
            bytes.extend([0, u8::try_from(text.len()).expect("it is short")]);
            bytes.extend(text.as_bytes());
            assert_eq!(read(&bytes), None, "version 3 has an end");
            bytes.extend(line.as_bytes());
            let end = Some(Bytes::from(line.clone()));
            let record = Record { key: key.map(str::to_owned), end, ..record.clone() };
            assert_eq!(record.encode(), bytes);
            assert_eq!(read(&bytes), Some(record.clone()));
            let result = indelible_journal::Payload::json("[1]");
            assert_eq!(record.ending(), Some(Ending::Completed(result)));
            assert_eq!(read(&bytes[..78]), None);
        }
    }
}
