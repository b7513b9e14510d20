//! Appends under a precondition, by many at once, and what is durable meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use indelible_store::{Batch, Bounds, Expect, Position, Store, SubmitError, Table, Write};

use crate::compare::{assert_same, dump, dump_backend};
use crate::gate::{Gate, Gated};
use crate::generate::TABLES;
use crate::model::{Model, State};
use crate::{Rng, Subject};

const HEADS: Table = TABLES[1];
const ENTRIES: Table = TABLES[0];
const JOURNALS: u8 = 3;
const LENGTH: u64 = 80;
const WRITERS: u8 = 4;

/// Many writers append to few journals, each at the length that it last read; exactly one wins each
/// length: no gap, no entry twice, in the order of positions. And what is durable is a prefix: once
/// a reader sees that a position is durable, the backend has every batch up to it, whole.
pub fn one_append_wins_each_length(subject: &mut dyn Subject, mut rng: Rng) {
    let open = Gated::open(subject, &TABLES, Bounds::DEFAULT);
    let (store, gate) = (&open.store, &*open.gate);
    let writing = AtomicBool::new(true);
    let (won, watched) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(store, gate, &writing));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| (writer, rng.fork()))
            .map(|(writer, rng)| scope.spawn(move || append(store, writer, rng)))
            .collect();
        let won: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        writing.store(false, Ordering::Release);
        let rethrow = |panic| std::panic::resume_unwind(panic);
        let won: Vec<_> = won.into_iter().flat_map(|won| won.unwrap_or_else(rethrow)).collect();
        (won, watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });

    let mut won = won;
    won.sort_by_key(|append| append.position);
    let mut lengths = BTreeMap::new();
    for append in &won {
        let length = lengths.entry(append.journal).or_insert(0);
        let Append { journal, position, .. } = append;
        assert_eq!(append.at, *length, "journal {journal} at position {position}");
        *length += 1;
    }
    assert_eq!(lengths, (0..JOURNALS).map(|journal| (journal, LENGTH)).collect());
    let log = won.into_iter().map(|append| (append.position, append.writes)).collect();
    let model = Model::of_log(log);
    assert_same(&dump(store, &TABLES), model.now(), "at the end");

    let at = |watched: &Watched| {
        // Each batch adds one entry, so the entries say which state this is.
        Position::new(watched.backend.rows(ENTRIES).count() as u64)
    };
    for (expected, watched) in model.states(watched.iter().map(at)).zip(&watched) {
        let (durable, at) = (watched.durable, at(watched));
        assert!(at >= durable, "{durable} is durable, and the backend is at {at}");
        assert_same(&watched.backend, &expected, &format!("the backend at {at}"));
    }
}

struct Append {
    journal: u8,
    at: u64,
    position: Position,
    writes: Vec<Write>,
}

/// Appends until all journals are full.
fn append(store: &Store, writer: u8, mut rng: Rng) -> Vec<Append> {
    let mut won = Vec::new();
    let mut lengths = [0; JOURNALS as usize];
    while lengths.iter().any(|length| *length < LENGTH) {
        let journal = u8::try_from(rng.below(lengths.len())).unwrap();
        let length = &mut lengths[usize::from(journal)];
        if *length == LENGTH {
            continue;
        }
        if rng.percent(30) {
            let head = store.get(HEADS, &[journal]).unwrap().value;
            let seen = head.as_deref().map_or(0, length_in);
            assert!(seen >= *length, "a journal became shorter");
            *length = seen;
            continue;
        }
        let expect = match *length {
            0 => Expect::Absent,
            length => Expect::Prefix(Bytes::copy_from_slice(&length.to_be_bytes())),
        };
        let entry = [&[journal][..], &length.to_be_bytes()].concat();
        let mut head = (*length + 1).to_be_bytes().to_vec();
        // The precondition compares a prefix of the row, so the row has more bytes after it.
        let more = rng.below(20);
        head.extend(rng.bytes(more));
        let mut batch = Batch::new();
        batch.expect(HEADS, vec![journal], expect);
        batch.put(ENTRIES, entry, vec![writer; 1 + rng.below(300)]);
        batch.put(HEADS, vec![journal], head);
        let writes = batch.writes().to_vec();
        match store.submit_blocking(batch) {
            Ok(position) => {
                won.push(Append { journal, at: *length, position, writes });
                *length += 1;
                if rng.percent(20) {
                    store.durable(position).wait().unwrap();
                    assert!(store.durable_now() >= position);
                }
            }
            Err(SubmitError::Refused(refusal)) => {
                let found = refusal.found.as_deref().map_or(0, length_in);
                assert!(found > *length, "refused at {length}, and it is {found} long");
                *length = found;
            }
            Err(error) => panic!("{error}"),
        }
    }
    won
}

fn length_in(head: &[u8]) -> u64 {
    u64::from_be_bytes(head[..8].try_into().unwrap())
}

/// What the backend showed when a position was known to be durable.
struct Watched {
    durable: Position,
    backend: State,
}

fn watch(store: &Store, gate: &Gate, writing: &AtomicBool) -> Vec<Watched> {
    let mut watched = Vec::new();
    while writing.load(Ordering::Acquire) || watched.is_empty() {
        store.durable(store.accepted()).wait().unwrap();
        let durable = store.durable_now();
        let backend = dump_backend(&*gate.rows_of(store), &TABLES);
        watched.push(Watched { durable, backend });
    }
    watched
}
