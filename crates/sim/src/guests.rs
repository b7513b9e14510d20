//! `Kit`: what all simulations in a process share: the compiled guest, and the commits of a disk on
//! which it is deployed.
#![expect(clippy::disallowed_methods, reason = "the guest is a file, and deployed by a real wait")]

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use indelible_records::TABLES;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::{Attribution, Engine, Options, World};
use indelible_store::backend::{Backend, BackendError, BackendSnapshot};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Bounds, Sequence, Store, Table, Write};

use crate::run::poll_to_end;

/// The component that all programs run in.
pub(crate) const COMPONENT: &str = "script";

/// Guests that exist at once, in all simulations of a process. Each simulation keeps far fewer, so
/// that none depends on what the others do.
const GUESTS_MAX: u32 = 2_000;

/// What simulations share. Cheap to clone.
#[derive(Clone)]
pub struct Kit {
    pub(crate) guests: Arc<Guests>,
    pub(crate) deployed: Arc<Vec<Vec<Write>>>,
}

impl Kit {
    /// Builds and compiles the guest.
    ///
    /// # Panics
    /// The guest cannot be built.
    pub fn new() -> Self {
        let bytes = std::fs::read(indelible_guests::component(COMPONENT)).expect("it was built");
        let options = GuestOptions { guests_max: GUESTS_MAX, ..GuestOptions::default() };
        // No thread ticks the guests' clock, so no guest is interrupted, however busy the machine
        // is.
        let guests = Guests::new(options, Artifacts::memory()).expect("guests can run here");
        let recorder = Arc::new(Recorder::default());
        let backend: Arc<dyn Backend> = recorder.clone();
        let store =
            Store::start_by_hand(backend, &TABLES, Bounds::DEFAULT).expect("an empty store starts");
        let options = Options { workers: 0, ..Options::default() };
        let world = World { clock: Arc::new(Never), ..World::system(Arc::clone(&guests)) };
        let engine = Engine::open(store, options, world).expect("an empty store opens");
        let store = engine.store().clone();
        poll_to_end(engine.deploy(COMPONENT, &bytes, Attribution::default()), || {
            store.step();
        })
        .expect("the project's guest is a component");
        engine.close();
        drop(store);
        let commits = recorder.commits.lock().unwrap_or_else(PoisonError::into_inner);
        Self { guests, deployed: Arc::new(commits.clone()) }
    }
}

impl Default for Kit {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Kit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kit").finish_non_exhaustive()
    }
}

/// A clock that stands still.
struct Never;

impl indelible_runtime::world::Clock for Never {
    fn now(&self) -> indelible_journal::Timestamp {
        indelible_journal::Timestamp::EPOCH
    }

    fn elapsed(&self) -> indelible_journal::Micros {
        indelible_journal::Micros::ZERO
    }
}

/// A backend in memory that also keeps its commits.
#[derive(Default)]
struct Recorder {
    inner: MemoryBackend,
    commits: Mutex<Vec<Vec<Write>>>,
}

impl Backend for Recorder {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.inner.get(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        self.inner.snapshot()
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).push(writes.clone());
        self.inner.commit(sequence, writes)
    }

    fn reclaim(&self, table: &Table) -> Result<(), BackendError> {
        self.inner.reclaim(table)
    }

    fn disk_bytes(&self, table: &Table) -> u64 {
        self.inner.disk_bytes(table)
    }
}
