//! Folders as fjall writes them, and the same with something wrong.
#![expect(clippy::disallowed_methods, reason = "the backend's files are made and broken")]

mod engine;
mod flips;
mod folders;
mod made;
mod tears;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

use super::{Damage, PreflightError, Report, TornTail, cut, examine};

use indelible_test_support::Prng;

/// Opens a folder as the store does.
fn open(folder: &Path) -> (Database, Keyspace) {
    let builder = Database::builder(folder).worker_threads(1);
    let database = builder.journal_compression(CompressionType::None).open().unwrap();
    let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
    (database, rows)
}

/// Commits one batch, as the store does.
fn commit(database: &Database, rows: &Keyspace, items: &[(&[u8], &[u8])]) {
    let mut batch = database.batch().durability(Some(PersistMode::SyncData));
    for (key, value) in items {
        batch.insert(rows, *key, *value);
    }
    batch.commit().unwrap();
}

/// A batch in fjall's format, with items of the first keyspace.
fn batch(seqno: u64, items: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in items {
        let len = u32::try_from(value.len()).unwrap().to_le_bytes();
        body.extend([2, 0, 0]);
        body.extend(1_u64.to_le_bytes());
        body.extend(u16::try_from(key.len()).unwrap().to_le_bytes());
        body.extend(len);
        body.extend(len);
        body.extend(*key);
        body.extend(*value);
    }
    let mut batch = vec![1];
    batch.extend(u32::try_from(items.len()).unwrap().to_le_bytes());
    batch.extend(seqno.to_le_bytes());
    batch.extend(&body);
    batch.push(3);
    batch.extend(xxh3_64(&body).to_le_bytes());
    batch.extend(b"FJL\x03");
    batch
}

/// Bytes of which none is zero.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Prng::new(seed);
    (0..len).map(|_| random.byte().max(1)).collect()
}

/// A folder made by fjall, whose journal a test writes.
struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path()));
        let made = Self { folder };
        made.write(&[]);
        made
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn journal(&self) -> PathBuf {
        self.path().join("0.jnl")
    }

    fn write(&self, bytes: &[u8]) {
        // In place: many file systems flush a file that was truncated first, which takes time.
        let mut file = OpenOptions::new().write(true).open(self.journal()).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
    }

    fn examine(&self) -> Result<Report, PreflightError> {
        examine(self.path())
    }

    /// The torn tail of the journal `bytes`.
    #[track_caller]
    fn torn(&self, bytes: &[u8]) -> TornTail {
        self.write(bytes);
        self.examine().unwrap().torn.expect("a torn tail")
    }

    /// The damage of the journal `bytes`.
    #[track_caller]
    fn damage(&self, bytes: &[u8]) -> Damage {
        self.write(bytes);
        damage(self.examine())
    }
}

#[track_caller]
fn damage(result: Result<Report, PreflightError>) -> Damage {
    match result {
        Err(PreflightError::Damaged(damage)) => damage,
        other => panic!("no damage: {other:?}"),
    }
}

/// How many batches a report has in all.
fn batches(report: &Report) -> u64 {
    report.journals.iter().map(|journal| journal.batches).sum()
}
