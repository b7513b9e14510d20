//! Formats are for ever (D12): rows and a data folder that were written once must still read.
//! `INDELIBLE_REWRITE=1` writes them anew; a difference in an old version is a mistake.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the test reads its fixtures")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use indelible_journal::{ComponentDigest, DeliveryId, Journal, Namespace, OperationId};
use indelible_records::check;
use indelible_records::executions::Standing;
use indelible_records::idempotency_keys::{Answer, KeyOutcome, KeyRecord};
use indelible_records::listing::{self, Filter};
use indelible_records::operations::Operation;
use indelible_records::windows::{self, Id, WindowedRecord};
use indelible_records::{
    self, Room, audit, components, doubts, executions, journals, outbox, queue, retention_clock,
    timers,
};
use indelible_slots::Slot;
use indelible_store::embedded::{self, Create, FolderError, OpenError, Options};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, Scan, Store};

use indelible_test_store::rows::{Run, at, audit_entry, held, key, put_clock};

use crate::support::{key_record, operation_record, operation_row, shop};
use crate::{delivery, ledger};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn rewrites() -> bool {
    std::env::var("INDELIBLE_REWRITE").is_ok()
}

/// The rows of format 2, the first that binds.
const ROWS: &str = "rows-v2.txt";

/// One whose tree is gone, and one that a key led to and that goes on.
fn operations() -> [(Id, WindowedRecord<Operation>); 2] {
    let line = format!(
        "{{\"v\":2,\"execution\":\"{}@1\",\"sequence\":7,\
         \"timestamp\":\"2026-01-02T03:04:05.000006Z\",\"event\":\"ExecutionCompleted\",\
         \"data\":{{\"result\":{{\"codec\":\"json\",\"value\":[1]}}}}}}\n",
        key(1, &[], &[1]).execution_id()
    );
    [
        (operation_row("op-1"), operation_record(Some(5_000), None, line)),
        (operation_row("op-2"), operation_record(None, Some("order 7 ✓"), "")),
    ]
}

/// The key of that operation, one with a note, and the answer.
fn key_records() -> [(Id, WindowedRecord<KeyRecord>); 3] {
    let root = *key(1, &[], &[1]).execution_id().root();
    let start = KeyOutcome::Operation(OperationId::new("op-2").unwrap());
    let answer = KeyOutcome::Answer(Answer::Delivered(DeliveryId::FIRST));
    [
        (Id::idempotency_key(&shop(), "order 7 ✓"), key_record(None, start)),
        (
            Id::idempotency_key(&shop(), "signal 1"),
            key_record(Some(5_999), KeyOutcome::Target(root)),
        ),
        (Id::for_answer(&shop(), &root, "signal 1"), key_record(Some(6_000), answer)),
    ]
}

/// A row of every kind.
fn fill(store: &Store) -> Vec<Run> {
    let mut root = Run::start(1, &key(1, &[], &[1]), "place_order", at(1_000));
    let mut child = Run::start(1, &key(1, &[7], &[1, 2]), "größe", at(1_100));
    let mut waiting = Run::start(2, &key(2, &[], &[3]), "approve", at(900));
    let mut batch = Batch::new();
    root.work(at(1_001), 2);
    root.flush(&mut batch);
    child.flush(&mut batch);
    store.submit_blocking(batch).unwrap();
    child.end(at(1_200), Standing::Failed);
    root.end(at(1_300), Standing::Completed);
    waiting.block(at(950));
    let mut batch = Batch::new();
    for run in [&mut root, &mut child, &mut waiting] {
        run.flush(&mut batch);
    }
    store.submit_blocking(batch).unwrap();
    waiting.stuck = Some("stuck: Nondeterminism".to_owned());
    let mut batch = Batch::new();
    waiting.flush(&mut batch);
    let mut named = Run::start(9, &key(9, &[], &[1]), "approve", at(800));
    named.stuck = Some("stuck: a name".to_owned());
    named.idempotency_key = Some("order 7 ✓".into());
    named.label("order=7");
    named.label("size=größe ✓");
    named.flush(&mut batch);
    queue::put(&mut batch, &queue::Entry { ticket: 9, key: key(2, &[], &[3]) });
    timers::put(&mut batch, &timers::Timer { due: at(70), key: key(2, &[], &[3]), child: None });
    timers::put(&mut batch, &timers::Timer { due: at(70), key: key(1, &[], &[1]), child: Some(4) });
    for (id, record) in operations() {
        windows::replace(&mut batch, &id, None, Some(&record));
    }
    for (id, record) in key_records() {
        windows::replace(&mut batch, &id, None, Some(&record));
    }
    components::put(&mut batch, b"component");
    put_clock(&mut batch, 30);
    doubts::replace(&mut batch, &effect(), None, &held());
    audit::put(&mut batch, &audit_entry(1_400, *b"0123456789abcdef"));
    ledger::fill(&mut batch);
    delivery::fill(&mut batch);
    let sent = message(9);
    outbox::put(&mut batch, sent, &to_tree());
    outbox::settle(&mut batch, sent.channel, 7, &[]);
    outbox::apply(&mut batch, message(12), 0);
    outbox::forget(store, &mut batch, sent.channel, 0, 11).unwrap();
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    vec![root, child, waiting, named]
}

fn message(number: u64) -> outbox::MessageId {
    let slot = |number| Slot::new(number).unwrap();
    outbox::MessageId { channel: outbox::Channel { from: slot(0xabc), to: slot(1) }, number }
}

fn to_tree() -> outbox::Message {
    let (key, payload) = (Bytes::from_static(b"key"), Bytes::from_static(b"payload"));
    outbox::Message { room: Room::Tree, key, payload }
}

fn effect() -> doubts::DoubtId {
    doubts::DoubtId { key: key(2, &[], &[3]), child: 7 }
}

/// Everything that `fill` wrote is there.
fn assert_filled(store: &Store, runs: &[Run]) {
    assert_eq!(store.durable_now().number(), 3);
    for run in runs {
        assert_eq!(executions::get(store, run.key()).unwrap().value, run.stored);
        let events = journals::read(store, run.key(), 0, 100).unwrap().value;
        let recovered = Journal::recover(run.key().clone(), events.records).unwrap();
        assert_eq!(recovered, run.journal);
    }
    let all = Filter { with_children: true, ..Filter::default() };
    let listing = listing::list(&store.snapshot().unwrap(), &all, None, 10).unwrap().value;
    let functions = listing.executions.iter().map(|row| row.function.as_str());
    assert_eq!(functions.collect::<Vec<_>>(), ["größe", "place_order", "approve", "approve"]);
    let whose = Namespace::new("test2").unwrap().into();
    let named = Filter { whose, ..Filter::default() };
    let listing = listing::list(&store.snapshot().unwrap(), &named, None, 10).unwrap().value;
    let keys = listing.executions.iter().map(|row| &row.key);
    assert_eq!(keys.collect::<Vec<_>>(), runs.iter().skip(3).map(Run::key).collect::<Vec<_>>());
    for (id, record) in operations() {
        assert_eq!(windows::get(store, &id).unwrap().value, Some(record));
    }
    for (id, record) in key_records() {
        assert_eq!(windows::get(store, &id).unwrap().value, Some(record));
    }
    let digest = ComponentDigest::of(b"component");
    assert_eq!(components::get(store, &digest).unwrap().value.unwrap().as_ref(), b"component");
    assert_eq!(retention_clock::get(store).unwrap().value.unwrap().time, at(30));
    assert_eq!(audit::before(store, at(2_000), 10).unwrap().value.len(), 1);
    let channel = message(1).channel;
    let settled = outbox::Row::Settled(channel, 7);
    let rows = outbox::next(store, None, 10).unwrap().value;
    assert_eq!(rows, [settled, outbox::Row::Message(message(9))]);
    assert_eq!(outbox::get(store, message(9)).unwrap().value, Some(to_tree()));
    assert_eq!(outbox::settled_at_receiver(store, channel).unwrap().value, 11);
    assert!(outbox::is_applied(store, message(12)).unwrap().value);
    let entry = queue::Entry { ticket: 9, key: key(2, &[], &[3]) };
    assert_eq!(queue::next(store, None, 10).unwrap().value, [queue::Row::Tree(entry)]);
    assert_eq!(timers::next(store, None, 10).unwrap().value.len(), 2);

    assert_eq!(check::check(store, &mut |_| {}).unwrap().problems, []);
}

fn memory() -> Store {
    Store::start(Arc::new(MemoryBackend::new()), &indelible_records::TABLES, Bounds::DEFAULT)
        .unwrap()
}

/// Rows are written as they always were, byte for byte; that they read back is the next test's.
#[test]
fn rows_are_written_as_they_were() {
    let store = memory();
    fill(&store);
    let mut text = String::new();
    for table in indelible_records::TABLES {
        let page = store.scan(&Scan::all(table, 100)).unwrap().value;
        assert!(!page.rows.is_empty(), "{}", table.name());
        for (key, value) in page.rows {
            let (key, value) = (HEXLOWER.encode(&key), HEXLOWER.encode(&value));
            writeln!(text, "{} {key} {value}", table.name()).unwrap();
        }
    }
    let path = fixture(ROWS);
    if rewrites() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(path).unwrap());
}

/// Rows that were written once read back as what they were.
#[test]
fn old_rows_still_read() {
    let runs = fill(&memory());
    let store = memory();
    let mut batch = Batch::new();
    for line in fs::read_to_string(fixture(ROWS)).unwrap().lines() {
        let [table, key, value] = line.split(' ').collect::<Vec<_>>()[..] else { panic!() };
        let table =
            indelible_records::TABLES.into_iter().find(|known| known.name() == table).unwrap();
        let bytes = |text: &str| HEXLOWER.decode(text.as_bytes()).unwrap();
        batch.put(table, bytes(key), bytes(value));
    }
    // As many batches as it took at first: positions are compared too.
    for batch in [Batch::new(), Batch::new(), batch] {
        let position = store.submit_blocking(batch).unwrap();
        store.durable(position).wait().unwrap();
    }
    assert_filled(&store, &runs);
    let open = doubts::page(&store, &doubts::Filter::default(), false, None, 10, 10).unwrap().value;
    assert_eq!(open.doubts, [(effect(), held())]);
}

/// A folder as one file: path and content of each file in it, with their lengths before them.
fn pack(folder: &Path, below: &Path, out: &mut Vec<u8>) {
    let mut paths: Vec<_> =
        fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            pack(folder, &path, out);
            continue;
        }
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
        let mut content = fs::read(&path).unwrap();
        if name.ends_with(".jnl") {
            // Journals are long and end in zeros; what is written is what counts.
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            content.truncate(end);
        }
        for part in [name.as_bytes(), &content] {
            out.extend((part.len() as u32).to_be_bytes());
            out.extend(part);
        }
    }
}

fn unpack(mut packed: &[u8], folder: &Path) {
    let mut part = || {
        let (length, rest) = packed.split_at(4);
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let (part, rest) = rest.split_at(length);
        packed = rest;
        (part, packed.is_empty())
    };
    loop {
        let (name, _) = part();
        let (content, is_last) = part();
        let path = folder.join(std::str::from_utf8(name).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        if is_last {
            return;
        }
    }
}

/// A folder that was written once opens, with all that is in it: one that was closed, and one that
/// a crash left.
#[test]
fn an_old_folder_still_opens() {
    for name in ["folder-v2-closed.bin", "folder-v2-crashed.bin"] {
        let temporary = tempfile::tempdir().unwrap();
        if rewrites() {
            let made = temporary.path().join("made");
            let store =
                embedded::open(&made, &indelible_records::TABLES, &Options::default()).unwrap();
            fill(&store);
            let mut packed = Vec::new();
            if name.contains("closed") {
                store.close().unwrap();
                pack(&made, &made, &mut packed);
            } else {
                pack(&made, &made, &mut packed);
            }
            fs::write(fixture(name), packed).unwrap();
        }
        let folder = temporary.path().join("data");
        unpack(&fs::read(fixture(name)).unwrap(), &folder);
        let mut options = Options::default();
        options.create = Create::No;
        let store = embedded::open(&folder, &indelible_records::TABLES, &options).unwrap();
        assert_filled(&store, &fill(&memory()));
    }
}

/// A folder of format 1, whose ids have no slots, is refused with the commit that reads it, and
/// stays as it is.
#[test]
fn a_folder_of_format_1_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    unpack(&fs::read(fixture("folder-v1-closed.bin")).unwrap(), temporary.path());
    let contents = || {
        let mut packed = Vec::new();
        pack(temporary.path(), temporary.path(), &mut packed);
        packed
    };
    let before = contents();
    let lock = fs::read(temporary.path().join("LOCK")).unwrap();
    let options = Options::default();
    let error = embedded::open(temporary.path(), &indelible_records::TABLES, &options).unwrap_err();
    let older = OpenError::Folder(FolderError::Older { path: temporary.path().into(), found: 1 });
    assert_eq!(error.to_string(), older.to_string());
    assert!(error.to_string().contains("commit 98696c0 to read it"), "{error}");
    // Whose process has it open is written down before anything is read.
    fs::write(temporary.path().join("LOCK"), &lock).unwrap();
    assert!(contents() == before, "a refused folder has changed");
}
