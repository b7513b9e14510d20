//! What all of an engine shares: the store, the world, the components, and the lists that tie
//! trees to threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indelible_journal::{JournalKey, RootHash};
use indelible_store::Store;
use tokio::sync::Semaphore;

use crate::cell::Cell;
use crate::component::Components;
use crate::guest::Guests;
use crate::options::{Options, Pace};
use crate::parking::ParkingLot;
use crate::run_queue::RunQueue;
use crate::timers::Timers;
use crate::tree::command::Command;
use crate::watchers::Watchers;
use crate::world::{Clock, Entropy, Observer};

/// What all of an engine shares.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) options: Options,
    pub(crate) guests: Arc<Guests>,
    pub(crate) components: Components,
    pub(crate) parking: ParkingLot,
    pub(crate) run_queue: RunQueue,
    pub(crate) timers: Timers,
    pub(crate) watchers: Watchers,
    /// Room for commands that wait to be answered.
    pub(crate) commands: Semaphore,
    /// The trees that are in memory.
    pub(crate) trees: Mutex<HashMap<RootHash, Arc<Cell>>>,
    /// What the stored queue held when the engine started, as far as nobody has gone on with it.
    pub(crate) queued: Mutex<HashMap<JournalKey, u64>>,
    /// The next place in the stored queue.
    pub(crate) tickets: AtomicU64,
    /// How many guests ran again over what is stored.
    pub(crate) replays: AtomicU64,
}

impl Shared {
    /// Sends a command to a tree, which is made if it is not in memory.
    pub(crate) fn send(&self, root: &RootHash, command: Command) {
        let mut trees = lock(&self.trees);
        let cell = trees.entry(*root).or_insert_with(|| Arc::new(Cell::new(*root)));
        // Under the map's lock, so that the tree is not forgotten between finding and telling it.
        if cell.tell(command) {
            self.run_queue.push(Arc::clone(cell));
        }
    }

    /// Tells trees whose guests were evicted. Not under a tree's lock.
    pub(crate) fn tell_evicted(&self) {
        for key in self.parking.take_evicted() {
            let root = *key.execution_id().root();
            self.send(&root, Command::Evicted(key));
        }
    }

    /// Whether every change is on disk before the next.
    pub(crate) fn in_lockstep(&self) -> bool {
        self.options.pace == Pace::Lockstep
    }

    /// The place of an execution in the stored queue, for whoever loads it first.
    pub(crate) fn take_queued(&self, key: &JournalKey) -> Option<u64> {
        lock(&self.queued).remove(key)
    }

    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }
}

/// A lock that a panicking guest thread cannot spoil: every change under these locks is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
