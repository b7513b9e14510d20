//! Watchers: callers that wait for an execution's end.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indelible_journal::{Ending, ExecutionId};
use indelible_store::Position;
use tokio::sync::oneshot;

use crate::shared::lock;

/// An end, and the position that has to be durable before a caller is told.
pub(crate) type DurableEnd = (Ending, Position);

type WatcherMap = HashMap<ExecutionId, Vec<oneshot::Sender<DurableEnd>>>;

#[derive(Default)]
pub(crate) struct Watchers {
    waiting: Mutex<WatcherMap>,
    /// How many executions are watched: while it is 0, an end takes no lock here.
    count: AtomicUsize,
}

impl Watchers {
    /// Watches for an end. The caller must look up afterwards, not before, whether it has come
    /// already.
    pub(crate) fn watch(&self, execution: &ExecutionId) -> oneshot::Receiver<DurableEnd> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        let watchers = waiting.entry(execution.clone()).or_default();
        // Watchers whose callers have gone are removed when the next one comes.
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.push(sender);
        self.count.store(waiting.len(), Ordering::SeqCst);
        receiver
    }

    /// Tells the watchers of an execution that it has ended.
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

    /// Drops all watchers: their callers learn that the engine has stopped.
    pub(crate) fn clear(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        self.count.store(0, Ordering::SeqCst);
        drop(waiting);
    }

    /// Whether a caller still watches this execution.
    pub(crate) fn is_watched(&self, execution: &ExecutionId) -> bool {
        let waiting = lock(&self.waiting);
        let watchers = waiting.get(execution);
        watchers.is_some_and(|watchers| watchers.iter().any(|watcher| !watcher.is_closed()))
    }

    /// Removes the watchers of this execution whose callers have gone.
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
