//! Upkeep: a thread of ours that sorts what was flushed into place (compaction).
//!
//! fjall has workers that would do it, and they have two faults. With one worker a flush waits for
//! a compaction of seconds, and commits wait for the flush; with several, one of them turns in a
//! loop, on a core of its own, as long as another compacts. So fjall's worker is left with the
//! flushes: its own strategy never finds anything to do (`tuning`), and ours runs here.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::{AbstractTree as _, Database, Keyspace};

use crate::engine::{EngineError, caught};

/// After a memtable was handed over, how often to look whether its file is there.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A table, and how it is to be sorted.
pub(super) struct Kept {
    pub(super) keyspace: Keyspace,
    pub(super) strategy: Arc<Leveled>,
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
}

#[derive(Default)]
struct State {
    /// There may be something to do.
    asked: bool,
    stop: bool,
    failure: Option<String>,
}

impl Upkeep {
    pub(super) fn start(database: Database, tables: Vec<Kept>) -> std::io::Result<Self> {
        let control = Arc::new(Control::default());
        // What an earlier process left to do.
        control.lock().asked = true;
        let thread = std::thread::Builder::new().name("store upkeep".to_owned()).spawn({
            let control = Arc::clone(&control);
            move || control.run(&database, &tables)
        })?;
        Ok(Self { control, thread: Some(thread) })
    }

    /// Says that something was flushed, or will be.
    pub(super) fn ask(&self) {
        self.control.lock().asked = true;
        self.control.changed.notify_all();
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

    fn run(&self, database: &Database, tables: &[Kept]) {
        while self.wait() {
            match caught(|| self.tidy(database, tables)) {
                Ok(()) => {}
                Err(error) => {
                    self.lock().failure = Some(error.to_string());
                    return;
                }
            }
        }
    }

    /// Waits to be asked; false when it is time to stop.
    fn wait(&self) -> bool {
        let idle = |state: &mut State| !state.asked && !state.stop;
        let state = self.changed.wait_while(self.lock(), idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.asked = false;
        !state.stop
    }

    /// Compacts until there is nothing to do and nothing on its way.
    fn tidy(&self, database: &Database, tables: &[Kept]) -> Result<(), EngineError> {
        loop {
            let mut worked = false;
            for table in tables {
                if self.lock().stop {
                    return Ok(());
                }
                worked |= compact(database, table)?;
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

/// One compaction, if there is one to do.
fn compact(database: &Database, table: &Kept) -> Result<bool, EngineError> {
    let tree = &table.keyspace.tree;
    let files = || (tree.table_count(), tree.l0_run_count(), tree.disk_space());
    let before = files();
    let watermark = database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
    tree.compact(Arc::clone(&table.strategy) as _, watermark)
        .map_err(|error| super::engine_error("compact tables", error.into()))?;
    // What is flushed meanwhile changes them too; then it looks once more for nothing.
    Ok(files() != before)
}
