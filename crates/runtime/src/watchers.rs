//! Those who wait for an execution's end.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indelible_journal::{Ending, ExecutionId};
use indelible_store::Position;
use tokio::sync::oneshot;

use crate::shared::lock;

/// An end, and the position that has to be durable before anybody is told.
pub(crate) type Ended = (Ending, Position);

type Waiting = HashMap<ExecutionId, Vec<oneshot::Sender<Ended>>>;

/// Those who wait.
#[derive(Default)]
pub(crate) struct Watchers {
    waiting: Mutex<Waiting>,
    /// How many executions are watched: most ends interest nobody, and cost no lock.
    count: AtomicUsize,
}

impl Watchers {
    /// Waits for an end that is to come. Whether it came already, the caller looks up after this.
    pub(crate) fn watch(&self, execution: &ExecutionId) -> oneshot::Receiver<Ended> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        let watchers = waiting.entry(execution.clone()).or_default();
        // Whoever lost interest leaves when the next one comes.
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.push(sender);
        self.count.store(waiting.len(), Ordering::SeqCst);
        receiver
    }

    /// An execution is over.
    pub(crate) fn ended(&self, execution: &ExecutionId, ending: &Ending, position: Position) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut waiting = lock(&self.waiting);
        let watchers = waiting.remove(execution);
        self.count.store(waiting.len(), Ordering::SeqCst);
        drop(waiting);
        for watcher in watchers.into_iter().flatten() {
            let _ = watcher.send((ending.clone(), position));
        }
    }

    /// Nobody is told any more.
    pub(crate) fn clear(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        self.count.store(0, Ordering::SeqCst);
        drop(waiting);
    }

    /// Whether somebody waits for this one.
    pub(crate) fn is_watched(&self, execution: &ExecutionId) -> bool {
        let waiting = lock(&self.waiting);
        let watchers = waiting.get(execution);
        watchers.is_some_and(|watchers| watchers.iter().any(|watcher| !watcher.is_closed()))
    }

    /// Whoever lost interest in this one leaves.
    pub(crate) fn forget(&self, execution: &ExecutionId) {
        let mut waiting = lock(&self.waiting);
        if let Some(watchers) = waiting.get_mut(execution) {
            watchers.retain(|watcher| !watcher.is_closed());
            if watchers.is_empty() {
                waiting.remove(execution);
            }
        }
        self.count.store(waiting.len(), Ordering::SeqCst);
    }
}
