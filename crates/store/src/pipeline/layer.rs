//! `Layer`: what one commit group changes, as a map: of several writes to a key only the last is
//! there. Layers over the backend are the overlay through which reads see accepted state.

use std::collections::BTreeMap;
use std::iter::empty;

use bytes::Bytes;

use crate::backend::{Direction, KeyRange};
use crate::batch::Write;
use crate::table::Table;

/// A value, or none if the key was deleted.
pub(crate) type Change = Option<Bytes>;

/// A change, and whether the backend needs to hear of it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    change: Change,
    /// A delete of a key that will not be on disk when this group is committed.
    is_nothing: bool,
}

/// The changes of a group, by table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    tables: Vec<BTreeMap<Bytes, Entry>>,
    /// How many batches are in it.
    pub(super) batches: usize,
    /// How many puts and deletes were given to it, overwritten ones included.
    pub(super) writes: usize,
    /// How many bytes were given to it, those included that were overwritten within a group.
    pub(super) bytes: usize,
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

    /// Both layers as one: of a key that is in both, the newer change.
    pub(crate) fn overlaid_with(&self, newer: &Self) -> Self {
        let mut all = self.clone();
        if all.tables.len() < newer.tables.len() {
            all.tables.resize_with(newer.tables.len(), BTreeMap::new);
        }
        for (table, changes) in all.tables.iter_mut().zip(&newer.tables) {
            table.extend(changes.iter().map(|(key, entry)| (key.clone(), entry.clone())));
        }
        all.batches += newer.batches;
        all.writes += newer.writes;
        // Overwritten rows count too: a batch is one allocation, which stays as long as any of its
        // rows is here.
        all.bytes += newer.bytes;
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches == 0
    }

    /// How many keys it changes.
    pub(crate) fn keys(&self) -> usize {
        self.tables.iter().map(BTreeMap::len).sum()
    }

    /// What it says about a key, if anything.
    pub(crate) fn get(&self, table: &Table, key: &[u8]) -> Option<&Change> {
        self.tables.get(table.index())?.get(key).map(|entry| &entry.change)
    }

    /// What the backend has to write to a table, in order. Rows that come and go within one group
    /// leave no trace (D7).
    pub(crate) fn backend_changes(&self, table: &Table) -> impl Iterator<Item = (&Bytes, &Change)> {
        let entries = self.tables.get(table.index()).into_iter().flatten();
        entries.filter(|(_, entry)| !entry.is_nothing).map(|(key, entry)| (key, &entry.change))
    }

    /// The changes of a range, in a direction.
    pub(crate) fn range<'a>(
        &'a self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
    ) -> Changes<'a> {
        let Some(table) = self.tables.get(table.index()) else { return Box::new(empty()) };
        let changes = table.range::<Bytes, _>((range.0.as_ref(), range.1.as_ref()));
        let changes = changes.map(|(key, entry)| (key, &entry.change));
        match direction {
            Direction::Forward => Box::new(changes),
            Direction::Backward => Box::new(changes.rev()),
        }
    }
}

/// Keys and their changes.
pub(crate) type Changes<'a> = Box<dyn Iterator<Item = (&'a Bytes, &'a Change)> + 'a>;
