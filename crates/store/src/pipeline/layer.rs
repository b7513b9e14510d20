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

/// The changes of a group, by table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    tables: Vec<BTreeMap<Bytes, Change>>,
    batches: usize,
    writes: usize,
    bytes: usize,
}

impl Layer {
    pub(crate) fn apply(&mut self, writes: Vec<Write>) {
        self.batches += 1;
        self.writes += writes.len();
        for Write { table, key, value } in writes {
            let slot = table.slot();
            if self.tables.len() <= slot {
                self.tables.resize_with(slot + 1, BTreeMap::new);
            }
            self.bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            self.tables[slot].insert(key, value);
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
        self.tables.get(table.slot())?.get(key)
    }

    /// The changes of a table, in order.
    pub(crate) fn changes(&self, table: &Table) -> impl Iterator<Item = (&Bytes, &Change)> {
        self.tables.get(table.slot()).into_iter().flatten()
    }

    pub(crate) fn range<'a>(
        &'a self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
    ) -> Changes<'a> {
        let Some(table) = self.tables.get(table.slot()) else { return Changes::None };
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
    Forward(Range<'a, Bytes, Change>),
    Backward(Rev<Range<'a, Bytes, Change>>),
}

impl<'a> Iterator for Changes<'a> {
    type Item = (&'a Bytes, &'a Change);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::None => None,
            Self::Forward(changes) => changes.next(),
            Self::Backward(changes) => changes.next(),
        }
    }
}
