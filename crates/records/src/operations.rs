//! Operations: which execution a client's request led to (C-31), by namespace and operation id.
//!
//! ```text
//! root hash (32) ‖ request hash (32) ‖ accepted at (8) ‖ attempt (4)
//! ‖ the caller's idempotency key with its length (2 + n), none if empty ‖ the end, none if empty
//! ```
//! The request hash is [`Binding`]. The record outlives the execution, with its outcome (C-3): the
//! end is the last entry of the root's journal, as a line of the export.

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::{Attempt, Ending, ExecutionId, OperationKey, RootHash, Timestamp, json};
use indelible_operations::Binding;
use indelible_store::{Read, ReadError, Seen};

use crate::codec::{Reader, put_text};
use crate::windows::{self, Id, RecordBody, WindowedRecord};

/// The record of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The tree that it led to.
    pub root: RootHash,
    /// The function and input that were asked for.
    pub binding: Binding,
    /// When it was accepted: its deadline counts from then.
    pub accepted_at: Timestamp,
    /// The attempt that goes on, or whose end is the outcome (see C-32).
    pub attempt: Attempt,
    /// The caller's key that led to it: the key's record expires a moment before this one.
    pub key: Option<String>,
    /// The last entry of the root's journal, as a line of the export, if the tree is deleted.
    pub end: Option<Bytes>,
}

impl Operation {
    /// The root of its tree.
    pub fn execution_id(&self) -> ExecutionId {
        ExecutionId::root_of(self.root)
    }

    /// The outcome, if the record has it because the tree is deleted.
    pub fn ending(&self) -> Option<Ending> {
        let line = str::from_utf8(self.end.as_ref()?).ok()?;
        Ending::of(json::parse_line(line).ok()?.1.event)
    }
}

impl RecordBody for Operation {
    fn put(&self, out: &mut BytesMut) {
        out.put_slice(self.root.as_bytes());
        out.put_slice(self.binding.as_bytes());
        out.put_u64(self.accepted_at.as_micros());
        out.put_u32(self.attempt.get());
        put_text(out, self.key.as_deref().unwrap_or_default());
        out.put_slice(self.end.as_deref().unwrap_or_default());
    }

    fn read(bytes: &Bytes) -> Result<Self, &'static str> {
        let mut reader = Reader(bytes);
        let root = RootHash::from_bytes(reader.array()?);
        let binding = Binding::from_bytes(reader.array()?);
        let accepted_at = reader.timestamp()?;
        let attempt = Attempt::new(reader.u32()?).ok_or("an attempt is 0")?;
        let key = Some(reader.text()?).filter(|key| !key.is_empty()).map(str::to_owned);
        let end = Some(bytes.slice_ref(reader.0)).filter(|end| !end.is_empty());
        Ok(Self { root, binding, accepted_at, attempt, key, end })
    }
}

/// The record of an operation.
pub fn get(
    read: &impl Read,
    operation: &OperationKey,
) -> Result<Seen<Option<WindowedRecord<Operation>>>, ReadError> {
    windows::get(read, &Id::operation(operation))
}

#[cfg(test)]
mod tests {
    use indelible_journal::Payload;

    use super::*;

    /// C-3, C-31: the stored form, byte by byte, with and without a key and an end; anything else
    /// is refused.
    #[test]
    fn the_stored_form() {
        let mut start = vec![0xaa; 32];
        start.extend([0xbb; 32]);
        start.extend([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3]);
        let line = format!(
            "{{\"v\":2,\"execution\":\"{}@3\",\"sequence\":7,\
             \"timestamp\":\"2026-01-02T03:04:05.000006Z\",\"event\":\"ExecutionCompleted\",\
             \"data\":{{\"result\":{{\"codec\":\"json\",\"value\":[1]}}}}}}\n",
            "aa".repeat(32)
        );
        let read = |bytes: &[u8]| Operation::read(&Bytes::copy_from_slice(bytes));
        for (key, key_bytes) in [(None, &b"\0\0"[..]), (Some("key ✓"), b"\0\x07key \xe2\x9c\x93")]
        {
            for end in [None, Some(Bytes::from(line.clone()))] {
                let record = Operation {
                    root: RootHash::from_bytes([0xaa; 32]),
                    binding: Binding::from_bytes([0xbb; 32]),
                    accepted_at: Timestamp::from_micros(0x0102).expect("it is a time"),
                    attempt: Attempt::new(3).expect("it is one"),
                    key: key.map(str::to_owned),
                    end: end.clone(),
                };
                let bytes = [&start, key_bytes, end.as_deref().unwrap_or_default()].concat();
                let mut out = BytesMut::new();
                record.put(&mut out);
                assert_eq!(out, bytes);
                assert_eq!(read(&bytes).as_ref(), Ok(&record));
                let completed = end.map(|_| Ending::Completed(Payload::json("[1]")));
                assert_eq!(record.ending(), completed);
                for cut in 0..start.len() + key_bytes.len() {
                    assert_eq!(read(&bytes[..cut]), Err("it is too short"));
                }
            }
        }
        let broken = |at: usize, byte| {
            let mut bytes = [&start[..], b"\0\x01k"].concat();
            bytes[at] = byte;
            read(&bytes).err()
        };
        assert_eq!(broken(75, 0), Some("an attempt is 0"));
        assert_eq!(broken(64, 0xff), Some("a time is later than the year 9999"));
        assert_eq!(broken(78, 0xff), Some("a text is not UTF-8"));
    }
}
