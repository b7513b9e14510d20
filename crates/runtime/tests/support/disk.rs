//! A disk in memory that dies after a given number of commits, or is away for a while, and keeps what
//! it had taken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use bytes::Bytes;
use indelible_store::backend::{
    Backend, BackendError, BackendSnapshot, Direction, KeyRange, Presence, Visit,
};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Sequence, Table, Write};

/// A disk that can die.
pub struct Disk {
    inner: MemoryBackend,
    /// How many commits it still takes.
    left: AtomicU64,
    taken: AtomicU64,
    /// How many snapshots it still gives that can be read.
    scans_left: AtomicU64,
    /// Nothing is taken for now, and whoever writes waits.
    held: Mutex<bool>,
    released: Condvar,
    /// It cannot be reached: commits fail, and are tried again.
    away: AtomicBool,
}

impl Disk {
    pub fn new() -> Self {
        Self {
            inner: MemoryBackend::new(),
            left: AtomicU64::new(u64::MAX),
            taken: AtomicU64::new(0),
            scans_left: AtomicU64::new(u64::MAX),
            held: Mutex::new(false),
            released: Condvar::new(),
            away: AtomicBool::new(false),
        }
    }

    /// It takes nothing until [`Disk::release`]: whoever writes waits.
    pub fn hold(&self) {
        *self.held.lock().unwrap() = true;
    }

    pub fn release(&self) {
        *self.held.lock().unwrap() = false;
        self.released.notify_all();
    }

    /// Says whether it cannot be reached from now on: commits fail, and are tried again.
    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// It takes so many more commits, and then dies.
    pub fn dies_after(&self, commits: u64) {
        self.left.store(commits, Ordering::SeqCst);
    }

    pub fn die_now(&self) {
        self.dies_after(0);
    }

    /// So many snapshots can still be read; those after them cannot.
    pub fn fails_scans_after(&self, scans: u64) {
        self.scans_left.store(scans, Ordering::SeqCst);
    }

    pub fn revive(&self) {
        self.scans_left.store(u64::MAX, Ordering::SeqCst);
        self.left.store(u64::MAX, Ordering::SeqCst);
    }

    /// Whether it has died.
    pub fn is_dead(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    /// How many commits it has taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }
}

impl Backend for Disk {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.inner.get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        let left = self.scans_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            if left == u64::MAX { Some(left) } else { left.checked_sub(1) }
        });
        if left.is_ok() { self.inner.snapshot() } else { Ok(Box::new(Unreadable)) }
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        drop(self.released.wait_while(self.held.lock().unwrap(), |held| *held).unwrap());
        if self.away.load(Ordering::SeqCst) {
            return Err(BackendError::Unavailable { what: "the disk is away".to_owned() });
        }
        let alive =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if alive.is_err() {
            return Err(BackendError::Stopped { what: "the disk has died".to_owned() });
        }
        self.inner.commit(sequence, writes)?;
        self.taken.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// A commit that failed has taken nothing.
    fn has_sequence(&self, _sequence: Sequence) -> Result<Presence, BackendError> {
        Ok(Presence::NotThere)
    }

    fn reclaim(&self, table: &Table) -> Result<(), BackendError> {
        self.inner.reclaim(table)
    }

    fn disk_bytes(&self, table: &Table) -> u64 {
        self.inner.disk_bytes(table)
    }
}

/// What cannot be read.
struct Unreadable;

impl BackendSnapshot for Unreadable {
    fn get(&self, _: &Table, _: &[u8]) -> Result<Option<Bytes>, BackendError> {
        Err(BackendError::Stopped { what: "it cannot be read now".to_owned() })
    }

    fn scan(
        &self,
        _: &Table,
        _: &KeyRange,
        _: Direction,
        _: &mut Visit<'_>,
    ) -> Result<(), BackendError> {
        Err(BackendError::Stopped { what: "it cannot be read now".to_owned() })
    }
}
