//! Which guests may be about to kill the process, as the witness has to know (C-85).
//!
//! Only a stored execution can kill one process after another. So before a guest runs in a tree
//! that was loaded from the store, the witness notes it, even if its own execution is new: it
//! follows from a stored one. When what the guest did is durable it is struck out: a process that
//! starts after that begins behind it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use indelible_journal::JournalKey;
use indelible_store::Position;

use crate::shared::{Shared, lock};

/// Noted guests that have come to a stop, with the position that has to be durable before they are
/// struck out.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    stopped: Mutex<Vec<(Position, JournalKey)>>,
    any: AtomicBool,
    /// Held for writing by the worker that runs a suspect (a guest that a process may have died
    /// of), and for reading by workers that run other guests: if the process dies again, it is
    /// known of which.
    alone: RwLock<()>,
}

impl Replays {
    /// For a suspect.
    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.alone.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// For any other guest, while there are suspects.
    pub(crate) fn among_others(&self) -> RwLockReadGuard<'_, ()> {
        self.alone.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What these guests did was submitted at this position.
    pub(crate) fn submitted(&self, position: Position, keys: Vec<JournalKey>) {
        if keys.is_empty() {
            return;
        }
        lock(&self.stopped).extend(keys.into_iter().map(|key| (position, key)));
        self.any.store(true, Ordering::Release);
    }
}

impl Shared {
    /// Strikes out the guests whose work is durable.
    pub(crate) fn strike_out(&self) {
        if !self.replays.any.load(Ordering::Acquire) {
            return;
        }
        let durable = self.store.durable_now();
        let mut stopped = lock(&self.replays.stopped);
        let over: Vec<_> = stopped.extract_if(.., |(position, _)| *position <= durable).collect();
        self.replays.any.store(!stopped.is_empty(), Ordering::Release);
        drop(stopped);
        for (_, key) in over {
            self.witness.survived(&key);
        }
    }
}
