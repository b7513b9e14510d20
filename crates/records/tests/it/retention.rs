//! What a sweep takes, in which order, and what a reader finds meanwhile.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use indelible_journal::{Journal, Micros, Timestamp};
use indelible_records::check;
use indelible_records::executions::{self, Execution, Standing};
use indelible_records::retention::{self, Background, Keeper, Plan, Retention, SweepReport};
use indelible_records::{journals, retention_clock, timers, windows};
use indelible_slots::Slot;
use indelible_store::backend::{Backend, BackendError, BackendSnapshot, KeyRange, Visit};
use indelible_store::memory::MemoryBackend;
use indelible_store::{
    Batch, Bounds, Direction, ReadError, Scan, Sequence, Snapshot, Store, SubmitError, Table, Write,
};

use crate::support::{operation_record, operation_row};
use indelible_test_store::rows::{Run, at, key, put_clock};

fn memory() -> Store {
    Store::start(Arc::new(MemoryBackend::new()), &indelible_records::TABLES, Bounds::DEFAULT)
        .unwrap()
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
    count(indelible_records::EXECUTIONS).len() + count(indelible_records::JOURNALS).len()
}

fn assert_sound(store: &Store) {
    assert_sound_but(store, 0);
}

/// So much is wrong.
fn assert_sound_but(store: &Store, problems: u64) {
    let findings = check::check(store, &mut |_| {}).unwrap();
    assert_eq!(findings.problems_count, problems, "{:?}", findings.problems);
}

const AFTER_100: Option<Micros> = Some(Micros::new(100));
const COMPLETED: Retention = Retention { completed: AFTER_100, failed: None, cancelled: None };

/// A step of so many rows, when everything is past its time.
fn sweep(store: &Store, retention: &Retention, rows: usize) -> SweepReport {
    block_on(retention::sweep(store, at(1000), retention, rows)).unwrap()
}

/// A record of an operation that may go at this time.
fn put_record(store: &Store, name: &str, expires_at: u64, end: impl Into<Bytes>) {
    let record = operation_record(Some(expires_at), None, end);
    let mut batch = Batch::new();
    windows::replace(&mut batch, &operation_row(name), None, Some(&record));
    store.submit_blocking(batch).unwrap();
}

/// Takes bytes off the value of a row. What it was.
fn damage(store: &Store, table: Table, key: &Bytes) -> Bytes {
    let value = store.get(table, key).unwrap().value.unwrap();
    let mut broken = Batch::new();
    broken.put(table, key.clone(), value.slice(1..));
    store.submit_blocking(broken).unwrap();
    value
}

fn count(store: &Store, table: Table) -> usize {
    store.scan(&Scan::all(table, 10_000)).unwrap().value.rows.len()
}

/// A root of this tree begins, if it may.
fn begin(store: &Store, tree: u64, now: u64) -> Result<Run, SubmitError> {
    let mut run = Run::start(tree, &key(tree, &[], &[1]), "order", at(now));
    let mut batch = Batch::new();
    run.flush(&mut batch);
    store.try_submit(batch).map(|_| run)
}

/// A root that failed and returned at its next attempt has returned: it goes by that window, counted
/// from that end, and no other. What ended as Indeterminate goes with what failed.
#[test]
fn a_tree_goes_by_how_its_root_ended() {
    let sweep = |store: &Store, now, retention: &Retention| -> SweepReport {
        block_on(retention::sweep(store, at(now), retention, 1000)).unwrap()
    };
    let of_failed = Retention { failed: AFTER_100, ..Retention::default() };
    let of_completed = Retention { completed: AFTER_100, ..Retention::default() };
    let store = memory();
    put(&store, 1, &[], &[1], Standing::Failed, 10);
    put(&store, 1, &[], &[2], Standing::Failed, 20);
    put(&store, 1, &[], &[3], Standing::Completed, 500);
    put(&store, 2, &[], &[1], Standing::Indeterminate, 500);
    assert_eq!(sweep(&store, 599, &of_failed), SweepReport::default());
    assert_eq!(sweep(&store, 599, &of_completed), SweepReport::default());
    assert_eq!(sweep(&store, 600, &of_failed).trees, 1);
    assert_eq!((rows_of(&store, 1), rows_of(&store, 2)), (6, 0));
    assert_sound(&store);
    assert_eq!(sweep(&store, 600, &of_completed).trees, 1);
    assert_eq!(rows_of(&store, 1), 0);
    let left = store.scan(&Scan::all(indelible_records::FINISHED, 10)).unwrap().value;
    assert!(left.rows.is_empty(), "{left:?}");
    assert_sound(&store);
}

/// A reader between two steps finds the last attempt at a root or none: never an earlier one, whose
/// end is not the tree's. What is kept of it is written when it goes, once, in the same batch.
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
        let asked = RefCell::new(Vec::new());
        let keep = |_: &Snapshot, root: &Execution, batch: &mut Batch| {
            asked.borrow_mut().push(root.key.clone());
            batch.touch(Slot::SERVER);
            put_clock(batch, 30);
            Ok(())
        };
        let mut steps = 0;
        loop {
            let swept = retention::sweep_keeping(&store, at(1000), &retention, step, &keep);
            let swept = block_on(swept).unwrap();
            assert_sound(&store);
            steps += 1;
            let latest = executions::latest(&store, root.execution_id()).unwrap().value;
            let is_kept = retention_clock::get(&store).unwrap().value.is_some();
            assert_eq!(latest.map(|row| row.key), (!is_kept).then(|| last.clone()));
            if swept.trees == 1 {
                break;
            }
            assert!(swept.more, "as long as something is left it says so: {swept:?}");
        }
        assert!(asked.borrow().iter().all(|key| *key == last), "{asked:?}");
        assert_eq!(rows_of(&store, 1), 0);
        assert_eq!(steps == 1, step == 1000);
    }
}

/// A tree with a row that cannot be read stays as it is, is told of, and keeps no other; so does one
/// of which what has to be kept cannot be.
#[test]
fn a_damaged_tree_does_not_keep_others() {
    let store = memory();
    for tree in 1..=3 {
        put(&store, tree, &[], &[1], Standing::Failed, 10);
        put(&store, tree, &[], &[2], Standing::Completed, 10 + tree);
        put(&store, tree, &[0], &[2, 1], Standing::Completed, 5);
    }
    let page = store.scan(&Scan::all(indelible_records::EXECUTIONS, 10)).unwrap().value;
    let child = |tree: u64| {
        let root = key(tree, &[], &[1]);
        let of = |row: &&(Bytes, Bytes)| row.0.starts_with(root.execution_id().root().as_bytes());
        page.rows.iter().rfind(of).unwrap().clone()
    };
    let (row, value) = child(1);
    damage(&store, indelible_records::EXECUTIONS, &row);
    let second = key(2, &[], &[2]);
    let keep = |_: &Snapshot, root: &Execution, _: &mut Batch| {
        if root.key == second {
            let (table, key) = ("operations", Bytes::new());
            return Err(ReadError::Row { table, key, what: "it is of a newer version".into() });
        }
        Ok(())
    };
    for trees in [1, 0] {
        let swept = retention::sweep_keeping(&store, at(1000), &COMPLETED, 1000, &keep);
        let swept = block_on(swept).unwrap();
        assert_eq!((swept.trees, swept.unreadable.len()), (trees, 2), "{swept:?}");
        assert_eq!([1, 2, 3].map(|tree| rows_of(&store, tree)), [6, 6, 0]);
    }
    assert_eq!(store.damage().places(), 2, "each is noted, once");
    let mut mended = Batch::new();
    mended.put(indelible_records::EXECUTIONS, row, value);
    store.try_submit(mended).unwrap();
    assert_eq!(sweep(&store, &COMPLETED, 1000).trees, 2);
    assert_sound(&store);
}

/// A tree that fits into a step goes in one batch: a reader finds it whole or not at all. One that
/// does not fit begins a step of its own.
#[test]
fn what_fits_goes_at_once() {
    let store = memory();
    for tree in 1..=8 {
        put(&store, tree, &[], &[1], Standing::Completed, 10 + tree);
        put(&store, tree, &[0], &[1, 1], Standing::Completed, 5);
    }
    // The last one is larger.
    for child in 1..10 {
        put(&store, 8, &[child], &[1, 1], Standing::Completed, 5);
    }
    let mut parts = Vec::new();
    loop {
        let swept = sweep(&store, &COMPLETED, 25);
        assert_sound(&store);
        parts.push(swept.trees);
        for tree in 1..=7 {
            assert!([0, 4].contains(&rows_of(&store, tree)), "tree {tree}");
        }
        let is_begun = rows_of(&store, 8) < 22;
        assert!(!is_begun || (1..=7).all(|tree| rows_of(&store, tree) == 0));
        if !swept.more {
            break;
        }
    }
    assert_eq!(parts, [2, 2, 2, 1, 0, 1]);
    assert_eq!(count(&store, indelible_records::FINISHED), 0);
}

/// D1: no root begins over what is left of an earlier one, whatever a sweep has come to; then it
/// begins, and has no events but its own.
#[test]
fn nothing_begins_over_what_is_left() {
    for step in [1, 2, 5, 8, 1000] {
        let store = memory();
        for attempt in 1..=3 {
            let mut run = Run::start(1, &key(1, &[], &[attempt]), "order", at(1));
            for now in 2..6 {
                run.work(at(now), 1);
                run.submit(&store);
            }
            let end = if attempt == 3 { Standing::Completed } else { Standing::Failed };
            run.end(at(10), end);
            run.submit(&store);
            put(&store, 1, &[0], &[attempt, 1], Standing::Completed, 7);
        }
        let mut steps = 0;
        while sweep(&store, &COMPLETED, step).trees == 0 {
            steps += 1;
            assert!(steps < 100, "it comes to an end");
            let refused = begin(&store, 1, 2000).map(|run| run.row()).unwrap_err();
            assert!(matches!(refused, SubmitError::Refused(_)), "after {steps}: {refused}");
        }
        let mut run = begin(&store, 1, 2000).unwrap();
        assert_eq!(sweep(&store, &COMPLETED, step), SweepReport::default());
        run.end(at(2001), Standing::Completed);
        run.submit(&store);
        let events = journals::read(&store, run.key(), 0, 100).unwrap().value;
        assert_eq!(Journal::recover(run.key().clone(), events.records).unwrap(), run.journal);
        // Its own time counts.
        assert_eq!(sweep(&store, &COMPLETED, step), SweepReport::default());
        assert_sound(&store);
    }
}

/// D12: what was begun comes to its end, whatever is to be kept by then; the entry that leads to it
/// has these bytes, for ever.
#[test]
fn what_was_begun_comes_to_its_end() {
    for (retention, step) in [(Retention::default(), 3), (COMPLETED, 3), (COMPLETED, 1000)] {
        let store = memory();
        put(&store, 1, &[], &[1], Standing::Failed, 5);
        put(&store, 1, &[], &[2], Standing::Completed, 10);
        put(&store, 1, &[0], &[2, 1], Standing::Completed, 5);
        assert!(sweep(&store, &COMPLETED, 1).more);
        let mut entry = vec![0; 9];
        entry.extend_from_slice(key(1, &[], &[1]).execution_id().root().as_bytes());
        entry.extend([0, 0, 0, 0, 1]);
        let first = store.scan(&Scan::all(indelible_records::FINISHED, 1)).unwrap().value.rows;
        assert_eq!(first, [(Bytes::from(entry), Bytes::new())]);
        let mut trees = 0;
        while trees == 0 {
            let swept = sweep(&store, &retention, step);
            assert!(swept.rows > 0, "{swept:?}");
            trees = swept.trees;
            assert_sound(&store);
        }
        assert_eq!(
            (trees, rows_of(&store, 1), count(&store, indelible_records::FINISHED)),
            (1, 0, 0)
        );
    }
}

/// An entry of a tree that has lost its executions is damage: it stays, with what is left of the tree,
/// is told of, and keeps no other tree.
#[test]
fn an_entry_without_executions_is_damage() {
    let store = memory();
    for tree in 1..=2 {
        put(&store, tree, &[], &[1], Standing::Completed, 10);
    }
    let root = key(1, &[], &[1]).execution_id().root().as_bytes().to_vec();
    let scan = Scan::prefix(indelible_records::EXECUTIONS, root, 10);
    let rows = store.scan(&scan).unwrap().value.rows;
    let mut lost = Batch::new();
    lost.delete(indelible_records::EXECUTIONS, rows[0].0.clone());
    store.try_submit(lost).unwrap();
    // The entries of four indexes, and its journal.
    assert_sound_but(&store, 5);
    let swept = sweep(&store, &COMPLETED, 1000);
    assert_eq!((swept.trees, swept.unreadable.len()), (1, 1), "{swept:?}");
    assert!(swept.unreadable[0].contains("it points to a row that does not exist"), "{swept:?}");
    assert_eq!([1, 2].map(|tree| rows_of(&store, tree)), [1, 0]);
    assert_sound_but(&store, 5);
}

/// Timers that an execution left when it ended are no damage when its tree is gone, or going; one of
/// an execution that is missing from a tree is.
#[test]
fn timers_may_outlive_their_tree() {
    let store = memory();
    let mut batch = Batch::new();
    for attempts in [&[1][..], &[2]] {
        put(&store, 1, &[], attempts, Standing::Completed, 10);
        let timer = |key, child| timers::Timer { due: at(5000), key, child: Some(child) };
        timers::put(&mut batch, &timer(key(1, &[], attempts), 7));
        put(&store, 1, &[0], &[attempts[0], 1], Standing::Completed, 5);
        timers::put(&mut batch, &timer(key(1, &[0], &[attempts[0], 1]), 8));
    }
    store.try_submit(batch).unwrap();
    assert_sound(&store);
    while sweep(&store, &COMPLETED, 1).trees == 0 {
        assert_sound(&store);
    }
    assert_sound(&store);
    assert_eq!(count(&store, indelible_records::TIMERS), 4);
    put(&store, 1, &[], &[1], Standing::Completed, 2000);
    assert_sound_but(&store, 3);
}

/// A step may be as large as a scan, and a larger one is cut to that.
#[test]
fn a_step_is_as_large_as_a_scan() {
    for (rows_max, scan_rows_max) in [(10_000, 10_000), (usize::MAX, 1_000)] {
        let bounds = Bounds { scan_rows_max, ..Bounds::DEFAULT };
        let store =
            Store::start(Arc::new(MemoryBackend::new()), &indelible_records::TABLES, bounds)
                .unwrap();
        put(&store, 1, &[], &[1], Standing::Completed, 10);
        while sweep(&store, &COMPLETED, rows_max).more {}
        assert_eq!(store.scan(&Scan::all(indelible_records::JOURNALS, 1)).unwrap().value.rows, []);
    }
}

/// C-3: a record that cannot be read stays, is told of, and keeps no other, however few are purged at
/// a time.
#[test]
fn a_damaged_record_does_not_keep_others() {
    for limit in [1, 2, 10] {
        let store = memory();
        for number in 0..5_u64 {
            put_record(&store, &number.to_string(), 100 + number, "the outcome");
        }
        let records = store.scan(&Scan::all(indelible_records::OPERATIONS, 10)).unwrap().value.rows;
        let broken = [0, 2].map(|at| {
            (&records[at].0, damage(&store, indelible_records::OPERATIONS, &records[at].0))
        });
        let mut strange = Batch::new();
        strange.put(indelible_records::EXPIRIES, vec![0; 20], "");
        store.try_submit(strange).unwrap();
        let mut records = 0;
        loop {
            let purged = block_on(windows::purge(&store, at(1000), limit)).unwrap();
            assert!(purged.records <= limit);
            records += purged.records;
            if !purged.more {
                assert_eq!(purged.unreadable.len(), 3, "{purged:?}");
                break;
            }
        }
        assert_eq!((records, count(&store, indelible_records::OPERATIONS)), (3, 2));
        assert_eq!(store.damage().places(), 3, "each is noted, once");
        for (key, value) in broken {
            let mut mended = Batch::new();
            mended.put(indelible_records::OPERATIONS, key.clone(), value);
            store.try_submit(mended).unwrap();
        }
        let purged = block_on(windows::purge(&store, at(1000), 10)).unwrap();
        assert_eq!((purged.records, purged.unreadable.len()), (2, 1));
    }
}

/// Records hold outcomes, and those may be large: a purge takes a bounded number of bytes, and one
/// record at least.
#[test]
fn a_purge_is_bounded_in_bytes() {
    const MIB: usize = 1 << 20;
    let store = memory();
    for number in 0..10_u64 {
        put_record(&store, &number.to_string(), 100 + number, vec![7; MIB]);
    }
    put_record(&store, "larger than a step", 110, vec![7; 20 * MIB]);
    put_record(&store, "small", 111, vec![7; 10]);
    let mut records = Vec::new();
    loop {
        let purged = block_on(windows::purge(&store, at(1000), 100)).unwrap();
        assert!(purged.bytes > purged.records * 10, "{purged:?}");
        records.push(purged.records);
        if !purged.more {
            break;
        }
    }
    assert_eq!(records, [4, 4, 3, 1]);
    assert_eq!(
        (count(&store, indelible_records::OPERATIONS), count(&store, indelible_records::EXPIRIES)),
        (0, 0)
    );
}

/// A backend that says what is done with it, and cannot read a table.
#[derive(Default)]
struct Watched {
    memory: MemoryBackend,
    unreadable: Option<Table>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Rows that scans of `finished_trees` and `expiries` went over.
    entries: AtomicUsize,
    /// The most writes in a commit.
    writes: AtomicUsize,
    reclaimed: Mutex<Vec<&'static str>>,
}

struct WatchedSnapshot {
    memory: Box<dyn BackendSnapshot>,
    unreadable: Option<Table>,
    seen: Arc<Seen>,
}

impl Backend for Watched {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.memory.get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        let (unreadable, seen) = (self.unreadable, Arc::clone(&self.seen));
        let memory = self.memory.snapshot()?;
        Ok(Box::new(WatchedSnapshot { memory, unreadable, seen }))
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        self.seen.writes.fetch_max(writes.len(), Ordering::SeqCst);
        self.memory.commit(sequence, writes)
    }

    fn reclaim(&self, table: &Table) -> Result<(), BackendError> {
        self.seen.reclaimed.lock().unwrap().push(table.name());
        Ok(())
    }

    fn disk_bytes(&self, _table: &Table) -> u64 {
        0
    }
}

impl BackendSnapshot for WatchedSnapshot {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.memory.get(table, key)
    }

    fn scan(
        &self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), BackendError> {
        if self.unreadable == Some(*table) {
            return Err(BackendError::Damaged { what: "it is worn out".to_owned() });
        }
        let counted = [indelible_records::FINISHED, indelible_records::EXPIRIES].contains(table);
        self.memory.scan(table, range, direction, &mut |key, value| -> ControlFlow<()> {
            self.seen.entries.fetch_add(usize::from(counted), Ordering::SeqCst);
            visit(key, value)
        })
    }
}

fn watched(unreadable: Option<Table>) -> (Store, Arc<Seen>) {
    let backend = Watched { unreadable, ..Watched::default() };
    let seen = Arc::clone(&backend.seen);
    (Store::start(Arc::new(backend), &indelible_records::TABLES, Bounds::DEFAULT).unwrap(), seen)
}

/// A round of the background at 1000: what was said, and why it failed.
fn round(store: &Store, retention: Retention, apart: bool) -> (Vec<String>, Option<String>) {
    let (said, heard) = std::sync::mpsc::channel();
    let interval = std::time::Duration::from_secs(3600);
    let plan = Plan { retention, interval, records_later: Micros::ZERO, apart };
    let told = Told { now: Arc::new(AtomicU64::new(1000)), said };
    let background = Background::start(store, plan, told).unwrap();
    background.wait_for_rounds(1);
    let (_, failure) = background.rounds();
    drop(background);
    (heard.iter().collect(), failure)
}

/// In the background, what cannot be read keeps nothing else: neither a record nor a whole table,
/// whichever it is.
#[test]
fn what_cannot_be_read_stops_nothing_else() {
    for unreadable in [None, Some(indelible_records::EXPIRIES), Some(indelible_records::FINISHED)] {
        let (store, _) = watched(unreadable);
        for tree in 1..=100 {
            put(&store, tree, &[], &[1], Standing::Completed, 10);
        }
        for number in 0..300_u64 {
            put_record(&store, &number.to_string(), 100 + number, "");
        }
        let records = store.scan(&Scan::all(indelible_records::OPERATIONS, 1)).unwrap().value.rows;
        damage(&store, indelible_records::OPERATIONS, &records[0].0);
        let (said, failure) = round(&store, COMPLETED, false);
        let left = (
            count(&store, indelible_records::EXECUTIONS),
            count(&store, indelible_records::OPERATIONS),
        );
        let told = said.iter().filter(|said| said.contains("its checksum does not match")).count();
        match unreadable {
            None => assert_eq!((left, told, failure), ((0, 1), 1, None)),
            Some(table) => {
                let why = failure.unwrap();
                assert!(why.contains(table.name()) && why.contains("worn out"), "{why}");
                let (trees, records) =
                    if table == indelible_records::EXPIRIES { (0, 300) } else { (100, 1) };
                assert_eq!((left, said.last()), ((trees, records), Some(&why)));
            }
        }
    }
}

/// What was purged counts as space to give back, and so do the tables that it was in.
#[test]
fn purged_space_is_given_back() {
    let (store, seen) = watched(None);
    for number in 0..5_u64 {
        put_record(&store, &number.to_string(), 100, vec![7; 4 << 20]);
    }
    assert_eq!(round(&store, Retention::default(), false).1, None);
    let reclaimed = seen.reclaimed.lock().unwrap();
    for table in [
        indelible_records::OPERATIONS,
        indelible_records::IDEMPOTENCY_KEYS,
        indelible_records::EXPIRIES,
        indelible_records::JOURNALS,
    ] {
        assert!(reclaimed.contains(&table.name()), "{} {reclaimed:?}", table.name());
    }
}

/// A round looks at an entry once, though it takes many steps: also at those that stay. Steps are
/// small: what others submit waits for no more than that.
#[test]
fn a_round_looks_once() {
    let (store, seen) = watched(None);
    for tree in 0..500 {
        // It failed first, and that entry stays as long as the tree.
        put(&store, tree, &[], &[1], Standing::Failed, 10);
        put(&store, tree, &[], &[2], Standing::Completed, 20);
    }
    for tree in 500..900 {
        put(&store, tree, &[], &[1], Standing::Failed, 30);
    }
    // One of them is larger than many steps.
    for child in 0..500 {
        put(&store, 700, &[child], &[1, 1], Standing::Completed, 20);
    }
    for number in 0..900_u64 {
        put_record(&store, &number.to_string(), 100, "");
    }
    let records = store.scan(&Scan::all(indelible_records::OPERATIONS, 500)).unwrap().value.rows;
    for (record, _) in records {
        damage(&store, indelible_records::OPERATIONS, &record);
    }
    store.durable(store.accepted()).wait().unwrap();
    seen.entries.store(0, Ordering::SeqCst);
    seen.writes.store(0, Ordering::SeqCst);
    let retention = Retention { failed: AFTER_100, ..Retention::default() };
    let (said, failure) = round(&store, retention, false);
    assert_eq!(failure, None);
    assert_eq!(
        (count(&store, indelible_records::EXECUTIONS), count(&store, indelible_records::JOURNALS)),
        (1000, 1000)
    );
    assert_eq!(count(&store, indelible_records::OPERATIONS), 500);
    assert_sound_but(&store, 500);
    let steps = said.iter().filter(|said| said.ends_with("records")).count();
    assert!(steps > 15, "{steps}");
    // Each step reads a page of which it may use a part.
    let looked = seen.entries.load(Ordering::SeqCst);
    assert!(looked < 2 * (900 + 900) + 200 * steps, "{looked} in {steps} steps");
    let writes = seen.writes.load(Ordering::SeqCst);
    assert!(writes < 500, "{writes}");
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

    fn count_deleted(&self, swept: &SweepReport, purged: &windows::PurgeReport) {
        for why in &purged.unreadable {
            _ = self.said.send(why.clone());
        }
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
        put_record(&store, name, expires_at, "");
    }
    let (said, heard) = std::sync::mpsc::channel();
    let plan = Plan {
        retention: Retention { completed: AFTER_100, ..Retention::default() },
        interval: std::time::Duration::from_millis(1),
        records_later: Micros::new(100),
        apart: false,
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
    // The background held the sender and is dropped: the channel comes to an end.
    assert!(heard.iter().all(|said| said == why || said == "0 trees, 0 records"));
}

/// D13: sweeps and purges go by slot if they have to, and delete the same; each batch then has rows
/// of one slot, which the store checks in a debug build.
#[test]
fn slots_go_apart() {
    let left = [false, true].map(|apart| {
        let (store, _) = watched(None);
        for tree in 1..=50 {
            put(&store, tree, &[], &[1], Standing::Completed, 10);
            put(&store, tree, &[0], &[1, 1], Standing::Completed, 10);
        }
        for number in 0..100_u64 {
            put_record(&store, &number.to_string(), 100 + number, "");
        }
        put_record(&store, "later", 5000, "");
        store.durable(store.accepted()).wait().unwrap();
        let before = store.readings().batches;
        let (_, failure) = round(&store, COMPLETED, apart);
        assert_eq!(failure, None);
        let batches = store.readings().batches - before;
        assert_eq!(batches > 100, apart, "{batches}");
        indelible_records::TABLES.map(|table| count(&store, table))
    });
    assert_eq!(left[0], left[1]);
    assert_eq!(left[0].iter().sum::<usize>(), 2, "the one that is due later, and its entry");
}
