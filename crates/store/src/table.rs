//! `Table`: a name for an ordered set of rows, and what its rows are like.
//!
//! A crate declares its tables as constants and passes them when the store is opened; backends take
//! whatever is in the list and know no table by name.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use indelible_slots::Slot;

/// Table numbers are below this: layers and backends keep a place for each.
pub const TABLES_MAX: u8 = 64;

/// The pipeline's own table. It is in every store, and no other table may have its number.
pub const PIPELINE: Table = Table::new(0, "pipeline", Shape::Kept);

/// What the rows of a table are like, for the backend to arrange itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Written once or seldom, and read by callers that know that the row exists.
    Kept,
    /// Written once or seldom, and often asked for when there is no such row.
    Sought,
    /// Overwritten or deleted soon after they were written: queues, timers.
    Churn,
    /// A few rows of megabytes.
    Large,
}

/// A named, ordered table of bytes.
///
/// The name is what a backend stores; the number is only an index while the program runs, so it may
/// change from one version of the program to the next.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    number: u8,
    name: &'static str,
    shape: Shape,
    slot_of: fn(&[u8]) -> Slot,
}

/// By number and name; the slots of a table's rows follow from which table it is.
impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        (self.number, self.name) == (other.number, other.name)
    }
}

impl Eq for Table {}

impl Hash for Table {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl Table {
    /// A table whose rows belong to the whole server. Numbers and names are unique within a store;
    /// number 0 is the store's own.
    pub const fn new(number: u8, name: &'static str, shape: Shape) -> Self {
        assert!(number < TABLES_MAX, "table numbers are below TABLES_MAX");
        Self { number, name, shape, slot_of: |_| Slot::SERVER }
    }

    /// The same table; `slot_of` gives the slot of a row from its key (D13).
    #[must_use]
    pub const fn with_slots(self, slot_of: fn(&[u8]) -> Slot) -> Self {
        Self { slot_of, ..self }
    }

    /// The slot of the row with this key (D13).
    pub fn slot_of(&self, key: &[u8]) -> Slot {
        (self.slot_of)(key)
    }

    /// Its name, by which a backend stores it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What its rows are like.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Its index in arrays that have an element for each table.
    pub fn index(&self) -> usize {
        usize::from(self.number)
    }
}

/// Why a list of tables cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Two tables have this number.
    #[error("two tables have the number {number}: {first:?} and {second:?}")]
    NumberTwice {
        /// Which.
        number: u8,
        /// The one that comes first in the list.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// Two tables have this name.
    #[error("two tables have the name {0:?}")]
    NameTwice(&'static str),
    /// A backend may have to use the name as an identifier.
    #[error("invalid table name {0:?}: use 1 to 48 of a-z and _")]
    Name(&'static str),
}

/// The tables of a store: those given and the pipeline's own.
pub(crate) fn list(given: &[Table]) -> Result<Vec<Table>, TableError> {
    let mut tables = vec![PIPELINE];
    let mut names = HashSet::from([PIPELINE.name]);
    for table in given {
        let letters = |c: u8| c.is_ascii_lowercase() || c == b'_';
        if !(1..=48).contains(&table.name.len()) || !table.name.bytes().all(letters) {
            return Err(TableError::Name(table.name));
        }
        if !names.insert(table.name) {
            return Err(TableError::NameTwice(table.name));
        }
        if let Some(first) = tables.iter().find(|other| other.number == table.number) {
            return Err(TableError::NumberTwice {
                number: table.number,
                first: first.name,
                second: table.name,
            });
        }
        tables.push(*table);
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list that would mix up two tables is refused before anything is opened.
    #[test]
    fn ambiguous_lists_are_refused() {
        let a = Table::new(1, "a", Shape::Kept);
        assert_eq!(list(&[a]).map(|tables| tables.len()), Ok(2));
        assert_eq!(
            list(&[a, Table::new(1, "b", Shape::Kept)]),
            Err(TableError::NumberTwice { number: 1, first: "a", second: "b" })
        );
        assert_eq!(
            list(&[Table::new(0, "b", Shape::Kept)]),
            Err(TableError::NumberTwice { number: 0, first: "pipeline", second: "b" })
        );
        assert_eq!(list(&[a, Table::new(2, "a", Shape::Kept)]), Err(TableError::NameTwice("a")));
        for name in ["", "A", "a-b", "a/b", "naïve"] {
            assert!(list(&[Table::new(3, name, Shape::Kept)]).is_err(), "{name}");
        }
    }
}
