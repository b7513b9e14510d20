//! `MemoryBackend`: the backend that keeps nothing on disk. For tests, and as the plainest
//! implementation of the contract.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;

use crate::backend::{
    Backend, BackendError, BackendSnapshot, Direction, KeyRange, Visit, visit_rows,
};
use crate::batch::Write;
use crate::position::Sequence;
use crate::table::Table;

type Rows = BTreeMap<Bytes, Bytes>;
type Tables = BTreeMap<&'static str, Arc<Rows>>;

/// A backend in memory. A snapshot shares the tables; the next commit copies those it writes.
#[derive(Debug, Default)]
pub struct MemoryBackend {
    tables: RwLock<Arc<Tables>>,
}

impl MemoryBackend {
    /// An empty one. It takes whatever tables it is asked for.
    pub fn new() -> Self {
        Self::default()
    }

    fn now(&self) -> Arc<Tables> {
        Arc::clone(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Clone for MemoryBackend {
    /// Another one with the same rows: what is committed to one is not in the other.
    fn clone(&self) -> Self {
        Self { tables: RwLock::new(self.now()) }
    }
}

impl Backend for MemoryBackend {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.now().get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        Ok(Box::new(self.now()))
    }

    fn commit(&self, _sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let tables = Arc::make_mut(&mut tables);
        for Write { table, key, value } in writes {
            let rows = Arc::make_mut(tables.entry(table.name()).or_default());
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        Ok(())
    }

    fn reclaim(&self, _table: &Table) -> Result<(), BackendError> {
        Ok(())
    }

    fn disk_bytes(&self, _table: &Table) -> u64 {
        0
    }
}

impl BackendSnapshot for Arc<Tables> {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        Ok(Tables::get(self, table.name()).and_then(|rows| rows.get(key).cloned()))
    }

    fn scan(
        &self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), BackendError> {
        let Some(rows) = Tables::get(self, table.name()) else { return Ok(()) };
        let rows = rows.range::<Bytes, _>((range.0.as_ref(), range.1.as_ref()));
        visit_rows(rows.map(|(key, value)| Ok((key.clone(), value.clone()))), direction, visit)
    }
}
