//! What the committer commits, so that a reader of the folder can say afterwards what must be in
//! it: everything follows from the number of the thread and how often a value is large.
#![allow(clippy::unwrap_used, reason = "a test helper: a panic is how a test fails")]

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use indelible_records::executions::Standing;
use indelible_records::{components, queue};
use indelible_store::{Batch, Table};

use indelible_test_support::Prng;

use crate::rows::{LOG, Run, at, key, log_key, log_value};

/// The batches of one thread: it runs one execution after the other, for ever. Each batch has one
/// row of the table `log`, so their number is the store's position.
pub struct Work {
    thread: u64,
    /// One of so many batches has a value of a megabyte or two; 0 for none.
    large: u64,
    numbers: Prng,
    number: u64,
    tree: u64,
    under_way: Option<UnderWay>,
}

struct UnderWay {
    run: Run,
    queued: Option<queue::Entry>,
    steps: u64,
}

impl Work {
    /// The batches of this thread, from the first.
    pub fn new(thread: u64, large: u64) -> Self {
        let numbers = Prng::new(thread);
        Self { thread, large, numbers, number: 0, tree: thread << 20, under_way: None }
    }

    /// The number of the next batch.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next batch.
    pub fn batch(&mut self) -> Batch {
        let now = at(1 + self.number);
        let mut at = self.under_way.take().unwrap_or_else(|| {
            self.tree += 1;
            let run = Run::start(self.tree, &key(self.tree, &[], &[1]), "order", now);
            UnderWay { run, queued: None, steps: 1 + self.numbers.below(12) }
        });
        let mut batch = Batch::new();
        if let Some(entry) = at.queued.take() {
            queue::delete(&mut batch, &entry);
        }
        if at.steps == 0 {
            let end = [Standing::Completed, Standing::Failed][self.numbers.below(2) as usize];
            at.run.end(now, end);
        } else {
            at.run.work(now, 1 + self.numbers.below(3) as usize);
            let entry = queue::Entry { ticket: self.number, key: at.run.key().clone() };
            queue::put(&mut batch, &entry);
            at.queued = Some(entry);
        }
        at.run.flush(&mut batch);
        if self.large > 0 && self.numbers.below(self.large) == 0 {
            components::put(&mut batch, &self.large_value());
        }
        let value = log_value(at.run.key(), at.run.journal.len());
        batch.put(LOG, log_key(self.thread, self.number), Bytes::from(value));
        self.number += 1;
        if at.steps > 0 {
            at.steps -= 1;
            self.under_way = Some(at);
        }
        batch
    }

    /// Some values have long runs of zeros, as blocks that never reached a disk have.
    fn large_value(&mut self) -> Vec<u8> {
        let size = (1 << 20) + self.numbers.below(1 << 20) as usize;
        let mut value = Vec::with_capacity(size + 8);
        while value.len() < size {
            value.extend_from_slice(&self.numbers.number().to_le_bytes());
        }
        value.truncate(size);
        if self.numbers.below(3) == 0 {
            value[size / 4..size / 2].fill(0);
        }
        value
    }
}

/// Rows by table and key.
pub type Rows = BTreeMap<(&'static str, Bytes), Bytes>;

/// What threads have written after so many batches. Batches are made once, and kept.
pub struct Book {
    large: u64,
    threads: Mutex<BTreeMap<u64, (Work, Vec<Batch>)>>,
}

impl Book {
    /// Of threads that commit a large value in one of so many batches.
    pub fn new(large: u64) -> Self {
        Self { large, threads: Mutex::default() }
    }

    /// One of so many batches has a large value.
    pub fn large(&self) -> u64 {
        self.large
    }

    /// The rows of these tables when each thread has committed so many batches.
    pub fn rows(&self, tables: &[Table], counts: &BTreeMap<u64, u64>) -> Rows {
        let mut rows = Rows::new();
        let mut threads = self.threads.lock().unwrap();
        for (thread, count) in counts {
            let (work, batches) =
                threads.entry(*thread).or_insert_with(|| (Work::new(*thread, self.large), vec![]));
            while (batches.len() as u64) < *count {
                batches.push(work.batch());
            }
            for write in batches[..*count as usize].iter().flat_map(Batch::writes) {
                let key = (write.table.name(), write.key.clone());
                match &write.value {
                    Some(value) => rows.insert(key, value.clone()),
                    None => rows.remove(&key),
                };
            }
        }
        rows.retain(|(name, _), _| tables.iter().any(|table| table.name() == *name));
        rows
    }
}
