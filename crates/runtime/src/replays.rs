//! Which guests may be about to kill the process, as the witness has to know (C-85).
//!
//! Only what is stored can kill one process after another. So a guest that runs in a tree which
//! was loaded from the store is noted before it runs, whether its execution is stored or follows
//! from what is, and struck out when what it did is durable: a process that starts after that
//! begins behind it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use indelible_journal::JournalKey;
use indelible_store::Position;

use crate::shared::{Shared, lock};

/// Those that were noted and have come to a stop, with the position that has to be durable before
/// they are struck out.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    stopped: Mutex<Vec<(Position, JournalKey)>>,
    any: AtomicBool,
    /// Written by whoever runs something that a process may have died of, and read by whoever
    /// runs anything else meanwhile: if the process dies again there is no doubt of what.
    alone: RwLock<()>,
}

impl Replays {
    /// For something that a process may have died of.
    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.alone.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// For anything else, while there is such a thing.
    pub(crate) fn among_others(&self) -> RwLockReadGuard<'_, ()> {
        self.alone.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What these did was submitted at this position.
    pub(crate) fn submitted(&self, position: Position, keys: Vec<JournalKey>) {
        if keys.is_empty() {
            return;
        }
        lock(&self.stopped).extend(keys.into_iter().map(|key| (position, key)));
        self.any.store(true, Ordering::Release);
    }
}

impl Shared {
    /// Strikes out those whose doings are durable.
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
