//! One batch in a journal file as fjall writes it: a start marker (tag, number of items, sequence
//! number), the items, and an end marker (tag, checksum of the items' bytes, trailer).
//!
//! Stricter than fjall where our writer is: values are never compressed, keyspaces are never
//! cleared, a batch has an item, and sequence numbers rise. Also strict where fjall would panic:
//! empty keys, and values that point into a blob file.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use super::source::Source;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: [u8; 4] = *b"FJL\x03";

const START_BYTES: u64 = 1 + 4 + 8;
const ITEM_BYTES: u64 = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const END_BYTES: u64 = 1 + 8 + 4;

/// Where in an item the length of its key is.
const KEY_LENGTH_AT: u64 = 1 + 1 + 1 + 8;

/// The smallest batch: one item, with a key of one byte and no value.
pub(super) const BATCH_BYTES_MIN: u64 = START_BYTES + ITEM_BYTES + 1 + END_BYTES;

/// How far a sequence number may be from the one before. Flushes and compactions take some too, but
/// never so many between two commits: a larger step is a broken number.
pub(super) const SEQNO_STEP_MAX: u64 = 1 << 32;

/// fjall reserves the highest bit.
const SEQNO_END: u64 = 1 << 63;

/// A whole batch whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    /// The place after its last byte.
    pub(super) end: u64,
    pub(super) seqno: u64,
    pub(super) items: u32,
}

/// Why there is no batch, and which bytes say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    /// The first byte of the field that is wrong; for a checksum, of the batch.
    pub(super) from: u64,
    /// The place after the field; for a checksum, after the batch.
    pub(super) to: u64,
    pub(super) wrong: BatchFault,
}

/// What is wrong with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BatchFault {
    #[error("the file ends within a batch")]
    Ends,
    #[error("found {0:#04x} where a batch must start")]
    NotAStart(u8),
    #[error("found {0:#04x} where an item must start")]
    NotAnItem(u8),
    #[error("found {0:#04x} where a batch of {1} items must end")]
    NotAnEnd(u8, u32),
    #[error("a batch has no items")]
    NoItems,
    #[error("a batch has sequence number {seqno} after {after}")]
    Seqno { seqno: u64, after: u64 },
    #[error("a batch has sequence number {0}, which the storage backend never assigns")]
    SeqnoTooLarge(u64),
    #[error("an item is of kind {0}, which is never written")]
    Kind(u8),
    #[error("an item is compressed (kind {0}), which is never written")]
    Compressed(u8),
    #[error("an item has no key")]
    NoKey,
    #[error("an item has two lengths, {0} and {1}")]
    Lengths(u32, u32),
    #[error("a removal has a value of {0} bytes")]
    RemovalWithValue(u32),
    #[error("the end marker of a batch is broken")]
    Trailer,
    #[error("the checksum of a batch is wrong")]
    Checksum {
        /// What its bytes give.
        found: u64,
        /// What its end marker says.
        expected: u64,
    },
}

/// Is told what reading a batch comes across.
pub(super) trait Watch {
    /// These bytes were read to find the way through the batch.
    fn field(&mut self, _from: u64, _to: u64) {}
    /// These bytes are a value.
    fn value(&mut self, _from: u64, _to: u64) {}
    /// The item here has a header that makes sense.
    fn item(&mut self, _at: u64) {}
    /// An item is of this keyspace.
    fn keyspace(&mut self, _id: u64) {}
}

/// Ignores it all.
impl Watch for () {}

/// Reads the batch at `at`, which follows the one with sequence number `after`.
pub(super) fn read(
    source: &mut Source,
    at: u64,
    after: Option<u64>,
    watch: &mut impl Watch,
) -> io::Result<Result<Batch, Failure>> {
    let fail = |from, bytes: u64, wrong| Ok(Err(Failure { from, to: from + bytes, wrong }));

    let start = source.bytes(at, START_BYTES as usize)?;
    watch.field(at, at + 1);
    match start.first() {
        None => return fail(at, 1, BatchFault::Ends),
        Some(&byte) if byte != START => {
            return fail(at, 1, BatchFault::NotAStart(byte));
        }
        Some(_) => {}
    }
    watch.field(at, at + START_BYTES);
    let Some((_, fields)) = start.split_first_chunk::<1>() else {
        return fail(at, START_BYTES, BatchFault::Ends);
    };
    let (Some(count), Some(seqno)) = (u32_at(fields, 0), u64_at(fields, 4)) else {
        return fail(at, START_BYTES, BatchFault::Ends);
    };
    if count == 0 {
        return fail(at, START_BYTES, BatchFault::NoItems);
    }
    if seqno >= SEQNO_END {
        return fail(at, START_BYTES, BatchFault::SeqnoTooLarge(seqno));
    }
    if let Some(after) = after
        && (seqno <= after || seqno - after > SEQNO_STEP_MAX)
    {
        return fail(at, START_BYTES, BatchFault::Seqno { seqno, after });
    }

    let mut place = at + START_BYTES;
    for _ in 0..count {
        match item(source, place, watch)? {
            Ok(end) => place = end,
            Err(failure) => return Ok(Err(failure)),
        }
    }

    let end = source.bytes(place, END_BYTES as usize)?;
    watch.field(place, place + 1);
    match end.first() {
        None => return fail(place, 1, BatchFault::Ends),
        Some(&END) => {}
        Some(&byte) => return fail(place, 1, BatchFault::NotAnEnd(byte, count)),
    }
    watch.field(place, place + END_BYTES);
    let (Some(expected), Some(trailer)) = (u64_at(end, 1), end.get(9..)) else {
        return fail(place, END_BYTES, BatchFault::Ends);
    };
    if (end.len() as u64) < END_BYTES {
        return fail(place, END_BYTES, BatchFault::Ends);
    }
    if trailer != TRAILER {
        return fail(place, END_BYTES, BatchFault::Trailer);
    }
    let end = place + END_BYTES;
    let found = source.hash(at + START_BYTES, place)?.digest();
    if found != expected {
        return Ok(Err(Failure {
            from: at,
            to: end,
            wrong: BatchFault::Checksum { found, expected },
        }));
    }
    Ok(Ok(Batch { end, seqno, items: count }))
}

/// Reads an item's header, and says where the item ends.
fn item(source: &mut Source, at: u64, watch: &mut impl Watch) -> io::Result<Result<u64, Failure>> {
    let fail = |bytes: u64, wrong| Ok(Err(Failure { from: at, to: at + bytes, wrong }));

    let len = source.len();
    let header = source.bytes(at, ITEM_BYTES as usize)?;
    watch.field(at, at + 1);
    match header.first() {
        None => return fail(1, BatchFault::Ends),
        Some(&ITEM) => {}
        Some(&byte) => return fail(1, BatchFault::NotAnItem(byte)),
    }
    watch.field(at, at + ITEM_BYTES);
    let (Some(&kind), Some(&compression), Some(keyspace), Some(key), Some(value), Some(stored)) = (
        header.get(1),
        header.get(2),
        u64_at(header, 3),
        u16_at(header, 11),
        u32_at(header, 13),
        u32_at(header, 17),
    ) else {
        return fail(ITEM_BYTES, BatchFault::Ends);
    };
    let removal = match kind {
        0 => false,
        1 | 2 => true,
        kind => return fail(ITEM_BYTES, BatchFault::Kind(kind)),
    };
    if compression != 0 {
        return fail(ITEM_BYTES, BatchFault::Compressed(compression));
    }
    if key == 0 {
        return fail(ITEM_BYTES, BatchFault::NoKey);
    }
    if value != stored {
        return fail(ITEM_BYTES, BatchFault::Lengths(value, stored));
    }
    if removal && value != 0 {
        return fail(ITEM_BYTES, BatchFault::RemovalWithValue(value));
    }
    let value_at = at + ITEM_BYTES + u64::from(key);
    let end = value_at + u64::from(value);
    if end > len {
        return fail(end - at, BatchFault::Ends);
    }
    watch.item(at);
    watch.value(value_at, end);
    watch.keyspace(keyspace);
    Ok(Ok(end))
}

/// Whether the batch at `at`, whose tag at `place` is wrong, would be whole after one repair:
/// either that tag is set right, or one bit is changed in the length of the key of the item at
/// `item`, which led to `place`. No other single bit can lead to a place without a tag, since the
/// length of a value is stored twice.
pub(super) fn misled(
    source: &mut Source,
    at: u64,
    after: Option<u64>,
    item: Option<u64>,
    place: u64,
) -> io::Result<bool> {
    let Some(&byte) = source.bytes(place, 1)?.first() else { return Ok(false) };
    let tags = [START, ITEM, END].into_iter().map(|tag| (place, byte ^ tag));
    let key_bits = item.into_iter().flat_map(|item| {
        (0..16_u64).map(move |bit| (item + KEY_LENGTH_AT + bit / 8, 1_u8 << (bit % 8)))
    });
    for change in tags.chain(key_bits) {
        source.change(Some(change));
        let whole = read(source, at, after, &mut ());
        source.change(None);
        if whole?.is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The largest batch in which a single changed bit is looked for: the time grows with the square.
const MEND_BYTES_MAX: u64 = 8 * 1024;

/// Whether the batch `from..to`, with a wrong checksum, would be right with one bit changed. That
/// this happens by chance is as good as impossible.
pub(super) fn one_bit_off(
    source: &mut Source,
    from: u64,
    to: u64,
    found: u64,
    expected: u64,
) -> io::Result<bool> {
    if (found ^ expected).count_ones() == 1 {
        return Ok(true);
    }
    let (from, to) = (from + START_BYTES, to - END_BYTES);
    if to - from > MEND_BYTES_MAX {
        return Ok(false);
    }
    let mut items = source.bytes(from, (to - from) as usize)?.to_vec();
    for at in 0..items.len() {
        for bit in 0..8 {
            items[at] ^= 1 << bit;
            if xxh3_64(&items) == expected {
                return Ok(true);
            }
            items[at] ^= 1 << bit;
        }
    }
    Ok(false)
}

/// Whether the data before `end` closes with an end marker, so that fjall had written a batch to
/// its end.
pub(super) fn ends_with_end_marker(source: &mut Source, end: u64) -> io::Result<bool> {
    let Some(at) = end.checked_sub(END_BYTES) else { return Ok(false) };
    let marker = source.bytes(at, END_BYTES as usize)?;
    Ok(marker.first() == Some(&END) && marker.ends_with(&TRAILER))
}

/// The next place from `at` on, and before `end`, where the tag of a start marker stands.
pub(super) fn next_start(source: &mut Source, at: u64, end: u64) -> io::Result<Option<u64>> {
    let mut at = at;
    while at < end {
        let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(super::source::WINDOW / 4);
        let piece = source.bytes(at, count)?;
        if let Some(found) = piece.iter().position(|byte| *byte == START) {
            return Ok(Some(at + found as u64));
        }
        if piece.is_empty() {
            break;
        }
        at += piece.len() as u64;
    }
    Ok(None)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
