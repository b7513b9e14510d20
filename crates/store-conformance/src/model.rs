//! `State` and `Model`: what a store should be like, in the plainest way: a sorted map for each
//! table, and a list of all batches that were accepted. It shares no code with the store.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use indelible_store::backend::KeyRange;
use indelible_store::{
    Batch, Bounds, Condition, Direction, Expect, Page, Position, Scan, Table, Write,
};

pub(crate) type Rows = BTreeMap<Bytes, Bytes>;

/// All rows of all tables, by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    tables: BTreeMap<&'static str, Rows>,
}

impl State {
    pub(crate) fn apply(&mut self, writes: &[Write]) {
        for Write { table, key, value } in writes {
            match value {
                Some(value) => self.insert(*table, key.clone(), value.clone()),
                None => {
                    if let Some(rows) = self.tables.get_mut(table.name()) {
                        rows.remove(key);
                    }
                }
            }
        }
        // Drop empty tables: two states with the same rows must be equal.
        self.tables.retain(|_, rows| !rows.is_empty());
    }

    pub(crate) fn insert(&mut self, table: Table, key: Bytes, value: Bytes) {
        self.tables.entry(table.name()).or_default().insert(key, value);
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Bytes> {
        self.tables.get(table.name())?.get(key).cloned()
    }

    /// The rows of a table, in order.
    pub(crate) fn rows(&self, table: Table) -> impl DoubleEndedIterator<Item = (&Bytes, &Bytes)> {
        self.tables.get(table.name()).into_iter().flatten()
    }

    /// All rows, with the names of their tables.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &Bytes, &Bytes)> {
        let rows = |(name, rows): (&&'static str, _)| (*name, rows);
        self.tables
            .iter()
            .map(rows)
            .flat_map(|(name, rows): (_, &Rows)| rows.iter().map(move |(k, v)| (name, k, v)))
    }

    /// The first precondition that is not met, and what is there instead.
    pub(crate) fn unmet(&self, conditions: &[Condition]) -> Option<(usize, Option<Bytes>)> {
        conditions.iter().enumerate().find_map(|(index, Condition { table, key, expect })| {
            let found = self.get(*table, key);
            let met = match (expect, &found) {
                (Expect::Absent, None) => true,
                (Expect::Equal(expected), Some(found)) => expected == found,
                (Expect::Prefix(prefix), Some(found)) => {
                    found.len() >= prefix.len() && found[..prefix.len()] == prefix[..]
                }
                _ => false,
            };
            (!met).then_some((index, found))
        })
    }

    /// What a scan gives: rows up to the limit, or up to the row that exceeds the bytes; and
    /// whether a row follows. A scan of zero rows does not look: it says that one may follow,
    /// unless no key can be in the range.
    pub(crate) fn page(&self, keys: &Keys, scan: &Scan, bounds: &Bounds) -> Page {
        let mut inside: Vec<_> =
            self.rows(scan.table).filter(|(key, _)| keys.contain(key)).collect();
        if scan.direction == Direction::Backward {
            inside.reverse();
        }
        let mut page = Page::default();
        let mut bytes = 0;
        for (key, value) in &inside {
            if page.rows.len() == scan.rows_max || bytes > bounds.scan_bytes_max {
                break;
            }
            bytes += key.len() + value.len();
            page.rows.push(((*key).clone(), (*value).clone()));
        }
        page.more = match scan.rows_max {
            0 => keys.can_contain_any(),
            _ => page.rows.len() < inside.len(),
        };
        page
    }
}

/// Which keys a scan is about, as the model understands it.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    Between(KeyRange),
    BeginningWith(Bytes),
}

impl Keys {
    pub(crate) fn contain(&self, key: &Bytes) -> bool {
        let (start, end) = match self {
            Self::Between(range) => range,
            Self::BeginningWith(prefix) => {
                return key.len() >= prefix.len() && key[..prefix.len()] == prefix[..];
            }
        };
        let after_start = match start {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        };
        let before_end = match end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        };
        after_start && before_end
    }

    /// Whether the ends are the right way round, so that there may be a key between them.
    pub(crate) fn can_contain_any(&self) -> bool {
        match self {
            Self::BeginningWith(_)
            | Self::Between((Bound::Unbounded, _) | (_, Bound::Unbounded)) => true,
            Self::Between((Bound::Included(start), Bound::Included(end))) => start <= end,
            Self::Between((
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            )) => start < end,
        }
    }
}

/// The accepted batches in order, and the resulting state.
#[derive(Default)]
pub(crate) struct Model {
    accepted: Vec<Vec<Write>>,
    now: State,
}

impl Model {
    /// The model of the positions that writers were told. Each batch has its own position, and none
    /// is missing.
    pub(crate) fn of_log(mut log: Vec<(Position, Vec<Write>)>) -> Self {
        log.sort_by_key(|(position, _)| *position);
        let mut model = Self::default();
        for (position, writes) in log {
            let next = model.position().number() + 1;
            assert_eq!(position.number(), next, "positions have a gap or were given twice");
            model.accept(&writes);
        }
        model
    }

    pub(crate) fn accept(&mut self, writes: &[Write]) -> Position {
        self.now.apply(writes);
        self.accepted.push(writes.to_vec());
        self.position()
    }

    /// Accepts a batch that must be acceptable.
    pub(crate) fn accept_batch(&mut self, batch: &Batch) -> Position {
        assert_eq!(self.now.unmet(batch.conditions()), None, "a case of the suite is wrong");
        self.accept(batch.writes())
    }

    pub(crate) fn now(&self) -> &State {
        &self.now
    }

    pub(crate) fn position(&self) -> Position {
        Position::new(self.accepted.len() as u64)
    }

    pub(crate) fn accepted(&self) -> &[Vec<Write>] {
        &self.accepted
    }

    /// The state at each of these positions, which are in order.
    pub(crate) fn states(
        &self,
        positions: impl IntoIterator<Item = Position>,
    ) -> impl Iterator<Item = State> {
        let (mut state, mut at) = (State::default(), 0);
        positions.into_iter().map(move |position| {
            let until = usize::try_from(position.number()).unwrap();
            self.accepted[at..until].iter().for_each(|writes| state.apply(writes));
            at = until;
            state.clone()
        })
    }
}
