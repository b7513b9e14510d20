//! The embedded backend: fjall in a folder of its own, under the commit pipeline.
//!
//! fjall's own back-pressure, recovery and creation have edges that are kept away from here:
//! - Its writers wait in a loop for background work, also when that has failed: a commit begins
//!   only when no such wait can come (`make_room`). Its queue of background work
//!   can fill up and stop for good: `tuning` and `upkeep` keep it nearly empty.
//! - Its recovery cuts a journal at the first thing that it cannot read: `preflight` looks first.
//! - It does not sync the folder in which it makes keyspaces: `open_database` does, before
//!   anything can be accepted.
//! - It takes the files that it finds for durable, and deletes those that they replace:
//!   `sync_folders` makes them durable, since a killed process may not have done so.
//! - A crash while it creates a folder leaves one that it cannot open: `folder` creates aside.
//! - When a flush or compaction ends, new snapshots see everything that has a sequence number, also
//!   half of the batch that is being written: ours are clones of one that was taken between two
//!   commits.
//! - It has no empty key: `keys` gives it another.
//! - Its journal checksums cover recompressed values: compression of the journal is off.
#![expect(clippy::disallowed_methods, reason = "a backend is a shell: this one owns a folder")]

mod folder;
mod keys;
mod preflight;
mod tuning;
mod upkeep;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use fjall::{
    AbstractTree as _, Database, Keyspace, LsmError, OwnedWriteBatch, PersistMode, Readable as _,
};

use self::folder::Folder;
pub use self::folder::{BACKEND_NAME, Create, FORMAT_VERSION, FolderError, LAST_TO_READ_FORMAT_1};
use self::preflight::{PreflightError, Stage, TornTail};
use self::tuning::CommitCost;
pub use self::tuning::Options;
use self::upkeep::{Upkeep, UpkeepTable};
use crate::backend::{
    Backend, BackendError, BackendSnapshot, Direction, KeyRange, Visit, caught, caught_reading,
    visit_rows,
};
use crate::batch::Write;
use crate::damage::DamageLog;
use crate::pipeline::{StartError, Store};
use crate::position::Sequence;
use crate::table::{self, PIPELINE, Table, TableError};

/// The row of the pipeline's own table that lists all tables this folder ever had.
const TABLES_KEY: &[u8] = b"tables";

/// How many folders are synced at the same time when a store is opened.
const SYNCS_AT_ONCE: usize = 8;

/// How long a commit waits before it checks again whether fjall has caught up.
const ROOM_POLL: Duration = Duration::from_millis(1);

/// Why an embedded store cannot be opened. Nothing in the folder has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder cannot be taken.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// What is stored is damaged.
    #[error("the data folder {} is damaged: {what}", path.display())]
    Damaged {
        /// The folder, or the file in it.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// fjall could not open it.
    #[error("the storage backend cannot open {}: {source}", path.display())]
    Backend {
        /// fjall's folder.
        path: PathBuf,
        /// Why.
        source: BackendError,
    },
    /// The pipeline could not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl From<TableError> for OpenError {
    fn from(error: TableError) -> Self {
        Self::Start(StartError::Tables(error))
    }
}

/// Opens a store in a folder.
pub fn open(path: &Path, tables: &[Table], options: &Options) -> Result<Store, OpenError> {
    let backend = EmbeddedBackend::open(path, tables, options)?;
    Ok(Store::start(Arc::new(backend), tables, options.bounds)?)
}

/// fjall in a folder.
pub struct EmbeddedBackend {
    /// Declared first: it ends before what it works on.
    upkeep: Upkeep,
    /// How large the memtable of each table may grow, by slot.
    memtable_bytes: Vec<u64>,
    database: Database,
    /// By slot.
    keyspaces: Arc<[Option<Keyspace>]>,
    /// Everything up to the last commit that has returned, and nothing of the next.
    committed: Mutex<fjall::Snapshot>,
    path: PathBuf,
    recovered: Option<Recovered>,
    damage: Arc<DamageLog>,
    /// Declared last: the lock goes when everything else is closed.
    _folder: Folder,
}

/// What opening a folder cut off: the commit that was being written when power was lost. No caller
/// was told that it was durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// fjall's journal.
    pub file: PathBuf,
    /// Where the last whole commit ends.
    pub at: u64,
    /// How many bytes came after it.
    pub bytes: u64,
}

impl std::fmt::Display for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, at, bytes } = self;
        let file = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        write!(f, "a torn commit of {bytes} bytes was cut from {file}, at byte {at}")
    }
}

impl EmbeddedBackend {
    /// Opens a folder, or makes one, with at least these tables.
    pub fn open(path: &Path, tables: &[Table], options: &Options) -> Result<Self, OpenError> {
        let tables = table::list(tables)?;
        let folder = Folder::open(path, options.create, |at| {
            open_database(at, &tables, options, Stage::Absent).map(drop)
        })?;
        let path = folder.backend();
        let recovered = prepare(&path)?;
        let (database, keyspaces) = open_database(&path, &tables, options, Stage::Created)?;
        let committed = Mutex::new(database.snapshot());
        let mut memtable_bytes = vec![u64::MAX; keyspaces.len()];
        let mut kept = Vec::new();
        for table in &tables {
            memtable_bytes[table.index()] = tuning::memtable_bytes(table, options);
            if let Some(keyspace) = keyspaces[table.index()].clone() {
                let strategy = Arc::new(tuning::compaction(table, options));
                let idle_strategy = Arc::new(tuning::idle_compaction(table, options));
                kept.push(UpkeepTable { keyspace, strategy, idle_strategy });
            }
        }
        let damage = Arc::<DamageLog>::default();
        let upkeep = Upkeep::start(database.clone(), kept, Arc::clone(&damage));
        let upkeep = upkeep.map_err(folder::failed("start a thread for", &path))?;
        Ok(Self {
            upkeep,
            memtable_bytes,
            database,
            keyspaces,
            committed,
            path,
            recovered,
            damage,
            _folder: folder,
        })
    }

    /// What was cut off when the folder was opened.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    fn keyspace(&self, table: &Table) -> Result<&Keyspace, BackendError> {
        keyspace(&self.keyspaces, table)
    }

    /// Makes fjall ready for a commit: full memtables are handed over to be flushed, and if the
    /// background is behind, this waits for it. fjall's own wait would never end after a failure in
    /// the background.
    fn make_room(&self, writes: &[Write]) -> Result<(), BackendError> {
        // The writes to a table are together, and only tables that are written to matter.
        for writes in writes.chunk_by(|a, b| a.table == b.table) {
            let table = &writes[0].table;
            let keyspace = self.keyspace(table)?;
            if keyspace.tree.active_memtable().size() > self.memtable_bytes[table.index()] {
                self.check_background()?;
                keyspace.rotate_memtable().map_err(|error| self.failed(error))?;
                self.upkeep.ask();
            }
            loop {
                match tuning::room(keyspace) {
                    CommitCost::There => break,
                    CommitCost::Scarce(wait) => {
                        thread::sleep(wait);
                        break;
                    }
                    CommitCost::None => {
                        self.check_background()?;
                        thread::sleep(ROOM_POLL);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether background work has failed.
    fn check_background(&self) -> Result<(), BackendError> {
        if let Some(failure) = self.upkeep.failure() {
            return Err(BackendError::Stopped { what: failure });
        }
        // Only asks whether fjall is poisoned: there is nothing to write out.
        self.database.persist(PersistMode::Buffer).map_err(|error| self.failed(error))
    }

    /// Flushes the memtables of these keyspaces, and waits for it. fjall's own wait would never end
    /// after a failure in the background.
    fn flush(&self, keyspaces: &[&Keyspace]) -> Result<(), BackendError> {
        for keyspace in keyspaces {
            keyspace.rotate_memtable().map_err(|error| self.failed(error))?;
        }
        while keyspaces.iter().any(|keyspace| keyspace.sealed_memtable_count() > 0) {
            self.check_background()?;
            thread::sleep(ROOM_POLL);
        }
        self.upkeep.ask();
        Ok(())
    }

    /// Translates an error; if fjall only says that it is poisoned, adds what can be said of the
    /// reason.
    fn failed(&self, error: fjall::Error) -> BackendError {
        match error {
            fjall::Error::Poisoned => {
                let free = match rustix::fs::statvfs(&self.path) {
                    Ok(disk) => format!(
                        "{} MiB are free on its disk",
                        (disk.f_bavail * disk.f_frsize) >> 20
                    ),
                    Err(error) => format!("the free space of its disk cannot be read: {error}"),
                };
                let what = format!("flushing or compacting in the background failed; {free}");
                BackendError::Stopped { what }
            }
            error => backend_error("write to the storage backend", error),
        }
    }
}

/// Checks fjall's files before fjall opens them, and cuts off a torn write.
fn prepare(path: &Path) -> Result<Option<Recovered>, OpenError> {
    let damaged = |path: &Path, what: String| OpenError::Damaged { path: path.to_path_buf(), what };
    let report = preflight::examine(path).map_err(|error| match error {
        PreflightError::Io { path, source } => folder::failed("read", &path)(source).into(),
        PreflightError::Damaged(damage) => damaged(path, damage.to_string()),
    })?;
    if report.stage != Stage::Created {
        // A folder that is "ready" had all of fjall's files.
        return Err(damaged(path, "the backend's files are missing".to_owned()));
    }
    sync_folders(path)?;
    let Some(torn) = report.torn else { return Ok(None) };
    preflight::cut(&torn).map_err(folder::failed("cut a torn write from", &torn.path))?;
    let TornTail { path: file, at, bytes, .. } = torn;
    Ok(Some(Recovered { file, at, bytes }))
}

/// Makes durable which files there are. A killed process may have replaced a file without syncing
/// the folder; fjall deletes the old file when it opens, and a power loss must not then take the
/// new one too.
fn sync_folders(path: &Path) -> Result<(), FolderError> {
    let keyspaces = path.join("keyspaces");
    let list = || -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(&keyspaces)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut list = list().map_err(folder::failed("list", &keyspaces))?;
    list.retain(|path| path.is_dir());
    // One after the other, each would wait for a flush of the disk; at the same time they share it.
    thread::scope(|scope| {
        let syncs = list.chunks(list.len().div_ceil(SYNCS_AT_ONCE).max(1)).map(|folders| {
            scope.spawn(move || folders.iter().try_for_each(|keyspace| folder::sync(keyspace)))
        });
        let syncs: Vec<_> = syncs.collect();
        syncs.into_iter().try_for_each(|sync| sync.join().expect("a sync does not panic"))
    })?;
    folder::sync(&keyspaces)?;
    folder::sync(path)
}

/// How much a folder takes on disk, with everything in it. A running backend may remove files
/// meanwhile, a flushed journal or a merged table: they count nothing.
pub fn folder_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        bytes += match entry_bytes(&entry?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            measured => measured?,
        };
    }
    Ok(bytes)
}

fn entry_bytes(entry: &std::fs::DirEntry) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let found = entry.metadata()?;
    let within = if found.is_dir() { folder_bytes(&entry.path())? } else { 0 };
    // Counted in blocks: journals are preallocated sparse files.
    Ok(found.blocks() * 512 + within)
}

fn keyspace<'a>(
    keyspaces: &'a [Option<Keyspace>],
    table: &Table,
) -> Result<&'a Keyspace, BackendError> {
    keyspaces
        .get(table.index())
        .and_then(Option::as_ref)
        .ok_or_else(|| BackendError::Stopped { what: format!("no table {:?}", table.name()) })
}

type Opened = (Database, Arc<[Option<Keyspace>]>);

fn open_database(
    path: &Path,
    tables: &[Table],
    options: &Options,
    stage: Stage,
) -> Result<Opened, OpenError> {
    // A table that is missing is damage, and then none may be made in its place.
    let missing = |name: &str| OpenError::Damaged {
        path: path.to_path_buf(),
        what: format!("its table {name:?} is missing"),
    };
    let database = open_caught(path, || tuning::database(path, options).open())?;
    let known = open_caught(path, || known_tables(&database))?;
    if known.is_empty() && stage == Stage::Created {
        // The list is written when the folder is made.
        return Err(missing(PIPELINE.name()));
    }
    if let Some(name) = known.iter().find(|name| !database.keyspace_exists(name)) {
        return Err(missing(name));
    }
    let slots = tables.iter().map(Table::index).max().map_or(0, |index| index + 1);
    let mut keyspaces = vec![None; slots];
    for table in tables {
        let create = || tuning::keyspace(table);
        let keyspace = open_caught(path, || database.keyspace(table.name(), create))?;
        keyspaces[table.index()] = Some(keyspace);
    }
    // fjall syncs the files in a keyspace's folder, but not the folder's entry. If that were lost,
    // replaying the journal would silently skip the keyspace.
    for folder in [path.join("keyspaces"), path.to_path_buf()] {
        folder::sync(&folder)?;
    }
    open_caught(path, || remember_tables(&database, &keyspaces, known, tables))?;
    Ok((database, keyspaces.into()))
}

/// Runs one step of opening fjall's folder.
fn open_caught<T>(path: &Path, work: impl FnOnce() -> fjall::Result<T>) -> Result<T, OpenError> {
    caught(|| work().map_err(|error| backend_error("open the storage backend", error)))
        .map_err(|source| OpenError::Backend { path: path.to_path_buf(), source })
}

/// The names of all tables that were ever opened in this folder.
fn known_tables(database: &Database) -> fjall::Result<Vec<String>> {
    if !database.keyspace_exists(PIPELINE.name()) {
        return Ok(Vec::new());
    }
    let pipeline = database.keyspace(PIPELINE.name(), fjall::KeyspaceCreateOptions::default)?;
    let row = pipeline.get(TABLES_KEY)?;
    let text = row.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    Ok(text.lines().map(str::to_owned).collect())
}

/// Writes down which tables there are, so that a missing one is noticed.
fn remember_tables(
    database: &Database,
    keyspaces: &[Option<Keyspace>],
    mut known: Vec<String>,
    tables: &[Table],
) -> fjall::Result<()> {
    let before = known.len();
    for table in tables {
        if !known.iter().any(|name| name == table.name()) {
            known.push(table.name().to_owned());
        }
    }
    if known.len() == before {
        return Ok(());
    }
    let pipeline = keyspaces[PIPELINE.index()].as_ref().expect("the list of tables has it");
    let mut batch = database.batch().durability(Some(PersistMode::SyncData));
    batch.insert(pipeline, Bytes::from_static(TABLES_KEY), Bytes::from(known.join("\n")));
    batch.commit()
}

impl Backend for EmbeddedBackend {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        let keyspace = self.keyspace(table)?;
        let value =
            caught_reading(|| keys::looked_up(key, |key| keyspace.get(key)).map_err(reading))?;
        Ok(value.map(Bytes::from))
    }

    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool, BackendError> {
        let keyspace = self.keyspace(table)?;
        caught_reading(|| keys::looked_up(key, |key| keyspace.contains_key(key)).map_err(reading))
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        Ok(Box::new(EmbeddedSnapshot {
            snapshot: self.committed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            keyspaces: Arc::clone(&self.keyspaces),
        }))
    }

    /// The sequence is not needed: it is in the pipeline's own row, one writer has the folder's
    /// lock, and a commit that fails is never repeated.
    fn commit(&self, _sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        self.make_room(&writes)?;
        let batch = OwnedWriteBatch::with_capacity(self.database.clone(), writes.len());
        let mut batch = batch.durability(Some(PersistMode::SyncData));
        for Write { table, key, value } in writes {
            let (keyspace, key) = (self.keyspace(&table)?, keys::stored(key));
            match value {
                Some(value) => batch.insert(keyspace, key, value),
                None => batch.remove(keyspace, key),
            }
        }
        batch.commit().map_err(|error| self.failed(error))?;
        self.upkeep.committed();
        let now = self.database.snapshot();
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(())
    }

    fn reclaim(&self, table: &Table) -> Result<(), BackendError> {
        let keyspace = self.keyspace(table)?;
        self.flush(&[keyspace])?;
        keyspace.major_compact().map_err(|error| self.failed(error))
    }

    fn disk_bytes(&self, table: &Table) -> u64 {
        self.keyspace(table).map_or(0, Keyspace::disk_space)
    }

    fn damage(&self) -> Arc<DamageLog> {
        Arc::clone(&self.damage)
    }

    fn close(&self) -> Result<(), BackendError> {
        // Flushed rows need not be replayed when the folder is opened again.
        self.flush(&self.keyspaces.iter().flatten().collect::<Vec<_>>())?;
        self.database.persist(PersistMode::SyncAll).map_err(|error| self.failed(error))
    }
}

struct EmbeddedSnapshot {
    snapshot: fjall::Snapshot,
    keyspaces: Arc<[Option<Keyspace>]>,
}

impl BackendSnapshot for EmbeddedSnapshot {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        let keyspace = keyspace(&self.keyspaces, table)?;
        let get = |key: &[u8]| self.snapshot.get(keyspace, key).map_err(reading);
        let value = caught_reading(|| keys::looked_up(key, get))?;
        Ok(value.map(Bytes::from))
    }

    fn scan(
        &self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), BackendError> {
        let keyspace = keyspace(&self.keyspaces, table)?;
        caught_reading(|| {
            let rows = self.snapshot.range::<Bytes, _>(keyspace, keys::stored_range(range));
            let rows = rows.map(|row| {
                let (key, value) = row.into_inner().map_err(reading)?;
                Ok((keys::given(key.into()), value.into()))
            });
            visit_rows(rows, direction, visit)
        })
    }
}

/// Translates an error of a read. A file that is too short, or whose parts do not decode, is
/// damage; so is a sector that the disk, or a file system with checksums, can no longer give.
fn reading(error: fjall::Error) -> BackendError {
    match backend_error("read from the storage backend", error) {
        BackendError::Io { source, .. } if is_damage(&source) => {
            BackendError::Damaged { what: source.to_string() }
        }
        error => error,
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// fjall's errors in our words: what the system said, or what is damaged.
fn backend_error(doing: &'static str, error: fjall::Error) -> BackendError {
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(LsmError::Io(source)) => {
            BackendError::Io { doing, source }
        }
        fjall::Error::Locked => {
            BackendError::Io { doing, source: io::Error::from(io::ErrorKind::ResourceBusy) }
        }
        fjall::Error::Poisoned => {
            BackendError::Stopped { what: "an earlier write failed".to_owned() }
        }
        error => BackendError::Damaged { what: format!("{error:?}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file or folder that goes between its listing and its measurement counts nothing; a folder
    /// that was never there is an error.
    #[test]
    fn what_goes_while_a_folder_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("inner")).unwrap();
        std::fs::write(at("inner/kept"), [1; 8192]).unwrap();
        std::fs::write(at("gone"), [1; 8192]).unwrap();
        let whole = folder_bytes(folder.path()).unwrap();
        let listed = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        let gone = listed.into_iter().find(|entry| entry.file_name() == "gone").unwrap();
        std::fs::remove_file(at("gone")).unwrap();
        assert_eq!(entry_bytes(&gone).unwrap_err().kind(), io::ErrorKind::NotFound);
        let left = folder_bytes(folder.path()).unwrap();
        assert!((8192..whole).contains(&left), "{left} of {whole}");
        assert!(folder_bytes(&at("never")).is_err());
    }
}
