//! The engine as others use it: deploy components, start functions, send signals, cancel, wait
//! for outcomes. Whatever is answered is durable (D2).
//!
//! - `open`: starting and stopping, and going on with what another process left.
//! - `calls`: starts. `submitted`: a start whose caller waits. `outcome`: how executions ended.
//! - `control`: signals, cancels, stuck executions, held effects.
//! - `deploy`: components. `breaking`: what a change of version breaks. `views`: what clients are shown. `reads`: reading the store in pieces.
//! - `retain`: deletes what is past its time. `hold`: an operator lets an engine go on.

mod breaking;
mod calls;
mod control;
mod deploy;
mod error;
mod hold;
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

pub use self::breaking::{BreakingChange, ContractChange, Count};
pub(crate) use self::calls::names;
pub use self::calls::{Start, StartedExecution, Verdict};
pub use self::control::{Attribution, ControlError, PersonDecision, REASON_BYTES_MAX, Receipt};
pub use self::deploy::{Activation, Deployment, IfBreaking};
pub use self::error::{DeployRefused, EngineError, OpenError, StartRefused};
pub use self::hold::LiftOutcome;
pub use self::open::World;
pub use self::reads::{LaneRead, Reads};
pub use self::submitted::Submission;
pub use self::views::{
    AUDIT_PAGE_MAX, EVENTS_PAGE_BYTES_MAX, EVENTS_PAGE_MAX, EventsPage, KeyUse, TREE_PAGE_MAX,
    TreePage,
};
use crate::command::Command;
use crate::delivery::DeliveryReadings;
use crate::end_counts::EndReadings;
use crate::guest;
use crate::reader::{Lane, LaneReadings};
use crate::retention::GoneReadings;
use crate::retention_clock::RetentionTime;
use crate::run_queue::{QueuedTurn, RunQueue};
use crate::shared::{Shared, lock};
use crate::ticks::Ticks;
use crate::turn::turn;

/// An engine over a store.
///
/// With workers it runs by itself. Without ([`Options::workers`](crate::Options::workers) is 0),
/// its owner runs it: [`Engine::step`], [`Engine::fire_due`].
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The thread that makes guests' time pass. It must outlive every running guest.
    ticks: Option<Ticks>,
    /// Deletes what is past its time; set by `retain`.
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
    /// Whether the engine is [on hold](Engine::hold).
    pub on_hold: bool,
    /// Whether all work that another process left has been looked at.
    pub recovered: bool,
    /// Timers that are due and were sent to their executions.
    pub timers_told: usize,
    /// HTTP requests in flight, including those that wait for the disk.
    pub effects_in_flight: usize,
    /// Outgoing messages that wait for the disk: HTTP requests, and commands between trees.
    pub effects_leaving: usize,
    /// Callers that wait for admission.
    pub callers_waiting: usize,
    /// Reads, by lane.
    pub reads: [LaneReadings; Lane::ALL.len()],
    /// Guests that wait and are kept in memory.
    pub parked: usize,
    /// About how much memory the parked guests take.
    pub parked_bytes: usize,
    /// Parked guests that were dropped, so far.
    pub evicted: u64,
    /// Guests that ran again over their journals, so far: evicted ones that went on, and those that
    /// another process had left.
    pub replays: u64,
    /// Guests.
    pub guests: guest::Readings,
    /// What retention has deleted, so far.
    pub gone: GoneReadings,
    /// The retention clock, beside the wall clock.
    pub retention: RetentionTime,
    /// The store.
    pub store: indelible_store::Readings,
}

impl Engine {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Does the next piece of work on this thread. False: there is none now.
    pub fn step(&self) -> bool {
        self.step_with(RunQueue::try_pop)
    }

    /// The same, out of turn: takes the runnable tree that is `choice` places behind the first,
    /// counted round. Nothing may depend on their order.
    pub fn step_at(&self, choice: usize) -> bool {
        self.step_with(|run_queue| run_queue.try_pop_at(choice))
    }

    fn step_with(&self, pop: impl FnOnce(&RunQueue) -> Option<QueuedTurn>) -> bool {
        let shared = &self.shared;
        if shared.stop_if_lost() {
            return false;
        }
        shared.recover_more();
        let Some(QueuedTurn { cell, .. }) = pop(&shared.run_queue) else { return false };
        turn(shared, &cell);
        shared.stop_if_lost();
        true
    }

    /// Resolves when the store has stopped, and with it the engine: commits that are not durable
    /// are lost, and no request is accepted any more. The process should end then.
    pub async fn stopped(&self) -> Poison {
        let poison = self.shared.store.stopped().await;
        self.shared.stop_if_lost();
        // Another thread may be stopping the engine: wait for it.
        drop(lock(&self.shared.stopping));
        poison
    }

    /// Drops parked guests, those that have waited longest first: they run again over their
    /// journals when they go on. Returns how many were dropped.
    pub fn evict(&self, count: usize) -> usize {
        let evicted = self.shared.parking.evict(count);
        self.shared.tell_evicted();
        evicted
    }

    /// Wakes an execution for no reason. It must not change anything.
    pub fn nudge(&self, execution: &ExecutionId) {
        let nudge = Command::tell(Input::Nudge(execution.clone()));
        self.shared.send(execution.root(), nudge);
    }

    /// Forgets which due timers were sent to their executions: they are sent again. It must not
    /// change anything.
    pub fn fire_again(&self) {
        self.shared.timers.forget_told();
    }

    /// Tells executions of the timers that are due, and returns how many; the work that follows is
    /// for [`Engine::step`].
    pub fn fire_due(&self) -> Result<usize, EngineError> {
        open::fire_due(&self.shared)
    }

    /// When the next timer is due, as far as is known.
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
            on_hold: self.shared.hold.is_on(),
            recovered: self.shared.recovery.is_over(),
            timers_told: self.shared.timers.fired_count(),
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

    /// How executions and attempts at effects ended, so far.
    pub fn end_readings(&self) -> EndReadings {
        self.shared.end_counts.readings()
    }

    /// What post offices have done, so far.
    pub fn delivery_readings(&self) -> DeliveryReadings {
        self.shared.deliveries.readings()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("readings", &self.readings()).finish_non_exhaustive()
    }
}
