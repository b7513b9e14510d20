//! `Gate`: a backend around the one under test that can hold a commit back, before or after the
//! backend made it. So a case decides, without a race, which batches are in the backend, which are
//! on their way, and which wait behind.

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use indelible_store::backend::{Backend, BackendError, BackendSnapshot, Presence};
use indelible_store::{Bounds, PauseTime, Sequence, Store, Table, Write};

use crate::Subject;

/// Where commits wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nowhere.
    Nowhere,
    /// Before the backend has seen them.
    Before,
    /// After the backend has made them, and before the pipeline knows.
    After,
}

struct State {
    hold: Hold,
    /// Where a commit waits now.
    held: Hold,
}

/// A backend whose commits can be held.
pub(crate) struct Gate {
    backend: Arc<dyn Backend>,
    state: Mutex<State>,
    changed: Condvar,
    /// Callbacks for the next reads, one each: called after the value is read, before it is
    /// returned.
    after_gets: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Gate {
    fn new(backend: Arc<dyn Backend>) -> Self {
        let state = Mutex::new(State { hold: Hold::Nowhere, held: Hold::Nowhere });
        Self { backend, state, changed: Condvar::new(), after_gets: Mutex::default() }
    }

    /// Calls this when the next value has been read and is not yet returned. Of several callbacks,
    /// the last one given runs first.
    pub(crate) fn after_get(&self, then: impl FnOnce() + Send + 'static) {
        self.after_gets.lock().unwrap().push(Box::new(then));
    }

    /// Drops the callbacks that have not run; how many there were.
    pub(crate) fn forget_after_gets(&self) -> usize {
        std::mem::take(&mut *self.after_gets.lock().unwrap()).len()
    }

    /// Sets where commits wait from now on. A commit that waits elsewhere goes on.
    pub(crate) fn hold(&self, hold: Hold) {
        self.state.lock().unwrap().hold = hold;
        self.changed.notify_all();
    }

    /// Waits until a commit is held. There must be one under way.
    pub(crate) fn wait_until_held(&self) {
        let state = self.state.lock().unwrap();
        let elsewhere = |state: &mut State| state.held == Hold::Nowhere || state.held != state.hold;
        drop(self.changed.wait_while(state, elsewhere).unwrap());
    }

    /// The backend's rows, once they have everything that is durable in the store over this gate.
    pub(crate) fn rows_of(&self, store: &Store) -> Box<dyn BackendSnapshot> {
        wait_until_applied(&*self.backend, store.durable_sequence());
        self.backend.snapshot().unwrap()
    }

    fn pass(&self, at: Hold) {
        let mut state = self.state.lock().unwrap();
        while state.hold == at {
            state.held = at;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap();
        }
        state.held = Hold::Nowhere;
    }
}

impl Backend for Gate {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        let value = self.backend.get(table, key);
        let then = self.after_gets.lock().unwrap().pop();
        if let Some(then) = then {
            then();
        }
        value
    }

    fn contains(&self, table: &Table, key: &[u8]) -> Result<bool, BackendError> {
        self.backend.contains(table, key)
    }

    fn snapshot(&self) -> Result<Box<dyn BackendSnapshot>, BackendError> {
        self.backend.snapshot()
    }

    fn commit(&self, sequence: Sequence, writes: Vec<Write>) -> Result<(), BackendError> {
        self.pass(Hold::Before);
        let result = self.backend.commit(sequence, writes);
        self.pass(Hold::After);
        result
    }

    fn has_sequence(&self, sequence: Sequence) -> Result<Presence, BackendError> {
        self.backend.has_sequence(sequence)
    }

    fn applied(&self) -> Sequence {
        self.backend.applied()
    }

    fn reclaim(&self, table: &Table) -> Result<(), BackendError> {
        self.backend.reclaim(table)
    }

    fn disk_bytes(&self, table: &Table) -> u64 {
        self.backend.disk_bytes(table)
    }

    fn close(&self) -> Result<(), BackendError> {
        self.backend.close()
    }
}

/// Waits until the rows of a backend have this group, and all groups before it.
pub(crate) fn wait_until_applied(backend: &dyn Backend, sequence: Sequence) {
    while backend.applied() < sequence {
        thread::yield_now();
    }
}

/// Pauses in which no time passes: the next try comes at once, and no caller is told.
struct Hasty;

impl PauseTime for Hasty {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wait(&self, _delay: Duration) {
        thread::yield_now();
    }
}

/// A store over the backend under test, with a gate between them.
pub(crate) struct Gated {
    pub(crate) store: Store,
    pub(crate) gate: Arc<Gate>,
}

impl Gated {
    pub(crate) fn open(subject: &mut dyn Subject, tables: &[Table], bounds: Bounds) -> Self {
        let gate = Arc::new(Gate::new(subject.open(tables)));
        let backend: Arc<dyn Backend> = Arc::clone(&gate) as _;
        let store = Store::start_with(backend, tables, bounds, Arc::new(Hasty));
        Self { store: store.unwrap(), gate }
    }

    /// Releases commits, and waits until everything accepted is in the backend.
    pub(crate) fn settle(&self) {
        self.gate.hold(Hold::Nowhere);
        self.store.durable(self.store.accepted()).wait().unwrap();
    }

    /// Closes the store and drops the backend.
    pub(crate) fn close(self) {
        self.gate.hold(Hold::Nowhere);
        self.store.clone().close().unwrap();
    }
}

impl Drop for Gated {
    /// A case that fails while a commit is held must not hang instead.
    fn drop(&mut self) {
        self.gate.hold(Hold::Nowhere);
    }
}
