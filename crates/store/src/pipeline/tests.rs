//! Tests of the pipeline over a backend that can be held and made to fail.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;

use super::*;
use crate::backend::BackendSnapshot;
use crate::batch::{Expect, Write};
use crate::memory::MemoryBackend;
use crate::table::Shape;

const T: Table = Table::new(1, "t", Shape::Kept);
const U: Table = Table::new(2, "u", Shape::Churn);

/// What the next commits do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Held,
    Failing,
    Panicking,
}

/// A memory backend whose commits can be held back or made to fail, and which says what it wrote.
struct Gated {
    memory: MemoryBackend,
    gate: Mutex<Gate>,
    changed: Condvar,
    commits: Mutex<mpsc::Sender<Vec<Write>>>,
}

impl Gated {
    fn new() -> (Arc<Self>, mpsc::Receiver<Vec<Write>>) {
        let (commits, seen) = mpsc::channel();
        let gate = Self {
            memory: MemoryBackend::new(),
            gate: Mutex::new(Gate::Open),
            changed: Condvar::new(),
            commits: Mutex::new(commits),
        };
        (Arc::new(gate), seen)
    }

    fn set(&self, gate: Gate) {
        *self.gate.lock().unwrap() = gate;
        self.changed.notify_all();
    }
}

impl Backend for Gated {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.memory.get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        self.memory.snapshot()
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        _ = self.commits.lock().unwrap().send(writes.clone());
        let gate = self.changed.wait_while(self.gate.lock().unwrap(), |gate| *gate == Gate::Held);
        match *gate.unwrap() {
            Gate::Failing => Err(BackendError::Io {
                doing: "sync the disk",
                source: std::io::Error::other("it is gone"),
            }),
            Gate::Panicking => panic!("out of its mind"),
            Gate::Open | Gate::Held => self.memory.commit(sequence, writes),
        }
    }

    fn reclaim(&self, _table: &Table) -> Result<(), BackendError> {
        Ok(())
    }

    fn disk_bytes(&self, _table: &Table) -> u64 {
        0
    }
}

fn start(backend: Arc<Gated>, bounds: Bounds) -> Store {
    Store::start(backend, &[T, U], bounds).unwrap()
}

fn put(key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(T, key.to_owned(), value.to_owned());
    batch
}

/// Keys and values of a commit, without the pipeline's own row.
fn shown(writes: &[Write]) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let others = writes.iter().filter(|write| write.table != PIPELINE);
    others
        .map(|write| match &write.value {
            Some(value) => format!("{}={}", text(&write.key), text(value)),
            None => format!("-{}", text(&write.key)),
        })
        .collect()
}

/// Submitting does not wait for the disk; reads and preconditions see what is accepted, and say
/// at which position; nothing is durable before the backend says so.
#[test]
fn accepted_state_is_seen_before_it_is_durable() {
    let (backend, commits) = Gated::new();
    backend.set(Gate::Held);
    let store = start(Arc::clone(&backend), Bounds::DEFAULT);
    let first = store.try_submit(put("a", "1")).unwrap();
    commits.recv().unwrap(); // the first group is on its way to the disk
    let second = store.try_submit(put("a", "2")).unwrap();
    let third = store.try_submit(put("b", "3")).unwrap();
    assert_eq!((first.number(), second.number(), third.number()), (1, 2, 3));
    assert_eq!(store.durable_now(), Position::START);

    let seen = store.get(T, b"a").unwrap();
    assert_eq!((seen.value.as_deref(), seen.position), (Some(&b"2"[..]), third));
    let page = store.scan(&Scan::all(T, 10)).unwrap();
    assert_eq!(page.position, third);
    assert_eq!(page.value.rows, [("a".into(), "2".into()), ("b".into(), "3".into())]);

    // A precondition that the disk would meet, and accepted state does not.
    let mut stale = Batch::new();
    stale.put(T, "c", "4").expect(T, "b", Expect::Absent).expect(T, "a", Expect::Equal("1".into()));
    let SubmitError::Refused(refusal) = store.try_submit(stale).unwrap_err() else { panic!() };
    assert_eq!((refusal.index, refusal.found), (0, Some("3".into())));
    assert_eq!(refusal.position, third);
    assert_eq!(store.accepted(), third);
    assert_eq!(store.get(T, b"c").unwrap().value, None);

    backend.set(Gate::Open);
    store.durable(third).wait().unwrap();
    assert_eq!(store.durable_now(), third);
    assert_eq!(backend.memory.get(&T, b"b").unwrap().as_deref(), Some(&b"3"[..]));
}

/// Of a key written several times in a group the last write reaches the backend; a delete of a
/// key that is not on disk does not; a delete of one that is does. Groups are not merged.
#[test]
fn only_the_last_write_of_a_group_reaches_the_backend() {
    let (backend, commits) = Gated::new();
    backend.set(Gate::Held);
    let store = start(Arc::clone(&backend), Bounds::DEFAULT);
    store.try_submit(put("old", "0")).unwrap();
    assert_eq!(shown(&commits.recv().unwrap()), ["old=0"]);
    store.try_submit(put("a", "1")).unwrap();
    store.try_submit(put("a", "2")).unwrap();
    store.try_submit(put("gone", "1")).unwrap();
    let mut deletes = Batch::new();
    deletes.delete(T, "gone").delete(T, "never").delete(T, "old").put(U, "q", "x").delete(U, "q");
    let last = store.try_submit(deletes).unwrap();
    backend.set(Gate::Open);
    store.durable(last).wait().unwrap();
    assert_eq!(shown(&commits.recv().unwrap()), ["a=2", "-old"]);
    let position = backend.memory.get(&PIPELINE, POSITION_KEY).unwrap().unwrap();
    // Five batches in two groups.
    assert_eq!(
        position.as_ref(),
        [[0, 0, 0, 0, 0, 0, 0, 5], [0, 0, 0, 0, 0, 0, 0, 2]].as_flattened()
    );
    assert_eq!(last.number(), 5);
    let readings = store.readings();
    assert_eq!((readings.groups, readings.batches), (2, 5));
    assert_eq!((readings.writes_given, readings.writes_made), (9, 5));
}

/// A snapshot shows one position for ever, whatever is accepted, committed or deleted later.
#[test]
fn a_snapshot_stays_as_it_is() {
    let (backend, commits) = Gated::new();
    let store = start(Arc::clone(&backend), Bounds::DEFAULT);
    let position = store.try_submit(put("a", "backend")).unwrap();
    store.durable(position).wait().unwrap();
    commits.recv().unwrap();
    backend.set(Gate::Held);
    store.try_submit(put("b", "closing")).unwrap();
    commits.recv().unwrap();
    let position = store.try_submit(put("c", "open")).unwrap();
    let snapshot = store.snapshot().unwrap();
    let show = || {
        let page = snapshot.scan(&Scan::all(T, 10)).unwrap();
        assert_eq!(page.position, position);
        let single = snapshot.get(T, b"c").unwrap().value.unwrap();
        assert_eq!(single.as_ref(), b"open");
        page.value.rows
    };
    let before = show();
    assert_eq!(before.len(), 3);
    let mut change = Batch::new();
    change.delete(T, "a").delete(T, "b").put(T, "c", "later").put(T, "d", "later");
    let later = store.try_submit(change).unwrap();
    assert_eq!(show(), before);
    backend.set(Gate::Open);
    store.durable(later).wait().unwrap();
    assert_eq!(show(), before);
    assert_eq!(store.scan(&Scan::all(T, 10)).unwrap().value.rows.len(), 2);
}

/// When there is no room, `submit` waits and drops nothing; `try_submit` says so.
#[test]
fn callers_wait_for_room() {
    let (backend, commits) = Gated::new();
    backend.set(Gate::Held);
    let bounds = Bounds { waiting_batches_max: 2, ..Bounds::DEFAULT };
    let store = start(Arc::clone(&backend), bounds);
    store.try_submit(put("0", "")).unwrap();
    commits.recv().unwrap();
    store.try_submit(put("1", "")).unwrap();
    store.try_submit(put("2", "")).unwrap();
    let full = store.try_submit(put("3", "")).unwrap_err();
    assert!(matches!(full, SubmitError::Full { waiting: 2 }), "{full:?}");
    let waiting = std::thread::spawn({
        let store = store.clone();
        move || store.submit_blocking(put("3", "")).unwrap()
    });
    // A refused batch gives its room back.
    backend.set(Gate::Open);
    let position = waiting.join().unwrap();
    store.durable(position).wait().unwrap();
    let mut refused = put("4", "");
    refused.expect(T, "3", Expect::Absent);
    for _ in 0..5 {
        assert!(matches!(store.submit_blocking(refused.clone()), Err(SubmitError::Refused(_))));
    }
    assert_eq!(store.scan(&Scan::all(T, 10)).unwrap().value.rows.len(), 4);
}

/// A failed commit stops the store: waiting callers are told, every later call says why, and what
/// was not durable is not shown any more.
#[test]
fn a_failed_commit_poisons_the_store() {
    for (gate, words) in
        [(Gate::Failing, "sync the disk: it is gone"), (Gate::Panicking, "out of its mind")]
    {
        let (backend, commits) = Gated::new();
        let store =
            start(Arc::clone(&backend), Bounds { waiting_batches_max: 1, ..Bounds::DEFAULT });
        let kept = store.try_submit(put("kept", "1")).unwrap();
        store.durable(kept).wait().unwrap();
        commits.recv().unwrap();
        backend.set(Gate::Held);
        let failed = store.try_submit(put("a", "1")).unwrap();
        commits.recv().unwrap();
        let never = store.try_submit(put("b", "1")).unwrap();
        let snapshot = store.snapshot().unwrap();
        let without_room = std::thread::spawn({
            let store = store.clone();
            move || store.submit_blocking(put("c", "1"))
        });
        let waits = [store.durable(failed), store.durable(never)];
        let stopped = std::thread::spawn({
            let store = store.clone();
            move || blocking::block_on_driving(store.stopped(), || false)
        });
        backend.set(gate);
        for wait in waits {
            let lost = wait.wait().unwrap_err();
            assert!(matches!(&lost, Lost::Poisoned(poison) if poison.durable() == kept));
            assert!(lost.to_string().contains(words), "{lost}");
        }
        assert_eq!(stopped.join().unwrap().durable(), kept);
        let refused = without_room.join().unwrap().unwrap_err();
        assert!(matches!(refused, SubmitError::Poisoned(_)), "{refused:?}");
        assert!(matches!(store.try_submit(put("d", "1")), Err(SubmitError::Poisoned(_))));
        assert!(matches!(store.get(T, b"kept"), Err(ReadError::Poisoned(_))));
        assert!(matches!(store.snapshot(), Err(ReadError::Poisoned(_))));
        assert!(matches!(snapshot.get(T, b"b"), Err(ReadError::Poisoned(_))));
        assert!(matches!(store.durable(never).wait(), Err(Lost::Poisoned(_))));
        store.durable(kept).wait().unwrap();
        assert!(commits.try_recv().is_err(), "nobody writes over a failure");
        assert!(store.close().is_err());
    }
}

/// Closing commits what was accepted; later calls are told; a position from nowhere is not waited
/// for.
#[test]
fn closing_commits_what_was_accepted() {
    let (backend, _commits) = Gated::new();
    let store = start(Arc::clone(&backend), Bounds::DEFAULT);
    let handle = store.clone();
    let positions = (0..100).map(|i| store.try_submit(put(&i.to_string(), "x")).unwrap());
    let last = positions.max().unwrap();
    store.close().unwrap();
    assert_eq!(
        backend.memory.snapshot().unwrap().get(&T, b"99").unwrap().as_deref(),
        Some(&b"x"[..])
    );
    handle.durable(last).wait().unwrap();
    assert!(matches!(handle.try_submit(put("a", "1")), Err(SubmitError::Closed)));
    assert!(matches!(handle.submit_blocking(put("a", "1")), Err(SubmitError::Closed)));
    let beyond = handle.durable(Position::new(1000)).wait().unwrap_err();
    assert!(matches!(beyond, Lost::NeverAccepted { .. }), "{beyond:?}");

    // Positions go on where they were.
    let again = start(backend, Bounds::DEFAULT);
    assert_eq!(again.accepted(), last);
    assert_eq!(again.durable_now(), last);
}

/// No batch may write a table that the store was opened without, or the pipeline's own.
#[test]
fn unknown_tables_are_refused() {
    let (backend, _commits) = Gated::new();
    let store = start(backend, Bounds::DEFAULT);
    let other = Table::new(9, "other", Shape::Kept);
    for table in [other, PIPELINE] {
        let mut batch = Batch::new();
        batch.put(table, "a", "b");
        assert!(matches!(store.try_submit(batch), Err(SubmitError::UnknownTable(_))));
        let mut batch = Batch::new();
        batch.expect(table, "a", Expect::Absent);
        assert!(matches!(store.try_submit(batch), Err(SubmitError::UnknownTable(_))));
    }
    assert!(matches!(store.get(other, b"a"), Err(ReadError::UnknownTable("other"))));
    assert!(matches!(store.scan(&Scan::all(other, 1)), Err(ReadError::UnknownTable("other"))));
    assert_eq!(store.accepted(), Position::START);
}

/// A batch larger than a bound is refused and changes nothing; one as large as the bound goes
/// through although it needs all the room there is.
#[test]
fn the_largest_batch_goes_through() {
    let (backend, _commits) = Gated::new();
    let bounds = Bounds {
        value_bytes_max: 1 << 20,
        batch_bytes_max: 1 << 20,
        waiting_bytes_max: 1 << 20,
        ..Bounds::DEFAULT
    };
    let store = start(backend, bounds);
    let mut largest = Batch::new();
    largest.put(T, "k", vec![7; (1 << 20) - 1]);
    let mut larger = Batch::new();
    larger.put(T, "k", vec![7; 1 << 20]);
    for _ in 0..3 {
        store.submit_blocking(largest.clone()).unwrap();
        assert!(matches!(store.submit_blocking(larger.clone()), Err(SubmitError::OutOfBounds(_))));
    }
    let scan = Scan::all(T, bounds.scan_rows_max + 1);
    assert!(matches!(store.scan(&scan), Err(ReadError::OutOfBounds(_))));
}

/// A backend that commits a whole group whenever it is asked for a key, so that the read is out of
/// date. It counts the reads that are made under the store's lock.
#[derive(Default)]
struct Restless {
    memory: MemoryBackend,
    store: Mutex<Option<Store>>,
    gets_under_lock: AtomicU64,
    contains_under_lock: AtomicU64,
    snapshots: AtomicU64,
    snapshots_under_lock: AtomicU64,
}

impl Restless {
    fn asked(&self, under_lock: &AtomicU64) {
        let store = self.store.lock().unwrap();
        let Some(store) = store.as_ref() else { return };
        if store.shared.state.try_lock().is_err() {
            under_lock.fetch_add(1, Ordering::SeqCst);
            return;
        }
        store.try_submit(put("other", "1")).unwrap();
        assert!(store.step() && store.step());
    }
}

impl Backend for Restless {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.asked(&self.gets_under_lock);
        self.memory.get(table, key)
    }

    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool, BackendError> {
        self.asked(&self.contains_under_lock);
        Ok(self.memory.get(table, key)?.is_some())
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        let snapshot = self.memory.snapshot();
        self.snapshots.fetch_add(1, Ordering::SeqCst);
        self.asked(&self.snapshots_under_lock);
        snapshot
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        self.memory.commit(sequence, writes)
    }

    fn reclaim(&self, _table: &Table) -> Result<(), BackendError> {
        Ok(())
    }

    fn disk_bytes(&self, _table: &Table) -> u64 {
        0
    }
}

/// A batch that is overtaken again and again is at last decided under the lock: then only its
/// preconditions are read, and its deletes still take effect.
#[test]
fn who_is_overtaken_keeps_others_waiting_for_little() {
    let backend = Arc::new(Restless::default());
    let store =
        Store::start_by_hand(Arc::clone(&backend) as Arc<dyn Backend>, &[T, U], Bounds::DEFAULT);
    let store = store.unwrap();
    store.try_submit(put("old", "0")).unwrap();
    assert!(store.step() && store.step());
    *backend.store.lock().unwrap() = Some(store.clone());
    let mut batch = Batch::new();
    batch.expect(T, "old", Expect::Equal("0".into())).delete(T, "old").delete(T, "never");
    store.try_submit(batch.clone()).unwrap();
    let refused = store.try_submit(batch).unwrap_err();
    assert!(matches!(refused, SubmitError::Refused(_)), "{refused}");
    *backend.store.lock().unwrap() = None;
    assert_eq!(backend.gets_under_lock.load(Ordering::SeqCst), 2);
    assert_eq!(backend.contains_under_lock.load(Ordering::SeqCst), 0);
    while store.step() {}
    assert_eq!(backend.memory.get(&T, b"old").unwrap(), None);
    assert_eq!(store.scan(&Scan::all(T, 10)).unwrap().value.rows.len(), 1);
}

/// A snapshot is opened without the lock. One whose rows are older than a group that has left the
/// overlay is thrown away; after a few of them the next is opened under the lock.
#[test]
fn a_snapshot_that_is_overtaken_is_opened_again() {
    let backend = Arc::new(Restless::default());
    let store =
        Store::start_by_hand(Arc::clone(&backend) as Arc<dyn Backend>, &[T, U], Bounds::DEFAULT);
    let store = store.unwrap();
    store.try_submit(put("old", "0")).unwrap();
    assert!(store.step() && store.step());
    store.try_submit(put("open", "1")).unwrap();
    let read = AtomicU64::default();
    let opened = |snapshot: &Snapshot| {
        assert_eq!(snapshot.position(), store.accepted());
        let rows = snapshot.scan(&Scan::all(T, 10)).unwrap().value.rows;
        read.store(rows.len() as u64, Ordering::SeqCst);
        let count = |counter: &AtomicU64| counter.swap(0, Ordering::SeqCst);
        (count(&backend.snapshots), count(&backend.snapshots_under_lock))
    };
    assert_eq!(opened(&store.snapshot().unwrap()), (1, 0));
    assert_eq!(read.load(Ordering::SeqCst), 2);
    *backend.store.lock().unwrap() = Some(store.clone());
    let snapshot = store.snapshot().unwrap();
    *backend.store.lock().unwrap() = None;
    assert_eq!(opened(&snapshot), (UNLOCKED_READS_MAX as u64 + 1, 1));
    assert_eq!(read.load(Ordering::SeqCst), 3, "the groups that came in between are in it");
}

/// Groups are counted on from the row that every commit writes; a row of another length is damage.
#[test]
fn groups_are_counted_on() {
    let own = |value: &[u8]| Write {
        table: PIPELINE,
        key: Bytes::from_static(POSITION_KEY),
        value: Some(Bytes::copy_from_slice(value)),
    };
    let row = [7_u64.to_be_bytes(), 9_u64.to_be_bytes()].concat();
    let opened = |row: &[u8]| {
        let backend = Arc::new(MemoryBackend::new());
        backend.commit(Sequence::START.next(), vec![own(row)]).unwrap();
        Store::start_by_hand(backend, &[T], Bounds::DEFAULT)
    };
    let store = opened(&row).unwrap();
    assert_eq!(
        (store.durable_now(), store.durable_sequence()),
        (Position::new(7), Sequence::new(9))
    );
    let position = store.try_submit(put("a", "1")).unwrap();
    store.durable(position).wait().unwrap();
    assert_eq!((position, store.durable_sequence()), (Position::new(8), Sequence::new(10)));
    for broken in [&row[1..], &row[..8], &[]] {
        let damaged = opened(broken).unwrap_err();
        assert!(matches!(damaged, StartError::Backend(BackendError::Damaged { .. })), "{damaged}");
    }
}

fn by_hand(backend: &Arc<Gated>, bounds: Bounds) -> Store {
    Store::start_by_hand(Arc::clone(backend) as Arc<dyn Backend>, &[T, U], bounds).unwrap()
}

/// Without a writer nothing reaches the disk by itself: the first step takes what is accepted,
/// the second commits it, and what is accepted in between is the next group's.
#[test]
fn a_store_by_hand_does_nothing_by_itself() {
    let (backend, commits) = Gated::new();
    let store = by_hand(&backend, Bounds::DEFAULT);
    assert!(!store.step(), "there is nothing to do");
    let first = store.submit_blocking(put("a", "1")).unwrap();
    assert!(store.step());
    let second = store.submit_blocking(put("a", "2")).unwrap();
    assert_eq!(store.durable_now(), Position::START, "it is only taken");
    assert_eq!(store.get(T, b"a").unwrap().value.as_deref(), Some(&b"2"[..]));
    assert!(commits.try_recv().is_err(), "nothing was written");
    assert!(store.step());
    assert_eq!(store.durable_now(), first);
    assert_eq!(shown(&commits.try_recv().unwrap()), ["a=1"]);
    assert!(store.step() && store.step() && !store.step());
    assert_eq!(store.durable_now(), second);
    assert_eq!(shown(&commits.try_recv().unwrap()), ["a=2"]);
}

/// A caller that waits on the only thread drives the store: for room, and for the disk.
#[test]
fn whoever_waits_drives_a_store_by_hand() {
    let (backend, _commits) = Gated::new();
    let store = by_hand(&backend, Bounds { waiting_batches_max: 2, ..Bounds::DEFAULT });
    let mut last = Position::START;
    for number in 0..10 {
        last = store.submit_blocking(put(&number.to_string(), "x")).unwrap();
    }
    assert_eq!(last.number(), 10);
    assert!(store.durable_now() > Position::START, "there was not room for all");
    store.durable(last).wait().unwrap();
    assert_eq!(store.durable_now().number(), 10);
}

/// What was accepted is committed at the end, once, and the backend is closed; a disk that fails
/// stops a store by hand like any other.
#[test]
fn a_store_by_hand_ends_like_any_other() {
    let (backend, commits) = Gated::new();
    let store = by_hand(&backend, Bounds::DEFAULT);
    store.submit_blocking(put("a", "1")).unwrap();
    store.step();
    store.submit_blocking(put("b", "2")).unwrap();
    store.close().unwrap();
    let all: Vec<_> = commits.try_iter().map(|writes| shown(&writes)).collect();
    assert_eq!(all, [["a=1"], ["b=2"]]);

    let store = by_hand(&backend, Bounds::DEFAULT);
    backend.set(Gate::Failing);
    let lost = store.submit_blocking(put("c", "3")).unwrap();
    let waiting = store.durable(lost);
    assert!(store.step() && store.step() && !store.step());
    assert!(matches!(waiting.wait(), Err(Lost::Poisoned(_))));
    assert!(matches!(store.submit_blocking(put("d", "4")), Err(SubmitError::Poisoned(_))));
    store.close().unwrap_err();
}
