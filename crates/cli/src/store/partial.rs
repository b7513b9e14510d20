//! A file on its way to its name: nobody else reads or writes it meanwhile, and it replaces nothing
//! that it was not told to.
#![expect(clippy::disallowed_methods, reason = "it writes the file that was named")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::failure::Failure;

/// It is called `FILE.partial`, and goes with this, unless it is kept.
pub(super) struct Partial {
    path: PathBuf,
    pub(super) file: File,
    kept: bool,
}

/// So often another process may take the name away while it is opened.
const OPENED_MAX: u32 = 100;

/// Whoever has a backup has everything: nobody else may read it.
const MODE: u32 = 0o600;

impl Partial {
    pub(super) fn create(file: &Path) -> Result<Self, Failure> {
        let mut path = file.as_os_str().to_owned();
        path.push(".partial");
        let path = PathBuf::from(path);
        for _ in 0..OPENED_MAX {
            let Some(file) = open(&path)? else { continue };
            let emptied = file.set_permissions(Permissions::from_mode(MODE));
            let emptied = emptied.and_then(|()| file.set_len(0));
            emptied.map_err(|error| cannot("create", &path, &error))?;
            return Ok(Self { path, file, kept: false });
        }
        Err(busy(&path))
    }

    pub(super) fn failed(&self, doing: &str, error: &io::Error) -> Failure {
        cannot(doing, &self.path, error)
    }

    /// Gives it its name, for good. Ok(false): somebody else has the name, and was not to be
    /// replaced.
    pub(super) fn keep(mut self, file: &Path, replace: bool) -> Result<bool, Failure> {
        let renamed = match replace {
            true => fs::rename(&self.path, file),
            false => rename_new(&self.path, file),
        };
        match renamed {
            Err(error) if !replace && error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            renamed => renamed.map_err(|error| self.failed("rename", &error))?,
        }
        self.kept = true;
        sync_folder_of(file)?;
        Ok(true)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // It is no backup. If it cannot be removed, its name says so.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens and locks what has this name; None if that has lost it meanwhile.
fn open(path: &Path) -> Result<Option<File>, Failure> {
    let failed = |error: &io::Error| cannot("create", path, error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(MODE);
    // A link that somebody has put there could lead to a file that is not to be overwritten.
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => Failure::new(format!("{} is a link", path.display()))
            .hint("it is where the backup is written first: remove it, or name another file"),
        _ => failed(&error),
    })?;
    // Left over by a process that was killed, or another one's.
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(busy(path)),
        Err(fs::TryLockError::Error(error)) => return Err(failed(&error)),
    }
    Ok(is_ours(&file, path).map_err(|error| failed(&error))?.then_some(file))
}

/// Whether a file that is locked now has this name, and no other.
fn is_ours(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    let named = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        named => named?,
    };
    // Between opening and locking, another process may have finished it: it is a good backup now.
    if (named.dev(), named.ino()) != (own.dev(), own.ino()) {
        return Ok(false);
    }
    // That process was killed in `link_new`: by its other name it is a good backup.
    if own.nlink() > 1 {
        fs::remove_file(path)?;
        return Ok(false);
    }
    Ok(true)
}

fn busy(path: &Path) -> Failure {
    Failure::new(format!("another process writes {}", path.display()))
        .hint("wait for it, or name another file")
}

/// Gives a file a name that nothing has.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system can, nor every kernel.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            renamed => return Ok(renamed?),
        }
    }
    link_new(from, to)
}

/// The same in two steps, where it cannot be done in one.
fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    // It has its name. If the other one stays, the next backup takes it away.
    _ = fs::remove_file(from);
    Ok(())
}

/// Makes durable what a file or folder is called.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let sync = || File::open(parent)?.sync_all();
    sync().map_err(|error| cannot("sync", parent, &error))
}

/// What the system does not let us do with a file or folder, and what to do.
pub(super) fn cannot(doing: &str, path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => "look at the path: there is nothing of that name",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "look at who may read and write there, or name another place"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "make room on that disk, or name a place on another"
        }
        ErrorKind::IsADirectory => "a folder has that name: name another file",
        ErrorKind::NotADirectory => "a part of the path is a file, and not a folder",
        _ => "look at the path and at the disk, or name another place",
    };
    Failure::new(format!("cannot {doing} {}: {error}", path.display())).hint(hint)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (file, partial) = (folder.path().join("file"), folder.path().join("file.partial"));
        (folder, file, partial)
    }

    fn refused(file: &Path) -> String {
        Partial::create(file).err().expect("it is refused").to_string()
    }

    /// What a process that was killed has left is used again, and belongs to nobody else from then
    /// on; one that is being written is not touched.
    #[test]
    fn what_was_left_over() {
        let (_folder, file, partial) = place();
        fs::write(&partial, "old").unwrap();
        fs::set_permissions(&partial, Permissions::from_mode(0o666)).unwrap();
        let mut first = Partial::create(&file).unwrap();
        let found = fs::metadata(&partial).unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (0, 0o600));
        let second = refused(&file);
        assert!(second.contains("another process writes") && second.contains("hint: "), "{second}");
        first.file.write_all(b"new").unwrap();
        assert!(first.keep(&file, false).unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(!partial.exists());
    }

    /// A link is not followed, and a second name of a file is taken away: what they lead to stays.
    #[test]
    fn what_links_lead_to() {
        let (folder, file, partial) = place();
        let precious = folder.path().join("precious");
        fs::write(&precious, "x").unwrap();
        for to in [&precious, &folder.path().join("nothing")] {
            std::os::unix::fs::symlink(to, &partial).unwrap();
            let said = refused(&file);
            assert!(said.contains("file.partial is a link\nhint: "), "{said}");
            fs::remove_file(&partial).unwrap();
        }
        assert!(!folder.path().join("nothing").exists());
        fs::hard_link(&precious, &partial).unwrap();
        drop(Partial::create(&file).unwrap());
        assert_eq!(fs::read(&precious).unwrap(), b"x");
        assert!(!partial.exists(), "what is not kept goes");
    }

    /// A name that somebody else has taken meanwhile is theirs, unless it is to be replaced; in one
    /// step and in two.
    #[test]
    fn names_that_are_taken() {
        let (folder, file, partial) = place();
        fs::write(&file, "theirs").unwrap();
        assert!(!Partial::create(&file).unwrap().keep(&file, false).unwrap());
        assert!(!partial.exists());
        let other = folder.path().join("other");
        fs::write(&other, "ours").unwrap();
        assert_eq!(link_new(&other, &file).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).unwrap(), b"theirs");
        assert!(Partial::create(&file).unwrap().keep(&file, true).unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"");
        link_new(&other, &folder.path().join("free")).unwrap();
        assert_eq!(fs::read(folder.path().join("free")).unwrap(), b"ours");
        assert!(!other.exists());
    }

    /// What another process has finished between opening and locking is not written over, also
    /// when somebody has begun anew since.
    #[test]
    fn a_name_that_went_away() {
        let (_folder, file, partial) = place();
        let opened = open(&partial).unwrap().unwrap();
        assert!(is_ours(&opened, &partial).unwrap());
        fs::rename(&partial, &file).unwrap();
        assert!(!is_ours(&opened, &partial).unwrap());
        fs::write(&partial, "another").unwrap();
        assert!(!is_ours(&opened, &partial).unwrap());
        assert_eq!(fs::read(&partial).unwrap(), b"another");
    }
}
