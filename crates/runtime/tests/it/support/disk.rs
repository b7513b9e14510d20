//! A disk in memory that dies after a given number of commits, or is away for a while, and keeps what
//! it had taken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

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
    /// No commit is taken for now: writers wait.
    held: Mutex<bool>,
    released: Condvar,
    scans: Arc<ScanGate>,
    /// It cannot be reached: commits fail, and are tried again.
    away: AtomicBool,
}

/// Where scans of some tables wait.
#[derive(Default)]
struct ScanGate {
    state: Mutex<HeldScans>,
    changed: Condvar,
}

#[derive(Default)]
struct HeldScans {
    tables: Vec<Table>,
    waiting: usize,
    /// A scan has waited for too long, and went on.
    impatient: bool,
}

/// How long a scan is held at most: a thread that should have opened the gate may be the one that
/// waits at it, and the test is to fail then, not to hang.
const SCAN_PATIENCE: Duration = Duration::from_secs(20);

impl ScanGate {
    fn pass(&self, table: &Table) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let held = |state: &mut HeldScans| state.tables.contains(table);
        let (mut state, timeout) =
            self.changed.wait_timeout_while(state, SCAN_PATIENCE, held).unwrap();
        state.waiting -= 1;
        state.impatient |= timeout.timed_out();
    }
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
            scans: Arc::default(),
            away: AtomicBool::new(false),
        }
    }

    /// Scans of these tables wait until [`Disk::release_scans`].
    pub fn hold_scans(&self, tables: &[Table]) {
        self.scans.state.lock().unwrap().tables = tables.to_vec();
    }

    /// Waits until a scan is held.
    pub fn wait_for_held_scan(&self) {
        let state = self.scans.state.lock().unwrap();
        let none = |state: &mut HeldScans| state.waiting == 0;
        let waited = self.scans.changed.wait_timeout_while(state, SCAN_PATIENCE, none).unwrap();
        assert!(!waited.1.timed_out(), "never: a scan that is held");
    }

    /// Lets them go on. None may have waited for so long that it went on by itself.
    pub fn release_scans(&self) {
        let mut state = self.scans.state.lock().unwrap();
        state.tables.clear();
        assert!(!state.impatient, "a scan kept the thread waiting that should have gone on");
        self.scans.changed.notify_all();
    }

    /// It takes no commits until [`Disk::release`]: writers wait.
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
        let gate = Arc::clone(&self.scans);
        match left {
            Ok(_) => Ok(Box::new(Gated { inner: self.inner.snapshot()?, gate })),
            Err(_) => Ok(Box::new(Unreadable)),
        }
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

/// What can be read when the gate is open.
struct Gated {
    inner: Box<dyn BackendSnapshot>,
    gate: Arc<ScanGate>,
}

impl BackendSnapshot for Gated {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.inner.get(table, key)
    }

    fn scan(
        &self,
        table: &Table,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), BackendError> {
        self.gate.pass(table);
        self.inner.scan(table, range, direction, visit)
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
