//! A file that remembers, when the process is gone, which executions were being replayed (C-25).
//!
//! It is written without waiting for the disk: what a process wrote is there when it has died,
//! and when the whole machine died it was not a guest that did it.
#![expect(clippy::disallowed_methods, reason = "this is the shell where the file is written")]

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indelible_journal::JournalKey;
use sha2::{Digest as _, Sha256};

use crate::shared::lock;
use crate::world::{DEATHS_MAX, Witness};

/// What the file begins with: what it is, and the version of its rows.
const HEADER: [u8; ROW_BYTES] = *b"indelible replays, version 1 \n\n\n";

/// A row: whether it is being replayed (1), how often the process died of it (1), nothing (2), the
/// execution (20), a check over all that (8).
const ROW_BYTES: usize = 32;

/// The most rows that are read: more than a process ever replays at once, and than it remembers.
const ROWS_MAX: usize = 4_096;

/// The first bytes of a hash of a journal's key: enough to know it by.
type Name = [u8; 20];

/// A file that remembers which executions were being replayed.
#[derive(Debug)]
pub struct WitnessFile {
    file: File,
    state: Mutex<Rows>,
    /// How many rows are of executions that a process died of, and that are not held for it.
    suspects: AtomicUsize,
}

#[derive(Debug, Default)]
struct Rows {
    by_name: HashMap<Name, Row>,
    free: Vec<usize>,
    /// How many the file has.
    count: usize,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    place: usize,
    deaths: u8,
}

impl Row {
    fn is_suspect(&self) -> bool {
        (1..DEATHS_MAX).contains(&u32::from(self.deaths))
    }
}

impl WitnessFile {
    /// Opens the file, or makes it. Whatever was being replayed when the last process died has
    /// died once more.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = vec![0; (ROWS_MAX + 1) * ROW_BYTES];
        let length = read_up_to(&file, &mut bytes)?;
        if length > 0 && bytes[..ROW_BYTES] != HEADER {
            let message =
                format!("{} is not a list of replays, or of another version", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let mut rows = Rows::default();
        for row in bytes[..length].chunks_exact(ROW_BYTES).skip(1) {
            // One that the process died in the middle of writing counts for nothing.
            let Some((name, replaying, deaths)) = decode(row) else { continue };
            let deaths = deaths.saturating_add(u8::from(replaying));
            let place = rows.count;
            rows.by_name.entry(name).or_insert_with(|| {
                rows.count += 1;
                Row { place, deaths }
            });
        }
        let mut content = HEADER.to_vec();
        content.resize((rows.count + 1) * ROW_BYTES, 0);
        for (name, row) in &rows.by_name {
            let at = (row.place + 1) * ROW_BYTES;
            content[at..at + ROW_BYTES].copy_from_slice(&encode(name, false, row.deaths));
        }
        file.write_all_at(&content, 0)?;
        file.set_len(content.len() as u64)?;
        let suspects = rows.by_name.values().filter(|row| row.is_suspect()).count();
        Ok(Self { file, state: Mutex::new(rows), suspects: AtomicUsize::new(suspects) })
    }

    fn write(&self, place: usize, row: &[u8; ROW_BYTES]) {
        // Without it the server runs as well; it only learns less from its next death.
        let _ = self.file.write_all_at(row, ((place + 1) * ROW_BYTES) as u64);
    }
}

impl Witness for WitnessFile {
    fn deaths(&self, key: &JournalKey) -> u32 {
        let rows = lock(&self.state);
        // Most of the time there are none, and nothing has to be hashed.
        if rows.by_name.is_empty() {
            return 0;
        }
        rows.by_name.get(&name(key)).map_or(0, |row| u32::from(row.deaths))
    }

    fn has_suspects(&self) -> bool {
        self.suspects.load(Ordering::Acquire) > 0
    }

    fn replaying(&self, key: &JournalKey) {
        let name = name(key);
        let mut rows = lock(&self.state);
        let row = match rows.by_name.get(&name) {
            Some(row) => *row,
            None => {
                let place = rows.free.pop().unwrap_or(rows.count);
                rows.count = rows.count.max(place + 1);
                rows.by_name.insert(name, Row { place, deaths: 0 });
                Row { place, deaths: 0 }
            }
        };
        self.write(row.place, &encode(&name, true, row.deaths));
    }

    fn untouched(&self, key: &JournalKey) {
        let name = name(key);
        let row = lock(&self.state).by_name.get(&name).copied();
        match row {
            Some(row) if row.deaths > 0 => {
                self.write(row.place, &encode(&name, false, row.deaths));
            }
            Some(_) => self.survived(key),
            None => {}
        }
    }

    fn survived(&self, key: &JournalKey) {
        let mut rows = lock(&self.state);
        if let Some(row) = rows.by_name.remove(&name(key)) {
            self.write(row.place, &[0; ROW_BYTES]);
            rows.free.push(row.place);
            if row.is_suspect() {
                self.suspects.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

fn name(key: &JournalKey) -> Name {
    let hash = Sha256::digest(key.to_string().as_bytes());
    hash[..20].try_into().expect("a hash is longer")
}

fn encode(name: &Name, replaying: bool, deaths: u8) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row[0] = u8::from(replaying);
    row[1] = deaths;
    row[4..24].copy_from_slice(name);
    let check = check(&row);
    row[24..].copy_from_slice(&check);
    row
}

fn decode(row: &[u8]) -> Option<(Name, bool, u8)> {
    let whole = row[24..] == check(row);
    let name: Name = row[4..24].try_into().ok()?;
    (whole && name != Name::default()).then(|| (name, row[0] != 0, row[1]))
}

fn check(row: &[u8]) -> [u8; 8] {
    let hash = Sha256::digest(&row[..24]);
    hash[..8].try_into().expect("a hash is longer")
}

fn read_up_to(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use indelible_journal::{ExecutionId, RootHash};

    use super::*;

    fn key(number: u8) -> JournalKey {
        JournalKey::first(ExecutionId::root_of(RootHash::from_bytes([number; 32])))
    }

    /// C-25: what was being replayed when the process died has died once more; what survived has
    /// not died at all; what did not get its turn is as it was.
    #[test]
    fn deaths_in_a_row_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("replays");
        for died in 0..3 {
            let witness = WitnessFile::open(&path).expect("it opens");
            assert_eq!(witness.deaths(&key(1)), died);
            assert_eq!(witness.deaths(&key(2)), u32::from(died > 0));
            assert_eq!(witness.deaths(&key(3)), 0);
            witness.replaying(&key(1));
            witness.replaying(&key(3));
            if died == 0 {
                witness.replaying(&key(2));
            }
            witness.survived(&key(3));
            // There was no room for these: nothing has changed.
            for number in [2, 4] {
                let before = witness.deaths(&key(number));
                if before == 0 && number == 2 {
                    continue;
                }
                witness.replaying(&key(number));
                witness.untouched(&key(number));
                assert_eq!(witness.deaths(&key(number)), before);
            }
        }
        let witness = WitnessFile::open(&path).expect("it opens");
        assert_eq!(witness.deaths(&key(1)), 3);
        witness.survived(&key(2));
        assert!(!witness.has_suspects(), "what is held does not run");
        witness.survived(&key(1));
        assert!(!witness.has_suspects());
        witness.replaying(&key(2));
        drop(witness);
        let witness = WitnessFile::open(&path).expect("it opens");
        assert_eq!((witness.deaths(&key(1)), witness.deaths(&key(2))), (0, 1));
        assert!(witness.has_suspects());
        witness.survived(&key(2));
        assert!(!witness.has_suspects());
    }

    /// A row that was written half counts for nothing; a file of another kind is left alone.
    #[test]
    fn what_is_not_a_row_is_ignored_and_what_is_not_a_list_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("replays");
        let witness = WitnessFile::open(&path).expect("it opens");
        witness.replaying(&key(1));
        witness.replaying(&key(2));
        drop(witness);
        let mut bytes = std::fs::read(&path).expect("it is there");
        bytes[ROW_BYTES + 5] ^= 1;
        bytes.truncate(bytes.len() - 3);
        std::fs::write(&path, &bytes).expect("it can be written");
        let witness = WitnessFile::open(&path).expect("it opens");
        assert_eq!((witness.deaths(&key(1)), witness.deaths(&key(2))), (0, 0));
        drop(witness);
        std::fs::write(&path, "something else").expect("it can be written");
        assert!(WitnessFile::open(&path).is_err());
        assert_eq!(std::fs::read(&path).expect("it is there"), b"something else");
    }
}
