//! The rows of the workload: those that a server commits for one step of an execution, and the
//! journals that such steps leave.

use bytes::Bytes;
use indelible_records::{EXECUTIONS, JOURNALS, QUEUE};
use indelible_store::{Batch, Expect};

use super::random::Random;

/// A journal entry's bytes.
const ENTRY_BYTES: usize = 250;
/// A step appends so many entries, as one row.
pub(super) const ROW_ENTRIES: u64 = 2;
/// The length of an execution's journal.
pub(super) const JOURNAL_ENTRIES: u64 = 20;

const ATTEMPT: [u8; 4] = 1_u32.to_be_bytes();
const EXECUTION_BYTES: usize = 100;
const QUEUED_BYTES: usize = 16;

/// An execution: a root and its first attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Execution([u8; 36]);

impl Execution {
    pub(super) fn random(random: &mut Random) -> Self {
        let mut key = [0; 36];
        random.fill(&mut key[..32]);
        key[32..].copy_from_slice(&ATTEMPT);
        Self(key)
    }

    /// The prefix of all keys of its journal.
    pub(super) fn key(&self) -> &[u8] {
        &self.0
    }

    /// The key of the row that begins with this event.
    pub(super) fn row_key(&self, first: u64) -> [u8; 44] {
        let mut key = [0; 44];
        key[..36].copy_from_slice(&self.0);
        key[36..].copy_from_slice(&first.to_be_bytes());
        key
    }
}

/// A row of a journal: the entries of one step.
pub(super) fn put_row(batch: &mut Batch, execution: &Execution, first: u64, random: &mut Random) {
    let entries = random.bytes::<{ ENTRY_BYTES * ROW_ENTRIES as usize }>();
    let key = execution.row_key(first);
    batch.put(JOURNALS, Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&entries));
}

/// The steps of one producer: one execution after the other, each step a batch.
#[derive(Debug)]
pub(super) struct Steps {
    random: Random,
    execution: Execution,
    length: u64,
    /// The key of its row in the queue.
    queued: Option<Bytes>,
    count: u64,
}

impl Steps {
    pub(super) fn new(seed: u64, producer: u64) -> Self {
        let mut random = Random::of(seed, producer);
        let execution = Execution::random(&mut random);
        Self { random, execution, length: 0, queued: None, count: 0 }
    }

    pub(super) fn next(&mut self) -> Batch {
        if self.length == JOURNAL_ENTRIES {
            self.execution = Execution::random(&mut self.random);
            self.length = 0;
        }
        let mut batch = Batch::new();
        let key = Bytes::copy_from_slice(self.execution.key());
        let expect = match self.length {
            0 => Expect::Absent,
            length => Expect::Prefix(Bytes::copy_from_slice(&length.to_be_bytes())),
        };
        batch.expect(EXECUTIONS, key.clone(), expect);
        put_row(&mut batch, &self.execution, self.length, &mut self.random);
        self.length += ROW_ENTRIES;
        let mut row = self.random.bytes::<EXECUTION_BYTES>();
        row[..8].copy_from_slice(&self.length.to_be_bytes());
        batch.put(EXECUTIONS, key, Bytes::copy_from_slice(&row));
        if let Some(queued) = self.queued.take() {
            batch.delete(QUEUE, queued);
        }
        let mut key = [0; 40];
        key[..32].copy_from_slice(&self.execution.key()[..32]);
        key[32..].copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        let key = Bytes::copy_from_slice(&key);
        let value = self.random.bytes::<QUEUED_BYTES>();
        batch.put(QUEUE, key.clone(), Bytes::copy_from_slice(&value));
        self.queued = Some(key);
        batch
    }
}

/// The bytes of a batch, keys and values, to write to the raw disk.
pub(super) fn serialised(batch: &Batch) -> Bytes {
    let mut bytes = Vec::with_capacity(batch.bytes());
    for write in batch.writes() {
        bytes.extend_from_slice(&write.key);
        bytes.extend_from_slice(write.value.as_deref().unwrap_or_default());
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use indelible_store::{Store, memory::MemoryBackend};

    use super::*;

    /// Every step is accepted, an execution ends after ten, and the queue has one row for each
    /// producer.
    #[test]
    fn steps_follow_each_other() {
        let backend = std::sync::Arc::new(MemoryBackend::new());
        let store = Store::start(backend, &indelible_records::TABLES, Default::default()).unwrap();
        let mut producers = [Steps::new(1, 0), Steps::new(1, 1)];
        for step in 0..25 {
            for steps in &mut producers {
                let batch = steps.next();
                if step > 0 {
                    assert_eq!((batch.bytes(), serialised(&batch).len()), (776, 776));
                }
                store.submit_blocking(batch).unwrap();
            }
        }
        let rows = |table| {
            let scan = indelible_store::Scan::all(table, 1_000);
            store.scan(&scan).unwrap().value.rows.len()
        };
        assert_eq!((rows(JOURNALS), rows(EXECUTIONS), rows(QUEUE)), (50, 6, 2));
    }
}
