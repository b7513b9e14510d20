//! The state file: locked by one process, and replaced whole, so that a crash leaves the old state or
//! the new one.
#![expect(clippy::disallowed_methods, reason = "the file is read and written here")]

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::{FileState, StreamName, Unreadable};

/// The largest file that is read: no request is as large.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Why a state file cannot be used. Nothing was sent, and the file was not changed, unless it says
/// so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done, as in "cannot …".
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another writer has the file: two would use the same numbers. Wait for it, or give each a
    /// client id and a file of its own.
    #[error("the state file {} is in use by another writer", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The checksum is of something else. A crash does not do that, but a disk, an editor or a copy
    /// that was cut off does. Restore the file only from a copy that was made after the last request;
    /// otherwise remove it and open with [`IfMissing::AskServer`](crate::IfMissing::AskServer).
    #[error("the state file {} is torn: its checksum is of other bytes", path.display())]
    Torn {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of this crate wrote the file. Use that version.
    #[error("the state file {} has version {version}; this program reads version 1", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The file is of another kind. Name another path.
    #[error("{} is not the state file of a ledger client", path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
    },
    /// The file keeps the numbers of another stream. Give each its own file. If the server has moved
    /// to another address, name it as before with [`server_name`](crate::OpenSequenced::server_name).
    #[error("the state file {} belongs to {found}, not to {expected}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Whose numbers it keeps.
        found: Box<StreamName>,
        /// Who wants to use it.
        expected: Box<StreamName>,
    },
}

/// A step of a writer, for tests that kill it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub enum WriterStep {
    /// The state is about to be written aside.
    Write,
    /// It is about to be synced.
    Sync,
    /// It is about to take the place of the old one.
    Rename,
    /// The folder is about to be synced.
    SyncFolder,
    /// A request is about to be sent.
    Send,
    /// An answer has come.
    Answer,
}

/// Called at each step.
pub(super) type OnStep = Arc<dyn Fn(WriterStep) + Send + Sync>;

/// A state file that this process has locked.
pub(super) struct StateFile {
    path: PathBuf,
    on_step: Option<OnStep>,
    /// Held while the file is open. It is a file of its own, because the state file is replaced.
    _lock: File,
}

impl fmt::Debug for StateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateFile").field(&self.path).finish()
    }
}

impl StateFile {
    /// Locks the file, and reads it. `None`: there is none yet.
    pub(super) fn open(
        path: &Path,
        stream: &StreamName,
        on_step: Option<OnStep>,
    ) -> Result<(Self, Option<FileState>), StateFileError> {
        make_folder(folder(path))?;
        let at = beside(path, ".lock");
        let lock = private().create(true).truncate(false).write(true).open(&at);
        let lock = lock.map_err(failed("open", &at))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateFileError::InUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock", &at)(source)),
        }
        let state = read(path)?;
        if let Some(found) = state.as_ref().map(|state| &state.stream)
            && found != stream
        {
            return Err(StateFileError::Foreign {
                path: path.to_owned(),
                found: Box::new(found.clone()),
                expected: Box::new(stream.clone()),
            });
        }
        Ok((Self { path: path.to_owned(), on_step, _lock: lock }, state))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts this in the place of what the file says. When it returns, the state is durable (impl
    ///
    ///
    /// The new file is synced before it takes the name, and the folder afterwards: without the first
    /// the name could lead to half a file after a power loss, without the second to the old state,
    /// whose numbers are used up.
    pub(super) fn store(&self, state: &FileState) -> Result<(), StateFileError> {
        let aside = beside(&self.path, ".new");
        self.step(WriterStep::Write);
        let file = private().create(true).truncate(true).write(true).open(&aside);
        let mut file = file.map_err(failed("open", &aside))?;
        file.write_all(&state.encode()).map_err(failed("write", &aside))?;
        self.step(WriterStep::Sync);
        file.sync_all().map_err(failed("sync", &aside))?;
        drop(file);
        self.step(WriterStep::Rename);
        fs::rename(&aside, &self.path).map_err(failed("replace", &self.path))?;
        self.step(WriterStep::SyncFolder);
        sync_folder(folder(&self.path))
    }

    pub(super) fn step(&self, step: WriterStep) {
        if let Some(on_step) = &self.on_step {
            on_step(step);
        }
    }
}

fn read(path: &Path) -> Result<Option<FileState>, StateFileError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed("open", path))?,
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed("read", path))?;
    let path = || path.to_owned();
    FileState::decode(&bytes).map(Some).map_err(|why| match why {
        Unreadable::Torn => StateFileError::Torn { path: path() },
        Unreadable::Version(version) => StateFileError::Newer { path: path(), version },
        Unreadable::Other => StateFileError::OtherKind { path: path() },
    })
}

/// Makes a folder and those above it, each durable in the one above.
fn make_folder(at: &Path) -> Result<(), StateFileError> {
    if at.is_dir() {
        return Ok(());
    }
    let above = folder(at);
    if above != at {
        make_folder(above)?;
    }
    match fs::create_dir(at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(failed("make the folder", at)),
    }?;
    sync_folder(above)
}

fn sync_folder(at: &Path) -> Result<(), StateFileError> {
    File::open(at).and_then(|folder| folder.sync_all()).map_err(failed("sync the folder", at))
}

/// The folder of a path; the current one, if the path names none.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// For the owner alone: a state file has the operations of a request.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateFileError {
    let path = path.to_owned();
    move |source| StateFileError::Io { doing, path, source }
}
