//! Data folders that are closed, and then opened again or handed to another process.
//!
//! A child process has its parent's open files until it calls exec, and with them the lock of every
//! data folder that is open at that moment. Tests run side by side in one process: while one starts
//! a program, the folder that another has just closed may still be locked for a moment.
#![expect(clippy::disallowed_methods, reason = "it waits for a lock of the operating system")]

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use indelible_store::Store;
use indelible_store::embedded::{FolderError, OpenError};

/// Far longer than a child takes until it calls exec.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens a folder that no other process should hold; tries again while a child of this process
/// does.
///
/// # Errors
///
/// The error of `open`, unless a child of this process caused it.
pub fn reopen<T>(open: impl Fn() -> Result<T, OpenError>) -> Result<T, OpenError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match open() {
            Err(OpenError::Folder(FolderError::InUse { .. })) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
}

/// Closes a store, so that a process that is started now can have its folder.
///
/// # Panics
///
/// If it cannot be closed, or its folder stays locked.
pub fn hand_over(store: Store, folder: &Path) {
    store.close().expect("it can be closed");
    until_free(folder);
}

/// Waits until no process has this folder locked, so that one that is started now can have it. A
/// folder that is not made yet is free.
///
/// # Panics
///
/// If it stays locked.
pub fn until_free(folder: &Path) {
    let end = Instant::now() + PATIENCE;
    while is_locked(folder) {
        assert!(Instant::now() < end, "{} stays locked", folder.display());
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reads Linux's list of locks: taking the lock to find out would lock the folder again, for
/// children too.
fn is_locked(folder: &Path) -> bool {
    let Some(inode) = inode(&folder.join("LOCK")) else { return false };
    let ending = format!(":{inode}");
    let is_it = |lock: &str| lock.split_whitespace().nth(5).is_some_and(|it| it.ends_with(&ending));
    fs::read_to_string("/proc/locks").unwrap_or_default().lines().any(is_it)
}

#[cfg(unix)]
fn inode(file: &Path) -> Option<u64> {
    fs::metadata(file).ok().map(|it| std::os::unix::fs::MetadataExt::ino(&it))
}

#[cfg(not(unix))]
fn inode(_file: &Path) -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use indelible_store::embedded;

    use super::*;

    /// A folder is locked as long as a store is open on it, and no longer.
    #[test]
    fn an_open_folder_is_locked() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        assert!(!is_locked(&folder));
        let tables = &indelible_records::TABLES;
        let open = || embedded::open(&folder, tables, &embedded::Options::default());
        let store = open().unwrap();
        assert!(is_locked(&folder));
        hand_over(store, &folder);
        assert!(!is_locked(&folder));
        drop(reopen(open).unwrap());
    }
}
