//! A process that commits as fast as it can from many threads and says on its standard output
//! what it was promised, line by line, until it is killed. The crash tests read what it said and
//! compare it with what is left.
//!
//! `committer FOLDER ROUND THREADS` prints `accepted POSITION THREAD NUMBER` when a batch was
//! accepted and `durable POSITION` when it was durable. Each batch has one row of the table
//! `log`, so their number is the store's position.
#![allow(clippy::unwrap_used, reason = "if anything fails, the test that reads this must notice")]
#![allow(clippy::print_stdout, reason = "its output is its purpose")]
#![allow(clippy::disallowed_methods, reason = "it is a process of its own")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write as _;
use std::path::Path;

use bytes::Bytes;
use indelible_store::embedded::{self, Options};
use indelible_store::rows::executions::Standing;
use indelible_store::rows::{components, queue};
use indelible_store::{Batch, Store};

use crate::support::{LOG, Numbers, Run, at, key, log_key, log_tables, log_value};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, round, threads] = &arguments[..] else {
        panic!("usage: committer FOLDER ROUND THREADS");
    };
    let (round, threads): (u64, u64) = (round.parse().unwrap(), threads.parse().unwrap());
    let mut options = Options::default();
    // Small, so that flushes and compactions are under way when the process dies.
    options.memtable_bytes = Some(128 << 10);
    let store = embedded::open(Path::new(folder), &log_tables(), &options).unwrap();
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || commit(&store, round << 32 | thread))
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}

fn say(line: &str) {
    // One write a line: lines of several threads do not mix, and a kill does not cut one.
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Runs one execution after the other, for ever.
fn commit(store: &Store, thread: u64) {
    let mut numbers = Numbers::new(thread);
    let mut number = 0_u64;
    for tree in 0.. {
        let tree = thread << 20 | tree;
        let key = key(tree, &[], &[1]);
        let mut run = Run::start(tree, &key, "order", at(1 + number));
        let mut queued: Option<queue::Entry> = None;
        let steps = 1 + numbers.below(12);
        for step in 0..=steps {
            let now = at(1 + number);
            let mut batch = Batch::new();
            if step == steps {
                run.end(now, [Standing::Completed, Standing::Failed][numbers.below(2) as usize]);
            } else {
                run.work(now, 1 + numbers.below(3) as usize);
            }
            run.flush(&mut batch);
            if let Some(entry) = queued.take() {
                queue::delete(&mut batch, &entry);
            }
            if step < steps {
                let entry = queue::Entry { ticket: number, key: key.clone() };
                queue::put(&mut batch, &entry);
                queued = Some(entry);
            }
            if numbers.below(200) == 0 {
                let size = 100_000 + numbers.below(2_000_000) as usize;
                let large: Vec<u8> = (0..size).map(|i| (i as u64 ^ number) as u8).collect();
                components::put(&mut batch, &large);
            }
            let length = run.journal.len();
            batch.put(LOG, log_key(thread, number), Bytes::from(log_value(&key, length)));
            let position = store.submit_blocking(batch).unwrap();
            say(&format!("accepted {position} {thread} {number}\n"));
            // Some run ahead of the disk, as an engine does.
            if numbers.below(3) > 0 {
                store.durable(position).wait().unwrap();
                say(&format!("durable {position}\n"));
            }
            number += 1;
        }
    }
}
