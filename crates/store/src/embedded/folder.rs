//! A data folder: who has it open, which format it has, and its careful creation.
//!
//! ```text
//! LOCK      held by the process that has the folder open, and names it
//! FORMAT    what this folder is: written first, "ready" once fjall's folder is whole
//! engine/   fjall's
//! ```
//!
//! The bytes are described in `docs/formats/store-folder.md`.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The version that is written. A folder with a higher one is refused.
pub const FORMAT_VERSION: u32 = 2;

/// The last commit of this project that reads format 1: a folder, or a backup of one.
pub const LAST_TO_READ_FORMAT_1: &str = "98696c0";

/// The backend, as the folder names it.
pub const BACKEND_NAME: &str = "fjall 3";

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const BACKEND: &str = "engine";
const BACKEND_NEW: &str = "engine.new";

/// Why a folder cannot be opened as a store. In every case nothing in it has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The operating system said no.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done, as in "cannot …".
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("the data folder {} is in use by {holder}", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// What is known of the process.
        holder: String,
    },
    /// There is something else in it.
    #[error("{} is not empty and is not a data folder: it has no file {FORMAT}", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
    },
    /// The folder does not exist, and the caller did not want it made.
    #[error("there is no data folder at {}", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// A newer version of the program wrote it.
    #[error(
        "the data folder {} has format {found}; this program reads formats up to {FORMAT_VERSION}",
        path.display()
    )]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// An earlier version of the program wrote it.
    #[error(
        "the data folder {} has format {found}, but this program reads format {FORMAT_VERSION}. \
         The folder was not changed; use a build of commit {LAST_TO_READ_FORMAT_1} to read it",
        path.display()
    )]
    Older {
        /// The folder.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Its file `FORMAT` does not say what it is.
    #[error("the file {} is damaged: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It was whole once, and now a part is gone.
    #[error("the data folder {} is damaged: its folder {BACKEND} is missing", path.display())]
    BackendMissing {
        /// The folder.
        path: PathBuf,
    },
}

/// Whether a folder may be made where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// If there is none.
    IfMissing,
    /// Never.
    No,
}

/// A data folder that this process has open. The lock goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held, not read: its lock is the folder's.
    lock: File,
}

/// Unlocks explicitly. Closing the file is not enough: a child that another thread has forked and that
/// has not yet called `exec` still holds the descriptor, and with it the lock.
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Creating,
    Ready,
}

impl Folder {
    /// Takes a folder for this process. Where there is none yet, `make_backend` makes the backend's
    /// folder at a path; a crash at any moment leaves either none or a whole one.
    pub(crate) fn open<E: From<FolderError>>(
        path: &Path,
        create: Create,
        make_backend: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Self, E> {
        let folder = Self::lock(path, create)?;
        match folder.state()? {
            Some(State::Ready) => {
                if !folder.backend().is_dir() {
                    return Err(FolderError::BackendMissing { path: folder.path.clone() }.into());
                }
                // The process that wrote "ready" may have been killed before its folder entry was
                // durable. If a power loss took "ready" back, the next open would make the folder
                // anew, over everything committed since. So it is made durable here.
                folder.sync()?;
            }
            _ if create == Create::No => {
                return Err(FolderError::Missing { path: folder.path.clone() }.into());
            }
            state => {
                if state.is_none() {
                    if has_entries(&folder.path)? {
                        return Err(FolderError::NotAStore { path: folder.path.clone() }.into());
                    }
                    folder.write_format(State::Creating)?;
                }
                folder.make(make_backend)?;
            }
        }
        Ok(folder)
    }

    /// Where the backend's files are.
    pub(crate) fn backend(&self) -> PathBuf {
        self.path.join(BACKEND)
    }

    fn lock(path: &Path, create: Create) -> Result<Self, FolderError> {
        let path = path.to_path_buf();
        match create {
            Create::IfMissing => self::create(&path)?,
            Create::No if !path.join(FORMAT).exists() => {
                return Err(if path.is_dir() && has_entries(&path)? {
                    FolderError::NotAStore { path }
                } else {
                    FolderError::Missing { path }
                });
            }
            Create::No => sync_name(&path)?,
        }
        let at = path.join(LOCK);
        let mut options = private();
        options.read(true).write(true).create(true).truncate(false);
        let mut lock = options.open(&at).map_err(failed("open the file", &at))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(FolderError::InUse { path, holder: holder(&mut lock) });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock", &at)(source)),
        }
        // For the error message of another process; the lock itself is what counts.
        let name = format!("process {}\n", std::process::id());
        let write = |lock: &mut File| {
            lock.set_len(0)?;
            lock.write_all(name.as_bytes())
        };
        write(&mut lock).map_err(failed("write to", &at))?;
        Ok(Self { path, lock })
    }

    fn state(&self) -> Result<Option<State>, FolderError> {
        let at = self.path.join(FORMAT);
        let text = match fs::read(&at) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &at)(error)),
        };
        let damaged = |what: &str| FolderError::Format { path: at.clone(), what: what.to_owned() };
        let text = str::from_utf8(&text).map_err(|_| damaged("it is not text"))?;
        let mut lines = text.lines();
        if lines.next() != Some("indelible store") {
            return Err(damaged("it does not begin with \"indelible store\""));
        }
        let version = lines.next().and_then(|line| line.strip_prefix("format "));
        let version: u32 = version
            .and_then(|version| version.parse().ok())
            .ok_or_else(|| damaged("it has no format version"))?;
        // The version decides how the rest is to be read.
        if version > FORMAT_VERSION {
            return Err(FolderError::Newer { path: self.path.clone(), found: version });
        }
        if version == 1 {
            return Err(FolderError::Older { path: self.path.clone(), found: version });
        }
        match (version, lines.next(), lines.next(), lines.next()) {
            (2, Some("engine fjall 3"), Some("state ready"), None) => Ok(Some(State::Ready)),
            (2, Some("engine fjall 3"), Some("state creating"), None) => Ok(Some(State::Creating)),
            _ => Err(damaged("it does not name the storage backend and its state")),
        }
    }

    fn make<E: From<FolderError>>(
        &self,
        make_backend: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        let new = self.path.join(BACKEND_NEW);
        // Left by an interrupted creation; no commit was ever accepted into it.
        for stale in [&new, &self.backend()] {
            match fs::remove_dir_all(stale) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", stale)(error).into());
                }
                _ => {}
            }
        }
        make_backend(&new)?;
        let backend = self.backend();
        fs::rename(&new, &backend).map_err(failed("rename", &new))?;
        self.sync()?;
        self.write_format(State::Ready)?;
        Ok(())
    }

    fn write_format(&self, state: State) -> Result<(), FolderError> {
        let state = match state {
            State::Creating => "creating",
            State::Ready => "ready",
        };
        let text =
            format!("indelible store\nformat {FORMAT_VERSION}\nengine fjall 3\nstate {state}\n");
        let new = self.path.join(FORMAT_NEW);
        let write = || {
            let mut file = private().write(true).create(true).truncate(true).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, self.path.join(FORMAT))
        };
        write().map_err(failed("write", &new))?;
        self.sync()
    }

    /// Makes the folder's own entries durable.
    fn sync(&self) -> Result<(), FolderError> {
        sync(&self.path)
    }
}

/// Makes the entries of a folder durable, not the files' content.
pub(super) fn sync(folder: &Path) -> Result<(), FolderError> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(failed("sync", folder))
}

/// Makes a folder's entry in its parent durable. If this process may not list the parent, it did
/// not make the folder either, so there is nothing to sync.
fn sync_name(folder: &Path) -> Result<(), FolderError> {
    let Some(parent) = folder.parent() else { return Ok(()) };
    let here = parent.as_os_str().is_empty();
    match sync(if here { Path::new(".") } else { parent }) {
        Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            Ok(())
        }
        result => result,
    }
}

/// Makes a folder and its missing parents; durable when this returns.
fn create(folder: &Path) -> Result<(), FolderError> {
    if folder.is_dir() {
        // The process that made it may have been killed before the entry was durable.
        return sync_name(folder);
    }
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create(parent)?;
        make_one(folder)?;
        sync(parent)
    } else {
        make_one(folder)?;
        sync(Path::new("."))
    }
}

/// Makes one folder that only its owner may read, since rows are stored unencrypted.
fn make_one(folder: &Path) -> Result<(), FolderError> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        // Another process made it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        result => result.map_err(failed("create the folder", folder)),
    }
}

/// Options for a file that only its owner may read.
fn private() -> fs::OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(super) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_path_buf();
    move |source| FolderError::Io { doing, path, source }
}

/// Whether a folder has anything in it that is not ours to overwrite.
fn has_entries(path: &Path) -> Result<bool, FolderError> {
    let entries = || -> io::Result<bool> {
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            if name != LOCK && name != FORMAT_NEW {
                return Ok(true);
            }
        }
        Ok(false)
    };
    entries().map_err(failed("list", path))
}

/// What a lock file says of its holder. It may be empty for a moment.
fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    let read = lock.seek(SeekFrom::Start(0)).and_then(|_| lock.take(200).read_to_string(&mut text));
    let name = text.trim();
    match read {
        Ok(_) if name.starts_with("process ") && !name.contains(char::is_control) => {
            name.to_owned()
        }
        _ => "another process".to_owned(),
    }
}
