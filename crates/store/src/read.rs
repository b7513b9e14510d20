//! What is read: scans and their pages, and what can be read from.

use std::ops::Bound;

use bytes::Bytes;

use crate::backend::{Direction, KeyRange};
use crate::damage::DamageLog;
use crate::error::ReadError;
use crate::position::Seen;
use crate::table::Table;

/// A row: its key and its value.
pub type Row = (Bytes, Bytes);

/// Which rows to read, from where, and how many at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The table.
    pub table: Table,
    /// The range of keys.
    pub range: KeyRange,
    /// The order of the rows.
    pub direction: Direction,
    /// The most rows to return.
    pub rows_max: usize,
}

impl Scan {
    /// All rows whose keys begin so, in order.
    pub fn prefix(table: Table, prefix: impl Into<Bytes>, rows_max: usize) -> Self {
        let range = prefix_range(prefix.into());
        Self { table, range, direction: Direction::Forward, rows_max }
    }

    /// All rows of a table, in order.
    pub fn all(table: Table, rows_max: usize) -> Self {
        let range = (Bound::Unbounded, Bound::Unbounded);
        Self { table, range, direction: Direction::Forward, rows_max }
    }

    /// The same rows in the other order.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        self.direction = match self.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        self
    }

    /// The same rows, without those up to and including this key, in the scan's direction: the next
    /// page after one that ended with this key. The range never becomes wider, wherever the key is
    /// from.
    #[must_use]
    pub fn after(mut self, key: Bytes) -> Self {
        let end = match self.direction {
            Direction::Forward => &mut self.range.0,
            Direction::Backward => &mut self.range.1,
        };
        let narrower = match end {
            Bound::Included(old) | Bound::Excluded(old) => {
                ordered(self.direction, old, &key).is_le()
            }
            Bound::Unbounded => true,
        };
        if narrower {
            *end = Bound::Excluded(key);
        }
        self
    }

    /// Whether no key can be in the range.
    pub(crate) fn is_empty(&self) -> bool {
        match (&self.range.0, &self.range.1) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        }
    }
}

/// The keys that begin with these bytes.
pub fn prefix_range(prefix: Bytes) -> KeyRange {
    // The first key after all of them: the last byte that can be is counted up.
    let end = match prefix.iter().rposition(|&byte| byte != u8::MAX) {
        None => Bound::Unbounded,
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Bound::Excluded(Bytes::from(end))
        }
    };
    (Bound::Included(prefix), end)
}

/// Rows of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// In the scan's order.
    pub rows: Vec<Row>,
    /// Whether the range has rows beyond these: ask again [`after`](Scan::after) the last. Exact,
    /// except for a scan of no rows: it looks at none, and says yes unless no key can be in the
    /// range.
    pub more: bool,
}

/// Something that can be read from: the latest state, or a snapshot.
pub trait Read {
    /// The value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError>;

    /// Rows of a table.
    fn scan(&self, scan: &Scan) -> Result<Seen<Page>, ReadError>;

    /// Where rows that do not decode are noted.
    fn damage(&self) -> &DamageLog;
}

impl<R: Read + ?Sized> Read for &R {
    fn get(&self, table: Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        (**self).get(table, key)
    }

    fn scan(&self, scan: &Scan) -> Result<Seen<Page>, ReadError> {
        (**self).scan(scan)
    }

    fn damage(&self) -> &DamageLog {
        (**self).damage()
    }
}

/// How two keys stand in a scan's direction.
pub(crate) fn ordered(direction: Direction, a: &Bytes, b: &Bytes) -> std::cmp::Ordering {
    match direction {
        Direction::Forward => a.cmp(b),
        Direction::Backward => b.cmp(a),
    }
}
