//! `Kept`: groups that are durable and not in the backend's rows yet. They stay in the overlay until
//! the backend has applied them.
//!
//! A layer that is kept never changes: snapshots share it, and two of them become one by a merge
//! that the writer makes outside the lock. A backend that applies in its commit has none.

use std::sync::Arc;

use super::layer::{Change, Layer};
use crate::position::Sequence;
use crate::table::Table;

/// How many layers are kept, so that a read looks in few maps. Beyond that the two neighbours with
/// the fewest bytes are merged: with four, each row is copied about as often as the fourth root of
/// the number of groups that a backend is behind.
const KEPT_LAYERS_MAX: usize = 4;

/// The layers that are kept, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Kept {
    layers: Vec<KeptLayer>,
}

/// The changes of one or more groups.
#[derive(Debug, Clone)]
pub(super) struct KeptLayer {
    layer: Arc<Layer>,
    /// The last of the groups: when the backend has applied it, the layer goes.
    last: Sequence,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.layers.iter().map(|kept| kept.layer.bytes()).sum()
    }

    /// What the newest layer that knows the key says about it.
    pub(super) fn get(&self, table: &Table, key: &[u8]) -> Option<&Change> {
        self.newest_first().find_map(|layer| layer.get(table, key))
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Arc<Layer>> {
        self.layers.iter().rev().map(|kept| &kept.layer)
    }

    /// Takes the next group.
    pub(super) fn push(&mut self, layer: Arc<Layer>, last: Sequence) {
        self.layers.push(KeptLayer { layer, last });
    }

    /// Takes out what the backend has applied. The caller drops it outside the lock.
    pub(super) fn take_applied(&mut self, applied: Sequence) -> Vec<KeptLayer> {
        let count = self.layers.iter().take_while(|kept| kept.last <= applied).count();
        if count == 0 { Vec::new() } else { self.layers.drain(..count).collect() }
    }

    /// Two neighbours to be merged, and where they are; none while there are few layers.
    pub(super) fn to_merge(&self) -> Option<(usize, [KeptLayer; 2])> {
        if self.layers.len() <= KEPT_LAYERS_MAX {
            return None;
        }
        let bytes = |pair: &[KeptLayer]| pair.iter().map(|kept| kept.layer.bytes()).sum::<usize>();
        let pairs = self.layers.windows(2).enumerate();
        let (at, pair) = pairs.min_by_key(|(_, pair)| bytes(pair))?;
        Some((at, [pair[0].clone(), pair[1].clone()]))
    }

    /// Puts a merged layer in the place of the two that it was made of. Nothing else has changed
    /// since: the writer is the only one to add and to take out.
    pub(super) fn replace(&mut self, at: usize, merged: KeptLayer) {
        self.layers.splice(at..at + 2, [merged]);
    }
}

impl KeptLayer {
    /// Two neighbours as one; of a key that is in both, the newer change.
    pub(super) fn merged([older, newer]: &[Self; 2]) -> Self {
        Self { layer: Arc::new(older.layer.overlaid_with(&newer.layer)), last: newer.last }
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
        let mut kept = Kept::default();
        for number in 1..=100 {
            kept.push(group(number), Sequence::new(number));
            while let Some((at, pair)) = kept.to_merge() {
                kept.replace(at, KeptLayer::merged(&pair));
            }
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
        assert!(kept.is_empty());
        assert_eq!(kept.bytes(), 0);
    }
}
