//! Upkeep: a thread of ours that sorts what was flushed into place (compaction).
//!
//! fjall has workers that would do it, and they have two faults. With one worker a flush waits for
//! a compaction of seconds, and commits wait for the flush; with several, one of them turns in a
//! loop, on a core of its own, as long as another compacts. So fjall's worker is left with the
//! flushes: its own strategy never finds anything to do (`tuning`), and ours runs here.
//!
//! When nothing was committed for a while it goes further: what is in memory is written out, and
//! the newest files are sorted in. Reads are quicker then, and so is opening after a crash.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::{AbstractTree as _, Database, Keyspace};

use crate::backend::{BackendError, caught};
use crate::damage::DamageLog;

/// Nothing was committed for so long: the store is idle.
const IDLE: Duration = Duration::from_secs(1);
/// What is less than this in memory may stay there.
const IDLE_MEMTABLE_BYTES_MIN: u64 = 1 << 20;

/// After a memtable was handed over, how often to look whether its file is there.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A table, and how it is to be sorted.
pub(super) struct Kept {
    pub(super) keyspace: Keyspace,
    pub(super) strategy: Arc<Leveled>,
    pub(super) idle_strategy: Arc<Leveled>,
}

/// The thread. It ends when this is dropped.
pub(super) struct Upkeep {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Control {
    state: Mutex<State>,
    changed: Condvar,
    /// Something was committed since the last look.
    committed: AtomicBool,
}

/// Why the thread wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    Asked,
    Idle,
    Stop,
}

#[derive(Default)]
struct State {
    /// There may be something to do.
    asked: bool,
    stop: bool,
    failure: Option<String>,
}

impl Upkeep {
    /// Starts it; what it finds damaged is noted.
    pub(super) fn start(
        database: Database,
        tables: Vec<Kept>,
        damage: Arc<DamageLog>,
    ) -> std::io::Result<Self> {
        let control = Arc::new(Control::default());
        // What an earlier process left to do.
        control.lock().asked = true;
        let thread = std::thread::Builder::new().name("store upkeep".to_owned()).spawn({
            let control = Arc::clone(&control);
            move || control.run(&database, &tables, &damage)
        })?;
        Ok(Self { control, thread: Some(thread) })
    }

    /// Says that something was flushed, or will be.
    pub(super) fn ask(&self) {
        self.control.lock().asked = true;
        self.control.changed.notify_all();
    }

    /// Says that something was committed.
    pub(super) fn committed(&self) {
        self.control.committed.store(true, Ordering::Relaxed);
    }

    /// Why it stopped by itself, if it has.
    pub(super) fn failure(&self) -> Option<String> {
        self.control.lock().failure.clone()
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.control.lock().stop = true;
        self.control.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It says why it failed before it ends.
            _ = thread.join();
        }
    }
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, database: &Database, tables: &[Kept], damage: &DamageLog) {
        // A folder that was just opened may have much in memory.
        let mut is_tidy = false;
        loop {
            let wake = self.wait(is_tidy);
            let result = match wake {
                Wake::Stop => return,
                Wake::Asked => caught(|| self.tidy(database, tables, |table| &table.strategy)),
                Wake::Idle => caught(|| {
                    flush_rest(tables)?;
                    self.tidy(database, tables, |table| &table.idle_strategy)
                }),
            };
            if let Err(error) = result {
                if error.is_damage() {
                    damage.note(&error.to_string());
                }
                self.lock().failure = Some(error.to_string());
                return;
            }
            is_tidy = wake == Wake::Idle;
        }
    }

    /// Waits to be asked, or, unless everything is tidy, until nothing is committed any more.
    fn wait(&self, mut is_tidy: bool) -> Wake {
        let mut state = self.lock();
        loop {
            let quiet = |state: &mut State| !state.asked && !state.stop;
            let waited = self.changed.wait_timeout_while(state, IDLE, quiet);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if state.stop {
                return Wake::Stop;
            }
            if !timeout.timed_out() {
                state.asked = false;
                return Wake::Asked;
            }
            if self.committed.swap(false, Ordering::Relaxed) {
                is_tidy = false;
            } else if !is_tidy {
                return Wake::Idle;
            }
        }
    }

    /// Compacts until there is nothing to do and nothing on its way.
    fn tidy(
        &self,
        database: &Database,
        tables: &[Kept],
        strategy: impl Fn(&Kept) -> &Arc<Leveled>,
    ) -> Result<(), BackendError> {
        loop {
            let mut worked = false;
            for table in tables {
                if self.lock().stop {
                    return Ok(());
                }
                worked |= compact(database, &table.keyspace, strategy(table))?;
            }
            let flushing = || tables.iter().any(|table| table.keyspace.sealed_memtable_count() > 0);
            if worked {
                continue;
            }
            if !flushing() {
                return Ok(());
            }
            let timeout = self.changed.wait_timeout(self.lock(), LOOK_AGAIN);
            drop(timeout);
        }
    }
}

/// Hands over what is in memory, where it is worth a file.
fn flush_rest(tables: &[Kept]) -> Result<(), BackendError> {
    for Kept { keyspace, .. } in tables {
        if keyspace.tree.active_memtable().size() >= IDLE_MEMTABLE_BYTES_MIN {
            let rotated = keyspace.rotate_memtable();
            rotated.map_err(|error| super::engine_error("write out what is in memory", error))?;
        }
    }
    Ok(())
}

/// One compaction, if there is one to do.
fn compact(
    database: &Database,
    keyspace: &Keyspace,
    strategy: &Arc<Leveled>,
) -> Result<bool, BackendError> {
    let tree = &keyspace.tree;
    let files = || (tree.table_count(), tree.l0_run_count(), tree.disk_space());
    let before = files();
    let watermark = database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
    tree.compact(Arc::clone(strategy) as _, watermark).map_err(
        |error| match super::engine_error("compact tables", error.into()) {
            BackendError::Damaged { what } => {
                BackendError::Damaged { what: format!("table {:?}: {what}", keyspace.name()) }
            }
            error => error,
        },
    )?;
    // What is flushed meanwhile changes them too; then it looks once more for nothing.
    Ok(files() != before)
}
