//! Starting and stopping. Work that another process left is found in the stored queue and the
//! timers; every other execution waits until something happens to it.
#![expect(clippy::disallowed_methods, reason = "the shell of the threads measures their turns")]

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indelible_execution::{Input, Limits};
use indelible_http::{NoNetwork, Sender};
use indelible_records::timers::Row;
use indelible_records::{DELIVERY_ROOM, LEDGER_ROOM, queue};
use indelible_store::Store;

use super::{Engine, EngineError, OpenError};
use crate::admission::Admission;
use crate::cell::Cell;
use crate::command::{Command, RoomCommand};
use crate::component::Components;
use crate::delivery::{DeliveryCounts, PostOffice};
use crate::effects::Effects;
use crate::end_counts::EndCounts;
use crate::guest::Guests;
use crate::hold::HoldState;
use crate::hosted::MachineId;
use crate::ledger::{LedgerMemory, VaultMachine};
use crate::options::Options;
use crate::outbox::Outbox;
use crate::parking::ParkingLot;
use crate::reader::{POOLS, Reader};
use crate::recovery::Recovery;
use crate::replays::Replays;
use crate::retention_clock::RetentionClock;
use crate::rooms::Rooms;
use crate::run_queue::QueuedTurn;
use crate::shared::{Shared, lock};
use crate::ticks::{Ticks, TurnCount};
use crate::trouble;
use crate::turn::turn;
use crate::world::{Clock, Entropy, Observer, SilentObserver, System, Witness};

/// What an engine needs of the world.
#[derive(Clone)]
pub struct World {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Told of what an operator may want to know.
    pub observer: Arc<dyn Observer>,
    /// Remembers which execution killed the process.
    pub witness: Arc<dyn Witness>,
    /// Sends HTTP requests.
    pub http: Arc<dyn Sender>,
    /// Runs guests. A process needs only one; it reserves much memory.
    pub guests: Arc<Guests>,
}

impl World {
    /// The system's clock and randomness; no observer, no witness, and no HTTP request is sent.
    pub fn system(guests: Arc<Guests>) -> Self {
        Self {
            clock: Arc::new(System),
            entropy: Arc::new(System),
            observer: Arc::new(SilentObserver),
            witness: Arc::new(SilentObserver),
            http: Arc::new(NoNetwork),
            guests,
        }
    }
}

impl Engine {
    /// Starts an engine over a store, and goes on with the work that is stored there, unless it is
    /// [on hold](Engine::hold).
    pub fn open(store: Store, options: Options, world: World) -> Result<Self, OpenError> {
        Self::open_with(store, options, world, Rooms::default())
    }

    /// The same, with machines of other kinds beside trees.
    pub fn open_with(
        store: Store,
        options: Options,
        world: World,
        mut rooms: Rooms,
    ) -> Result<Self, OpenError> {
        let memory = Arc::new(LedgerMemory::default());
        rooms.insert(LEDGER_ROOM, move || VaultMachine::new(Arc::clone(&memory)));
        let deliveries = Arc::new(DeliveryCounts::default());
        rooms.insert(DELIVERY_ROOM, {
            let counts = Arc::clone(&deliveries);
            move || PostOffice::new(Arc::clone(&counts))
        });
        let retention = options.retention()?;
        let World { clock, entropy, observer, witness, http, guests } = world;
        store.damage().tell({
            // Weak: an observer may hold the store, and the store must not hold itself.
            let observer = Arc::downgrade(&observer);
            move |place| {
                if let Some(observer) = observer.upgrade() {
                    trouble!(always observer, error, place = place, "stored data is damaged");
                }
            }
        });
        let components = Components::open(store.clone(), Arc::clone(&guests))?;
        let retention_clock = RetentionClock::open(&store, clock.as_ref());
        let retention_clock = retention_clock.map_err(OpenError::RetentionClock)?;
        let hold = HoldState::open(&store, &options).map_err(OpenError::Hold)?;
        let outbox = Outbox::open(store.clone())?;
        let places = guests.options().guests_max as usize;
        let limits = Limits {
            guest: guests.options().limits,
            payload_bytes_max: guests.options().payload_bytes_max,
            cleanup_max: options.cleanup_max,
            journal_events_max: options.journal_events_max,
            signals_buffered_max: options.signals_buffered_max,
            signals_buffered_bytes_max: options.signals_buffered_bytes_max,
            retention,
        };
        let shared = Arc::new_cyclic(|me| Shared {
            me: Weak::clone(me),
            deliveries,
            effects: Effects::new(http, options.effect_shares()),
            clock,
            entropy,
            observer,
            witness,
            replays: Replays::default(),
            parking: ParkingLot::new(options.parking, places, options.workers),
            guests,
            components,
            run_queue: Default::default(),
            timers: Default::default(),
            watchers: Default::default(),
            followers: Default::default(),
            room_followers: Default::default(),
            key_locks: Default::default(),
            askers: AtomicU64::new(0),
            rooms,
            outbox,
            applied: Mutex::default(),
            limits,
            gone: Default::default(),
            retention_clock,
            trees: Mutex::new(HashMap::new()),
            replayed: AtomicU64::new(0),
            end_counts: EndCounts::default(),
            admission: Arc::new(Admission::new(options.commands_max, options.callers_waiting_max)),
            hold,
            recovery: Recovery::new(),
            reader: Reader::new(&options),
            failed: AtomicBool::new(false),
            stopping: Mutex::default(),
            options,
            store,
        });
        // Fails here if the queue cannot be read at all. Workers read its rows, as they have time.
        let _ = queue::next(&shared.store, None, 1)?;
        if !shared.hold.is_on() {
            shared.timers.look();
        }
        let mut engine = Self { shared, threads: Vec::new(), ticks: None, retention: None };
        // If a thread cannot be started, dropping the engine stops the others.
        engine.start_threads()?;
        Ok(engine)
    }

    /// Stops: running guests come to their next stop, nothing new begins, and accepted changes are
    /// committed. The next engine over the same store does the rest.
    pub fn close(self) {}

    fn stop(&mut self) {
        self.retention = None;
        if !self.threads.is_empty() {
            let at_most = Duration::from_micros(self.shared.options.drain_max.get());
            self.shared.effects.drain(at_most);
        }
        self.shared.effects.clear();
        self.shared.run_queue.close();
        self.shared.timers.close();
        self.shared.reader.close();
        for thread in self.threads.drain(..) {
            // A worker that panicked has logged it.
            let _ = thread.join();
        }
        // After the workers: a guest that computes comes to its next stop only because time passes.
        drop(self.ticks.take());
        self.shared.effects.close_door();
        // Guests and their trees refer to each other: unless the trees are cleared, neither is
        // freed.
        let trees: Vec<_> = {
            let mut trees = lock(&self.shared.trees);
            // Set under the lock: a `Submission` that outlives the engine must not make new trees.
            self.shared.failed.store(true, Ordering::Release);
            trees.drain().map(|(_, cell)| cell).collect()
        };
        for cell in trees {
            cell.hosted().commit(&self.shared);
            cell.clear(&self.shared.rooms);
        }
        self.shared.followers.close();
        self.shared.room_followers.close();
        self.shared.watchers.clear();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells trees of the timers that are due.
pub(super) fn fire_due(shared: &Shared) -> Result<usize, EngineError> {
    if shared.hold.is_on() {
        return Ok(0);
    }
    let now = shared.clock.now();
    shared.strike_out();
    shared.recovery.try_again();
    // Workers that wait for a turn do not read the queue.
    shared.recover_more();
    shared.parking.sweep(now);
    shared.tell_evicted();
    shared.flush_effects();
    let in_memory = shared.timers.due_in_memory(now);
    let mut count = in_memory.len();
    for timer in in_memory {
        let root = *timer.key.execution_id().root();
        shared.send(&root, Command::tell(Input::DueInMemory(timer)));
    }
    let due = shared.timers.due(&shared.store, now)?;
    count += due.len();
    for row in due {
        match row {
            Row::Tree(timer) => {
                let root = *timer.key.execution_id().root();
                shared.send(&root, Command::tell(Input::Due(timer)));
            }
            Row::Room(timer) => {
                let key = timer.key.clone();
                shared.send_room(key.clone(), RoomCommand::Due(timer));
                if !shared.rooms.has(key.room) {
                    // No machine was told: the row stays, and takes no place from other timers.
                    shared.timers.keep_all(&MachineId::Room(key));
                }
            }
            Row::UnknownRoom { .. } => {}
        }
    }
    // A message that cannot be read now is tried again the next time.
    let carried = shared.carry_messages().inspect_err(|_| shared.outbox.send_again());
    Ok(count + carried?)
}

impl Engine {
    /// Starts the workers, the readers, the timers' thread, and the thread that makes guests' time
    /// pass.
    fn start_threads(&mut self) -> Result<(), OpenError> {
        if self.shared.options.workers == 0 {
            return Ok(());
        }
        let ticks = Ticks::start(&self.shared.guests).map_err(OpenError::Thread)?;
        let running = ticks.running();
        self.ticks = Some(ticks);
        for number in 0..self.shared.options.workers {
            let shared = Arc::clone(&self.shared);
            let running = Arc::clone(&running);
            let work = move || work(&shared, &running);
            self.threads.push(spawn(&format!("worker-{number}"), work)?);
        }
        let shared = Arc::clone(&self.shared);
        self.threads.push(spawn("timers", move || look_after_timers(&shared))?);
        for number in 0..self.shared.options.readers.max(1) {
            for (pool, (name, _)) in POOLS.iter().enumerate() {
                let shared = Arc::clone(&self.shared);
                let read = move || shared.reader.work(&shared, pool);
                self.threads.push(spawn(&format!("{name}-{number}"), read)?);
            }
        }
        Ok(())
    }
}

/// Takes turns until the engine stops.
fn work(shared: &Arc<Shared>, running: &TurnCount) {
    loop {
        shared.recover_more();
        let Some(QueuedTurn { cell, flow }) = shared.run_queue.pop() else { return };
        let began = Instant::now();
        {
            let _running = running.enter();
            guarded(shared, &cell);
        }
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        shared.run_queue.took(flow, took);
    }
}

/// Tells trees of what is due, and notices when the store has stopped, until the engine stops.
fn look_after_timers(shared: &Shared) {
    let mut is_told = false;
    while shared.timers.wait(shared.clock.now()) {
        if shared.stop_if_lost() {
            return;
        }
        match fire_due(shared) {
            Ok(_) => is_told = false,
            Err(error) => {
                if !is_told {
                    trouble!(shared, warn, error = error, "timer rows cannot be read; retrying");
                }
                is_told = true;
                shared.timers.pause();
            }
        }
    }
}

/// A turn whose panic does not end its worker. A panic is a defect of the engine's: what that
/// machine has in memory is forgotten, others do not notice, and its stored work goes on when the
/// engine is opened again.
fn guarded(shared: &Arc<Shared>, cell: &Arc<Cell>) {
    if catch_unwind(AssertUnwindSafe(|| turn(shared, cell))).is_ok() {
        return;
    }
    let id = &cell.id;
    trouble!(
        shared,
        error,
        machine = format_args!("{id:?}"),
        "engine panicked; restart the server to resume the machine"
    );
    lock(&shared.trees).remove(id);
    shared.timers.keep_all(id);
    cell.clear(&shared.rooms);
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    let name = format!("indelible-{name}");
    thread::Builder::new().name(name).spawn(work).map_err(OpenError::Thread)
}
