//! Upkeep: a thread of ours that sorts what was flushed into place (compaction).
//!
//! fjall's own workers have two faults. With one worker a flush waits for a compaction of seconds,
//! and commits wait for the flush; with several, one of them spins on a core of its own as long as
//! another compacts. So fjall's one worker only flushes: its own strategy never finds anything to
//! do (`tuning`), and ours runs here.
//!
//! When nothing was committed for a while it goes further: what is in memory is written out, and
//! the newest files are sorted in. Reads are quicker then, and so is opening after a crash.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
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
pub(super) struct UpkeepTable {
    pub(super) keyspace: Keyspace,
    pub(super) strategy: Arc<Leveled>,
    pub(super) idle_strategy: Arc<Leveled>,
}

/// The thread. It ends when this is dropped.
pub(super) struct Upkeep {
    /// Asks the thread to work; `None` ends it. Several requests count as one.
    asks: Option<SyncSender<()>>,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Control {
    /// Something was committed since the last look.
    committed: AtomicBool,
    stop: AtomicBool,
    failure: OnceLock<String>,
}

impl Upkeep {
    /// Starts it; what it finds damaged is noted.
    pub(super) fn start(
        database: Database,
        tables: Vec<UpkeepTable>,
        damage: Arc<DamageLog>,
    ) -> std::io::Result<Self> {
        let control = Arc::new(Control::default());
        let (asks, asked) = sync_channel(1);
        let thread = std::thread::Builder::new().name("store upkeep".to_owned()).spawn({
            let control = Arc::clone(&control);
            move || control.run(&database, &tables, &asked, &damage)
        })?;
        let upkeep = Self { asks: Some(asks), control, thread: Some(thread) };
        // What an earlier process left to do.
        upkeep.ask();
        Ok(upkeep)
    }

    /// Says that something was flushed, or will be.
    pub(super) fn ask(&self) {
        // Full: it was asked already. Disconnected: the thread has failed, and `failure` says why.
        _ = self.asks.as_ref().map(|asks| asks.try_send(()));
    }

    /// Says that something was committed.
    pub(super) fn committed(&self) {
        self.control.committed.store(true, Ordering::Relaxed);
    }

    /// Why it stopped by itself, if it has.
    pub(super) fn failure(&self) -> Option<String> {
        self.control.failure.get().cloned()
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.control.stop.store(true, Ordering::Release);
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // It says why it failed before it ends.
            _ = thread.join();
        }
    }
}

impl Control {
    fn run(
        &self,
        database: &Database,
        tables: &[UpkeepTable],
        asked: &Receiver<()>,
        damage: &DamageLog,
    ) {
        // A folder that was just opened may have much in memory.
        let mut is_tidy = false;
        while let Some(is_idle) = self.wait(asked, is_tidy) {
            let result = caught(|| {
                if is_idle {
                    flush_rest(tables)?;
                }
                self.tidy(database, tables, asked, |table| {
                    if is_idle { &table.idle_strategy } else { &table.strategy }
                })
            });
            if let Err(error) = result {
                if error.is_damage() {
                    damage.note(&error.to_string());
                }
                _ = self.failure.set(error.to_string());
                return;
            }
            is_tidy = is_idle;
        }
    }

    /// Waits for a request, or, unless everything is tidy, until commits cease. Returns whether the
    /// store is idle; `None`: the thread is to end.
    fn wait(&self, asked: &Receiver<()>, mut is_tidy: bool) -> Option<bool> {
        loop {
            match asked.recv_timeout(IDLE) {
                Ok(()) => return Some(false),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.committed.swap(false, Ordering::Relaxed) {
                is_tidy = false;
            } else if !is_tidy {
                return Some(true);
            }
        }
    }

    /// Compacts until there is nothing to do and nothing on its way.
    fn tidy(
        &self,
        database: &Database,
        tables: &[UpkeepTable],
        asked: &Receiver<()>,
        strategy: impl Fn(&UpkeepTable) -> &Arc<Leveled>,
    ) -> Result<(), BackendError> {
        loop {
            let mut worked = false;
            for table in tables {
                if self.stop.load(Ordering::Acquire) {
                    return Ok(());
                }
                worked |= compact(database, &table.keyspace, strategy(table))?;
            }
            if worked {
                continue;
            }
            if tables.iter().all(|table| table.keyspace.sealed_memtable_count() == 0) {
                return Ok(());
            }
            // A request or the stop ends this wait early.
            _ = asked.recv_timeout(LOOK_AGAIN);
        }
    }
}

/// Hands over what is in memory, where it is worth a file.
fn flush_rest(tables: &[UpkeepTable]) -> Result<(), BackendError> {
    for UpkeepTable { keyspace, .. } in tables {
        if keyspace.tree.active_memtable().size() >= IDLE_MEMTABLE_BYTES_MIN {
            let rotated = keyspace.rotate_memtable();
            rotated.map_err(|error| super::backend_error("write out what is in memory", error))?;
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
        |error| match super::backend_error("compact tables", error.into()) {
            BackendError::Damaged { what } => {
                BackendError::Damaged { what: format!("table {:?}: {what}", keyspace.name()) }
            }
            error => error,
        },
    )?;
    // A flush meanwhile changes them too; then the caller looks once more for nothing.
    Ok(files() != before)
}
