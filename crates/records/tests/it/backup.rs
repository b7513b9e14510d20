//! Tests of backups: everything at one position, there and back; and whatever happens to the bytes
//! on the way is noticed.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the test reads its fixture")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use indelible_records::backup::{
    BackupError, Counts, Reader, RestoreError, VERSION, Writer, restore,
};
use indelible_records::check;
use indelible_records::executions::Standing;
use indelible_records::windows::{self, Id};
use indelible_records::{audit, components, queue, settings, timers};
use indelible_store::embedded::{self, Options};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, Row, Scan, Shape, Store, Table};

use indelible_test_store::rows::{Run, at, audit_entry, key, operation, put_clock};
use indelible_test_support::Prng;

use crate::support::operation_record;

fn memory() -> Store {
    Store::start(Arc::new(MemoryBackend::new()), &indelible_records::TABLES, Bounds::DEFAULT)
        .unwrap()
}

/// A row of nearly every kind, and journals of several rows.
fn fill(store: &Store, trees: u64) {
    for tree in 0..trees {
        let mut root = Run::start(tree, &key(tree, &[], &[1]), "order", at(1_000 + tree));
        root.label(&format!("order={tree}"));
        root.submit(store);
        let mut child = Run::start(tree, &key(tree, &[2], &[1, 1]), "größe", at(1_100 + tree));
        child.submit(store);
        root.work(at(2_000 + tree), 3);
        match tree % 3 {
            0 => {
                child.end(at(3_000), Standing::Completed);
                root.end(at(3_000 + tree), Standing::Failed);
            }
            1 => root.block(at(3_000)),
            _ => root.stuck = Some("stuck ✗".to_owned()),
        }
        child.submit(store);
        root.submit(store);
    }
    let mut batch = Batch::new();
    queue::put(&mut batch, &queue::Entry { ticket: 9, key: key(2, &[], &[1]) });
    timers::put(&mut batch, &timers::Timer { due: at(70), key: key(1, &[], &[1]), child: Some(4) });
    let record = operation_record(Some(9_000), None, "");
    windows::replace(&mut batch, &Id::operation(&operation(0)), None, Some(&record));
    components::put(&mut batch, b"component");
    put_clock(&mut batch, 30);
    audit::put(&mut batch, &audit_entry(1_400, *b"0123456789abcdef"));
    store.submit_blocking(batch).unwrap();
}

/// The bytes of a backup, in the pieces in which they come.
fn pieces(store: &Store) -> Vec<Bytes> {
    let mut writer = Writer::new(store.snapshot().unwrap(), at(7_000));
    let mut pieces = Vec::new();
    while let Some(piece) = writer.next().unwrap() {
        pieces.push(piece);
    }
    assert_eq!(writer.next().unwrap(), None);
    pieces
}

fn backup(store: &Store) -> Vec<u8> {
    pieces(store).concat()
}

/// Everything that is in a store, by table.
fn everything(store: &Store) -> Vec<(&'static str, Vec<Row>)> {
    let snapshot = store.snapshot().unwrap();
    let rows = |table: &Table| {
        let page = snapshot.scan(&Scan::all(*table, 10_000)).unwrap().value;
        assert!(!page.more);
        (table.name(), page.rows)
    };
    indelible_records::TABLES.iter().map(rows).collect()
}

fn restored(bytes: &[u8]) -> Result<Store, RestoreError> {
    let store = memory();
    restore(Reader::open(bytes)?, &store, &mut |_| {})?;
    Ok(store)
}

fn verified(bytes: &[u8]) -> Result<Counts, BackupError> {
    Reader::open(bytes)?.verify().map(|(_, counts)| counts)
}

/// What was in the store is in the one that is made of its backup, row by row, and fits together;
/// it is the same whether rows are on disk or still in memory.
#[test]
fn there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    // Small, so that some rows are in files and some are not.
    options.memtable_bytes = Some(4 << 10);
    let disk =
        embedded::open(&folder.path().join("one"), &indelible_records::TABLES, &options).unwrap();
    let memory = memory();
    for store in [&disk, &memory] {
        fill(store, 40);
    }
    let bytes = backup(&disk);
    assert_eq!(bytes, backup(&memory), "what is stored, not how");
    let again =
        embedded::open(&folder.path().join("two"), &indelible_records::TABLES, &options).unwrap();
    let mut told = 0;
    let made = restore(Reader::open(&bytes[..]).unwrap(), &again, &mut |read| told = read);
    let (header, counts) = made.unwrap();
    assert_eq!((header.position, header.made_at), (disk.accepted(), at(7_000)));
    assert_eq!(counts.tables as usize, indelible_records::TABLES.len());
    let all = everything(&disk);
    assert_eq!(counts.rows, all.iter().map(|(_, rows)| rows.len() as u64).sum::<u64>());
    assert!(told > 0 && told <= bytes.len() as u64);
    assert_eq!(again.durable_now(), again.accepted());
    assert_eq!(everything(&again), all);
    assert_eq!(check::check(&again, &mut |_| {}).unwrap().problems, []);
    // Also after it was closed and opened.
    again.close().unwrap();
    let again =
        embedded::open(&folder.path().join("two"), &indelible_records::TABLES, &options).unwrap();
    assert_eq!(everything(&again), all);
    // And a backup of that differs in nothing but where and when it was made.
    assert_eq!(backup(&again).len(), bytes.len());
}

/// Of an empty store there is a backup too.
#[test]
fn nothing_there_and_back() {
    let bytes = backup(&memory());
    let counts = verified(&bytes).unwrap();
    assert_eq!(
        (counts.rows, counts.bytes, counts.tables as usize),
        (0, 0, indelible_records::TABLES.len())
    );
    assert_eq!(everything(&restored(&bytes).unwrap()), everything(&memory()));
}

/// A backup shows one position, whatever is written while it is made; values of megabytes, and
/// very many rows, are in it.
#[test]
fn one_position_while_others_write() {
    let store = memory();
    fill(&store, 5);
    let mut batch = Batch::new();
    let large = vec![7; 5 << 20];
    components::put(&mut batch, &large);
    for number in 0..5_000_u32 {
        settings::put(&mut batch, &format!("setting {number:05}"), &[1; 300]);
    }
    store.submit_blocking(batch).unwrap();
    let before = everything(&store);
    let mut writer = Writer::new(store.snapshot().unwrap(), at(7_000));
    let mut bytes = Vec::new();
    let mut largest = 0;
    for number in 0.. {
        let Some(piece) = writer.next().unwrap() else { break };
        largest = largest.max(piece.len());
        bytes.extend_from_slice(&piece);
        let mut batch = Batch::new();
        settings::put(&mut batch, &format!("setting {:05}", number * 7 % 6_000), &[2; 10]);
        settings::delete(&mut batch, &format!("setting {:05}", number * 11 % 6_000));
        store.submit_blocking(batch).unwrap();
    }
    assert!(largest < large.len() + (300 << 10), "{largest}");
    assert_ne!(everything(&store), before);
    assert_eq!(everything(&restored(&bytes).unwrap()), before);
}

/// A backup that was cut off is refused, wherever that was, between two frames too, and says so.
#[test]
fn what_is_cut_off_is_refused() {
    let store = memory();
    fill(&store, 3);
    let pieces = pieces(&store);
    let bytes = pieces.concat();
    assert!(pieces.len() > 15);
    let mut ends = vec![0];
    for piece in &pieces {
        ends.push(ends.last().unwrap() + piece.len());
    }
    assert_eq!(ends.pop(), Some(bytes.len()));
    for length in 0..bytes.len() {
        let error = restored(&bytes[..length]).map(drop).unwrap_err();
        match error {
            RestoreError::Backup(BackupError::NotABackup) => assert_eq!(length, 0),
            RestoreError::Backup(BackupError::CutOff { at }) => assert_eq!(at, length as u64),
            error => panic!("{length}: {error}"),
        }
    }
    for length in ends.into_iter().skip(1) {
        let error = verified(&bytes[..length]).unwrap_err();
        assert!(error.to_string().contains("it is incomplete"), "{length}: {error}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let error = verified(&longer).unwrap_err();
    assert!(error.to_string().contains("data follows its end"), "{error}");
}

/// Every flipped bit is noticed.
#[test]
fn every_flipped_bit_is_noticed() {
    let store = memory();
    fill(&store, 1);
    let bytes = backup(&store);
    assert!(verified(&bytes).is_ok());
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(verified(&flipped).is_err(), "bit {bit}");
    }
}

/// Pieces that were exchanged, left out, doubled, or taken from another backup are noticed, and so
/// are bytes in the wrong places.
#[test]
fn what_is_put_elsewhere_is_noticed() {
    let store = memory();
    fill(&store, 3);
    let one = pieces(&store);
    let mut batch = Batch::new();
    settings::put(&mut batch, "one", b"more");
    store.submit_blocking(batch).unwrap();
    let other = pieces(&store);
    assert_eq!(one.len(), other.len());
    let wrong = |pieces: &[Bytes], what: &str| {
        let error = verified(&pieces.concat()).unwrap_err();
        let noticed = matches!(error, BackupError::Damaged { .. } | BackupError::CutOff { .. });
        assert!(noticed || matches!(error, BackupError::NotABackup), "{what}: {error}");
    };
    for index in 0..one.len() {
        let mut left_out = one.clone();
        left_out.remove(index);
        wrong(&left_out, "left out");
        let mut doubled = one.clone();
        doubled.insert(index, one[index].clone());
        wrong(&doubled, "doubled");
        let mut spliced = one.clone();
        spliced[index] = other[index].clone();
        wrong(&spliced, "from another");
        for second in 0..index {
            let mut exchanged = one.clone();
            exchanged.swap(index, second);
            wrong(&exchanged, "exchanged");
        }
    }
    let bytes = one.concat();
    let mut numbers = Prng::new(3);
    for _ in 0..2_000 {
        let mut changed = bytes.clone();
        let (from, to) = (numbers.below(bytes.len() as u64), numbers.below(bytes.len() as u64));
        let length = 1 + numbers.below(40) as usize;
        let (from, to) = (from as usize, to as usize);
        let end = (from + length).min(bytes.len()).min(from + bytes.len() - to);
        changed[to..to + (end - from)].copy_from_slice(&bytes[from..end]);
        if changed != bytes {
            assert!(verified(&changed).is_err(), "{from} {to} {length}");
        }
    }
}

/// What is no backup, or of a newer version, or has a table that is not known, is refused in words.
#[test]
fn what_is_no_backup_is_refused() {
    for other in [&b""[..], b"x", b"PK\x03\x04", b"indelible store\nformat 1\n", &[0; 4_096]] {
        assert!(matches!(verified(other), Err(BackupError::NotABackup)), "{other:?}");
    }
    assert!(matches!(verified(b"indelible back"), Err(BackupError::CutOff { at: 14 })));
    let mut newer = backup(&memory());
    newer[16..20].copy_from_slice(&(VERSION + 1).to_be_bytes());
    let error = verified(&newer).unwrap_err();
    assert_eq!(error.to_string(), "it is a backup of format 3; this program reads format 2");
    let older = fs::read(fixture("backup-v1.bin")).unwrap();
    let error = verified(&older).unwrap_err();
    assert!(matches!(error, BackupError::Older { found: 1 }), "{error}");
    assert!(error.to_string().contains("commit 98696c0 to read it"), "{error}");
    newer[16..20].copy_from_slice(&0_u32.to_be_bytes());
    assert!(matches!(verified(&newer), Err(BackupError::Damaged { .. })));
    let more = [&indelible_records::TABLES[..], &[Table::new(40, "from_the_future", Shape::Kept)]]
        .concat();
    let store = Store::start(Arc::new(MemoryBackend::new()), &more, Bounds::DEFAULT).unwrap();
    let error = restored(&backup(&store)).map(drop).unwrap_err();
    assert!(matches!(&error, RestoreError::UnknownTable(name) if name == "from_the_future"));
    // Fewer tables are what an older version had.
    let fewer = &indelible_records::TABLES[..3];
    let store = Store::start(Arc::new(MemoryBackend::new()), fewer, Bounds::DEFAULT).unwrap();
    assert_eq!(everything(&restored(&backup(&store)).unwrap()), everything(&memory()));
    // A store that has something in it is not touched.
    let store = memory();
    fill(&store, 1);
    let before = everything(&store);
    let bytes = backup(&memory());
    let refused = restore(Reader::open(&bytes[..]).unwrap(), &store, &mut |_| {});
    assert!(matches!(refused, Err(RestoreError::NotEmpty)));
    assert_eq!(everything(&store), before);
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// D12: what the first version wrote is written the same, and can still be restored.
/// `INDELIBLE_REWRITE=1` writes it anew; a difference in an old version is a mistake.
#[test]
fn the_first_version_still_restores() {
    let store = memory();
    fill(&store, 6);
    let bytes = backup(&store);
    if std::env::var("INDELIBLE_REWRITE").is_ok() {
        fs::write(fixture("backup-v2.bin"), &bytes).unwrap();
    }
    let kept = fs::read(fixture("backup-v2.bin")).unwrap();
    assert_eq!(bytes, kept);
    // The second one was made before there was a ledger.
    for kept in [kept, fs::read(fixture("backup-v2-without-ledger.bin")).unwrap()] {
        let again = restored(&kept).unwrap();
        assert_eq!(everything(&again), everything(&store));
        assert_eq!(check::check(&again, &mut |_| {}).unwrap().problems, []);
    }
}
