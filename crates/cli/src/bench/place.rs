//! `BenchFolder`: the folder of a benchmark, and its removal.
#![expect(clippy::disallowed_methods, reason = "a benchmark of a disk owns a folder on it")]

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::failure::Failure;

/// How often removal is retried: the engine's threads may still make files meanwhile.
const REMOVALS_MAX: usize = 100;

/// A folder that was empty or absent before.
#[derive(Debug)]
pub(super) struct BenchFolder {
    path: PathBuf,
    leave: Leave,
    guests: Mutex<Guests>,
}

/// A process that works in the folder.
#[derive(Debug)]
pub(super) struct Guest(Arc<Mutex<Child>>);

impl Guest {
    /// The process id.
    pub(super) fn id(&self) -> u32 {
        lock(&self.0).id()
    }

    /// Kills the process: nothing is flushed or closed.
    pub(super) fn kill(&self) {
        let mut child = lock(&self.0);
        _ = child.kill();
        _ = child.wait();
    }
}

/// The processes that work in the folder.
#[derive(Debug, Default)]
struct Guests {
    all: Vec<Guest>,
    /// Removal has begun: no process may be started in the folder any more.
    closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is left of the folder in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    Nothing,
    EmptyFolder,
    Everything,
}

impl BenchFolder {
    /// Makes the named folder, or else one in the current directory: the folder for temporary files
    /// is often in memory, where a sync costs nothing.
    pub(super) fn make(named: Option<&Path>, keep: bool) -> Result<Self, Failure> {
        let own = || PathBuf::from(format!("indelible-bench-{}", std::process::id()));
        let path = named.map_or_else(own, Path::to_path_buf);
        let failed = |error: io::Error| {
            Failure::new(format!("cannot use the folder {}: {error}", path.display()))
                .hint("give an empty or absent folder on the disk to measure, with --dir")
        };
        let was_there = path.exists();
        if was_there && fs::read_dir(&path).map_err(failed)?.next().is_some() {
            return Err(failed(io::Error::other("it is not empty")));
        }
        fs::create_dir_all(&path).map_err(failed)?;
        let leave = match (keep, was_there) {
            (true, _) => Leave::Everything,
            (false, true) => Leave::EmptyFolder,
            (false, false) => Leave::Nothing,
        };
        Ok(Self { path: path.canonicalize().map_err(failed)?, leave, guests: Mutex::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file system has no disk.
    #[cfg(target_os = "linux")]
    pub(super) fn is_in_memory(&self) -> bool {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        // The type of `f_type` differs between architectures.
        let kind = rustix::fs::statfs(&self.path).map(|system| system.f_type as u64);
        kind.is_ok_and(|kind| kind == TMPFS || kind == RAMFS)
    }

    /// Whether the file system has no disk: unknown on this system, so no.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn is_in_memory(&self) -> bool {
        false
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes a part of the folder, unless everything is to be kept.
    pub(super) fn done_with(&self, path: &Path) {
        if self.leave != Leave::Everything {
            removed(|| fs::remove_dir_all(path), path);
        }
    }

    /// Starts a process in the folder. Does not return if the folder is being removed.
    pub(super) fn let_in(&self, command: &mut Command) -> io::Result<(Guest, Option<ChildStdout>)> {
        let mut guests = lock(&self.guests);
        if guests.closed {
            drop(guests);
            self.last_wait();
        }
        let mut child = command.spawn()?;
        let output = child.stdout.take();
        let child = Arc::new(Mutex::new(child));
        guests.all.push(Guest(Arc::clone(&child)));
        Ok((Guest(child), output))
    }

    /// Returns the result, except for an error while the folder is being removed: the process is
    /// about to end, so this waits instead of reporting it.
    pub(super) fn unless_removed<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() && lock(&self.guests).closed {
            self.last_wait();
        }
        result
    }

    fn last_wait(&self) -> ! {
        loop {
            std::thread::park();
        }
    }

    /// Kills the processes in the folder, and removes what is not to be left. `closed` is set
    /// first, so that no process is started after the kills.
    pub(super) fn remove(&self) {
        let mut guests = lock(&self.guests);
        guests.closed = true;
        guests.all.iter().for_each(Guest::kill);
        drop(guests);
        match self.leave {
            Leave::Everything => {}
            Leave::Nothing => removed(|| fs::remove_dir_all(&self.path), &self.path),
            Leave::EmptyFolder => removed(|| empty(&self.path), &self.path),
        }
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        self.remove();
    }
}

fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        } else {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Whether the folder is still empty after a moment: interrupted threads may be about to make a
/// file.
fn stays_empty(path: &Path) -> bool {
    std::thread::sleep(Duration::from_millis(5));
    fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none())
}

fn removed(remove: impl Fn() -> io::Result<()>, path: &Path) {
    let mut left = REMOVALS_MAX;
    loop {
        match remove() {
            Ok(()) if left == 0 || stays_empty(path) => return,
            Ok(()) => left -= 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => return,
            Err(_) if left > 0 => left -= 1,
            Err(error) => {
                let path = path.display();
                _ = writeln!(io::stderr(), "cannot remove {path}: {error}; remove it yourself");
                return;
            }
        }
    }
}
