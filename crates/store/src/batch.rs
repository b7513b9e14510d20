//! `Batch`: puts and deletes that happen together or not at all, under preconditions.

use bytes::{Bytes, BytesMut};

use crate::bounds::{Bound, Bounds, OutOfBounds, at_most};
use crate::table::Table;

/// What a key must be like for a batch to be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// It has no value.
    Absent,
    /// It has exactly this value.
    Equal(Bytes),
    /// It has a value that begins so. Rows begin with what they are compared by: a journal's
    /// length, for one.
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
    /// Of a row of this table:
    pub table: Table,
    /// the one with this key
    pub key: Bytes,
    /// must be like this.
    pub expect: Expect,
}

/// One put or delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// In this table,
    pub table: Table,
    /// the row with this key
    pub key: Bytes,
    /// gets this value; without one it is deleted.
    pub value: Option<Bytes>,
}

/// A value larger than this is not worth a copy.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// The length of a small value, 0 for others.
fn small(value: &Bytes) -> usize {
    if value.len() <= SMALL_BYTES_MAX { value.len() } else { 0 }
}

/// Writes that happen together or not at all. Of several to one key the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    conditions: Vec<Condition>,
    writes: Vec<Write>,
    bytes: usize,
}

impl Batch {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
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
        let (key, value) = (key.into(), value.into());
        self.bytes = self.bytes.saturating_add(key.len()).saturating_add(value.len());
        self.writes.push(Write { table, key, value: Some(value) });
        self
    }

    /// Deletes a key; it need not exist.
    pub fn delete(&mut self, table: Table, key: impl Into<Bytes>) -> &mut Self {
        let key = key.into();
        self.bytes = self.bytes.saturating_add(key.len());
        self.writes.push(Write { table, key, value: None });
        self
    }

    /// Puts everything of another batch behind what is here.
    pub fn extend(&mut self, other: Self) -> &mut Self {
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

    /// Moves all small keys and values into one allocation. They are freed by other threads than
    /// the one that made them, and one of those is the writer, which everybody waits for.
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

    pub(crate) fn check(&self, bounds: &Bounds) -> Result<(), OutOfBounds> {
        at_most(Bound::BatchWrites, self.writes.len(), bounds.batch_writes_max)?;
        at_most(Bound::BatchConditions, self.conditions.len(), bounds.batch_conditions_max)?;
        at_most(Bound::BatchBytes, self.bytes, bounds.batch_bytes_max)?;
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
}
