//! A program on the bare engine whose every promise can be checked: the subject of the tests of
//! power loss and of failing disks.
//!
//! `raw_committer run FOLDER ACKS BATCHES BIG KIND` commits batches up to number BATCHES, every
//! BIG-th of them with a value of 1 MiB (0: none), and writes the number of each to ACKS once its
//! commit has returned. KIND is `bare`; or `synced` if the folder of the keyspaces shall be synced
//! before the first commit, which the engine leaves out; or `lax` if commits shall not be synced,
//! to see that a test finds out. `raw_committer check FOLDER` opens what is there, compares it with what the batches up
//! to the one it finds must have left, goes on for one batch and opens it once more; it says `ok`
//! and the number of the last batch it found, or what is wrong.
#![allow(clippy::print_stdout, reason = "the test that runs it reads what it says")]
#![allow(clippy::disallowed_methods, reason = "a program of its own: the test gives it its files")]

use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// How many batches later the rows of a batch are deleted, if they are.
const LATER: u64 = 40;
/// How many rows are written over and over.
const SLOTS: u64 = 100;

struct Subject {
    db: Database,
    head: Keyspace,
    rows: Keyspace,
    slots: Keyspace,
}

impl Subject {
    fn open(folder: &Path) -> Outcome<Self> {
        let db = Database::builder(folder).journal_compression(CompressionType::None).open()?;
        // Small, so that flushes and compactions happen within a short run.
        let options = || KeyspaceCreateOptions::default().max_memtable_size(256 * 1024);
        let head = db.keyspace("head", options)?;
        let rows = db.keyspace("rows", options)?;
        let slots = db.keyspace("slots", options)?;
        Ok(Self { db, head, rows, slots })
    }

    /// The last batch that is there, zero for none.
    fn last(&self) -> Outcome<u64> {
        self.number("batch")
    }

    /// How often this run has a large value: what it must hold depends on it.
    fn big(&self) -> Outcome<u64> {
        self.number("big")
    }

    fn number(&self, key: &str) -> Outcome<u64> {
        let Some(value) = self.head.get(key)? else { return Ok(0) };
        let (number, _) = value.split_first_chunk().ok_or("a number is too short")?;
        Ok(u64::from_be_bytes(*number))
    }

    fn commit(&self, n: u64, big: u64, mode: PersistMode) -> Outcome<()> {
        let mut batch = self.db.batch().durability(Some(mode));
        batch.insert(&self.head, "batch", head(n));
        batch.insert(&self.head, "big", big.to_be_bytes().as_slice());
        for (key, value) in rows(n, big) {
            batch.insert(&self.rows, key, value);
        }
        if let Some(old) = deleted_by(n) {
            for (key, _) in rows(old, big) {
                batch.remove(&self.rows, key);
            }
        }
        batch.insert(&self.slots, slot(n), bytes(n, 99, 3000));
        batch.commit()?;
        Ok(())
    }

    /// Nothing but what the batches up to `n` leave, and all of it.
    fn compare(&self, n: u64) -> Outcome<()> {
        let big = self.big()?;
        let mut expected = Rows::new();
        let mut slots = Rows::new();
        for m in 1..=n {
            expected.extend(rows(m, big));
            if let Some(old) = deleted_by(m) {
                for (key, _) in rows(old, big) {
                    expected.remove(&key);
                }
            }
            slots.insert(slot(m), bytes(m, 99, 3000));
        }
        if n > 0 && self.head.get("batch")?.as_deref() != Some(&head(n)) {
            return Err(format!("head: the row of batch {n} is another").into());
        }
        let snapshot = self.db.snapshot();
        for (name, keyspace, mut expected) in
            [("rows", &self.rows, expected), ("slots", &self.slots, slots)]
        {
            for row in snapshot.iter(keyspace) {
                let (key, value) = row.into_inner()?;
                match expected.remove(key.as_ref()) {
                    None => return Err(format!("{name}: {key:?} is there, at batch {n}").into()),
                    Some(other) if *other != *value => {
                        return Err(format!("{name}: {key:?} is another, at batch {n}").into());
                    }
                    Some(_) => {}
                }
            }
            if let Some(key) = expected.keys().next() {
                let missing = expected.len();
                return Err(
                    format!("{name}: {missing} rows missing, first {key:?}, at batch {n}").into()
                );
            }
        }
        Ok(())
    }
}

/// Bytes that follow from where they are. Of a large value only the first page is drawn, and the
/// others are the same but for their number: a check makes all of them again.
fn bytes(n: u64, i: u64, len: usize) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ i.wrapping_mul(0xD1B5_4A32_D192_ED03);
    let mut page = Vec::with_capacity(PAGE);
    while page.len() < len.min(PAGE) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        page.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    let mut bytes = Vec::with_capacity(len + PAGE);
    while bytes.len() < len {
        let at = bytes.len();
        bytes.extend_from_slice(&page);
        if at > 0 {
            bytes[at..at + 8].copy_from_slice(&(at as u64).to_le_bytes());
        }
    }
    bytes.truncate(len);
    bytes
}

/// The row that says which batch was the last: large enough for its keyspace to be flushed too,
/// without which the engine never lets go of a journal.
fn head(n: u64) -> Vec<u8> {
    let mut head = n.to_be_bytes().to_vec();
    head.extend(bytes(n, 98, 4000));
    head
}

/// The rows that batch `n` writes.
fn rows(n: u64, big: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |i: u64| [n.to_be_bytes(), i.to_be_bytes()].concat();
    let count = 1 + n * 7 % 5;
    let mut rows: Vec<_> =
        (0..count).map(|i| (key(i), bytes(n, i, (n * 131 + i * 977) as usize % 3000))).collect();
    if big > 0 && n.is_multiple_of(big) {
        rows.push((key(count), bytes(n, count, 1 << 20)));
    }
    rows
}

/// The batch whose rows batch `n` deletes.
fn deleted_by(n: u64) -> Option<u64> {
    n.checked_sub(LATER).filter(|old| *old > 0 && !old.is_multiple_of(3))
}

fn slot(n: u64) -> Vec<u8> {
    (n * 37 % SLOTS).to_be_bytes().to_vec()
}

fn run(folder: &Path, acks: &Path, batches: u64, big: u64, kind: &str) -> Outcome<()> {
    let mut acks = std::fs::OpenOptions::new().create(true).append(true).open(acks)?;
    let subject = Subject::open(folder)?;
    if kind == "synced" {
        std::fs::File::open(folder.join("keyspaces"))?.sync_all()?;
    }
    let mode = if kind == "lax" { PersistMode::Buffer } else { PersistMode::SyncData };
    for n in subject.last()? + 1..=batches {
        subject.commit(n, big, mode)?;
        acks.write_all(format!("{n}\n").as_bytes())?;
    }
    Ok(())
}

fn check(folder: &Path) -> Outcome<u64> {
    let subject = Subject::open(folder)?;
    let (n, big) = (subject.last()?, subject.big()?);
    subject.compare(n)?;
    subject.commit(n + 1, big, PersistMode::SyncData)?;
    drop(subject);
    let again = |e: &dyn Error| format!("after recovery and one more batch: {e:?}");
    let subject = Subject::open(folder).map_err(|e| again(&*e))?;
    let last = subject.last()?;
    if last != n + 1 {
        return Err(format!("after recovery: {last} found, {} was committed", n + 1).into());
    }
    subject.compare(n + 1).map_err(|e| again(&*e))?;
    Ok(n)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["run", folder, acks, batches, big, kind] => run(
            Path::new(folder),
            Path::new(acks),
            batches.parse().expect("a number of batches"),
            big.parse().expect("a distance of large values"),
            kind,
        ),
        ["check", folder] => check(Path::new(folder)).map(|n| println!("ok {n}")),
        _ => Err("run FOLDER ACKS BATCHES BIG KIND, or check FOLDER".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error {error:?}");
            ExitCode::FAILURE
        }
    }
}
