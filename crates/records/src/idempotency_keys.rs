//! Idempotency keys: the operation that a start under a caller's key led to (C-31), or the answer
//! to a request that changed something else. The table `answers` has the same records.
//!
//! ```text
//! request hash (32) ‖ kind (1) ‖ the rest
//!   0 done                  1 a signal: delivery (8)        2 a cancel: 0, or 1 if it came again
//!   3 a deployment: digest (32) ‖ 0, or 1 if it was known
//!   4 a start: operation id
//!   5 a note: root hash of the target (32), zeros for the server
//! ```
//! The record of a start is written in the commit that starts the execution, and expires a moment
//! before the operation's record: a stored key always leads to an operation. The record of any
//! other request is written in the commit of its change, and has the same window.
//!
//! The key and the target of a request can be in different slots, which different nodes may own.
//! Then there are two steps (C-80), in this order: the key's slot notes the target, durably; then
//! the target commits the change and, in the table `answers`, the answer. A repetition goes from
//! the key to the target to the answer; a note without an answer says that the change was not made.
//! A note that led to a refusal is removed before the caller gets the refusal.

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_idempotency::RequestHash;
use indelible_journal::{ComponentDigest, DeliveryId, OperationId, RootHash};

use crate::codec::Reader;
use crate::windows::RecordBody;

/// Stands for the server as the target of a note. No tree has this root.
pub const SERVER: RootHash = RootHash::from_bytes([0; 32]);

/// The record of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// A hash of the parts that a repetition must not change.
    pub hash: RequestHash,
    /// What the request led to.
    pub led_to: KeyOutcome,
}

/// What a request under a key led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOutcome {
    /// The request was a start of this operation.
    Operation(OperationId),
    /// The request was anything else.
    Answer(Answer),
    /// The request was anything else, and the answer is with this tree, or [`SERVER`].
    Target(RootHash),
}

/// The answer to a request under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The request is done.
    Done,
    /// The number of the delivered signal.
    Delivered(DeliveryId),
    /// What a cancel led to.
    Cancelling(CancelOutcome),
    /// A component was deployed.
    Deployed {
        /// The version.
        digest: ComponentDigest,
        /// Whether the version was known under the name.
        known: bool,
    },
}

/// What a cancel led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The request is recorded; the guest may clean up.
    Requested,
    /// The cancel was requested before.
    Already,
}

impl RecordBody for KeyRecord {
    fn put(&self, out: &mut BytesMut) {
        out.put_slice(self.hash.as_bytes());
        match &self.led_to {
            KeyOutcome::Answer(Answer::Done) => out.put_u8(0),
            KeyOutcome::Answer(Answer::Delivered(delivery)) => {
                out.put_u8(1);
                out.put_u64(delivery.get());
            }
            KeyOutcome::Answer(Answer::Cancelling(cancelling)) => {
                out.put_slice(&[2, u8::from(*cancelling == CancelOutcome::Already)]);
            }
            KeyOutcome::Answer(Answer::Deployed { digest, known }) => {
                out.put_u8(3);
                out.put_slice(digest.as_bytes());
                out.put_u8(u8::from(*known));
            }
            KeyOutcome::Operation(id) => {
                out.put_u8(4);
                out.put_slice(id.as_str().as_bytes());
            }
            KeyOutcome::Target(target) => {
                out.put_u8(5);
                out.put_slice(target.as_bytes());
            }
        }
    }

    fn read(bytes: &Bytes) -> Result<Self, &'static str> {
        let mut reader = Reader(bytes);
        let hash = RequestHash::from_bytes(reader.array()?);
        let led_to = match reader.u8()? {
            0 => KeyOutcome::Answer(Answer::Done),
            1 => {
                let delivery = DeliveryId::new(reader.u64()?).ok_or("a delivery id is invalid")?;
                KeyOutcome::Answer(Answer::Delivered(delivery))
            }
            2 => KeyOutcome::Answer(Answer::Cancelling(match reader.bool()? {
                false => CancelOutcome::Requested,
                true => CancelOutcome::Already,
            })),
            3 => {
                let digest = ComponentDigest::from_bytes(reader.array()?);
                KeyOutcome::Answer(Answer::Deployed { digest, known: reader.bool()? })
            }
            4 => {
                let id = str::from_utf8(std::mem::take(&mut reader.0)).ok();
                let id = id.and_then(|id| OperationId::new(id).ok());
                KeyOutcome::Operation(id.ok_or("an operation id is invalid")?)
            }
            5 => KeyOutcome::Target(RootHash::from_bytes(reader.array()?)),
            _ => return Err("its target is of unknown kind"),
        };
        reader.end()?;
        Ok(Self { hash, led_to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-31, C-80: the stored forms, byte by byte; anything else is refused.
    #[test]
    fn the_stored_forms() {
        let digest = ComponentDigest::from_bytes([9; 32]);
        let known = KeyOutcome::Answer(Answer::Deployed { digest, known: true });
        let delivered = KeyOutcome::Answer(Answer::Delivered(DeliveryId::FIRST));
        let cancelling = |cancelling| KeyOutcome::Answer(Answer::Cancelling(cancelling));
        let operation = KeyOutcome::Operation(OperationId::new("op-1").expect("it is one"));
        let forms = [
            (KeyOutcome::Answer(Answer::Done), vec![0]),
            (delivered, vec![1, 0, 0, 0, 0, 0, 0, 0, 1]),
            (cancelling(CancelOutcome::Requested), vec![2, 0]),
            (cancelling(CancelOutcome::Already), vec![2, 1]),
            (known, [&[3], &[9; 32][..], &[1]].concat()),
            (operation, b"\x04op-1".to_vec()),
            (KeyOutcome::Target(RootHash::from_bytes([5; 32])), vec![5; 33]),
        ];
        let read = |bytes: &[u8]| KeyRecord::read(&Bytes::copy_from_slice(bytes));
        let with = |rest: &[u8]| [&[7; 32], rest].concat();
        for (led_to, rest) in forms {
            let is_start = matches!(led_to, KeyOutcome::Operation(_));
            let record = KeyRecord { hash: RequestHash::from_bytes([7; 32]), led_to };
            let mut out = BytesMut::new();
            record.put(&mut out);
            assert_eq!(out, with(&rest));
            assert_eq!(read(&out), Ok(record));
            for cut in 0..if is_start { 34 } else { out.len() } {
                assert!(read(&out[..cut]).is_err(), "{cut} of {rest:?}");
            }
            assert_eq!(read(&[&out, &b"x"[..]].concat()).is_ok(), is_start);
        }
        for (rest, why) in [
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0][..], "a delivery id is invalid"),
            (&[2, 2], "it is neither 0 nor 1"),
            (b"\x04a\xff", "an operation id is invalid"),
            (&[6], "its target is of unknown kind"),
        ] {
            assert_eq!(read(&with(rest)), Err(why));
        }
    }
}
