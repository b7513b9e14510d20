//! Starting and stopping. What was left to be done is found in the stored queue and in the
//! timers; everything else waits until something happens to it.
#![expect(clippy::disallowed_methods, reason = "the shell of the threads measures their turns")]

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indelible_store::Store;
use indelible_store::rows::queue;

use super::{Engine, EngineError, OpenError};
use crate::admission::Admission;
use crate::cell::Cell;
use crate::component::Components;
use crate::guest::Guests;
use crate::options::Options;
use crate::parking::ParkingLot;
use crate::recovery::Recovery;
use crate::shared::{Shared, lock};
use crate::tree::command::Command;
use crate::turn::turn;
use crate::world::{Clock, Entropy, Observer, Silent, System, Witness};

/// What an engine needs of the world.
#[derive(Clone)]
pub struct World {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Whom to tell what people may want to know.
    pub observer: Arc<dyn Observer>,
    /// Remembers what killed the process.
    pub witness: Arc<dyn Witness>,
    /// What runs guests. One is enough for a process, and what it reserves is much.
    pub guests: Arc<Guests>,
}

impl World {
    /// The system's clock and randomness; nobody is told anything, and nothing is remembered of
    /// what killed the process.
    pub fn system(guests: Arc<Guests>) -> Self {
        Self {
            clock: Arc::new(System),
            entropy: Arc::new(System),
            observer: Arc::new(Silent),
            witness: Arc::new(Silent),
            guests,
        }
    }
}

impl Engine {
    /// Starts an engine over a store, and goes on with what was left to be done.
    pub fn open(store: Store, options: Options, world: World) -> Result<Self, OpenError> {
        let World { clock, entropy, observer, witness, guests } = world;
        let components = Components::open(store.clone(), Arc::clone(&guests))?;
        let places = guests.options().guests_max as usize;
        let shared = Arc::new(Shared {
            clock,
            entropy,
            observer,
            witness,
            suspects: Mutex::default(),
            parking: ParkingLot::new(options.parking, places, options.workers),
            guests,
            components,
            run_queue: Default::default(),
            timers: Default::default(),
            watchers: Default::default(),
            trees: Mutex::new(HashMap::new()),
            replays: AtomicU64::new(0),
            admission: Admission::new(options.commands_max, options.callers_waiting_max),
            recovery: Recovery::new(),
            failed: AtomicBool::new(false),
            stopping: Mutex::default(),
            options,
            store,
        });
        // So that what cannot be read at all is told here. The rest is read as there is time.
        let _ = queue::next(&shared.store, None, 1)?;
        shared.timers.look();
        let threads = start_threads(&shared)?;
        Ok(Self { shared, threads })
    }

    /// Stops: guests that run come to their next stop, nothing new begins, and what was accepted
    /// is committed. What was left to be done is done by the next engine over the same store.
    pub fn close(self) {}

    fn stop(&mut self) {
        self.shared.run_queue.close();
        self.shared.timers.close();
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so.
            let _ = thread.join();
        }
        // Guests and their trees hold on to each other.
        let trees: Vec<_> = lock(&self.shared.trees).drain().map(|(_, cell)| cell).collect();
        for cell in trees {
            let mut tree = cell.tree();
            tree.commit(&self.shared);
            let dropped = std::mem::take(&mut *tree);
            drop(tree);
            drop(dropped);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells trees of the timers that are due.
pub(super) fn fire_due(shared: &Shared) -> Result<usize, EngineError> {
    let now = shared.clock.now();
    shared.parking.sweep(now);
    shared.tell_evicted();
    let due = shared.timers.due(&shared.store, now)?;
    let count = due.len();
    for timer in due {
        let root = *timer.key.execution_id().root();
        shared.send(&root, Command::Due(timer));
    }
    Ok(count)
}

/// The workers, the one that looks after timers, and the one that makes guests' time pass.
fn start_threads(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>, OpenError> {
    let mut threads = Vec::new();
    if shared.options.workers == 0 {
        return Ok(threads);
    }
    for number in 0..shared.options.workers {
        let shared = Arc::clone(shared);
        let work = move || {
            loop {
                shared.recover_more();
                let Some(cell) = shared.run_queue.pop() else { return };
                let began = Instant::now();
                guarded(&shared, &cell);
                let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                shared.run_queue.took(cell.flow(), took);
            }
        };
        threads.push(spawn(&format!("worker-{number}"), work)?);
    }
    let timed = Arc::clone(shared);
    threads.push(spawn("timers", move || {
        while timed.timers.wait(timed.clock.now()) {
            if timed.stop_if_lost() {
                return;
            }
            if let Err(error) = fire_due(&timed) {
                if !timed.stop_if_lost() {
                    timed.trouble(&format!("timers cannot be read: {error}"));
                }
                return;
            }
        }
    })?);
    let ticked = Arc::clone(shared);
    let tick = Duration::from_micros(shared.guests.options().tick.get());
    threads.push(spawn("ticks", move || {
        while ticked.run_queue.wait_open(tick) {
            ticked.guests.tick();
        }
    })?);
    Ok(threads)
}

/// A turn that cannot take its worker with it. A panic is a mistake of the engine's: what that
/// tree has in memory is forgotten, others do not notice, and what is stored goes on when the
/// engine is opened again.
fn guarded(shared: &Arc<Shared>, cell: &Arc<Cell>) {
    if catch_unwind(AssertUnwindSafe(|| turn(shared, cell))).is_ok() {
        return;
    }
    let root = cell.root;
    shared.trouble(&format!("the engine panicked over {root:#}; it goes on at a restart"));
    lock(&shared.trees).remove(&root);
    shared.timers.keep_all(&root);
    cell.clear();
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    let name = format!("indelible-{name}");
    thread::Builder::new().name(name).spawn(work).map_err(OpenError::Thread)
}
