//! The commit pipeline: the one way by which anything becomes durable (D3).
//!
//! Batches are accepted into the *open* layer; one writer takes that layer whole, as the
//! *closing* one, makes one backend commit of it, and takes the next. Where a backend's rows follow
//! its commits later, durable layers are *kept* until they have (D10). Reads look through all layers
//! into the backend's rows, so they see what is accepted, and say at which position.
//!
//! ```text
//!   submit ──> open layer ──> closing layer ──> kept layers ──> rows of the backend
//!                  │ (taken when no   │ (durable when  │ (dropped when   │
//!                  │  commit runs)    │  the commit    │  the backend    │
//!                  │                  │  returned)     │  has applied)   │
//!   reads  <───────┴──────────────────┴────────────────┴─────────────────┘
//! ```
//!
//! Invariants, all under the one lock of [`State`]. A group is *retired* when it has left the
//! overlay:
//! - the rows show every retired group, and no group that was not taken;
//! - every group that is accepted and not retired is in a layer, whole: whether the rows show it
//!   too, or a part of it, makes no difference to a read;
//! - positions of kept layers <= `durable` < positions of the closing layer < positions of the open
//!   layer <= `accepted`;
//! - a group leaves exactly the state at its last position: nothing moves between groups.
//!
//! So a row that was read before the lock was taken still holds under the lock, unless `retired`
//! has changed in between: a key that is in no layer was written by no group since the read, and
//! the rows had every group that was retired before the read.

pub(crate) mod blocking;
mod kept;
mod layer;
mod outcome;
mod pause;
mod read;
#[cfg(test)]
mod tests;
mod writer;

use std::array;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, TryAcquireError};

use self::kept::KeptLayers;
use self::layer::Layer;
pub use self::outcome::Durable;
use self::outcome::{Outcome, Patience};
pub use self::pause::PauseTime;
use self::pause::{MachineTime, NoTime, PauseState};
pub use self::read::Snapshot;
use crate::backend::{Backend, BackendError, Lookup, LookupKind};
use crate::batch::{Batch, Condition, Write};
use crate::bounds::{Bounds, OutOfBounds};
use crate::damage::DamageLog;
use crate::error::{Lost, Pause, Poison, ReadError, Refusal, SubmitError};
use crate::position::{Position, Seen, Sequence};
use crate::read::{Page, Scan};
use crate::table::{self, PIPELINE, TABLES_MAX, Table, TableError};

/// The row of the pipeline's own table that each group writes: its last position, and its sequence.
pub(crate) const POSITION_KEY: &[u8] = b"position";

/// How often preconditions are read, or a snapshot is opened, outside the lock before it is done
/// under the lock. Each miss means that a commit group was retired meanwhile. A batch with many
/// preconditions misses more often, and then keeps other callers waiting longer. Over a backend
/// whose rows follow later, groups are retired about once a second, so misses are rare where reads
/// are slow.
const UNLOCKED_READS_MAX: usize = 3;

/// Why a store cannot start over a backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The list of tables makes no sense.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The bounds make no sense.
    #[error("the store's bounds contradict each other: {0}")]
    Bounds(#[from] OutOfBounds),
    /// The backend could not be read.
    #[error("the position of the last commit cannot be read: {0}")]
    Backend(#[from] BackendError),
    /// No thread could be started.
    #[error("the writer's thread cannot be started: {0}")]
    Thread(std::io::Error),
}

/// A store: one commit pipeline over a backend. Clones are handles to the same one; when the last
/// is dropped, what was accepted is committed and the backend closed.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// Dropped with the last handle; snapshots have none.
    owner: Arc<Owner>,
}

/// What handles, snapshots and the writer share.
struct Shared {
    backend: Arc<dyn Backend>,
    /// The names of the tables that the store was opened with, by number. They tell apart two
    /// tables with the same number.
    names: [Option<&'static str>; TABLES_MAX as usize],
    list: Vec<Table>,
    bounds: Bounds,
    /// Permits are bytes; a batch takes at least so many that exactly `waiting_batches_max` fit.
    /// The semaphore is fair: first come, first served.
    room: Semaphore,
    batch_permits_min: u32,
    /// All permits. The largest batch is clamped to them, since rounding lost some.
    batch_permits_max: u32,
    state: Mutex<State>,
    /// The writer waits here for something to do.
    work: Condvar,
    /// As in `State`; read without the lock.
    retired: AtomicU64,
    /// Notified once, when the store stops.
    stopped: Notify,
    /// Notified when a pause has lasted so long that callers are told.
    overdue: Notify,
    /// The time of pauses.
    time: Arc<dyn PauseTime>,
    damage: Arc<DamageLog>,
    /// Set in a store that is driven by hand, which has no writer's thread: locked while a caller
    /// steps it.
    hand: Option<Mutex<()>>,
}

#[derive(Debug)]
struct State {
    accepted: Position,
    durable: Position,
    /// The last group that is durable.
    sequence: Sequence,
    open: Arc<Layer>,
    open_outcome: Arc<Outcome>,
    open_permits: usize,
    closing: Option<Closing>,
    kept: KeptLayers,
    /// Counts the times at which groups left the overlay.
    retired: u64,
    /// Why the closing group does not become durable.
    pause: Option<PauseState>,
    poison: Option<Poison>,
    closed: bool,
    /// The counters. The other fields are filled in when they are asked for.
    readings: Readings,
}

#[derive(Debug, Clone)]
struct Closing {
    layer: Arc<Layer>,
    outcome: Arc<Outcome>,
    last: Position,
    sequence: Sequence,
}

/// What went through a pipeline since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Readings {
    /// Backend commits: each is one sync.
    pub groups: u64,
    /// Batches in them.
    pub batches: u64,
    /// Puts and deletes in the batches.
    pub writes_given: u64,
    /// Puts and deletes that reached the backend: the last of each key in a group.
    pub writes_made: u64,
    /// Bytes of keys and values in the batches.
    pub bytes_given: u64,
    /// Batches that wait for the writer now.
    pub waiting: usize,
    /// Places that could not be read because they are damaged, up to
    /// [`PLACES_MAX`](crate::PLACES_MAX).
    pub damaged_places: usize,
    /// Whether the store is paused now: nothing becomes durable until it goes on.
    pub paused: bool,
}

/// What the rows had when they were read: a value for each precondition of a batch, then one for
/// each of its deletes, of which only matters whether the key had, or may have had, a value.
type Fetched = SmallVec<[Option<Bytes>; 12]>;

struct Owner {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Starts a pipeline over a backend that has these tables.
    pub fn start(
        backend: Arc<dyn Backend>,
        tables: &[Table],
        bounds: Bounds,
    ) -> Result<Self, StartError> {
        Self::start_with(backend, tables, bounds, Arc::new(MachineTime::new()))
    }

    /// The same, where pauses take this time.
    pub fn start_with(
        backend: Arc<dyn Backend>,
        tables: &[Table],
        bounds: Bounds,
        time: Arc<dyn PauseTime>,
    ) -> Result<Self, StartError> {
        let store = Self::new(backend, tables, bounds, time, None)?;
        let writer = std::thread::Builder::new()
            .name("store writer".to_owned())
            .spawn({
                let shared = Arc::clone(&store.shared);
                move || writer::run(&shared)
            })
            .map_err(StartError::Thread)?;
        *store.owner.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        Ok(store)
    }

    /// Starts a pipeline without its writer's thread: nothing becomes durable unless a caller calls
    /// [`step`](Self::step). For simulations, where the seed decides when the disk does anything,
    /// and for tests. A caller that blocks its thread, waiting for room or for the disk, steps the
    /// store itself instead of waiting for ever. What was accepted is committed when the store is
    /// closed, as ever.
    pub fn start_by_hand(
        backend: Arc<dyn Backend>,
        tables: &[Table],
        bounds: Bounds,
    ) -> Result<Self, StartError> {
        Self::start_by_hand_with(backend, tables, bounds, Arc::new(NoTime))
    }

    /// The same, where pauses take this time. A store that is paused tries again at each step.
    pub fn start_by_hand_with(
        backend: Arc<dyn Backend>,
        tables: &[Table],
        bounds: Bounds,
        time: Arc<dyn PauseTime>,
    ) -> Result<Self, StartError> {
        Self::new(backend, tables, bounds, time, Some(Mutex::default()))
    }

    /// What the writer does next, in a store that is driven by hand: it takes everything that is
    /// accepted as one group, or tries to commit the group that it took. False: there is nothing to
    /// do, or the store has stopped, or has a writer.
    pub fn step(&self) -> bool {
        self.shared.step_by_hand()
    }

    fn new(
        backend: Arc<dyn Backend>,
        tables: &[Table],
        bounds: Bounds,
        time: Arc<dyn PauseTime>,
        hand: Option<Mutex<()>>,
    ) -> Result<Self, StartError> {
        bounds.check()?;
        let list = table::list(tables)?;
        let (recovered, sequence) = recovered(&*backend)?;
        let per_batch = (bounds.waiting_bytes_max / bounds.waiting_batches_max).max(1);
        let permits = per_batch * bounds.waiting_batches_max;
        let checked = |permits| u32::try_from(permits).expect("bounds were checked");
        let named = |index| list.iter().find(|table| table.index() == index).map(Table::name);
        let shared = Arc::new(Shared {
            damage: backend.damage(),
            backend,
            names: array::from_fn(named),
            list,
            bounds,
            room: Semaphore::new(permits),
            batch_permits_min: checked(per_batch),
            batch_permits_max: checked(permits),
            state: Mutex::new(State {
                accepted: recovered,
                durable: recovered,
                sequence,
                open: Arc::default(),
                open_outcome: Arc::default(),
                open_permits: 0,
                closing: None,
                kept: KeptLayers::default(),
                retired: 0,
                pause: None,
                poison: None,
                closed: false,
                readings: Readings::default(),
            }),
            work: Condvar::new(),
            retired: AtomicU64::new(0),
            stopped: Notify::new(),
            overdue: Notify::new(),
            time,
            hand,
        });
        let owner = Owner { shared: Arc::clone(&shared), writer: Mutex::default() };
        Ok(Self { shared, owner: Arc::new(owner) })
    }

    /// Accepts a batch, or refuses it at once. Waits for room, never for the disk; if a pause is
    /// why there is no room, for at most [`Bounds::pause_told_after`]. The batch is durable when
    /// [`durable`](Self::durable) says so of the position.
    ///
    /// If the future is dropped before it is done, nothing has changed.
    pub async fn submit(&self, batch: Batch) -> Result<Position, SubmitError> {
        let submitted = self.unless_overdue(self.submit_with(batch, Patience::Bounded));
        submitted.await.map_err(SubmitError::Paused)?
    }

    async fn submit_with(&self, batch: Batch, patience: Patience) -> Result<Position, SubmitError> {
        let permits = self.shared.check(&batch)?;
        // A closed semaphore means a stopped or closed store: `accept` says which.
        let room = self.shared.room.acquire_many(permits).await.ok();
        self.shared.accept(batch, room, patience)
    }

    /// As [`submit`](Self::submit), but where there is no room now it says so.
    pub fn try_submit(&self, batch: Batch) -> Result<Position, SubmitError> {
        let permits = self.shared.check(&batch)?;
        let room = match self.shared.room.try_acquire_many(permits) {
            Err(TryAcquireError::NoPermits) => {
                return Err(SubmitError::Full { waiting: self.shared.lock().open.batches });
            }
            room => room.ok(),
        };
        self.shared.accept(batch, room, Patience::Bounded)
    }

    /// As [`submit`](Self::submit), waiting on this thread. It waits through pauses, for room and, if
    /// the store has a writer, for preconditions that cannot be read. Not for async code.
    pub fn submit_blocking(&self, batch: Batch) -> Result<Position, SubmitError> {
        blocking::block_on_driving(self.submit_with(batch, Patience::Endless), || self.step())
    }

    /// Resolves when everything up to this position is durable, or when it is lost, or when a pause
    /// has lasted too long for a caller to wait.
    pub fn durable(&self, position: Position) -> Durable {
        let state = self.shared.lock();
        if position <= state.durable {
            return Durable::ended(Ok(()));
        }
        if position > state.accepted {
            let last = state.accepted;
            return Durable::ended(Err(Lost::NeverAccepted { asked: position, last }));
        }
        if let Some(poison) = &state.poison {
            return Durable::ended(Err(Lost::Poisoned(poison.clone())));
        }
        let group = match &state.closing {
            Some(closing) if position <= closing.last => &closing.outcome,
            _ => &state.open_outcome,
        };
        let driven = self.shared.hand.is_some().then(|| Arc::clone(&self.shared));
        Durable::of(Arc::clone(group), driven)
    }

    /// The last accepted position.
    pub fn accepted(&self) -> Position {
        self.shared.lock().accepted
    }

    /// The last position that is durable now.
    pub fn durable_now(&self) -> Position {
        self.shared.lock().durable
    }

    /// The last group that is durable now.
    pub fn durable_sequence(&self) -> Sequence {
        self.shared.lock().sequence
    }

    /// The value of a key, in accepted state.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        self.shared.get(&table, key)
    }

    /// All tables as they are now, in accepted state.
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        self.shared.snapshot()
    }

    /// Rows of a table, in accepted state.
    pub fn scan(&self, scan: &Scan) -> Result<Seen<Page>, ReadError> {
        self.snapshot()?.scan(scan)
    }

    /// Why the store has stopped, if it has.
    pub fn poison(&self) -> Option<Poison> {
        self.shared.lock().poison.clone()
    }

    /// Why nothing becomes durable now, if the store is paused.
    pub fn pause(&self) -> Option<Pause> {
        self.shared.lock().pause.as_ref().map(|paused| paused.pause.clone())
    }

    /// Waits for a future until a pause has lasted so long that callers are told. The pause is
    /// checked only while the future is pending.
    pub async fn unless_overdue<F: Future>(&self, what: F) -> Result<F::Output, Pause> {
        let overdue = |state: &State| {
            state.pause.as_ref().filter(|paused| paused.overdue).map(|paused| paused.pause.clone())
        };
        let mut overdue = pin!(self.wait_for(&self.shared.overdue, overdue));
        let mut what = pin!(what);
        poll_fn(|context| match what.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => overdue.as_mut().poll(context).map(Err),
        })
        .await
    }

    /// Resolves when the store stops: the process should end then, as nothing it accepts can
    /// become durable any more.
    pub async fn stopped(&self) -> Poison {
        self.wait_for(&self.shared.stopped, |state| state.poison.clone()).await
    }

    /// Waits until `look` finds something in the state.
    async fn wait_for<T>(&self, news: &Notify, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            // Registered before the look, so that what happens in between is not missed.
            let told = news.notified();
            if let Some(found) = look(&self.shared.lock()) {
                return found;
            }
            told.await;
        }
    }

    /// The damage that was found since the store was opened.
    pub fn damage(&self) -> &DamageLog {
        &self.shared.damage
    }

    /// What went through since the store was opened.
    pub fn readings(&self) -> Readings {
        let state = self.shared.lock();
        Readings {
            waiting: state.open.batches,
            damaged_places: self.shared.damage.places(),
            paused: state.pause.is_some(),
            ..state.readings
        }
    }

    /// The bounds it was opened with.
    pub fn bounds(&self) -> &Bounds {
        &self.shared.bounds
    }

    /// The tables it was opened with, the pipeline's own first.
    pub fn tables(&self) -> &[Table] {
        &self.shared.list
    }

    /// Gives back the space of what was deleted from a table. May take long.
    pub fn reclaim(&self, table: Table) -> Result<(), ReadError> {
        self.shared.known_for_read(&table)?;
        let reclaimed = self.shared.backend.reclaim(&table);
        reclaimed.map_err(|source| self.shared.unread(&table, &[], source))
    }

    /// How much a table takes on disk, roughly.
    pub fn disk_bytes(&self, table: Table) -> u64 {
        if self.shared.knows(&table) { self.shared.backend.disk_bytes(&table) } else { 0 }
    }

    /// Commits what was accepted and closes the backend. Callers with other handles are told
    /// that the store is closed.
    pub fn close(self) -> Result<(), Poison> {
        self.owner.close();
        self.poison().map_or(Ok(()), Err)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Store")
            .field("accepted", &state.accepted)
            .field("durable", &state.durable)
            .field("poison", &state.poison)
            .finish_non_exhaustive()
    }
}

impl Owner {
    fn close(&self) {
        let closed = std::mem::replace(&mut self.shared.lock().closed, true);
        self.shared.work.notify_all();
        // Callers that wait for room would wait for ever.
        self.shared.room.close();
        self.shared.time.interrupt();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // The writer catches its own panics; if one got through, the state says what is
            // durable.
            _ = writer.join();
        }
        if !closed && self.shared.hand.is_some() {
            while self.shared.step_by_hand() {}
            self.shared.close_backend();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code can panic half-way through a change under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn knows(&self, table: &Table) -> bool {
        self.names[table.index()] == Some(table.name())
    }

    fn known_for_read(&self, table: &Table) -> Result<(), ReadError> {
        if self.knows(table) { Ok(()) } else { Err(ReadError::UnknownTable(table.name())) }
    }

    /// Checks what needs no look at rows, and returns the permits that a batch takes.
    fn check(&self, batch: &Batch) -> Result<u32, SubmitError> {
        batch.check(&self.bounds)?;
        let tables = batch.writes().iter().map(|write| &write.table);
        let tables = tables.chain(batch.conditions().iter().map(|condition| &condition.table));
        for table in tables {
            // No caller may write the pipeline's own table.
            if !self.knows(table) || table.index() == PIPELINE.index() {
                return Err(SubmitError::UnknownTable(table.name()));
            }
        }
        let permits = u32::try_from(batch.bytes()).unwrap_or(u32::MAX);
        Ok(permits.clamp(self.batch_permits_min, self.batch_permits_max))
    }

    /// Decides on a batch that has its permits: it is refused, or goes into the open layer. `None`
    /// permits: the store has stopped, or is closed. The permits of a batch that is not accepted
    /// are given back here, outside the lock; those of an accepted batch when the writer takes its
    /// group.
    fn accept(
        &self,
        mut batch: Batch,
        room: Option<SemaphorePermit<'_>>,
        patience: Patience,
    ) -> Result<Position, SubmitError> {
        let permits = room.as_ref().map_or(0, SemaphorePermit::num_permits);
        let keep_room = |_: &Position| std::mem::forget(room);
        batch.pack();
        loop {
            // The backend may have to read from disk, and no other caller should wait for that: so
            // rows are fetched before the lock is taken. Under the lock, a key that is in no layer
            // is still as fetched, unless a group has left the overlay since the fetch began.
            for _ in 0..UNLOCKED_READS_MAX {
                let retired = self.retired.load(Ordering::Acquire);
                let fetched = self.fetch(&batch, patience);
                let state = self.lock();
                // A stopped or closed store says so, whether or not its backend can be read.
                let fetched = fetched.or_else(|error| state.check_open().and(Err(error)))?;
                if state.retired == retired || fetched.is_empty() {
                    return self.decide(state, batch, permits, &fetched).inspect(keep_room);
                }
            }
            let state = self.lock();
            // All callers wait for these reads, so only preconditions are read. Deletes are not
            // looked up: the backend is told of every one, also of keys that it does not have.
            let fetched = self.look_up(conditions(&batch));
            let away = fetched.as_ref().is_err_and(SubmitError::is_pause);
            if away && patience == Patience::Endless && self.hand.is_none() {
                // The next fetch waits for the backend, without the lock.
                continue;
            }
            let mut fetched = fetched?;
            fetched.extend(batch.deletes().map(|_| Some(Bytes::new())));
            return self.decide(state, batch, permits, &fetched).inspect(keep_room);
        }
    }

    /// The rows of the keys that a batch asks about, in one call. With endless patience it retries
    /// until the backend can be reached; not in a store by hand, in which no time passes.
    fn fetch(&self, batch: &Batch, patience: Patience) -> Result<Fetched, SubmitError> {
        let wanted = LookupKind::Existence;
        let mut tries = 0;
        loop {
            let deletes = batch.deletes();
            let deletes =
                deletes.map(|Write { table, key, .. }| Lookup { table, key, wanted, found: None });
            let fetched = self.look_up(conditions(batch).chain(deletes));
            let away = fetched.as_ref().is_err_and(SubmitError::is_pause);
            if !away || patience == Patience::Bounded || self.hand.is_some() || self.is_over() {
                return fetched;
            }
            tries += 1;
            self.time.wait(pause::delay(tries));
        }
    }

    /// Whether nothing is accepted any more.
    fn is_over(&self) -> bool {
        let state = self.lock();
        state.closed || state.poison.is_some()
    }

    fn look_up<'a>(
        &self,
        lookups: impl Iterator<Item = Lookup<'a>>,
    ) -> Result<Fetched, SubmitError> {
        let mut lookups: SmallVec<[_; 12]> = lookups.collect();
        if !lookups.is_empty() {
            self.backend.look_up(&mut lookups).map_err(|error| {
                let Lookup { table, key, .. } = lookups[error.index];
                self.note_damage(table, key, &error.source);
                SubmitError::Unreadable(Arc::new(error.source))
            })?;
        }
        Ok(lookups.into_iter().map(|lookup| lookup.found).collect())
    }

    /// The backend could not read; damage is noted.
    fn unread(&self, table: &Table, key: &[u8], source: BackendError) -> ReadError {
        self.note_damage(table, key, &source);
        ReadError::Backend { table: table.name(), source: Arc::new(source) }
    }

    fn note_damage(&self, table: &Table, key: &[u8], error: &BackendError) {
        if error.is_damage() {
            let (table, key) = (table.name(), key.escape_ascii());
            self.damage.note(&format!("table {table:?} at key \"{key}\": {error}"));
        }
    }

    fn decide(
        &self,
        mut state: MutexGuard<'_, State>,
        batch: Batch,
        permits: usize,
        fetched: &Fetched,
    ) -> Result<Position, SubmitError> {
        state.check_open()?;
        let (conditions, deletes) = fetched.split_at(batch.conditions().len());
        for (index, (condition, fetched)) in batch.conditions().iter().zip(conditions).enumerate() {
            let found = state.overlaid(&condition.table, &condition.key).unwrap_or(fetched);
            if !condition.expect.is_met_by(found.as_deref()) {
                return Err(SubmitError::Refused(Refusal {
                    index,
                    condition: condition.clone(),
                    found: found.clone(),
                    position: state.accepted,
                }));
            }
        }
        // When this batch's group is committed, the disk will have what it has now, plus the
        // changes of the kept layers and the closing one.
        let deletes = batch.deletes().zip(deletes);
        let on_disk: SmallVec<[bool; 8]> = deletes
            .map(|(write, fetched)| {
                state.taken(&write.table, &write.key).unwrap_or(fetched).is_some()
            })
            .collect();
        let position = state.accepted.next();
        state.accepted = position;
        state.open_permits += permits;
        let wake = state.open.is_empty() && state.closing.is_none();
        // If a snapshot shares the layer, this copies it, once.
        Arc::make_mut(&mut state.open).apply(batch.into_writes(), &on_disk);
        drop(state);
        // While a commit runs no wake-up is needed: the writer looks again when it is done.
        if wake {
            self.work.notify_one();
        }
        Ok(position)
    }
}

impl State {
    /// What the overlay says about a key: the newer layer first.
    fn overlaid(&self, table: &Table, key: &[u8]) -> Option<&Option<Bytes>> {
        self.open.get(table, key).or_else(|| self.taken(table, key))
    }

    /// What the closing and kept layers say about a key.
    fn taken(&self, table: &Table, key: &[u8]) -> Option<&Option<Bytes>> {
        let closing = self.closing.as_ref().and_then(|closing| closing.layer.get(table, key));
        closing.or_else(|| self.kept.get(table, key))
    }

    fn check_open(&self) -> Result<(), SubmitError> {
        match &self.poison {
            Some(poison) => Err(SubmitError::Poisoned(poison.clone())),
            None if self.closed => Err(SubmitError::Closed),
            None => Ok(()),
        }
    }

    fn check_readable(&self) -> Result<(), ReadError> {
        self.poison.clone().map_or(Ok(()), |poison| Err(ReadError::Poisoned(poison)))
    }
}

/// The lookups of a batch's preconditions.
fn conditions(batch: &Batch) -> impl Iterator<Item = Lookup<'_>> {
    let wanted = LookupKind::Value;
    batch.conditions().iter().map(move |Condition { table, key, .. }| Lookup {
        table,
        key,
        wanted,
        found: None,
    })
}

/// The last group that the backend has: its last position, and its sequence.
fn recovered(backend: &dyn Backend) -> Result<(Position, Sequence), BackendError> {
    let Some(row) = backend.get(&PIPELINE, POSITION_KEY)? else {
        return Ok((Position::START, Sequence::START));
    };
    let number = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
    match row.as_chunks() {
        ([position, sequence], []) => {
            Ok((Position::new(number(position)), Sequence::new(number(sequence))))
        }
        _ => {
            let what = format!("the position row has {} bytes", row.len());
            Err(BackendError::Damaged { what })
        }
    }
}
