//! Random keys, values, batches and scans, all from small alphabets, so that they collide often:
//! bugs show when keys meet.

use std::ops::Bound;

use bytes::Bytes;
use indelible_store::backend::KeyRange;
use indelible_store::{Batch, Bounds, Direction, Expect, Scan, Shape, Table};

use crate::Rng;
use crate::compare::brief;
use crate::model::{Keys, State};

/// One table of each shape. The numbers leave a gap, as a program's may.
pub(crate) const TABLES: [Table; 3] = [
    Table::new(1, "kept", Shape::Kept),
    Table::new(2, "churning", Shape::Churn),
    Table::new(7, "large", Shape::Large),
];

/// What keys are made of: the ends of the alphabet, where ranges break, and a middle.
const LETTERS: [u8; 4] = [0x00, b'a', b'b', 0xff];

/// A key: mostly one of a few, often the beginning of another; rarely as long as can be.
pub(crate) fn key(rng: &mut Rng) -> Bytes {
    let longest = Bounds::DEFAULT.key_bytes_max;
    match rng.below(100) {
        0 => vec![0xff; longest].into(),
        1 => vec![0x00; longest].into(),
        2 => [vec![b'a'; longest - 1], vec![*rng.pick(&LETTERS)]].concat().into(),
        _ => (0..rng.below(4)).map(|_| *rng.pick(&LETTERS)).collect(),
    }
}

/// Every key of up to two letters.
pub(crate) fn short_keys() -> Vec<Bytes> {
    let pairs = LETTERS.iter().flat_map(|a| LETTERS.map(|b| Bytes::from(vec![*a, b])));
    let letters = LETTERS.iter().map(|letter| Bytes::from(vec![*letter]));
    std::iter::once(Bytes::new()).chain(letters).chain(pairs).collect()
}

/// A value: mostly short, at times none at all, rarely 100 KiB.
pub(crate) fn value(rng: &mut Rng) -> Bytes {
    let len = match rng.below(100) {
        0..10 => 0,
        10..95 => rng.below(12),
        95..98 => rng.below(2000),
        _ => rng.below(100 << 10) + 1,
    };
    rng.bytes(len).into()
}

/// A key that has a value, if the table has any; otherwise a random key.
fn existing(rng: &mut Rng, state: &State, table: Table) -> Bytes {
    let count = state.rows(table).count();
    match count {
        0 => key(rng),
        _ => state.rows(table).nth(rng.below(count)).expect("below the count").0.clone(),
    }
}

/// A batch: a few writes, a few preconditions, of which most are met.
pub(crate) fn batch(rng: &mut Rng, state: &State) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..rng.below(3) {
        let table = *rng.pick(&TABLES);
        let key = if rng.percent(50) { existing(rng, state, table) } else { key(rng) };
        let expect = expectation(rng, state.get(table, &key).as_ref());
        batch.expect(table, key, expect);
    }
    for _ in 0..rng.below(6) {
        let table = *rng.pick(&TABLES);
        match rng.below(10) {
            0..6 => batch.put(table, key(rng), value(rng)),
            6..9 => batch.delete(table, existing(rng, state, table)),
            _ => batch.delete(table, key(rng)),
        };
    }
    batch
}

/// A precondition on a key: three in four are met.
fn expectation(rng: &mut Rng, found: Option<&Bytes>) -> Expect {
    let met = rng.percent(75);
    match (found, met) {
        (None, true) | (Some(_), false) if rng.percent(40) || found.is_none() => Expect::Absent,
        (None, _) if rng.percent(50) => Expect::Equal(value(rng)),
        // The empty prefix: met by any value, but not by an absent key.
        (None, _) => Expect::Prefix(Bytes::new()),
        (Some(found), true) if rng.percent(50) => Expect::Equal(found.clone()),
        (Some(found), true) => Expect::Prefix(found.slice(..rng.below(found.len() + 1))),
        // Nearly the value that is there.
        (Some(found), false) if rng.percent(50) => Expect::Prefix(longer(found)),
        (Some(found), false) if rng.percent(50) || found.is_empty() => Expect::Equal(longer(found)),
        (Some(found), false) => Expect::Equal(found.slice(..found.len() - 1)),
    }
}

fn longer(value: &Bytes) -> Bytes {
    [value.as_ref(), b"x"].concat().into()
}

/// A range: any two ends, in any order.
pub(crate) fn range(rng: &mut Rng, state: &State, table: Table) -> KeyRange {
    let mut end = |near: Option<&Bytes>| {
        let key = match near {
            Some(near) if rng.percent(20) => near.clone(),
            _ if rng.percent(50) => existing(rng, state, table),
            _ => key(rng),
        };
        match rng.below(5) {
            0 | 1 => Bound::Included(key),
            2 | 3 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        }
    };
    let start = end(None);
    let near = match &start {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
        Bound::Unbounded => None,
    };
    (start, end(near.as_ref()))
}

/// A scan: of a range or a prefix, either way, of no row, of one, of all there are, of one more.
pub(crate) fn scan(rng: &mut Rng, state: &State) -> (Scan, Keys) {
    let table = *rng.pick(&TABLES);
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let (mut scan, keys) = match rng.below(4) {
        0 => {
            let prefix = key(rng);
            (Scan::prefix(table, prefix.clone(), 0), Keys::BeginningWith(prefix))
        }
        1 => (Scan::all(table, 0), Keys::Between(everything)),
        _ => {
            let range = range(rng, state, table);
            (Scan { range: range.clone(), ..Scan::all(table, 0) }, Keys::Between(range))
        }
    };
    if rng.percent(50) {
        scan = scan.reversed();
    }
    let inside = state.rows(table).filter(|(key, _)| keys.contain(key)).count();
    scan.rows_max = match rng.below(6) {
        0 => 0,
        1 => 1,
        2 => inside,
        3 => inside + 1,
        4 => rng.below(inside + 1),
        _ => 1000,
    };
    (scan, keys)
}

/// A scan in words, for a failure's message.
pub(crate) fn words(scan: &Scan, keys: &Keys) -> String {
    let end = |end: &Bound<Bytes>| match end {
        Bound::Included(key) => format!("including {}", brief(key)),
        Bound::Excluded(key) => format!("excluding {}", brief(key)),
        Bound::Unbounded => "open".to_owned(),
    };
    let keys = match keys {
        Keys::Between((start, stop)) => format!("from {} to {}", end(start), end(stop)),
        Keys::BeginningWith(prefix) => format!("with prefix {}", brief(prefix)),
    };
    let way = match scan.direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
    };
    format!("scan of {} {way}, keys {keys}, {} rows", scan.table.name(), scan.rows_max)
}
