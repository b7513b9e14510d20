//! The contract of a backend by itself, without a pipeline over it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use indelible_store::backend::{Backend, BackendSnapshot, KeyRange, Lookup, LookupKind, Presence};
use indelible_store::{Direction, Row, Scan, Sequence, Table, Write};

use crate::compare::{assert_same, assert_same_page, brief, dump_backend};
use crate::gate::wait_until_applied;
use crate::generate::{self, TABLES};
use crate::model::State;
use crate::{Rng, Subject};

/// A snapshot taken while a commit runs shows all of it or nothing, over all tables; after the
/// commit is applied, all of it. A later snapshot never shows less.
pub fn a_commit_shows_whole_or_not_at_all(subject: &mut dyn Subject, mut rng: Rng) {
    const COMMITS: u64 = 80;
    const CHANGES_SEEN: u64 = 100;
    let backend = &*subject.open(&TABLES);
    let key = |i: u8| (TABLES[usize::from(i) % TABLES.len()], Bytes::from(vec![i]));
    let keys: Vec<_> = (0..30).map(key).collect();
    let writing = AtomicBool::new(true);
    let changes_seen = AtomicU64::new(0);
    thread::scope(|scope| {
        let look = || {
            let mut last = 0;
            while writing.load(Ordering::Acquire) {
                let snapshot = backend.snapshot().unwrap();
                let get = |(table, key): &(_, Bytes)| snapshot.get(table, key).unwrap();
                let got: Vec<_> = keys.iter().map(|key| number(get(key).as_ref())).collect();
                let dumped = dump_backend(&*snapshot, &TABLES);
                let scanned: Vec<_> = dumped.all().map(|(.., value)| number(Some(value))).collect();
                let whole = got.iter().chain(&scanned).all(|value| *value == got[0]);
                assert!(whole, "torn: got {got:?}, scanned {scanned:?}");
                assert!(got[0] >= last, "back from {last} to {}", got[0]);
                if got[0] > last {
                    changes_seen.fetch_add(1, Ordering::Relaxed);
                }
                last = got[0];
            }
        };
        let readers = [scope.spawn(look), scope.spawn(look)];
        let stop = Stop(&writing);
        let (mut commit, mut groups) = (0, Groups::default());
        // Until the readers have seen enough of it, or one has failed.
        while (commit < COMMITS || changes_seen.load(Ordering::Relaxed) < CHANGES_SEEN)
            && !readers.iter().any(thread::ScopedJoinHandle::is_finished)
        {
            commit += 1;
            let value = Bytes::from([&commit.to_be_bytes()[..], &rng.bytes(300)].concat());
            let write = |(table, key): &(Table, Bytes)| Write {
                table: *table,
                key: key.clone(),
                value: Some(value.clone()),
            };
            groups.commit(backend, &keys.iter().map(write).collect::<Vec<_>>());
            let snapshot = backend.snapshot().unwrap();
            for (table, key) in &keys {
                assert_eq!(number(backend.get(table, key).unwrap().as_ref()), commit);
                assert_eq!(number(snapshot.get(table, key).unwrap().as_ref()), commit);
            }
        }
        drop(stop);
        for reader in readers {
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    backend.close().unwrap();
}

/// The commits of a case, one after the other.
#[derive(Default)]
struct Groups(Sequence);

impl Groups {
    /// Commits the next group as the pipeline does, and waits until the rows have it.
    fn commit(&mut self, backend: &dyn Backend, writes: &[Write]) {
        self.0 = self.0.next();
        while let Err(error) = backend.commit(self.0, writes.to_vec()) {
            assert!(error.pauses(), "{error}");
            if backend.has_sequence(self.0).unwrap() == Presence::There {
                break;
            }
        }
        wait_until_applied(backend, self.0);
    }
}

/// Ends the readers when it is dropped, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn number(value: Option<&Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value[..8].try_into().unwrap()))
}

/// After any commits, also deletes of absent keys, `get`, `contains` and snapshots agree with the
/// model; a scan visits what is in its range, in order, and nothing more once the visitor breaks. A
/// snapshot does not change when a commit comes after it.
pub fn backend_reads_agree_with_the_model(subject: &mut dyn Subject, mut rng: Rng) {
    let backend = subject.open(&TABLES);
    let (mut state, mut groups) = (State::default(), Groups::default());
    for commit in 0..60 {
        let before = (backend.snapshot().unwrap(), state.clone());
        let writes = each_key_once(generate::batch(&mut rng, &state).writes());
        state.apply(&writes);
        groups.commit(&*backend, &writes);
        if rng.percent(5) {
            backend.reclaim(rng.pick(&TABLES)).unwrap();
        }
        for _ in 0..10 {
            let (table, key) = (*rng.pick(&TABLES), generate::key(&mut rng));
            let expected = state.get(table, &key);
            let what = format!("commit {commit}, {} {}", table.name(), brief(&key));
            let ask = |wanted| Lookup { table: &table, key: &key, wanted, found: None };
            let mut asked = [ask(LookupKind::Existence), ask(LookupKind::Value)];
            backend.look_up(&mut asked).unwrap();
            let [exists_too, found] = asked.map(|lookup| lookup.found);
            assert!(
                exists_too.is_some() == expected.is_some() && found == expected,
                "{what}: many"
            );
            let exists = backend.contains(&table, &key).unwrap();
            assert_eq!(exists, expected.is_some(), "{what}: contains");
            assert!(backend.get(&table, &key).unwrap() == expected, "{what}: get");
            let snapshot = backend.snapshot().unwrap();
            assert!(snapshot.get(&table, &key).unwrap() == expected, "{what}: snapshot");
        }
        check_scan(&mut rng, &*backend.snapshot().unwrap(), &state);
        check_scan(&mut rng, &*before.0, &before.1);
        assert_same(&dump_backend(&*before.0, &TABLES), &before.1, "the snapshot before a commit");
    }
    assert_same(&dump_backend(&*backend.snapshot().unwrap(), &TABLES), &state, "at the end");
    backend.close().unwrap();
}

/// As the pipeline does: of several writes to a key, only the last.
fn each_key_once(writes: &[Write]) -> Vec<Write> {
    let mut last: Vec<Write> = Vec::new();
    for write in writes {
        last.retain(|other| (other.table, &other.key) != (write.table, &write.key));
        last.push(write.clone());
    }
    last
}

fn check_scan(rng: &mut Rng, snapshot: &dyn BackendSnapshot, state: &State) {
    let (scan, keys) = generate::scan(rng, state);
    // The pipeline never asks for an inverted range.
    if !keys.can_contain_any() {
        return;
    }
    let enough = scan.rows_max.max(1);
    let rows = visited(snapshot, &scan.table, &scan.range, scan.direction, enough);
    let unbounded = indelible_store::Bounds { scan_bytes_max: usize::MAX, ..Default::default() };
    let expected = state.page(&keys, &Scan { rows_max: enough, ..scan.clone() }, &unbounded);
    let got = indelible_store::Page { rows, more: expected.more };
    assert_same_page(&got, &expected, || generate::words(&scan, &keys));
}

/// The rows of a scan whose visitor breaks after `enough` rows.
fn visited(
    snapshot: &dyn BackendSnapshot,
    table: &Table,
    range: &KeyRange,
    direction: Direction,
    enough: usize,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut visit = |key, value| {
        assert!(rows.len() < enough, "visited after the visitor broke");
        rows.push((key, value));
        if rows.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    snapshot.scan(table, range, direction, &mut visit).unwrap();
    rows
}

/// A commit that has returned is there when the backend is opened again, even if it was dropped
/// without a close, as in a crash. Over several rounds, no earlier commit is lost.
pub fn commits_need_no_close(subject: &mut dyn Subject, mut rng: Rng) {
    let (mut state, mut groups) = (State::default(), Groups::default());
    for opened in 0..5 {
        let backend = subject.open(&TABLES);
        let what = format!("opened {opened} times before");
        assert_same(&dump_backend(&*backend.snapshot().unwrap(), &TABLES), &state, &what);
        for _ in 0..20 {
            let writes = each_key_once(generate::batch(&mut rng, &state).writes());
            state.apply(&writes);
            groups.commit(&*backend, &writes);
        }
    }
}
