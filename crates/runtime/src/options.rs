//! What can be configured of the engine. Every bound is here, by name, with its default.

use indelible_journal::Micros;
use indelible_operations::retention::{AHEAD_MAX, Retention, TooShort};

use crate::effect_limiter::EffectLimits;

/// How an engine runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that run guests. 0: none; the engine's owner runs it with
    /// [`Engine::step`](crate::Engine::step), and calls
    /// [`Guests::tick`](crate::guest::Guests::tick) so that guests' time passes.
    pub workers: usize,
    /// Whether a guest that waits is kept (D4).
    pub parking: Parking,
    /// How far the engine runs ahead of the disk.
    pub pace: Pace,
    /// Which slots are its own.
    pub ownership: Ownership,
    /// Whether it goes on with what is stored as soon as it is open.
    pub opening: Opening,
    /// How long an execution that is being cancelled may clean up (C-22).
    pub cleanup_max: Micros,
    /// The most events that a guest may bring into its journal: past it, the attempt ends.
    pub journal_events_max: u64,
    /// The most signals that an execution buffers: past it, a signal is refused.
    pub signals_buffered_max: usize,
    /// The most bytes of signals that an execution buffers: past it, a signal is refused.
    pub signals_buffered_bytes_max: usize,
    /// How long the record of an operation stays after its end (see C-3).
    pub operation_window: Micros,
    /// The most commands that are under way, and a quarter of it for the calls of one function:
    /// past it, callers wait.
    pub commands_max: usize,
    /// The most callers that wait for admission, and a quarter of it for the calls of one function:
    /// past it, callers are refused.
    pub callers_waiting_max: usize,
    /// Threads that read for lists, views and streams, and as many for look-ups of single rows.
    /// Without workers there are none: each caller's thread reads for itself.
    pub readers: usize,
    /// The most reads that wait for views, for lists and for streams, each: past it, a view or a
    /// list is refused, and a stream waits longer. Look-ups have `callers_waiting_max`.
    pub reads_waiting_max: usize,
    /// The most HTTP requests in flight: past it, further ones wait, and have not begun. 0: none
    /// begins.
    pub effects_in_flight_max: usize,
    /// The most requests in flight of one component: however slow its peers are, other components
    /// find permits.
    pub effects_per_component_max: usize,
    /// The most requests in flight to one origin: a peer that hangs takes no more permits.
    pub effects_per_origin_max: usize,
    /// For how long a stop waits for HTTP requests in flight. The outcome of those still in flight
    /// then is unknown to the next engine.
    pub drain_max: Micros,
    /// For how long callers repeat a request, at most: `operation_window` is not shorter (C-3).
    pub retry_horizon: Micros,
    /// How far the clock of a client that makes operation ids may be ahead of this one (C-3).
    pub operation_ahead_max: Micros,
}

/// Whether a guest that waits is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parking {
    /// It stays in memory, while there is room for it.
    Keep(ParkingBounds),
    /// It is dropped, and runs again over its journal when it goes on.
    Drop,
}

/// How much room there is for guests that wait. Past it, those that have waited longest are
/// dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkingBounds {
    /// The most guests. Fewer, if that leaves a worker without a place for the one that it runs.
    pub guests_max: usize,
    /// The most memory, in bytes: what their memories have grown, and a guess of the rest.
    pub bytes_max: usize,
    /// The longest wait. A guest that is known to wait longer is dropped at once.
    pub wait_max: Micros,
}

impl ParkingBounds {
    /// What an engine keeps unless it is told otherwise.
    pub const DEFAULT: Self =
        Self { guests_max: 7_500, bytes_max: 1 << 30, wait_max: Micros::from_secs(60) };

    /// ParkingBounds for so many guests.
    pub const fn for_guests(guests_max: usize) -> Self {
        Self { guests_max, ..Self::DEFAULT }
    }
}

/// How far the engine runs ahead of the disk. Clients are shown what is durable either way (D2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As far as the store has space: a turn is one commit, and only a caller that needs it durable
    /// waits for the disk.
    Ahead,
    /// Not at all: every single change is on disk before the next is made. Slow; for finding
    /// defects, and for showing that a crash between any two changes does no harm.
    Lockstep,
}

/// Which slots the engine takes for its own (D13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// All of them: a change to several slots is one commit.
    All,
    /// As if each slot had an owner of its own: a change to several slots takes the steps that are
    /// taken between nodes. The answers are the same; tests compare them.
    Apart,
}

/// Whether an engine goes on with what is stored as soon as it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// It does, unless its store is on hold.
    AtWork,
    /// It is on hold until that is lifted ([`Engine::lift_hold`](crate::Engine::lift_hold)).
    OnHold,
}

impl Default for ParkingBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(2, usize::from),
            parking: Parking::Keep(ParkingBounds::default()),
            pace: Pace::Ahead,
            ownership: Ownership::All,
            opening: Opening::AtWork,
            cleanup_max: Micros::from_secs(60),
            journal_events_max: 1_000_000,
            signals_buffered_max: 10_000,
            signals_buffered_bytes_max: 32 << 20,
            operation_window: Micros::from_secs(7 * 24 * 3600),
            commands_max: 4_096,
            callers_waiting_max: 65_536,
            // Half of the processors at most read for clients.
            readers: std::thread::available_parallelism().map_or(1, |all| all.get().div_ceil(2)),
            // Each takes some milliseconds: a read with so many ahead of it would wait for seconds.
            reads_waiting_max: 1_024,
            effects_in_flight_max: 4_096,
            effects_per_component_max: 2_048,
            effects_per_origin_max: 1_024,
            drain_max: Micros::from_secs(10),
            retry_horizon: Micros::from_secs(24 * 3600),
            operation_ahead_max: AHEAD_MAX,
        }
    }
}

impl Options {
    pub(crate) fn effect_shares(&self) -> EffectLimits {
        EffectLimits {
            all: self.effects_in_flight_max,
            component: self.effects_per_component_max,
            origin: self.effects_per_origin_max,
        }
    }

    /// How long operations are remembered, if these options make sense.
    pub(crate) fn retention(&self) -> Result<Retention, TooShort> {
        Retention::new(self.operation_window, self.retry_horizon, self.operation_ahead_max)
    }
}
