//! `SlotSet`: the slots that a batch touches.

use smallvec::{SmallVec, smallvec};

use crate::Slot;

/// Some slots, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotSet {
    /// These slots, in order.
    Some(SmallVec<[Slot; 4]>),
    /// All slots, for work on a whole store.
    All,
}

impl SlotSet {
    /// No slot.
    pub fn empty() -> Self {
        Self::Some(SmallVec::new())
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        if let Self::Some(slots) = self
            && let Err(at) = slots.binary_search(&slot)
        {
            slots.insert(at, slot);
        }
    }

    /// Adds all slots of another set.
    pub fn extend(&mut self, other: &Self) {
        match other {
            Self::Some(slots) => slots.iter().for_each(|slot| self.insert(*slot)),
            Self::All => *self = Self::All,
        }
    }

    /// Whether this slot is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        match self {
            Self::Some(slots) => slots.contains(&slot),
            Self::All => true,
        }
    }
}

impl From<Slot> for SlotSet {
    fn from(slot: Slot) -> Self {
        Self::Some(smallvec![slot])
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::empty();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set has each slot that was put into it once.
    #[test]
    fn sets() {
        let slot = |number| Slot::new(number).unwrap();
        let mut set: SlotSet = [3, 1, 3].map(slot).into_iter().collect();
        assert_eq!(set, SlotSet::Some(smallvec![slot(1), slot(3)]));
        assert!(set.contains(slot(3)) && !set.contains(slot(2)));
        set.extend(&slot(2).into());
        assert!(set.contains(slot(2)));
        set.extend(&SlotSet::All);
        assert!(set.contains(slot(4095)));
        assert!(!SlotSet::empty().contains(Slot::SERVER));
    }
}
