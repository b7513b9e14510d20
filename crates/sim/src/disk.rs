//! The simulated disk: a memory backend that keeps what it has taken when the process dies, fails
//! when it is told to, and may or may not have taken what was under way then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use indelible_journal::{Attempt, JournalKey};
use indelible_store::backend::{Backend, BackendError, BackendSnapshot};
use indelible_store::memory::MemoryBackend;
use indelible_store::rows::TABLES;
use indelible_store::{Bounds, Store, Table, Write};

use crate::effects;
use crate::store;
use crate::transcript::Transcript;

/// How the disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It takes what it is given.
    Well,
    /// It takes so many more commits, and fails the next. That may be on disk all the same: whoever
    /// is told of a failed sync does not know.
    Failing {
        /// How many.
        after: u64,
        /// Whether it is.
        lands: bool,
    },
    /// It takes nothing.
    Dead,
}

/// The simulated disk.
pub(crate) struct Disk {
    inner: Arc<MemoryBackend>,
    health: Mutex<Health>,
    transcript: Arc<Transcript>,
}

impl Disk {
    /// A disk that has taken these commits.
    pub(crate) fn with(commits: &[Vec<Write>], transcript: Arc<Transcript>) -> Self {
        let inner = MemoryBackend::new();
        for writes in commits {
            inner.commit(writes.clone()).expect("memory takes everything");
        }
        Self { inner: Arc::new(inner), health: Mutex::new(Health::Well), transcript }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, health: Health) {
        *self.health() = health;
    }

    /// The attempts at the effect of this key that are in flight, as far as the disk knows: what is
    /// accepted and not written is not there.
    pub(crate) fn in_flight(&self, key: &str) -> Vec<(JournalKey, u32, Attempt)> {
        let backend: Arc<dyn Backend> = self.inner.clone();
        let store = Store::start_by_hand(backend, &TABLES, Bounds::DEFAULT);
        let store = store.expect("what was committed can be opened");
        let all = store::all(&store, false).expect("memory can be read");
        effects::in_flight(&all, key)
    }

    /// Whether it is as it should be.
    pub(crate) fn is_well(&self) -> bool {
        *self.health() == Health::Well
    }
}

fn failed() -> BackendError {
    BackendError::Stopped { what: "the simulated disk failed".to_owned() }
}

impl Backend for Disk {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.inner.get(table, key)
    }

    fn snapshot(&self) -> Box<dyn BackendSnapshot> {
        self.inner.snapshot()
    }

    fn commit(&self, writes: Vec<Write>) -> Result<(), BackendError> {
        let mut health = self.health();
        let count = writes.len();
        match *health {
            Health::Well => {
                self.transcript.say(format_args!("  disk: {count} writes"));
                self.inner.commit(writes)
            }
            Health::Failing { after: left @ 1.., lands } => {
                *health = Health::Failing { after: left - 1, lands };
                self.transcript.say(format_args!("  disk: {count} writes"));
                self.inner.commit(writes)
            }
            Health::Failing { after: 0, lands } => {
                *health = Health::Dead;
                let word = if lands { "is on disk" } else { "is lost" };
                self.transcript.say(format_args!("  disk: fails; a group of {count} {word}"));
                if lands {
                    self.inner.commit(writes)?;
                }
                Err(failed())
            }
            Health::Dead => Err(failed()),
        }
    }

    fn reclaim(&self, table: &Table) -> Result<(), BackendError> {
        self.inner.reclaim(table)
    }

    fn disk_bytes(&self, table: &Table) -> u64 {
        self.inner.disk_bytes(table)
    }
}
