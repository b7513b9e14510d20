//! What a sweep takes, in which order, and what it leaves for whoever asks meanwhile.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

mod support;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use indelible_journal::{Micros, Timestamp};
use indelible_store::memory::MemoryEngine;
use indelible_store::retention::{self, Background, Keeper, Plan, Retention, Swept};
use indelible_store::rows::executions::{self, Execution, Standing};
use indelible_store::rows::{self, settings, windows};
use indelible_store::{Batch, Bounds, ReadError, Scan, Snapshot, Store, check};

use crate::support::{Run, at, key};

fn memory() -> Store {
    Store::start(Arc::new(MemoryEngine::new()), &rows::TABLES, Bounds::DEFAULT).unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    // All futures here are ready at once: there is room.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("there is room"),
    }
}

/// An execution that began at 1 and ended so at that time.
fn put(store: &Store, tree: u64, path: &[u32], attempts: &[u32], end: Standing, when: u64) {
    let mut run = Run::start(tree, &key(tree, path, attempts), "order", at(1));
    run.work(at(2), 2);
    run.end(at(when), end);
    run.submit(store);
}

fn rows_of(store: &Store, tree: u64) -> usize {
    let root = key(tree, &[], &[1]).execution_id().root().as_bytes().to_vec();
    let count = |table| store.scan(&Scan::prefix(table, root.clone(), 100)).unwrap().value.rows;
    count(rows::EXECUTIONS).len() + count(rows::JOURNALS).len()
}

fn assert_sound(store: &Store) {
    let findings = check::check(store, &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
}

const AFTER_100: Option<Micros> = Some(Micros::new(100));

/// A root that failed and returned at its next attempt has returned: it goes by that window, counted
/// from that end, and no other.
#[test]
fn a_tree_goes_by_how_its_root_ended() {
    let sweep = |store: &Store, now, retention: &Retention| -> Swept {
        block_on(retention::sweep(store, at(now), retention, 1000)).unwrap()
    };
    let of_failed = Retention { failed: AFTER_100, ..Retention::default() };
    let of_completed = Retention { completed: AFTER_100, ..Retention::default() };
    let store = memory();
    put(&store, 1, &[], &[1], Standing::Failed, 10);
    put(&store, 1, &[], &[2], Standing::Failed, 20);
    put(&store, 1, &[], &[3], Standing::Completed, 500);
    put(&store, 2, &[], &[1], Standing::Failed, 500);
    assert_eq!(sweep(&store, 599, &of_failed), Swept::default());
    assert_eq!(sweep(&store, 599, &of_completed), Swept::default());
    assert_eq!(sweep(&store, 600, &of_failed).trees, 1);
    assert_eq!((rows_of(&store, 1), rows_of(&store, 2)), (6, 0));
    assert_sound(&store);
    assert_eq!(sweep(&store, 600, &of_completed).trees, 1);
    assert_eq!(rows_of(&store, 1), 0);
    let left = store.scan(&Scan::all(rows::FINISHED, 10)).unwrap().value;
    assert!(left.rows.is_empty(), "{left:?}");
    assert_sound(&store);
}

/// Whoever looks between two steps finds the last attempt at a root or none: never an earlier one,
/// whose end is not the tree's. What is kept of it is written when it goes, once, in the same batch.
#[test]
fn what_is_left_in_between_is_the_end() {
    let retention = Retention { completed: AFTER_100, ..Retention::default() };
    for step in [1, 2, 5, 8, 1000] {
        let store = memory();
        for attempt in 1..=4 {
            let end = if attempt == 4 { Standing::Completed } else { Standing::Failed };
            put(&store, 1, &[], &[attempt], end, 10 * u64::from(attempt));
            put(&store, 1, &[0], &[attempt, 1], Standing::Failed, 10);
            put(&store, 1, &[0], &[attempt, 2], Standing::Completed, 11);
        }
        let (root, last) = (key(1, &[], &[1]), key(1, &[], &[4]));
        let kept = RefCell::new(Vec::new());
        let keep = |_: &Snapshot, root: &Execution, batch: &mut Batch| {
            kept.borrow_mut().push(root.key.clone());
            settings::put(batch, "kept", b"its end");
            Ok(())
        };
        let mut steps = 0;
        loop {
            let swept = retention::sweep_keeping(&store, at(1000), &retention, step, &keep);
            let swept = block_on(swept).unwrap();
            assert_sound(&store);
            steps += 1;
            let latest = executions::latest(&store, root.execution_id()).unwrap().value;
            let is_kept = settings::get(&store, "kept").unwrap().value.is_some();
            assert_eq!(latest.map(|row| row.key), (!is_kept).then(|| last.clone()));
            if swept.trees == 1 {
                break;
            }
            assert!(swept.more, "as long as something is left it says so: {swept:?}");
        }
        assert_eq!(*kept.borrow(), [last]);
        assert_eq!(rows_of(&store, 1), 0);
        assert_eq!(steps == 1, step == 1000);
    }
}

/// A tree with a row that cannot be read stays as it is, is told of, and keeps no other; so does one
/// of which what has to be kept cannot be.
#[test]
fn a_damaged_tree_does_not_keep_others() {
    let retention = Retention { completed: AFTER_100, ..Retention::default() };
    let store = memory();
    for tree in 1..=3 {
        put(&store, tree, &[], &[1], Standing::Completed, 10 + tree);
        put(&store, tree, &[0], &[1, 1], Standing::Completed, 5);
    }
    let page = store.scan(&Scan::all(rows::EXECUTIONS, 10)).unwrap().value;
    let child = |tree: u64| {
        let root = key(tree, &[], &[1]);
        let of = |row: &&(Bytes, Bytes)| row.0.starts_with(root.execution_id().root().as_bytes());
        page.rows.iter().rfind(of).unwrap().clone()
    };
    let (row, value) = child(1);
    let mut broken = Batch::new();
    broken.put(rows::EXECUTIONS, row.clone(), value.slice(1..));
    store.try_submit(broken).unwrap();
    let second = key(2, &[], &[1]);
    let keep = |_: &Snapshot, root: &Execution, _: &mut Batch| {
        if root.key == second {
            let (table, key) = ("operations", Bytes::new());
            return Err(ReadError::Row { table, key, what: "it is of a newer version".into() });
        }
        Ok(())
    };
    for trees in [1, 0] {
        let swept = retention::sweep_keeping(&store, at(1000), &retention, 1000, &keep);
        let swept = block_on(swept).unwrap();
        assert_eq!((swept.trees, swept.unreadable.len()), (trees, 2), "{swept:?}");
        assert_eq!([1, 2, 3].map(|tree| rows_of(&store, tree)), [4, 4, 0]);
    }
    let mut mended = Batch::new();
    mended.put(rows::EXECUTIONS, row, value);
    store.try_submit(mended).unwrap();
    assert_eq!(block_on(retention::sweep(&store, at(1000), &retention, 1000)).unwrap().trees, 2);
    assert_sound(&store);
}

/// What is told of the rounds, on the thread of the background.
struct Told {
    now: Arc<AtomicU64>,
    said: std::sync::mpsc::Sender<String>,
}

impl Keeper for Told {
    fn now(&self) -> Timestamp {
        at(self.now.load(Ordering::SeqCst))
    }

    fn gone(&self, swept: &Swept, purged: &windows::Purged) {
        _ = self.said.send(format!("{} trees, {} records", swept.trees, purged.records));
    }

    fn failed(&self, why: &str) {
        _ = self.said.send(why.to_owned());
    }
}

/// The background tells what has gone and why it could not go on, purges records only when they are
/// late by what it was told (C-3), and ends when it is dropped.
#[test]
fn the_background_tells() {
    let store = memory();
    put(&store, 1, &[], &[1], Standing::Completed, 10);
    for (name, expires_at) in [("early", 899), ("in time", 900), ("late", 901)] {
        let id = windows::Id {
            kind: windows::Kind::Operation,
            namespace: indelible_journal::Namespace::new("shop").unwrap(),
            name: name.to_owned(),
        };
        let record = windows::Windowed { expires_at: Some(at(expires_at)), body: Bytes::new() };
        let mut batch = Batch::new();
        windows::replace(&mut batch, &id, None, Some(&record));
        store.try_submit(batch).unwrap();
    }
    let (said, heard) = std::sync::mpsc::channel();
    let plan = Plan {
        retention: Retention { completed: AFTER_100, ..Retention::default() },
        interval: std::time::Duration::from_millis(1),
        records_later: Micros::new(100),
    };
    let now = Arc::new(AtomicU64::new(1000));
    let told = Told { now: Arc::clone(&now), said };
    let background = Background::start(&store, plan, told).unwrap();
    assert_eq!(heard.recv().unwrap(), "1 trees, 2 records");
    assert_eq!(heard.recv().unwrap(), "0 trees, 0 records");
    assert_eq!(rows_of(&store, 1), 0);
    store.close().unwrap();
    // The last record may go now, and cannot.
    now.store(1001, Ordering::SeqCst);
    let why = heard.iter().find(|said| !said.ends_with("records")).unwrap();
    assert!(why.contains("closed"), "{why}");
    drop(background);
    // Whoever speaks is gone: this comes to an end.
    assert!(heard.iter().all(|said| said == why || said == "0 trees, 0 records"));
}
