//! `Layer`: what one commit group changes, as a map: of several writes to a key only the last is
//! there. Layers over the engine are the overlay through which reads see accepted state.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Rev;

use bytes::Bytes;

use crate::batch::Write;
use crate::engine::{Direction, KeyRange};
use crate::table::Table;

/// A value, or none if the key was deleted.
pub(crate) type Change = Option<Bytes>;

/// A change, and whether the engine needs to hear of it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    change: Change,
    /// A delete of a key that is not on disk when this group gets there.
    is_nothing: bool,
}

/// The changes of a group, by table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    tables: Vec<BTreeMap<Bytes, Entry>>,
    batches: usize,
    writes: usize,
    bytes: usize,
}

impl Layer {
    /// Applies a batch. `on_disk` says, for each delete in turn, whether its key will be on disk
    /// when this group gets there.
    pub(crate) fn apply(&mut self, writes: Vec<Write>, on_disk: &[bool]) {
        self.batches += 1;
        self.writes += writes.len();
        let mut on_disk = on_disk.iter();
        for Write { table, key, value } in writes {
            let slot = table.index();
            if self.tables.len() <= slot {
                self.tables.resize_with(slot + 1, BTreeMap::new);
            }
            self.bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            let is_nothing = value.is_none() && on_disk.next() == Some(&false);
            self.tables[slot].insert(key, Entry { change: value, is_nothing });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches == 0
    }

    /// How many batches are in it.
    pub(crate) fn batches(&self) -> usize {
        self.batches
    }

    /// How many puts and deletes were given to it, overwritten ones included.
    pub(crate) fn writes(&self) -> usize {
        self.writes
    }

    /// How many keys it changes.
    pub(crate) fn keys(&self) -> usize {
        self.tables.iter().map(BTreeMap::len).sum()
    }

    /// How many bytes were given to it, overwritten ones included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What it says about a key, if anything.
    pub(crate) fn get(&self, table: &Table, key: &[u8]) -> Option<&Change> {
        self.tables.get(table.index())?.get(key).map(|entry| &entry.change)
    }

    /// What the engine has to write to a table, in order. Rows that come and go within one group
    /// leave no trace (D7).
    pub(crate) fn engine_changes(&self, table: &Table) -> impl Iterator<Item = (&Bytes, &Change)> {
        let entries = self.tables.get(table.index()).into_iter().flatten();
        entries.filter(|(_, entry)| !entry.is_nothing).map(|(key, entry)| (key, &entry.change))
    }

    pub(crate) fn range<'a>(
        &'a self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
    ) -> Changes<'a> {
        let Some(table) = self.tables.get(table.index()) else { return Changes::None };
        let changes = table.range::<Bytes, _>((range.0.as_ref(), range.1.as_ref()));
        match direction {
            Direction::Forward => Changes::Forward(changes),
            Direction::Backward => Changes::Backward(changes.rev()),
        }
    }
}

/// The changes of a range, in a direction.
pub(crate) enum Changes<'a> {
    None,
    Forward(Range<'a, Bytes, Entry>),
    Backward(Rev<Range<'a, Bytes, Entry>>),
}

impl<'a> Iterator for Changes<'a> {
    type Item = (&'a Bytes, &'a Change);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, entry) = match self {
            Self::None => None,
            Self::Forward(changes) => changes.next(),
            Self::Backward(changes) => changes.next(),
        }?;
        Some((key, &entry.change))
    }
}
