//! Whether data after the last whole batch of a journal can be a write that power loss cut short.
//! If so, it was never acknowledged and may be cut off; if not, it is damage, and nothing may be
//! cut.
//!
//! A disk keeps or loses a write by sectors, and there were zeros where fjall writes next. So the
//! lost part of a write reads as zeros, up to the edge of a sector or the end of the file, and the
//! kept part reads as it was written. fjall writes a batch of more than a few kilobytes in several
//! writes, each from the start of some item or of the end marker; where one ends within a sector,
//! the disk may have the sector as it was between the two. A torn batch is one that fails *because
//! of* zeros:
//!
//! - a field that leads through the batch touches a sector that is all zeros (as far as the batch
//!   has part in the sector), or lies behind the last data of the file; or
//! - where an item or the end marker should start there are zeros, to the edge of the sector; or
//! - all fields are right, the checksum is not, and some sector of the batch is all zeros.
//!
//! A field that is wrong in a sector with data was written so, or changed later: damage. So are
//! all of these, which leave nothing to cut:
//!
//! - A whole batch follows. It was written after the broken one had been synced.
//! - Anything follows a batch that is broken and yet ends with its end marker.
//! - The data ends with an end marker, and no sector is lost: the batch was written to its end,
//!   and one of its lengths is wrong.
//! - The batch would be whole with one bit changed, or one tag.
//!
//! What cannot be told apart: a changed bit in a key or value of the *last* batch, if a value of
//! that batch has a whole sector of zeros of its own and the batch is too large to try every bit.
//! It looks like a torn write.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::batch::{self, BATCH_BYTES_MIN, Batch, BatchFault, Failure, Watch};
use super::source::{Source, WINDOW, all_zero};

/// What a disk writes whole or not at all. Larger units are multiples of it.
const SECTOR: u64 = 512;

/// How many bytes may be read to look for a batch that follows. Only a value made for it needs
/// more than the file's length; then the answer is that we do not know, which is damage.
const SEARCH_BYTES_MAX: u64 = 4 << 30;

/// What the data after the last whole batch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TailKind {
    /// A write that did not reach the disk as a whole.
    Torn,
    /// Something else: where, and what.
    Damaged(u64, String),
}

/// Data after the last whole batch that is not a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tail {
    /// Where the last whole batch ends.
    pub(super) at: u64,
    /// Where the data of the file ends.
    pub(super) end: u64,
    /// The sequence number of the last whole batch.
    pub(super) after: Option<u64>,
    /// Why there is no batch.
    pub(super) failure: Failure,
}

/// Judges a tail.
pub(super) fn judge(path: &Path, source: &mut Source, tail: Tail) -> io::Result<TailKind> {
    let Tail { at, after, failure, .. } = tail;
    let trail = Trail::follow(source, tail)?;
    if !trail.torn {
        let whole = matches!(failure.wrong, BatchFault::Checksum { .. });
        let what = if whole && failure.to < tail.end {
            format!("{}, and more data follows it", failure.wrong)
        } else {
            format!("{}, and no part of it is missing", failure.wrong)
        };
        return Ok(TailKind::Damaged(failure.from, what));
    }
    let no_tag = matches!(
        failure.wrong,
        BatchFault::NotAStart(_) | BatchFault::NotAnItem(_) | BatchFault::NotAnEnd(..)
    );
    if no_tag && batch::misled(source, at, after, trail.last_item, failure.from)? {
        let what = format!("{}, and the rest of the batch is whole", failure.wrong);
        return Ok(TailKind::Damaged(failure.from, what));
    }
    Ok(match follower(path, source, tail, &trail.values)? {
        Follower::None => TailKind::Torn,
        Follower::At(found, seqno) => TailKind::Damaged(
            failure.from,
            format!(
                "{}, but a whole batch, with sequence number {seqno}, follows at byte {found}",
                failure.wrong
            ),
        ),
        Follower::Unknown => TailKind::Damaged(
            failure.from,
            format!("{}, and what follows looks too much like batches to tell", failure.wrong),
        ),
    })
}

/// The way through a broken batch.
struct Trail {
    /// Whether zeros are why it ended.
    torn: bool,
    /// Where the values lie that a batch could hide in.
    values: Vec<Range<u64>>,
    /// The last item on the way.
    last_item: Option<u64>,
}

impl Trail {
    fn follow(source: &mut Source, tail: Tail) -> io::Result<Self> {
        let Tail { at, end, after, failure } = tail;
        let holes = Holes::find(source, at, end)?;
        let mut walk = Walk { holes: &holes, touched: false, values: Vec::new(), last_item: None };
        let again = batch::read(source, at, after, &mut walk)?;
        debug_assert_eq!(again, Err(failure));
        let Walk { touched, values, last_item, .. } = walk;
        let torn = if let BatchFault::Checksum { found, expected } = failure.wrong {
            failure.to >= end
                && holes.touch(at, failure.to)
                && !batch::one_bit_off(source, at, failure.to, found, expected)?
        } else {
            touched
                || lost_write(source, end, failure)?
                || (failure.to > end && !batch::ends_with_end_marker(source, end)?)
        };
        Ok(Self { torn, values, last_item })
    }
}

struct Walk<'a> {
    holes: &'a Holes,
    touched: bool,
    values: Vec<Range<u64>>,
    last_item: Option<u64>,
}

/// Whether a write that should begin here left only zeros in its first sector.
fn lost_write(source: &mut Source, end: u64, failure: Failure) -> io::Result<bool> {
    if !matches!(failure.wrong, BatchFault::NotAnItem(0) | BatchFault::NotAnEnd(0, _)) {
        return Ok(false);
    }
    let edge = ((failure.from / SECTOR + 1) * SECTOR).min(end);
    Ok(all_zero(source.bytes(failure.from, edge.saturating_sub(failure.from) as usize)?))
}

impl Watch for Walk<'_> {
    fn field(&mut self, from: u64, to: u64) {
        self.touched = self.touched || self.holes.touch(from, to);
    }

    fn item(&mut self, at: u64) {
        self.last_item = Some(at);
    }

    fn value(&mut self, from: u64, to: u64) {
        if to - from >= BATCH_BYTES_MIN {
            self.values.push(from..to);
        }
    }
}

/// The sectors that are all zeros, as far as they are part of a tail; in order.
struct Holes(Vec<Range<u64>>);

impl Holes {
    fn find(source: &mut Source, at: u64, end: u64) -> io::Result<Self> {
        let mut holes: Vec<Range<u64>> = Vec::new();
        let mut from = at;
        while from < end {
            let to = ((from / SECTOR + 1) * SECTOR).min(end);
            if all_zero(source.bytes(from, (to - from) as usize)?) {
                match holes.last_mut() {
                    Some(last) if last.end == from => last.end = to,
                    _ => holes.push(from..to),
                }
            }
            from = to;
        }
        Ok(Self(holes))
    }

    /// Whether one of them has a byte of `from..to`.
    fn touch(&self, from: u64, to: u64) -> bool {
        let next = self.0.partition_point(|hole| hole.end <= from);
        self.0.get(next).is_some_and(|hole| hole.start < to)
    }
}

enum Follower {
    None,
    At(u64, u64),
    Unknown,
}

/// Looks for a whole batch after the start of a broken one.
///
/// A value may hold a copy of batches: a client may keep a journal in a payload. Such a copy is not
/// taken for a batch if it lies within a value of the broken batch *and* does not reach the end of
/// the data: the rest of the value, or the end marker, follows it. Both are required, because a
/// wrong length in the broken batch can make real batches look like its value.
fn follower(
    path: &Path,
    source: &mut Source,
    tail: Tail,
    values: &[Range<u64>],
) -> io::Result<Follower> {
    // A window of its own: a candidate may lead far from where the search is.
    let mut reader = Source::open(path)?;
    let mut spent = 0_u64;
    let mut place = tail.at + 1;
    while let Some(start) = batch::next_start(source, place, tail.end)? {
        place = start + 1;
        match batch::read(&mut reader, start, tail.after, &mut ())? {
            Ok(found) => {
                let (chain_end, to_the_end) = chain(&mut reader, found, tail.end)?;
                let inside =
                    values.iter().any(|value| value.start <= start && chain_end <= value.end);
                if to_the_end || !inside {
                    return Ok(Follower::At(start, found.seqno));
                }
                spent += (WINDOW as u64).max(chain_end - start);
                place = chain_end;
            }
            // It looked like a batch until after its first item's header, so reading it cost time.
            Err(failure) if failure.from > start + BATCH_BYTES_MIN / 2 => {
                spent += (WINDOW as u64).max(failure.to - start);
            }
            Err(Failure { to, wrong: BatchFault::Checksum { .. }, .. }) => {
                spent += (WINDOW as u64).max(to - start);
            }
            Err(_) => {}
        }
        if spent > SEARCH_BYTES_MAX {
            return Ok(Follower::Unknown);
        }
    }
    Ok(Follower::None)
}

/// Reads on from a batch: where the batches end, and whether the data ends there too, whole or
/// torn.
fn chain(source: &mut Source, first: Batch, end: u64) -> io::Result<(u64, bool)> {
    let mut last = first;
    loop {
        match batch::read(source, last.end, Some(last.seqno), &mut ())? {
            Ok(next) => last = next,
            Err(_) if last.end >= end => return Ok((last.end, true)),
            Err(failure) => {
                let tail = Tail { at: last.end, end, after: Some(last.seqno), failure };
                return Ok((last.end, Trail::follow(source, tail)?.torn));
            }
        }
    }
}
