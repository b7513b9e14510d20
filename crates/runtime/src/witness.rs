//! A file that remembers, when the process is gone, which executions were being replayed (C-85).
//!
//! It is written without waiting for the disk: what a process wrote is there after it has died, and
//! if the whole machine died, no guest killed it. So power loss can leave a file that does not
//! read. Such a file is put aside, and counting begins anew: an execution that kills the process is
//! stuck after it has killed it three times more. Nothing else depends on the file.
#![expect(clippy::disallowed_methods, reason = "this is the shell where the file is written")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indelible_journal::JournalKey;
use sha2::{Digest as _, Sha256};

use crate::shared::lock;
use crate::world::{DEATHS_MAX, Witness};

/// The file's header: its kind, and the version of its rows.
const HEADER: [u8; ROW_BYTES] = *b"indelible replays, version 1 \n\n\n";

/// A row: whether the execution is being replayed (1), how often the process died of it (1),
/// nothing (2), the execution (20), a check over all that (8).
const ROW_BYTES: usize = 32;

/// The most rows that are read: more than a process ever replays at once, or remembers.
const ROWS_MAX: usize = 4_096;

/// The most unreadable files that are kept beside the one in use. Each is small and says little:
/// the first ones show what happened, and a disk that keeps failing must not fill the folder.
const PUT_ASIDE_MAX: usize = 4;

/// Only the server's own user may read or write the file.
const MODE: u32 = 0o600;

/// The first bytes of a hash of a journal's key: enough to recognise it.
type Name = [u8; 20];

/// A file that remembers which executions were being replayed.
#[derive(Debug)]
pub struct WitnessFile {
    file: File,
    state: Mutex<Rows>,
    /// How many rows are of executions that a process died of, and that are not stuck because of
    /// it.
    suspects: AtomicUsize,
    put_aside: Option<DiscardedFile>,
}

/// A file that could not be read, and was replaced by an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscardedFile {
    /// The file.
    pub path: PathBuf,
    /// Where it is now. None: as many are put aside as are kept, and it was overwritten.
    pub to: Option<PathBuf>,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for DiscardedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, to, why } = self;
        write!(f, "{} cannot be read: {why}; ", path.display())?;
        match to {
            Some(to) => write!(f, "it was put aside as {}", to.display())?,
            None => write!(f, "it was emptied, since {PUT_ASIDE_MAX} were put aside before")?,
        }
        f.write_str(", and the count of crashes per execution starts anew")
    }
}

#[derive(Debug, Default)]
struct Rows {
    by_name: HashMap<Name, Row>,
    free: Vec<usize>,
    /// How many rows the file has.
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
    /// Opens the file, or makes it. Each execution that was being replayed when the last process
    /// died counts one more death. A file that cannot be read is [put aside](Self::put_aside).
    pub fn open(path: &Path) -> io::Result<Self> {
        match Self::read(path)? {
            Ok(witness) => Ok(witness),
            Err(why) => {
                let to = put_aside(path)?;
                let put_aside = Some(DiscardedFile { path: path.to_path_buf(), to, why });
                match Self::read(path)? {
                    Ok(witness) => Ok(Self { put_aside, ..witness }),
                    Err(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
                }
            }
        }
    }

    /// The file that could not be read when this was opened.
    pub fn put_aside(&self) -> Option<&DiscardedFile> {
        self.put_aside.as_ref()
    }

    /// Opens the file. The inner error: why it is not a list of replays.
    fn read(path: &Path) -> io::Result<Result<Self, String>> {
        if path.is_dir() {
            return Ok(Err("it is a folder".to_owned()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(MODE);
        let file = options.open(path)?;
        // Earlier versions let others read it.
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            let _ = file.set_permissions(fs::Permissions::from_mode(MODE));
        }
        let mut bytes = vec![0; (ROWS_MAX + 1) * ROW_BYTES];
        let length = match read_up_to(&file, &mut bytes) {
            Ok(length) => length,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if length > 0 && bytes[..ROW_BYTES] != HEADER {
            return Ok(Err("it is not a list of replays, or it has another version".to_owned()));
        }
        let mut rows = Rows::default();
        for row in bytes[..length].chunks_exact(ROW_BYTES).skip(1) {
            // A row that the process died in the middle of writing does not count.
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
        let suspects = AtomicUsize::new(suspects);
        Ok(Ok(Self { file, state: Mutex::new(rows), suspects, put_aside: None }))
    }

    fn write(&self, place: usize, row: &[u8; ROW_BYTES]) {
        // If this fails, the server runs on; it only learns less from its next death.
        let _ = self.file.write_all_at(row, ((place + 1) * ROW_BYTES) as u64);
    }
}

impl Witness for WitnessFile {
    fn deaths(&self, key: &JournalKey) -> u32 {
        let rows = lock(&self.state);
        // Mostly there are no rows, and the key need not be hashed.
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

/// Renames a file that cannot be read, never over another, and returns its new path; none if as
/// many as are kept are there, and it was emptied instead.
fn put_aside(path: &Path) -> io::Result<Option<PathBuf>> {
    for number in 1..=PUT_ASIDE_MAX {
        let mut name = OsString::from(path);
        name.push(format!(".damaged-{number}"));
        let to = PathBuf::from(name);
        // This process holds the lock of the data folder, so no other process makes a file here
        // meanwhile.
        if fs::symlink_metadata(&to).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            fs::rename(path, &to)?;
            return Ok(Some(to));
        }
    }
    OpenOptions::new().write(true).truncate(true).open(path)?;
    Ok(None)
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

    /// C-85: an execution that was being replayed when the process died counts one more death; one
    /// that survived counts none; one that did not get its turn is as it was.
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
            // There was no place for these guests: nothing has changed.
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
        assert!(!witness.has_suspects(), "what is stuck does not run");
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

    /// A half-written row does not count.
    #[test]
    fn what_is_not_a_row_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("replays");
        let witness = WitnessFile::open(&path).expect("it opens");
        witness.replaying(&key(1));
        witness.replaying(&key(2));
        drop(witness);
        let mut bytes = fs::read(&path).expect("it is there");
        bytes[ROW_BYTES + 5] ^= 1;
        bytes.truncate(bytes.len() - 3);
        fs::write(&path, &bytes).expect("it can be written");
        let witness = WitnessFile::open(&path).expect("it opens");
        assert_eq!((witness.deaths(&key(1)), witness.deaths(&key(2))), (0, 0));
        assert_eq!(witness.put_aside(), None);
    }

    /// An unreadable file is put aside, and counting begins anew. At most `PUT_ASIDE_MAX` are kept,
    /// and none of them is overwritten.
    #[test]
    fn what_is_not_a_list_is_put_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("replays");
        let torn = [&HEADER[..7], b"something else", &[0; 96], &[0xff; 31], b"again", b"more"];
        for (number, content) in torn.iter().enumerate() {
            fs::write(&path, content).expect("it can be written");
            let witness = WitnessFile::open(&path).expect("it opens");
            let aside = witness.put_aside().expect("it was put aside");
            match &aside.to {
                Some(to) => assert_eq!(fs::read(to).expect("it is there"), *content),
                None => assert!(number >= PUT_ASIDE_MAX, "{aside}"),
            }
            witness.replaying(&key(1));
            drop(witness);
            let witness = WitnessFile::open(&path).expect("it opens");
            assert_eq!((witness.deaths(&key(1)), witness.put_aside()), (1, None));
        }
        let files = fs::read_dir(folder.path()).expect("it can be listed").count();
        assert_eq!(files, PUT_ASIDE_MAX + 1);
        fs::remove_file(&path).expect("it can be removed");
        fs::remove_file(folder.path().join("replays.damaged-2")).expect("it can be removed");
        fs::create_dir(&path).expect("it can be made");
        let witness = WitnessFile::open(&path).expect("it opens");
        let to = witness.put_aside().and_then(|aside| aside.to.clone()).expect("it was put aside");
        assert!(to.is_dir() && to.ends_with("replays.damaged-2"), "{}", to.display());
    }

    /// Only the owner may read the file, even if an earlier version made it.
    #[test]
    fn the_file_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("replays");
        let mode = || fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        drop(WitnessFile::open(&path).expect("it opens"));
        assert_eq!(mode(), MODE);
        let wide = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&path, wide).expect("it can be changed");
        drop(WitnessFile::open(&path).expect("it opens"));
        assert_eq!(mode(), MODE);
    }
}
