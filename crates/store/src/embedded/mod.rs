//! The embedded backend: fjall in a folder of its own, under the commit pipeline.
//!
//! fjall's own back-pressure, recovery and creation have edges that are kept away from here:
//! - Its writers wait in a loop for background work, also when that has failed: a commit begins
//!   only when no such wait can come ([`EmbeddedEngine::wait_for_room`]).
//! - Its recovery cuts a journal at the first thing that it cannot read: `preflight` looks first.
//! - A crash while it creates a folder leaves one that it cannot open: `folder` creates aside.
//! - A flush or compaction that ends makes everything visible that has a sequence number by then,
//!   also a half of the batch that is being written, to snapshots from then on: ours are clones of
//!   one that was taken between two commits.
//! - It has no empty key: `keys` gives it another.
//! - Its journal checksums cover recompressed values: compression of the journal is off.
#![expect(clippy::disallowed_methods, reason = "a backend is a shell: this one owns a folder")]

mod folder;
mod keys;
mod tuning;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fjall::{Database, Keyspace, LsmError, OwnedWriteBatch, PersistMode, Readable as _};

use self::folder::Folder;
pub use self::folder::{Create, FolderError};
pub use self::tuning::Options;
use crate::batch::Write;
use crate::engine::{Direction, Engine, EngineError, EngineSnapshot, KeyRange, Visit};
use crate::pipeline::{StartError, Store};
use crate::table::{self, PIPELINE, Table, TableError};

/// The row of the pipeline's own table that lists all tables this folder ever had.
const TABLES_KEY: &[u8] = b"tables";

/// How long a commit waits before it looks again whether the engine has caught up.
const ROOM_POLL: Duration = Duration::from_millis(1);

/// Why an embedded store cannot be opened. Nothing in the folder has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder is not one, or not ours, or not now.
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
    /// The engine could not open it.
    #[error("the storage engine cannot open {}: {source}", path.display())]
    Engine {
        /// The engine's folder.
        path: PathBuf,
        /// Why.
        source: EngineError,
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
    let engine = EmbeddedEngine::open(path, tables, options)?;
    Ok(Store::start(Arc::new(engine), tables, options.bounds)?)
}

/// fjall in a folder.
pub struct EmbeddedEngine {
    database: Database,
    /// By slot.
    keyspaces: Arc<[Option<Keyspace>]>,
    /// Everything up to the last commit that has returned, and nothing of the next.
    committed: Mutex<fjall::Snapshot>,
    path: PathBuf,
    /// Declared last: the lock goes when everything else is closed.
    _folder: Folder,
}

impl EmbeddedEngine {
    /// Opens a folder, or makes one, with at least these tables.
    pub fn open(path: &Path, tables: &[Table], options: &Options) -> Result<Self, OpenError> {
        let tables = table::list(tables)?;
        let folder =
            Folder::open(path, options.create, |at| open_database(at, &tables, options).map(drop))?;
        let path = folder.engine();
        let (database, keyspaces) = open_database(&path, &tables, options)?;
        let committed = Mutex::new(database.snapshot());
        Ok(Self { database, keyspaces, committed, path, _folder: folder })
    }

    fn keyspace(&self, table: &Table) -> Result<&Keyspace, EngineError> {
        keyspace(&self.keyspaces, table)
    }

    /// Waits until the engine can take a commit without a wait of its own, which would not end if
    /// its background work has failed.
    fn wait_for_room(&self) -> Result<(), EngineError> {
        while self.keyspaces.iter().flatten().any(tuning::is_behind) {
            // Says whether background work has failed; it flushes nothing that is not flushed.
            self.database.persist(PersistMode::Buffer).map_err(|error| self.failed(error))?;
            std::thread::sleep(ROOM_POLL);
        }
        Ok(())
    }

    /// An error, with what can be said of the reason if the engine only says that it stopped.
    fn failed(&self, error: fjall::Error) -> EngineError {
        match error {
            fjall::Error::Poisoned => {
                let free = match rustix::fs::statvfs(&self.path) {
                    Ok(disk) => format!(
                        "{} MiB are free on its disk",
                        (disk.f_bavail * disk.f_frsize) >> 20
                    ),
                    Err(error) => format!("its disk cannot be asked for free space: {error}"),
                };
                let what = format!("flushing or compacting in the background failed; {free}");
                EngineError::Stopped { what }
            }
            error => engine_error("write to the storage engine", error),
        }
    }
}

fn keyspace<'a>(
    keyspaces: &'a [Option<Keyspace>],
    table: &Table,
) -> Result<&'a Keyspace, EngineError> {
    keyspaces
        .get(table.slot())
        .and_then(Option::as_ref)
        .ok_or_else(|| EngineError::Stopped { what: format!("no table {:?}", table.name()) })
}

type Opened = (Database, Arc<[Option<Keyspace>]>);

fn open_database(path: &Path, tables: &[Table], options: &Options) -> Result<Opened, OpenError> {
    let failed = |error: fjall::Error| OpenError::Engine {
        path: path.to_path_buf(),
        source: engine_error("open the storage engine", error),
    };
    let database = tuning::database(path, options).open().map_err(failed)?;
    let known = known_tables(&database).map_err(failed)?;
    if let Some(missing) = known.iter().find(|name| !database.keyspace_exists(name)) {
        let what = format!("its table {missing:?} is missing");
        return Err(OpenError::Damaged { path: path.to_path_buf(), what });
    }
    let slots = tables.iter().map(Table::slot).max().map_or(0, |slot| slot + 1);
    let mut keyspaces = vec![None; slots];
    for table in tables {
        let keyspace = database.keyspace(table.name(), || tuning::keyspace(table, options));
        keyspaces[table.slot()] = Some(keyspace.map_err(failed)?);
    }
    remember_tables(&database, &keyspaces, known, tables).map_err(failed)?;
    Ok((database, keyspaces.into()))
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
    let pipeline = keyspaces[PIPELINE.slot()].as_ref().expect("the list of tables has it");
    let mut batch = database.batch().durability(Some(PersistMode::SyncData));
    batch.insert(pipeline, Bytes::from_static(TABLES_KEY), Bytes::from(known.join("\n")));
    batch.commit()
}

impl Engine for EmbeddedEngine {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let keyspace = self.keyspace(table)?;
        let value = keys::looked_up(key, |key| keyspace.get(key)).map_err(reading)?;
        Ok(value.map(Bytes::from))
    }

    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool, EngineError> {
        let keyspace = self.keyspace(table)?;
        keys::looked_up(key, |key| keyspace.contains_key(key)).map_err(reading)
    }

    fn snapshot(&self) -> Box<dyn EngineSnapshot> {
        Box::new(EmbeddedSnapshot {
            snapshot: self.committed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            keyspaces: Arc::clone(&self.keyspaces),
        })
    }

    fn commit(&self, writes: Vec<Write>) -> Result<(), EngineError> {
        self.wait_for_room()?;
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
        let now = self.database.snapshot();
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(())
    }

    fn reclaim(&self, table: &Table) -> Result<(), EngineError> {
        let keyspace = self.keyspace(table)?;
        keyspace.rotate_memtable_and_wait().map_err(|error| self.failed(error))?;
        keyspace.major_compact().map_err(|error| self.failed(error))
    }

    fn disk_bytes(&self, table: &Table) -> u64 {
        self.keyspace(table).map_or(0, Keyspace::disk_space)
    }

    fn close(&self) -> Result<(), EngineError> {
        // What is flushed need not be replayed when the folder is opened again.
        for keyspace in self.keyspaces.iter().flatten() {
            keyspace.rotate_memtable().map_err(|error| self.failed(error))?;
        }
        while self.keyspaces.iter().flatten().any(|keyspace| keyspace.sealed_memtable_count() > 0) {
            self.database.persist(PersistMode::Buffer).map_err(|error| self.failed(error))?;
            std::thread::sleep(ROOM_POLL);
        }
        self.database.persist(PersistMode::SyncAll).map_err(|error| self.failed(error))
    }
}

struct EmbeddedSnapshot {
    snapshot: fjall::Snapshot,
    keyspaces: Arc<[Option<Keyspace>]>,
}

impl EngineSnapshot for EmbeddedSnapshot {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let keyspace = keyspace(&self.keyspaces, table)?;
        let value = keys::looked_up(key, |key| self.snapshot.get(keyspace, key));
        let value = value.map_err(reading)?;
        Ok(value.map(Bytes::from))
    }

    fn scan(
        &self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        let keyspace = keyspace(&self.keyspaces, table)?;
        let mut rows = self.snapshot.range::<Bytes, _>(keyspace, keys::stored_range(range));
        let mut next = || match direction {
            Direction::Forward => rows.next(),
            Direction::Backward => rows.next_back(),
        };
        while let Some(row) = next() {
            let (key, value) = row.into_inner().map_err(reading)?;
            if let ControlFlow::Break(()) = visit(keys::given(key.into()), value.into()) {
                break;
            }
        }
        Ok(())
    }
}

fn reading(error: fjall::Error) -> EngineError {
    engine_error("read from the storage engine", error)
}

/// fjall's errors in our words: what the system said, or what is damaged.
fn engine_error(doing: &'static str, error: fjall::Error) -> EngineError {
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(LsmError::Io(source)) => {
            EngineError::Io { doing, source }
        }
        fjall::Error::Locked => {
            EngineError::Io { doing, source: io::Error::from(io::ErrorKind::ResourceBusy) }
        }
        fjall::Error::Poisoned => {
            EngineError::Stopped { what: "an earlier write failed".to_owned() }
        }
        error => EngineError::Damaged { what: format!("{error:?}") },
    }
}
