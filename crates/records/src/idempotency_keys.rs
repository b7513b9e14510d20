//! Idempotency keys: which operation a start under a caller's key led to (C-31), or what was answered
//! to a request that changed something else. The same of the table `answers`.
//!
//! ```text
//! request hash (32) ‖ kind (1) ‖ the rest
//!   0 done                  1 a signal: delivery (8)        2 a cancel: 0, or 1 if it came again
//!   3 a deployment: digest (32) ‖ 0, or 1 if it was known
//!   4 a start: operation id
//!   5 a note: root hash of the target (32), zeros for the server
//! ```
//! The record of a start is written in the commit that starts the execution, and goes with that of the
//! operation, a moment before it: a key that is there always leads somewhere. That of anything else is
//! written in the commit of what was done, and goes by the same window.
//!
//! The key and what a request changes can be in different slots, which different nodes may own. Then
//! there are two steps (C-80): the key's slot notes what is to be changed, durably; then the target
//! commits the change, and the answer in the table `answers` with it. A repetition goes from the key to
//! the target to the answer; a note without an answer says that the change was not made. A note that
//! led to a refusal is removed before the refusal is told.

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_idempotency::RequestHash;
use indelible_journal::{ComponentDigest, DeliveryId, OperationId, RootHash};

use crate::codec::Reader;
use crate::windows::RecordBody;

/// What stands for the server among the targets of notes. No tree has this root.
pub const SERVER: RootHash = RootHash::from_bytes([0; 32]);

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// What must not differ in a repetition.
    pub hash: RequestHash,
    /// What the request led to.
    pub led_to: LedTo,
}

/// What a request under a key led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedTo {
    /// It was a start.
    Operation(OperationId),
    /// It was anything else.
    Answer(Answer),
    /// It was anything else, and this tree, or [`SERVER`], has the answer.
    Target(RootHash),
}

/// What was answered to a request under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// That it is done.
    Done,
    /// A signal's number.
    Delivered(DeliveryId),
    /// What a cancel came to.
    Cancelling(Cancelling),
    /// What was deployed.
    Deployed {
        /// The version.
        digest: ComponentDigest,
        /// Whether it was known under the name.
        known: bool,
    },
}

/// What a cancel came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelling {
    /// The request is written; the guest may clean up.
    Requested,
    /// It was asked for before.
    Already,
}

impl RecordBody for KeyRecord {
    fn put(&self, out: &mut BytesMut) {
        out.put_slice(self.hash.as_bytes());
        match &self.led_to {
            LedTo::Answer(Answer::Done) => out.put_u8(0),
            LedTo::Answer(Answer::Delivered(delivery)) => {
                out.put_u8(1);
                out.put_u64(delivery.get());
            }
            LedTo::Answer(Answer::Cancelling(cancelling)) => {
                out.put_slice(&[2, u8::from(*cancelling == Cancelling::Already)]);
            }
            LedTo::Answer(Answer::Deployed { digest, known }) => {
                out.put_u8(3);
                out.put_slice(digest.as_bytes());
                out.put_u8(u8::from(*known));
            }
            LedTo::Operation(id) => {
                out.put_u8(4);
                out.put_slice(id.as_str().as_bytes());
            }
            LedTo::Target(target) => {
                out.put_u8(5);
                out.put_slice(target.as_bytes());
            }
        }
    }

    fn read(bytes: &Bytes) -> Result<Self, &'static str> {
        let mut reader = Reader(bytes);
        let hash = RequestHash::from_bytes(reader.array()?);
        let led_to = match reader.u8()? {
            0 => LedTo::Answer(Answer::Done),
            1 => {
                let delivery = DeliveryId::new(reader.u64()?).ok_or("a delivery is none")?;
                LedTo::Answer(Answer::Delivered(delivery))
            }
            2 => LedTo::Answer(Answer::Cancelling(match reader.bool()? {
                false => Cancelling::Requested,
                true => Cancelling::Already,
            })),
            3 => {
                let digest = ComponentDigest::from_bytes(reader.array()?);
                LedTo::Answer(Answer::Deployed { digest, known: reader.bool()? })
            }
            4 => {
                let id = str::from_utf8(std::mem::take(&mut reader.0)).ok();
                let id = id.and_then(|id| OperationId::new(id).ok());
                LedTo::Operation(id.ok_or("an operation id is none")?)
            }
            5 => LedTo::Target(RootHash::from_bytes(reader.array()?)),
            _ => return Err("it led to nothing that is known"),
        };
        reader.end()?;
        Ok(Self { hash, led_to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-31, C-80: the stored forms, byte by byte; anything else is not taken for one.
    #[test]
    fn the_stored_forms() {
        let digest = ComponentDigest::from_bytes([9; 32]);
        let known = LedTo::Answer(Answer::Deployed { digest, known: true });
        let delivered = LedTo::Answer(Answer::Delivered(DeliveryId::FIRST));
        let cancelling = |cancelling| LedTo::Answer(Answer::Cancelling(cancelling));
        let operation = LedTo::Operation(OperationId::new("op-1").expect("it is one"));
        let forms = [
            (LedTo::Answer(Answer::Done), vec![0]),
            (delivered, vec![1, 0, 0, 0, 0, 0, 0, 0, 1]),
            (cancelling(Cancelling::Requested), vec![2, 0]),
            (cancelling(Cancelling::Already), vec![2, 1]),
            (known, [&[3], &[9; 32][..], &[1]].concat()),
            (operation, b"\x04op-1".to_vec()),
            (LedTo::Target(RootHash::from_bytes([5; 32])), vec![5; 33]),
        ];
        let read = |bytes: &[u8]| KeyRecord::read(&Bytes::copy_from_slice(bytes));
        let with = |rest: &[u8]| [&[7; 32], rest].concat();
        for (led_to, rest) in forms {
            let is_start = matches!(led_to, LedTo::Operation(_));
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
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0][..], "a delivery is none"),
            (&[2, 2], "it is neither 0 nor 1"),
            (b"\x04a\xff", "an operation id is none"),
            (&[6], "it led to nothing that is known"),
        ] {
            assert_eq!(read(&with(rest)), Err(why));
        }
    }
}
