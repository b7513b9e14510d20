//! `Batch`: puts and deletes that happen together or not at all, under preconditions.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use indelible_slots::{Slot, SlotSet};

use crate::bounds::{Bound, Bounds, OutOfBounds, at_most};
use crate::table::Table;

/// What a key must be like for a batch to be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// It has no value.
    Absent,
    /// It has exactly this value.
    Equal(Bytes),
    /// It has a value that begins with these bytes. A row begins with the field that it is compared
    /// by, for instance a journal's length.
    Prefix(Bytes),
}

impl Expect {
    /// Whether this is the value that was expected.
    pub fn is_met_by(&self, value: Option<&[u8]>) -> bool {
        match self {
            Self::Absent => value.is_none(),
            Self::Equal(expected) => value == Some(expected),
            Self::Prefix(prefix) => value.is_some_and(|value| value.starts_with(prefix)),
        }
    }
}

/// One precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The table of the row.
    pub table: Table,
    /// The key of the row.
    pub key: Bytes,
    /// What the row must be like.
    pub expect: Expect,
}

/// One put or delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The table of the row.
    pub table: Table,
    /// The key of the row.
    pub key: Bytes,
    /// The row's new value; `None` deletes it.
    pub value: Option<Bytes>,
}

/// A value larger than this is not worth a copy.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// The length of a small value, 0 for others.
fn small(value: &Bytes) -> usize {
    if value.len() <= SMALL_BYTES_MAX { value.len() } else { 0 }
}

/// Writes that happen together or not at all. Of several to one key the last one counts.
///
/// A batch carries the slots that it touches (D13): the node that commits it must own them all. A
/// debug build checks each row against them when the batch is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    slots: SlotSet,
    conditions: Vec<Condition>,
    writes: Vec<Write>,
    bytes: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty batch that may touch every slot: for work on a whole store.
    pub fn new() -> Self {
        Self::in_slots(SlotSet::All)
    }

    /// An empty batch that may touch these slots.
    pub fn in_slots(slots: impl Into<SlotSet>) -> Self {
        Self { slots: slots.into(), conditions: Vec::new(), writes: Vec::new(), bytes: 0 }
    }

    /// Allows rows of this slot, too.
    pub fn touch(&mut self, slot: Slot) -> &mut Self {
        self.slots.insert(slot);
        self
    }

    /// The slots that it touches.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// Splits it into one batch per slot, in the order of slots, so that a node can commit those of
    /// the slots that it owns. Only for writes that need not happen together.
    pub fn by_slot(self) -> Vec<Self> {
        let mut parts = BTreeMap::<Slot, Self>::new();
        for condition in self.conditions {
            let slot = condition.table.slot_of(&condition.key);
            let part = parts.entry(slot).or_insert_with(|| Self::in_slots(slot));
            part.conditions.push(condition);
        }
        for Write { table, key, value } in self.writes {
            let slot = table.slot_of(&key);
            parts.entry(slot).or_insert_with(|| Self::in_slots(slot)).write(table, key, value);
        }
        parts.into_values().collect()
    }

    /// Demands something of a key, as it is before this batch.
    pub fn expect(&mut self, table: Table, key: impl Into<Bytes>, expect: Expect) -> &mut Self {
        let key = key.into();
        self.conditions.push(Condition { table, key, expect });
        self
    }

    /// Gives a key a value.
    pub fn put(
        &mut self,
        table: Table,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> &mut Self {
        self.write(table, key.into(), Some(value.into()))
    }

    /// Deletes a key; it need not exist.
    pub fn delete(&mut self, table: Table, key: impl Into<Bytes>) -> &mut Self {
        self.write(table, key.into(), None)
    }

    fn write(&mut self, table: Table, key: Bytes, value: Option<Bytes>) -> &mut Self {
        let bytes = key.len() + value.as_ref().map_or(0, Bytes::len);
        self.bytes = self.bytes.saturating_add(bytes);
        self.writes.push(Write { table, key, value });
        self
    }

    /// Puts everything of another batch behind what is here.
    pub fn extend(&mut self, other: Self) -> &mut Self {
        self.slots.extend(&other.slots);
        self.conditions.extend(other.conditions);
        self.writes.extend(other.writes);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self
    }

    /// What it demands.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// What it writes, in order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// How many bytes its keys and values have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What it deletes, in order.
    pub(crate) fn deletes(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(|write| write.value.is_none())
    }

    /// Moves all small keys and values into one allocation. Other threads free them than the one
    /// that made them, among them the writer, and every commit waits for the writer.
    pub(crate) fn pack(&mut self) {
        let parts = |write: &Write| write.key.len() + write.value.as_ref().map_or(0, small);
        let mut pack = BytesMut::with_capacity(self.writes.iter().map(parts).sum());
        for Write { key, value, .. } in &self.writes {
            pack.extend_from_slice(key);
            if let Some(value) = value.as_ref().filter(|value| small(value) > 0) {
                pack.extend_from_slice(value);
            }
        }
        let mut pack = pack.freeze();
        for Write { key, value, .. } in &mut self.writes {
            *key = pack.split_to(key.len());
            if let Some(value) = value.as_mut().filter(|value| small(value) > 0) {
                *value = pack.split_to(value.len());
            }
        }
    }

    pub(crate) fn into_writes(self) -> Vec<Write> {
        self.writes
    }

    /// A row that it writes or demands something of, and whose slot it does not carry.
    fn stray(&self) -> Option<(&'static str, Slot)> {
        let writes = self.writes.iter().map(|write| (&write.table, &write.key));
        let conditions = self.conditions.iter().map(|condition| (&condition.table, &condition.key));
        let mut rows =
            writes.chain(conditions).map(|(table, key)| (table.name(), table.slot_of(key)));
        rows.find(|(_, slot)| !self.slots.contains(*slot))
    }

    pub(crate) fn check(&self, bounds: &Bounds) -> Result<(), OutOfBounds> {
        at_most(Bound::BatchWrites, self.writes.len(), bounds.batch_writes_max)?;
        at_most(Bound::BatchConditions, self.conditions.len(), bounds.batch_conditions_max)?;
        at_most(Bound::BatchBytes, self.bytes, bounds.batch_bytes_max)?;
        debug_assert_eq!(self.stray(), None, "a row is not in the slots of its batch");
        for write in &self.writes {
            at_most(Bound::KeyBytes, write.key.len(), bounds.key_bytes_max)?;
            let value = write.value.as_ref().map_or(0, Bytes::len);
            at_most(Bound::ValueBytes, value, bounds.value_bytes_max)?;
        }
        for condition in &self.conditions {
            at_most(Bound::KeyBytes, condition.key.len(), bounds.key_bytes_max)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Shape;

    const T: Table = Table::new(1, "t", Shape::Kept);

    /// An expectation is met by what it says and nothing else.
    #[test]
    fn expectations() {
        let cases = [
            (Expect::Absent, None, true),
            (Expect::Absent, Some(""), false),
            (Expect::Equal("ab".into()), Some("ab"), true),
            (Expect::Equal("ab".into()), Some("abc"), false),
            (Expect::Equal("".into()), None, false),
            (Expect::Prefix("ab".into()), Some("abc"), true),
            (Expect::Prefix("ab".into()), Some("a"), false),
            (Expect::Prefix("".into()), None, false),
        ];
        for (expect, value, met) in cases {
            assert_eq!(expect.is_met_by(value.map(str::as_bytes)), met, "{expect:?} {value:?}");
        }
    }

    /// Each bound of a batch is enforced at its edge.
    #[test]
    fn bounds_are_enforced() {
        let bounds = Bounds {
            key_bytes_max: 4,
            value_bytes_max: 8,
            batch_writes_max: 3,
            batch_conditions_max: 1,
            batch_bytes_max: 12,
            ..Bounds::DEFAULT
        };
        let check = |fill: &dyn Fn(&mut Batch)| {
            let mut batch = Batch::new();
            fill(&mut batch);
            batch.check(&bounds).map_err(|error| error.bound)
        };
        assert_eq!(check(&|b| _ = b.put(T, "1234", "12345678")), Ok(()));
        assert_eq!(check(&|b| _ = b.delete(T, "12345")), Err(Bound::KeyBytes));
        assert_eq!(check(&|b| _ = b.put(T, "1", "123456789")), Err(Bound::ValueBytes));
        assert_eq!(check(&|b| _ = b.expect(T, "12345", Expect::Absent)), Err(Bound::KeyBytes));
        assert_eq!(
            check(&|b| _ = b.put(T, "1234", "1234").put(T, "5678", "12345")),
            Err(Bound::BatchBytes)
        );
        let many = |b: &mut Batch| (0..4).for_each(|_| _ = b.delete(T, "1"));
        assert_eq!(check(&many), Err(Bound::BatchWrites));
        let many = |b: &mut Batch| (0..2).for_each(|_| _ = b.expect(T, "1", Expect::Absent));
        assert_eq!(check(&many), Err(Bound::BatchConditions));
    }

    /// D13: a batch splits into one for each slot, with all its conditions and writes there; and a
    /// row outside the batch's slots is noticed.
    #[test]
    fn batches_know_their_slots() {
        const BY_KEY: Table = T.with_slots(Slot::at_start_of);
        let slot = |number| Slot::new(number).unwrap();
        let (one, two) = (vec![0x00, 0x10], vec![0x00, 0x2f]);
        let mut batch = Batch::in_slots(slot(1));
        batch.touch(slot(2));
        batch.expect(BY_KEY, two.clone(), Expect::Absent).put(BY_KEY, one.clone(), "1");
        batch.put(BY_KEY, two.clone(), "2").delete(BY_KEY, two.clone());
        assert_eq!(batch.stray(), None);
        let mut first = Batch::in_slots(slot(1));
        first.put(BY_KEY, one, "1");
        let mut second = Batch::in_slots(slot(2));
        second.expect(BY_KEY, two.clone(), Expect::Absent);
        second.put(BY_KEY, two.clone(), "2").delete(BY_KEY, two.clone());
        assert_eq!(batch.clone().by_slot(), [first.clone(), second]);
        first.expect(BY_KEY, two, Expect::Absent);
        assert_eq!(first.stray(), Some(("t", slot(2))));
        assert_eq!(batch.extend(Batch::new()).slots(), &SlotSet::All);
    }
}
