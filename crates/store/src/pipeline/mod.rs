//! The commit pipeline: the one way by which anything becomes durable (D3).
//!
//! Batches are accepted into the *open* layer; one writer takes that layer whole, as the
//! *closing* one, makes one engine commit of it, and takes the next. Reads look through both
//! layers into the engine, so they see what is accepted, and say at which position.
//!
//! ```text
//!   submit ──> open layer ──> closing layer ──> engine
//!                  │  (taken when no commit runs)  │ (dropped when the commit returned)
//!   reads  <───────┴───────────────┴───────────────┘
//! ```
//!
//! Invariants, all under the one lock of [`State`]:
//! - the engine shows every group before the closing one, whole, and none after it;
//! - `durable` < positions of the closing layer < positions of the open layer <= `accepted`;
//! - a group leaves exactly the state at its last position: nothing moves between groups.

pub(crate) mod blocking;
mod layer;
mod outcome;
mod read;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::{Notify, Semaphore, TryAcquireError};

use self::layer::Layer;
pub use self::outcome::Durable;
use self::outcome::Outcome;
pub use self::read::{Page, Read, Row, Scan, Snapshot, prefix_range};
use crate::batch::{Batch, Condition, Write};
use crate::bounds::{Bounds, OutOfBounds};
use crate::damage::DamageLog;
use crate::engine::{Engine, EngineError};
use crate::error::{Lost, Poison, ReadError, Refusal, SubmitError};
use crate::position::{Position, Seen};
use crate::table::{self, PIPELINE, TABLES_MAX, Table, TableError};

/// The row of the pipeline's own table that each group writes: its last position.
pub(crate) const POSITION_KEY: &[u8] = b"position";

/// How often preconditions are read outside the lock before they are read under it. Each miss
/// means that a whole commit group ended meanwhile: a batch of many misses more often, and keeps
/// others waiting longer then.
const UNLOCKED_READS_MAX: usize = 3;

/// Why a store cannot start over an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The list of tables makes no sense.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The bounds make no sense.
    #[error("the store's bounds contradict each other: {0}")]
    Bounds(#[from] OutOfBounds),
    /// The engine could not be read.
    #[error("the position of the last commit cannot be read: {0}")]
    Engine(#[from] EngineError),
    /// No thread could be started.
    #[error("the writer's thread cannot be started: {0}")]
    Thread(std::io::Error),
}

/// A store: one commit pipeline over an engine. Clones are handles to the same one; when the last
/// is dropped, what was accepted is committed and the engine closed.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// Dropped with the last handle; snapshots have none.
    owner: Arc<Owner>,
}

/// What handles, snapshots and the writer share.
struct Shared {
    engine: Arc<dyn Engine>,
    /// The names of the tables that the store was opened with, by slot: another table with the
    /// number of one of them is not that one.
    names: [Option<&'static str>; TABLES_MAX as usize],
    list: Vec<Table>,
    bounds: Bounds,
    /// Permits are bytes; a batch takes at least so many that exactly `waiting_batches_max` fit.
    /// Fair: who came first gets room first.
    room: Semaphore,
    batch_permits_min: u32,
    /// All there are: the largest batch takes them although some were lost in rounding.
    batch_permits_max: u32,
    state: Mutex<State>,
    /// The writer waits here for something to do.
    work: Condvar,
    /// As in `State`; read without the lock.
    retired: AtomicU64,
    /// Told once, when the store stops.
    stopped: Notify,
    counters: Counters,
    damage: Arc<DamageLog>,
    /// In place of the writer's thread, if the store is driven by hand.
    hand: Option<Hand>,
}

/// Whoever drives the store by hand; locked while it does.
#[derive(Debug, Default)]
struct Hand(Mutex<()>);

#[derive(Debug)]
struct State {
    accepted: Position,
    durable: Position,
    open: Arc<Layer>,
    open_outcome: Arc<Outcome>,
    open_permits: usize,
    closing: Option<Closing>,
    /// How many groups have left the overlay.
    retired: u64,
    poison: Option<Poison>,
    closed: bool,
}

#[derive(Debug, Clone)]
struct Closing {
    layer: Arc<Layer>,
    outcome: Arc<Outcome>,
    last: Position,
}

#[derive(Debug, Default)]
struct Counters {
    groups: AtomicU64,
    batches: AtomicU64,
    writes_given: AtomicU64,
    writes_made: AtomicU64,
    bytes_given: AtomicU64,
}

/// What went through a pipeline since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Readings {
    /// Engine commits: each is one sync.
    pub groups: u64,
    /// Batches in them.
    pub batches: u64,
    /// Puts and deletes in the batches.
    pub writes_given: u64,
    /// Puts and deletes that reached the engine: the last of each key in a group.
    pub writes_made: u64,
    /// Bytes of keys and values in the batches.
    pub bytes_given: u64,
    /// Batches that wait for the writer now.
    pub waiting: usize,
    /// Places that could not be read because they are damaged, up to
    /// [`PLACES_MAX`](crate::PLACES_MAX).
    pub damaged_places: usize,
}

/// The values of the keys that preconditions are about.
type FetchedValues = SmallVec<[Option<Bytes>; 4]>;

/// What the engine had when it was asked.
struct Fetched {
    /// The value of each precondition's key.
    conditions: FetchedValues,
    /// For each delete, whether its key had one, or may have.
    deletes: SmallVec<[bool; 8]>,
}

impl Fetched {
    fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.deletes.is_empty()
    }
}

struct Owner {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Starts a pipeline over an engine that has these tables.
    pub fn start(
        engine: Arc<dyn Engine>,
        tables: &[Table],
        bounds: Bounds,
    ) -> Result<Self, StartError> {
        let shared = Self::shared(engine, tables, bounds, None)?;
        let writer = std::thread::Builder::new()
            .name("store writer".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || writer::run(&shared)
            })
            .map_err(StartError::Thread)?;
        let owner = Owner { shared: Arc::clone(&shared), writer: Mutex::new(Some(writer)) };
        Ok(Self { shared, owner: Arc::new(owner) })
    }

    /// Starts a pipeline without its writer's thread: nothing becomes durable unless somebody
    /// calls [`step`](Self::step). For simulations, where the seed decides when the disk does
    /// anything, and tests. Whoever waits for room or for the disk on their own thread drives it
    /// meanwhile, instead of waiting for ever; and what was accepted is committed at the end, as
    /// ever.
    pub fn start_by_hand(
        engine: Arc<dyn Engine>,
        tables: &[Table],
        bounds: Bounds,
    ) -> Result<Self, StartError> {
        let shared = Self::shared(engine, tables, bounds, Some(Hand::default()))?;
        let owner = Owner { shared: Arc::clone(&shared), writer: Mutex::new(None) };
        Ok(Self { shared, owner: Arc::new(owner) })
    }

    /// What the writer does next, in a store that is driven by hand: it takes everything that is
    /// accepted as one group, or commits the group that it took. False: there is nothing to do,
    /// or the store has stopped, or has a writer.
    pub fn step(&self) -> bool {
        self.shared.hand.as_ref().is_some_and(|hand| self.shared.step(hand))
    }

    fn shared(
        engine: Arc<dyn Engine>,
        tables: &[Table],
        bounds: Bounds,
        hand: Option<Hand>,
    ) -> Result<Arc<Shared>, StartError> {
        bounds.check()?;
        let list = table::list(tables)?;
        let recovered = recovered_position(&*engine)?;
        let per_batch = (bounds.waiting_bytes_max / bounds.waiting_batches_max).max(1);
        let permits = per_batch * bounds.waiting_batches_max;
        let checked = |permits| u32::try_from(permits).expect("bounds were checked");
        Ok(Arc::new(Shared {
            damage: engine.damage(),
            engine,
            names: names(&list),
            list,
            bounds,
            room: Semaphore::new(permits),
            batch_permits_min: checked(per_batch),
            batch_permits_max: checked(permits),
            state: Mutex::new(State {
                accepted: recovered,
                durable: recovered,
                open: Arc::default(),
                open_outcome: Arc::default(),
                open_permits: 0,
                closing: None,
                retired: 0,
                poison: None,
                closed: false,
            }),
            work: Condvar::new(),
            retired: AtomicU64::new(0),
            stopped: Notify::new(),
            counters: Counters::default(),
            hand,
        }))
    }

    /// Accepts a batch, or refuses it at once. Waits for room, never for the disk. The batch is
    /// durable when [`durable`](Self::durable) says so of the position.
    ///
    /// If the future is dropped before it is done, nothing has changed.
    pub async fn submit(&self, batch: Batch) -> Result<Position, SubmitError> {
        let permits = self.shared.check(&batch)?;
        // A closed semaphore means a stopped or closed store: `accept` says which.
        if let Ok(permit) = self.shared.room.acquire_many(permits).await {
            permit.forget();
        }
        self.shared.accept(batch, permits)
    }

    /// As [`submit`](Self::submit), but where there is no room now it says so.
    pub fn try_submit(&self, batch: Batch) -> Result<Position, SubmitError> {
        let permits = self.shared.check(&batch)?;
        match self.shared.room.try_acquire_many(permits) {
            Ok(permit) => permit.forget(),
            Err(TryAcquireError::Closed) => {}
            Err(TryAcquireError::NoPermits) => {
                return Err(SubmitError::Full { waiting: self.shared.lock().open.batches() });
            }
        }
        self.shared.accept(batch, permits)
    }

    /// As [`submit`](Self::submit), waiting on this thread. Not for async code.
    pub fn submit_blocking(&self, batch: Batch) -> Result<Position, SubmitError> {
        blocking::block_on_driving(self.submit(batch), || self.step())
    }

    /// Resolves when everything up to this position is durable, or when it is lost.
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

    /// Resolves when the store stops: the process should end then, as nothing it accepts can
    /// become durable any more.
    pub async fn stopped(&self) -> Poison {
        loop {
            // Registered before the look, so that a stop in between is not missed.
            let told = self.shared.stopped.notified();
            if let Some(poison) = self.poison() {
                return poison;
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
        let counters = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Readings {
            groups: read(&counters.groups),
            batches: read(&counters.batches),
            writes_given: read(&counters.writes_given),
            writes_made: read(&counters.writes_made),
            bytes_given: read(&counters.bytes_given),
            waiting: self.shared.lock().open.batches(),
            damaged_places: self.shared.damage.places(),
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
        let reclaimed = self.shared.engine.reclaim(&table);
        reclaimed.map_err(|source| self.shared.unread(&table, &[], source))
    }

    /// How much a table takes on disk, roughly.
    pub fn disk_bytes(&self, table: Table) -> u64 {
        if self.shared.knows(&table) { self.shared.engine.disk_bytes(&table) } else { 0 }
    }

    /// Commits what was accepted and closes the engine, whoever else has a handle: they are told
    /// that the store is closed.
    pub fn close(self) -> Result<(), Poison> {
        self.owner.close();
        match self.poison() {
            Some(poison) => Err(poison),
            None => Ok(()),
        }
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
        // Those who wait for room would wait for ever.
        self.shared.room.close();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // It catches its own panics; if one got through, the state says what is durable.
            _ = writer.join();
        }
        if let (false, Some(hand)) = (closed, &self.shared.hand) {
            while self.shared.step(hand) {}
            // A store that has stopped leaves its engine as it is.
            if self.shared.lock().poison.is_none() {
                self.shared.close_engine();
            }
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
        // No code that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn knows(&self, table: &Table) -> bool {
        self.names[table.index()] == Some(table.name())
    }

    fn check_readable(&self) -> Result<(), ReadError> {
        self.lock().check_readable()
    }

    fn known_for_read(&self, table: &Table) -> Result<(), ReadError> {
        if self.knows(table) { Ok(()) } else { Err(ReadError::UnknownTable(table.name())) }
    }

    /// Checks what can be checked without looking at any row; the room that a batch takes.
    fn check(&self, batch: &Batch) -> Result<u32, SubmitError> {
        batch.check(&self.bounds)?;
        let tables = batch.writes().iter().map(|write| &write.table);
        let tables = tables.chain(batch.conditions().iter().map(|condition| &condition.table));
        for table in tables {
            // The pipeline's own table is nobody's to write.
            if !self.knows(table) || table.index() == PIPELINE.index() {
                return Err(SubmitError::UnknownTable(table.name()));
            }
        }
        let permits = u32::try_from(batch.bytes()).unwrap_or(u32::MAX);
        Ok(permits.clamp(self.batch_permits_min, self.batch_permits_max))
    }

    /// Decides on a batch that has room: refused, or in the open layer.
    fn accept(&self, batch: Batch, permits: u32) -> Result<Position, SubmitError> {
        let result = self.accept_if_met(batch, permits);
        if result.is_err() {
            self.room.add_permits(permits as usize);
        }
        result
    }

    fn accept_if_met(&self, mut batch: Batch, permits: u32) -> Result<Position, SubmitError> {
        batch.pack();
        // What the engine has may have to be read from disk, and nobody should wait for that: it
        // is fetched before the lock is taken. Under the lock, a key that is in no layer is as it
        // was fetched still, unless a group has left the overlay since the fetch began.
        for _ in 0..UNLOCKED_READS_MAX {
            let retired = self.retired.load(Ordering::Acquire);
            let fetched = self.fetch(&batch)?;
            let state = self.lock();
            if state.retired == retired || fetched.is_empty() {
                return self.decide(state, batch, permits, &fetched);
            }
        }
        let state = self.lock();
        // Everybody waits for these reads, so there are no others: the engine is told of every
        // delete, also of what it does not have.
        let deletes = batch.deletes().map(|_| true).collect();
        let fetched = Fetched { conditions: self.fetch_conditions(&batch)?, deletes };
        self.decide(state, batch, permits, &fetched)
    }

    /// What the engine has for the keys that a batch asks about.
    fn fetch(&self, batch: &Batch) -> Result<Fetched, SubmitError> {
        let conditions = self.fetch_conditions(batch)?;
        let contains = |delete: &Write| {
            let contains = self.engine.contains(&delete.table, &delete.key);
            contains.map_err(|error| self.unreadable(&delete.table, &delete.key, error))
        };
        let deletes = batch.deletes().map(contains).collect::<Result<_, _>>()?;
        Ok(Fetched { conditions, deletes })
    }

    fn fetch_conditions(&self, batch: &Batch) -> Result<FetchedValues, SubmitError> {
        let get = |Condition { table, key, .. }: &Condition| {
            self.engine.get(table, key).map_err(|error| self.unreadable(table, key, error))
        };
        batch.conditions().iter().map(get).collect()
    }

    /// The engine could not read; damage is noted.
    fn unread(&self, table: &Table, key: &[u8], source: EngineError) -> ReadError {
        self.note_damage(table, key, &source);
        ReadError::Engine { table: table.name(), source: Arc::new(source) }
    }

    /// The same for what a batch asks about.
    fn unreadable(&self, table: &Table, key: &[u8], error: EngineError) -> SubmitError {
        self.note_damage(table, key, &error);
        SubmitError::Unreadable(Arc::new(error))
    }

    fn note_damage(&self, table: &Table, key: &[u8], error: &EngineError) {
        if error.is_damage() {
            let (table, key) = (table.name(), key.escape_ascii());
            self.damage.note(&format!("table {table:?} at key \"{key}\": {error}"));
        }
    }

    fn decide(
        &self,
        mut state: MutexGuard<'_, State>,
        batch: Batch,
        permits: u32,
        fetched: &Fetched,
    ) -> Result<Position, SubmitError> {
        if let Some(poison) = &state.poison {
            return Err(SubmitError::Poisoned(poison.clone()));
        }
        if state.closed {
            return Err(SubmitError::Closed);
        }
        let conditions = batch.conditions().iter().zip(&fetched.conditions);
        for (index, (condition, fetched)) in conditions.enumerate() {
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
        // When the group of this batch gets there, the disk has what it has now, and the closing
        // layer's changes.
        let deletes = batch.deletes().zip(&fetched.deletes);
        let on_disk: SmallVec<[bool; 8]> = deletes
            .map(|(delete, fetched)| match state.closing(&delete.table, &delete.key) {
                Some(change) => change.is_some(),
                None => *fetched,
            })
            .collect();
        let position = state.accepted.next();
        state.accepted = position;
        state.open_permits += permits as usize;
        let wake = state.open.is_empty() && state.closing.is_none();
        // A snapshot that has the layer keeps it as it is: this copies it then, once.
        Arc::make_mut(&mut state.open).apply(batch.into_writes(), &on_disk);
        drop(state);
        // While a commit runs the writer looks again by itself when it is done.
        if wake {
            self.work.notify_one();
        }
        Ok(position)
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Seen<Option<Bytes>>, ReadError> {
        self.known_for_read(table)?;
        let position = {
            let state = self.lock();
            state.check_readable()?;
            if let Some(change) = state.overlaid(table, key) {
                return Ok(Seen { value: change.clone(), position: state.accepted });
            }
            state.accepted
        };
        // The engine may have gone on meanwhile: what it shows is durable, so the position still
        // says enough.
        let value = self.engine.get(table, key);
        let value = value.map_err(|source| self.unread(table, key, source))?;
        Ok(Seen { value, position })
    }

    fn snapshot(self: &Arc<Self>) -> Result<Snapshot, ReadError> {
        let state = self.lock();
        state.check_readable()?;
        // Under the lock, so that the engine shows neither less than what is below the layers
        // nor anything that came after them.
        let engine = self.engine.snapshot();
        let layers = [
            (!state.open.is_empty()).then(|| Arc::clone(&state.open)),
            state.closing.as_ref().map(|closing| Arc::clone(&closing.layer)),
        ];
        Ok(Snapshot::new(Arc::clone(self), state.accepted, layers, engine))
    }
}

impl State {
    /// What the overlay says about a key: the newer layer first.
    fn overlaid(&self, table: &Table, key: &[u8]) -> Option<&Option<Bytes>> {
        self.open.get(table, key).or_else(|| self.closing(table, key))
    }

    /// What is on its way to the disk for a key.
    fn closing(&self, table: &Table, key: &[u8]) -> Option<&Option<Bytes>> {
        self.closing.as_ref()?.layer.get(table, key)
    }

    fn check_readable(&self) -> Result<(), ReadError> {
        match &self.poison {
            Some(poison) => Err(ReadError::Poisoned(poison.clone())),
            None => Ok(()),
        }
    }
}

fn names(tables: &[Table]) -> [Option<&'static str>; TABLES_MAX as usize] {
    let mut names = [None; TABLES_MAX as usize];
    for table in tables {
        names[table.index()] = Some(table.name());
    }
    names
}

/// The position of the last group that the engine has.
fn recovered_position(engine: &dyn Engine) -> Result<Position, EngineError> {
    let Some(row) = engine.get(&PIPELINE, POSITION_KEY)? else { return Ok(Position::START) };
    let number = row.as_ref().try_into().map(u64::from_be_bytes).map_err(|_| {
        EngineError::Damaged { what: format!("the position row has {} bytes", row.len()) }
    })?;
    Ok(Position::new(number))
}
