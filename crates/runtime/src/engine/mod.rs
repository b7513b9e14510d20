//! The engine as others use it: deploy components, start functions, send signals, cancel, wait
//! for outcomes. Whatever is answered is durable (D2).
//!
//! - `open`: starting and stopping, with what was left to be done.
//! - `calls`: starts and outcomes. `control`: signals, cancels, held executions.
//! - `deploy`: components.

mod calls;
mod control;
mod deploy;
mod error;
mod open;

use std::sync::Arc;
use std::thread::JoinHandle;

use indelible_journal::Timestamp;
use indelible_store::Store;

pub use self::calls::{Start, StartedExecution};
pub use self::control::{ControlError, REASON_BYTES_MAX};
pub use self::deploy::Deployment;
pub use self::error::{DeployRefused, EngineError, OpenError, StartRefused};
pub use self::open::World;
use crate::guest;
use crate::shared::{Shared, lock};
use crate::turn::turn;

/// An engine over a store.
///
/// With workers it runs by itself. Without ([`Options::workers`](crate::Options::workers) is 0),
/// whoever holds it runs it: [`Engine::step`], [`Engine::fire_due`].
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What happens now, and what has happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readings {
    /// Trees of executions in memory.
    pub trees: usize,
    /// Trees that have something to do.
    pub runnable: usize,
    /// Guests that wait and are kept.
    pub parked: usize,
    /// Guests.
    pub guests: guest::Readings,
    /// The store.
    pub store: indelible_store::Readings,
}

impl Engine {
    /// Does the next piece of work on this thread. False: there is none now.
    pub fn step(&self) -> bool {
        match self.shared.run_queue.try_pop() {
            Some(cell) => {
                turn(&self.shared, &cell);
                true
            }
            None => false,
        }
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
        Readings {
            trees: lock(&self.shared.trees).len(),
            runnable: self.shared.run_queue.len(),
            parked: self.shared.parking.count(),
            guests: self.shared.guests.readings(),
            store: self.shared.store.readings(),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("readings", &self.readings()).finish_non_exhaustive()
    }
}
