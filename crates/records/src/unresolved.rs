//! Effects of which nobody knows whether they happened, and which are not over: those whose
//! reconciler is being asked, and those that wait for a person (D5).
//!
//! ```text
//! unresolved   journal key ‖ child (4)   ->   body, sealed
//! ```

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_journal::JournalKey;
use indelible_store::{Batch, Read, ReadError, Scan, Seen};

use super::codec::{self, Reader};
use super::{UNRESOLVED, keys};

const VERSION: u8 = 1;

/// Which effect: a child of an execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    /// The execution.
    pub key: JournalKey,
    /// Its child.
    pub child: u32,
}

/// Adds to a batch: this effect is unresolved, and this is known of it.
pub fn put(batch: &mut Batch, effect: &Effect, body: &[u8]) {
    let key = encode(effect);
    let value = codec::seal(&UNRESOLVED, &key, VERSION, body);
    batch.put(UNRESOLVED, key, value);
}

/// Adds to a batch: this effect is resolved.
pub fn delete(batch: &mut Batch, effect: &Effect) {
    batch.delete(UNRESOLVED, encode(effect));
}

/// What is known of an effect; none if it is not unresolved.
pub fn get(read: &impl Read, effect: &Effect) -> Result<Seen<Option<Bytes>>, ReadError> {
    let key = encode(effect);
    let seen = read.get(UNRESOLVED, &key)?;
    codec::decoded(read, seen, |value| {
        value.map(|value| codec::unseal(&UNRESOLVED, &key, VERSION, &value)).transpose()
    })
}

/// Those after one, at most so many, and what is known of each.
pub fn next(
    read: &impl Read,
    after: Option<&Effect>,
    limit: usize,
) -> Result<Seen<Vec<(Effect, Bytes)>>, ReadError> {
    let mut scan = Scan::all(UNRESOLVED, limit);
    if let Some(after) = after {
        scan.range.0 = Bound::Excluded(encode(after));
    }
    codec::decoded(read, read.scan(&scan)?, |page| {
        page.rows.iter().map(|(key, value)| decode(key, value)).collect()
    })
}

fn encode(effect: &Effect) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    keys::put_journal_key(&mut out, &effect.key);
    out.put_u32(effect.child);
    out.freeze()
}

pub(crate) fn decode(key: &Bytes, value: &Bytes) -> Result<(Effect, Bytes), ReadError> {
    let body = codec::unseal(&UNRESOLVED, key, VERSION, value)?;
    let mut reader = Reader(key);
    let effect = keys::read_journal_key(&mut reader)
        .and_then(|key| Ok(Effect { key, child: reader.u32()? }))
        .and_then(|effect| reader.end().map(|()| effect));
    match effect {
        Ok(effect) => Ok((effect, body)),
        Err(error) => Err(codec::damaged(&UNRESOLVED, key, error.0)),
    }
}
