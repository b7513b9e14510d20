//! A file that is written under another name first: no other process reads or writes it meanwhile,
//! and its final name replaces a file only if that was asked for.
#![expect(clippy::disallowed_methods, reason = "it writes the file that was named")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::failure::Failure;

/// The file `FILE.partial`; dropping this removes it, unless it was kept.
pub(super) struct Partial {
    path: PathBuf,
    pub(super) file: File,
    kept: bool,
}

/// How often another process may take the name away while this one opens the file.
const OPENED_MAX: u32 = 100;

/// A backup holds all data: no other user may read it.
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

    /// Renames the file to its final name, durably. Ok(false): another file has the name, and was
    /// not to be replaced.
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
            // The file is no backup. If it cannot be removed, its name says so.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens and locks the file of this name; None if the file has lost the name meanwhile.
fn open(path: &Path) -> Result<Option<File>, Failure> {
    let failed = |error: &io::Error| cannot("create", path, error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(MODE);
    // A link at this path could lead to a file that must not be overwritten.
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => Failure::new(format!("{} is a link", path.display()))
            .hint("the backup is first written there: remove the link, or choose another file"),
        _ => failed(&error),
    })?;
    // The file is new, was left over by a killed process, or is being written by another process.
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(busy(path)),
        Err(fs::TryLockError::Error(error)) => return Err(failed(&error)),
    }
    Ok(is_ours(&file, path).map_err(|error| failed(&error))?.then_some(file))
}

/// Whether the locked file still has this name, and no other. Two cases in which it does not, both
/// because another process has finished its backup: (1) it renamed the file between our opening and
/// our locking; (2) it was killed in `link_new` with both names in place.
fn is_ours(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    let named = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        named => named?,
    };
    // Case 1: the file is a good backup under another name now.
    if (named.dev(), named.ino()) != (own.dev(), own.ino()) {
        return Ok(false);
    }
    // Case 2: the file is a good backup under its other name; this name is removed.
    if own.nlink() > 1 {
        fs::remove_file(path)?;
        return Ok(false);
    }
    Ok(true)
}

fn busy(path: &Path) -> Failure {
    Failure::new(format!("another process is writing {}", path.display()))
        .hint("wait for it, or choose another file")
}

/// Renames a file; fails if the new name exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system or kernel can rename without replacing.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            renamed => return Ok(renamed?),
        }
    }
    link_new(from, to)
}

/// The same in two steps, where it cannot be done in one.
fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    // The file has its final name. If the other one stays, the next backup removes it.
    _ = fs::remove_file(from);
    Ok(())
}

/// Makes the name of a file or folder durable.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let sync = || File::open(parent)?.sync_all();
    sync().map_err(|error| cannot("sync", parent, &error))
}

/// An error of the system about a file or folder, with a hint.
pub(super) fn cannot(doing: &str, path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => "check the path: nothing exists there",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "check the permissions there, or choose another place"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free space on that disk, or choose a place on another"
        }
        ErrorKind::IsADirectory => "a folder has that name: choose another file",
        ErrorKind::NotADirectory => "a part of the path is a file, not a folder",
        _ => "check the path and the disk, or choose another place",
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

    /// A file that a killed process left is used again, and is private from then on; one that is
    /// being written is not touched.
    #[test]
    fn what_was_left_over() {
        let (_folder, file, partial) = place();
        fs::write(&partial, "old").unwrap();
        fs::set_permissions(&partial, Permissions::from_mode(0o666)).unwrap();
        let mut first = Partial::create(&file).unwrap();
        let found = fs::metadata(&partial).unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (0, 0o600));
        let second = refused(&file);
        assert!(
            second.contains("another process is writing") && second.contains("hint: "),
            "{second}"
        );
        first.file.write_all(b"new").unwrap();
        assert!(first.keep(&file, false).unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(!partial.exists());
    }

    /// A link is not followed, and a second name of a file is removed: the file itself stays.
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

    /// A name that another process has taken meanwhile is not replaced, unless that was asked for;
    /// in one step and in two.
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

    /// A backup that another process finished between our opening and our locking is not
    /// overwritten, even if a third process has started a new file under the name.
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
