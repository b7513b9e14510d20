//! The engine as others use it: deploy components, start functions, send signals, cancel, wait
//! for outcomes. Whatever is answered is durable (D2).
//!
//! - `open`: starting and stopping, with what was left to be done.
//! - `calls`: starts. `submitted`: one in the hands of whoever waits. `outcome`: what became of it.
//! - `control`: signals, cancels, held executions.
//! - `deploy`: components. `views`: what others are shown. `reads`: from the store, piece by piece.
//! - `retain`: what goes after its time.

mod calls;
mod control;
mod deploy;
mod error;
mod open;
mod outcome;
mod reads;
mod retain;
mod submitted;
mod views;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use indelible_execution::Input;
use indelible_journal::{ExecutionId, Timestamp};
use indelible_records::retention::Background;
use indelible_store::{Poison, Store};

pub use self::calls::{Start, StartedExecution, Verdict};
pub use self::control::{Asked, ControlError, Decided, Done, REASON_BYTES_MAX};
pub use self::deploy::Deployment;
pub use self::error::{DeployRefused, EngineError, OpenError, StartRefused};
pub use self::open::World;
pub use self::reads::{LaneRead, Reads};
pub use self::submitted::Submitted;
pub use self::views::{
    AUDIT_PAGE_MAX, EVENTS_PAGE_BYTES_MAX, EVENTS_PAGE_MAX, EventsPage, TREE_PAGE_MAX, TreePage,
};
use crate::command::Command;
use crate::guest;
use crate::reader::{Lane, LaneReadings};
use crate::retention::GoneReadings;
use crate::retention_clock::RetentionTime;
use crate::run_queue::{RunQueue, Taken};
use crate::shared::{Shared, lock};
use crate::ticks::Ticks;
use crate::turn::turn;

/// An engine over a store.
///
/// With workers it runs by itself. Without ([`Options::workers`](crate::Options::workers) is 0),
/// whoever holds it runs it: [`Engine::step`], [`Engine::fire_due`].
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The thread that makes guests' time pass, longer than any guest runs.
    ticks: Option<Ticks>,
    /// Lets go of what is past its time, if somebody wants that.
    retention: Option<Background>,
}

/// What happens now, and what has happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readings {
    /// Trees of executions in memory.
    pub trees: usize,
    /// Trees that have something to do.
    pub runnable: usize,
    /// Whether everything was looked at that another process had left to be done.
    pub recovered: bool,
    /// Timers that are due, of which their executions were told.
    pub timers_told: usize,
    /// HTTP requests in flight, those included that wait for the disk.
    pub effects_in_flight: usize,
    /// What waits for the disk before it leaves: HTTP requests, and words between trees.
    pub effects_leaving: usize,
    /// Callers that wait for room among the commands under way.
    pub callers_waiting: usize,
    /// Reads, by lane.
    pub reads: [LaneReadings; Lane::ALL.len()],
    /// Guests that wait and are kept.
    pub parked: usize,
    /// About how much memory those take.
    pub parked_bytes: usize,
    /// Guests that waited and were dropped, so far.
    pub evicted: u64,
    /// Guests that ran again over what is stored, so far: those that were dropped and went on,
    /// and those that another process had left.
    pub replays: u64,
    /// Guests.
    pub guests: guest::Readings,
    /// What retention has taken, so far.
    pub gone: GoneReadings,
    /// The retention clock, beside the wall clock.
    pub retention: RetentionTime,
    /// The store.
    pub store: indelible_store::Readings,
}

impl Engine {
    /// Does the next piece of work on this thread. False: there is none now.
    pub fn step(&self) -> bool {
        self.step_with(RunQueue::try_pop)
    }

    /// The same, out of turn: of the trees that have something to do, the one that is so many
    /// places behind the first, counted round. Nothing may depend on their order.
    pub fn step_at(&self, choice: usize) -> bool {
        self.step_with(|run_queue| run_queue.try_pop_at(choice))
    }

    fn step_with(&self, pop: impl FnOnce(&RunQueue) -> Option<Taken>) -> bool {
        let shared = &self.shared;
        if shared.stop_if_lost() {
            return false;
        }
        shared.recover_more();
        let Some(Taken { cell, .. }) = pop(&shared.run_queue) else { return false };
        turn(shared, &cell);
        shared.stop_if_lost();
        true
    }

    /// Resolves when the store has stopped, and with it the engine: what is not durable is lost,
    /// and nothing is taken any more. The process should end then.
    pub async fn stopped(&self) -> Poison {
        let poison = self.shared.store.stopped().await;
        self.shared.stop_if_lost();
        // Another thread may be at it.
        drop(lock(&self.shared.stopping));
        poison
    }

    /// Drops guests that wait, those that have waited longest first: they run again over their
    /// journals when they go on. How many there were.
    pub fn evict(&self, count: usize) -> usize {
        let evicted = self.shared.parking.evict(count);
        self.shared.tell_evicted();
        evicted
    }

    /// Wakes an execution for no reason. Nothing may come of it.
    pub fn nudge(&self, execution: &ExecutionId) {
        let nudge = Command::tell(Input::Nudge(execution.clone()));
        self.shared.send(execution.root(), nudge);
    }

    /// Forgets which of the timers that are due were told to their executions: they are told
    /// again. Nothing may come of it.
    pub fn fire_again(&self) {
        self.shared.timers.forget_told();
    }

    /// Tells executions of the timers that are due; what comes of it is work for
    /// [`Engine::step`]. How many were.
    pub fn fire_due(&self) -> Result<usize, EngineError> {
        open::fire_due(&self.shared)
    }

    /// When the next timer is due, as far as that is known; there may be none.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.shared.timers.next_due()
    }

    /// The store that everything is kept in.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// What happens now, and what has happened so far.
    pub fn readings(&self) -> Readings {
        let (parked, parked_bytes) = self.shared.parking.count();
        Readings {
            trees: lock(&self.shared.trees).len(),
            runnable: self.shared.run_queue.len(),
            recovered: self.shared.recovery.is_over(),
            timers_told: self.shared.timers.told(),
            effects_leaving: self.shared.effects.leaving(),
            effects_in_flight: self.shared.effects.in_flight(),
            callers_waiting: self.shared.admission.waiting(),
            reads: self.shared.reader.readings(),
            parked,
            parked_bytes,
            evicted: self.shared.parking.evicted(),
            replays: self.shared.replayed.load(Ordering::Relaxed),
            guests: self.shared.guests.readings(),
            gone: self.shared.gone.readings(),
            retention: self.shared.retention_time(),
            store: self.shared.store.readings(),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("readings", &self.readings()).finish_non_exhaustive()
    }
}
