//! `KeptLayers`: groups that are durable and not in the backend's rows yet. They stay in the overlay until
//! the backend has applied them.
//!
//! A kept layer never changes: snapshots share it, and the writer merges two of them outside the
//! lock. Over a backend that applies in its commit, a group is kept only while the writer holds the
//! lock.

use std::sync::Arc;

use super::layer::{Change, Layer};
use crate::position::Sequence;
use crate::table::Table;

/// The most layers, so that a read looks in few maps. Beyond that the two neighbours with the
/// fewest bytes are merged: with four, each row is copied about as often as the fourth root of the
/// number of groups that a backend is behind.
const KEPT_LAYERS_MAX: usize = 4;

/// The layers that are kept, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct KeptLayers(Vec<KeptLayer>);

/// The changes of one or more groups, and the last group's sequence: when the backend has applied
/// that group, the layer goes.
pub(super) type KeptLayer = (Arc<Layer>, Sequence);

impl KeptLayers {
    pub(super) fn bytes(&self) -> usize {
        self.newest_first().map(|layer| layer.bytes).sum()
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Arc<Layer>> {
        self.0.iter().rev().map(|(layer, _)| layer)
    }

    /// What the newest layer that knows the key says about it.
    pub(super) fn get(&self, table: &Table, key: &[u8]) -> Option<&Change> {
        self.newest_first().find_map(|layer| layer.get(table, key))
    }

    /// Takes the next group.
    pub(super) fn push(&mut self, layer: Arc<Layer>, last: Sequence) {
        self.0.push((layer, last));
    }

    /// Takes out what the backend has applied.
    pub(super) fn take_applied(&mut self, applied: Sequence) -> Vec<KeptLayer> {
        let count = self.0.partition_point(|(_, last)| *last <= applied);
        self.0.drain(..count).collect()
    }

    /// Makes one layer of two neighbours; of a key that is in both, the newer change counts. False:
    /// there are few layers, and nothing has changed.
    pub(super) fn merge(&mut self) -> bool {
        if self.0.len() <= KEPT_LAYERS_MAX {
            return false;
        }
        let bytes = |at: &usize| self.0[*at].0.bytes + self.0[at + 1].0.bytes;
        let at = (0..KEPT_LAYERS_MAX).min_by_key(bytes).expect("there are some");
        let (newer, last) = self.0.remove(at + 1);
        self.0[at] = (Arc::new(self.0[at].0.overlaid_with(&newer)), last);
        true
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::batch::Write;
    use crate::table::Shape;

    const T: Table = Table::new(1, "t", Shape::Kept);

    fn group(number: u64) -> Arc<Layer> {
        let write = |key: String, value: Option<String>| Write {
            table: T,
            key: key.into(),
            value: value.map(Bytes::from),
        };
        let mut layer = Layer::default();
        let own = write(format!("own {number}"), Some(format!("{number}")));
        let odd = write("odd".to_owned(), (number % 2 == 1).then(|| format!("{number}")));
        layer.apply(vec![own, odd, write("last".to_owned(), Some(format!("{number}")))], &[true]);
        Arc::new(layer)
    }

    /// However many groups a backend is behind, a read looks in a few maps and finds the newest
    /// change; a layer goes when its last group is applied, and not before (D10).
    #[test]
    fn kept_groups_become_few_layers() {
        let mut kept = KeptLayers::default();
        for number in 1..=100 {
            kept.push(group(number), Sequence::new(number));
            kept.merge();
            assert!(kept.newest_first().count() <= KEPT_LAYERS_MAX);
            let found = kept.get(&T, b"last").cloned().flatten();
            assert_eq!(found, Some(Bytes::from(number.to_string())));
            assert_eq!(kept.get(&T, b"odd").unwrap().is_some(), number % 2 == 1, "{number}");
        }
        assert!((1..=100).all(|n| kept.get(&T, format!("own {n}").as_bytes()).is_some()));
        for applied in 1..=100 {
            kept.take_applied(Sequence::new(applied));
            let unapplied = (applied + 1..=100).map(|n| format!("own {n}"));
            assert!({ unapplied }.all(|key| kept.get(&T, key.as_bytes()).is_some()), "{applied}");
        }
        assert_eq!(kept.newest_first().count(), 0);
        assert_eq!(kept.bytes(), 0);
    }
}
