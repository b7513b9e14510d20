//! What the peer knows: the arrivals, which of them were processed, and which are held.
//!
//! Shared between the peer's thread and the threads of tests. Tests wait on a condition variable;
//! tasks on the peer's own thread wait on a channel, because that thread must not block.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::behaviour::{Memory, Plan, Step};
use crate::request::Request;
use crate::{Arrival, Hold};

/// How long a test waits for something before it fails: far longer than anything takes on a busy
/// machine, so that the limit only turns a test that hangs into one that fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

type Callback = Arc<dyn Fn(&Arrival) + Send + Sync>;

/// Everything that the peer knows.
#[derive(Default)]
pub(crate) struct Ledger {
    state: Mutex<State>,
    changed: Condvar,
    told: watch::Sender<()>,
    /// Outside the state's lock: a callback may ask the peer.
    callbacks: Mutex<Vec<Callback>>,
    /// The number of requests to the fast path.
    fast: AtomicU64,
}

/// What changes under one lock.
#[derive(Default)]
pub(crate) struct State {
    /// In the order of their numbers.
    pub(crate) log: Vec<Arrival>,
    tallies: BTreeMap<Identity, Tally>,
    hold: Option<Hold>,
    /// How often all arrivals were released: an arrival that is polled late sees the change, even
    /// if a new hold follows at once.
    releases: u64,
    /// How many arrivals are held now.
    pub(crate) held: usize,
}

/// What counts together: the arrivals of a key, or of a path if they have no key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Key(String),
    Path(String),
}

/// The counts of an identity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) arrivals: usize,
    pub(crate) processed: usize,
    /// Arrivals since the last one that was processed, recognized as its repetitions.
    duplicates: usize,
    /// The count in the answer to the arrival that was processed last.
    told: usize,
}

impl State {
    /// The counts of a key.
    pub(crate) fn tally(&self, key: &str) -> Tally {
        self.tallies.get(&Identity::Key(key.to_owned())).copied().unwrap_or_default()
    }
}

impl Ledger {
    /// Reads something from the state.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        at(&self.state())
    }

    /// Waits for a condition, not on the peer's thread. `Err` with the log if it does not hold in
    /// time.
    pub(crate) fn wait(&self, mut until: impl FnMut(&State) -> bool) -> Result<(), Vec<Arrival>> {
        let waits = |state: &mut State| !until(state);
        let (state, waited) = self
            .changed
            .wait_timeout_while(self.state(), PATIENCE, waits)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() { Err(state.log.clone()) } else { Ok(()) }
    }

    /// Waits for a condition on the peer's thread.
    pub(crate) async fn until(&self, mut holds: impl FnMut(&State) -> bool) {
        // Subscribe before the first look: otherwise a change between the two would be missed.
        let mut told = self.told.subscribe();
        while !holds(&self.state()) {
            told.changed().await.expect("the ledger has the sender, and we have the ledger");
        }
    }

    /// Records a request that arrived, and says what to do with it.
    pub(crate) fn arrived(&self, request: Request) -> (Arrival, Step) {
        let Request { key, method, path, headers, body, close: _ } = request;
        let plan = Plan::of(&path);
        let arrival = self.change(|state| {
            let tally = state.tallies.entry(Identity::of(key.as_ref(), &path)).or_default();
            tally.arrivals += 1;
            let (nth, number) = (tally.arrivals, state.log.len() + 1);
            let (processed, answered) = (false, false);
            let arrival =
                Arrival { number, nth, key, method, path, headers, body, processed, answered };
            state.log.push(arrival.clone());
            arrival
        });
        let callbacks = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        callbacks.iter().for_each(|callback| callback(&arrival));
        let step = plan.step(arrival.nth).clone();
        (arrival, step)
    }

    /// Lets an arrival have its effect, if the step says so and its key is not remembered. Returns
    /// the count for its answer.
    pub(crate) fn process(&self, arrival: &mut Arrival, step: &Step) -> usize {
        self.change(|state| {
            let identity = Identity::of(arrival.key.as_ref(), &arrival.path);
            let tally = state.tallies.get_mut(&identity).expect("it has arrived");
            if !step.processes {
                return tally.processed;
            }
            let known = tally.processed > 0 && arrival.key.is_some();
            let remembers = match step.memory {
                Memory::None => false,
                Memory::Keyed => known,
                Memory::Forgets(arrivals) => known && tally.duplicates + 1 < arrivals,
            };
            if remembers {
                tally.duplicates += 1;
                return tally.told;
            }
            tally.processed += 1;
            tally.duplicates = 0;
            // A peer that has forgotten the key takes this arrival for the first.
            let forgot = matches!(step.memory, Memory::Forgets(_));
            tally.told = if forgot { 1 } else { tally.processed };
            let told = tally.told;
            arrival.processed = true;
            state.log[arrival.number - 1].processed = true;
            told
        })
    }

    /// Records whether an arrival got its whole answer.
    pub(crate) fn answered(&self, arrival: &Arrival, answered: bool) {
        self.change(|state| state.log[arrival.number - 1].answered = answered);
    }

    /// Waits while arrivals are held at this point.
    pub(crate) async fn pass(&self, point: Hold) {
        let stop = |state: &mut State| {
            let held = state.hold == Some(point);
            held.then(|| {
                state.held += 1;
                state.releases
            })
        };
        // The usual case is no hold: then nothing has changed, and no waiter is woken.
        let stopped = stop(&mut self.state());
        let Some(releases) = stopped else { return };
        let _leaves = Leaves(self);
        self.tell();
        self.until(|state| state.hold != Some(point) || state.releases != releases).await;
    }

    /// Sets where arrivals are held from now on. Arrivals held elsewhere go on; with `None`, all
    /// do.
    pub(crate) fn hold(&self, hold: Option<Hold>) {
        self.change(|state| {
            state.hold = hold;
            state.releases += u64::from(hold.is_none());
        });
    }

    /// Calls this for each arrival from now on.
    pub(crate) fn call(&self, callback: Callback) {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).push(callback);
    }

    /// Counts a request to the fast path.
    pub(crate) fn count_fast(&self) {
        self.fast.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests to the fast path were answered.
    pub(crate) fn fast(&self) -> u64 {
        self.fast.load(Ordering::Relaxed)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.tell();
        changed
    }

    fn tell(&self) {
        self.changed.notify_all();
        self.told.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Only a test's predicate can panic here, and it only reads: the state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Identity {
    fn of(key: Option<&String>, path: &str) -> Self {
        key.map_or_else(|| Self::Path(path.to_owned()), |key| Self::Key(key.clone()))
    }
}

/// Counts one arrival as held until it is dropped, also when the peer stops.
struct Leaves<'a>(&'a Ledger);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.held -= 1);
    }
}
