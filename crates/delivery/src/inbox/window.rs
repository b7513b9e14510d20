//! How long an id is remembered: longer than any copy of its message can be accepted.

use std::collections::BTreeMap;

use indelible_journal::{Micros, Timestamp};

use crate::oip::MessageType;

/// How far clocks may differ, unless configured otherwise (see O-17).
const CLOCK_SKEW_MAX: Micros = Micros::from_secs(5);
/// The recommended window (see O-17).
const WINDOW: Micros = Micros::from_secs(700);
/// How many ids a source has before it is full, unless configured otherwise (see O-16).
const CAPACITY: u64 = 100_000;

/// What the specification's configuration names for a full record (see O-16). Neither ever evicts an id
/// that is inside its window (see C-10, O-20): they are read, and mean nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvictionPolicy {
    /// The least recently used.
    Lru,
    /// The first that came.
    Fifo,
}

/// `DeduplicationConfig` (see O-16), checked. `strategy` is always `MESSAGE_ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deduplication {
    window: Micros,
    per_type: BTreeMap<MessageType, Micros>,
    clock_skew_max: Micros,
    /// From how many live ids an alarm is raised (see C-10).
    pub capacity: u64,
    /// What the configuration says.
    pub eviction: EvictionPolicy,
}

/// A window that would forget an id while a copy of its message can still be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("windowSize is {window}; with a TTL of {ttl} it must be at least {floor}")]
pub struct WindowError {
    /// The window.
    pub window: Micros,
    /// The longest TTL that it is for.
    pub ttl: Micros,
    /// The shortest window for that TTL.
    pub floor: Micros,
}

/// The shortest window for messages of this TTL (see O-17).
pub fn window_floor(ttl: Micros, clock_skew_max: Micros) -> Micros {
    Micros::new(ttl.get().saturating_add(clock_skew_max.get().saturating_mul(2)))
}

fn check(window: Micros, ttl: Micros, clock_skew_max: Micros) -> Result<(), WindowError> {
    let floor = window_floor(ttl, clock_skew_max);
    if window < floor { Err(WindowError { window, ttl, floor }) } else { Ok(()) }
}

impl Default for Deduplication {
    fn default() -> Self {
        Self {
            window: WINDOW,
            per_type: BTreeMap::new(),
            clock_skew_max: CLOCK_SKEW_MAX,
            capacity: CAPACITY,
            eviction: EvictionPolicy::Lru,
        }
    }
}

impl Deduplication {
    /// One window for all types, and others for some (see O-17, O-18). A type with a window of its
    /// own is no longer a bound for the common one.
    pub fn new(
        window: Micros,
        per_type: BTreeMap<MessageType, Micros>,
        clock_skew_max: Micros,
    ) -> Result<Self, WindowError> {
        for (of, window) in &per_type {
            check(*window, of.recommended_ttl(), clock_skew_max)?;
        }
        let others = MessageType::ALL.into_iter().filter(|of| !per_type.contains_key(of));
        let longest = others.map(MessageType::recommended_ttl).max().unwrap_or(Micros::ZERO);
        check(window, longest, clock_skew_max)?;
        Ok(Self { window, per_type, clock_skew_max, ..Self::default() })
    }

    /// How far clocks may differ.
    pub fn clock_skew_max(&self) -> Micros {
        self.clock_skew_max
    }

    /// The window of a type.
    pub fn window(&self, of: MessageType) -> Micros {
        self.per_type.get(&of).copied().unwrap_or(self.window)
    }

    /// The longest TTL that a message of this type may have (see O-60).
    pub fn ttl_max(&self, of: MessageType) -> Micros {
        let skew = self.clock_skew_max.get().saturating_mul(2);
        Micros::new(self.window(of).get().saturating_sub(skew))
    }

    /// Until when the row of a message is kept (see C-54): from the later of when it came and when
    /// it was stamped.
    pub fn kept_until(
        &self,
        of: MessageType,
        received: Timestamp,
        stamped: Timestamp,
    ) -> Timestamp {
        received.max(stamped).saturating_add(self.window(of))
    }

    /// Whether a message of the future is refused (see C-54).
    pub fn is_ahead(&self, stamped: Timestamp, now: Timestamp) -> bool {
        stamped.saturating_since(now) > self.clock_skew_max
    }
}

/// Up to when ids have been forgotten (see C-54). It is stored, and only rises: a clock that is set back
/// would otherwise accept a message whose id is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PurgeHorizon(Timestamp);

impl PurgeHorizon {
    /// A horizon that was stored.
    pub const fn new(at: Timestamp) -> Self {
        Self(at)
    }

    /// Up to when ids have been forgotten.
    pub const fn get(self) -> Timestamp {
        self.0
    }

    /// The receiver's now: never behind the horizon (see C-54).
    pub fn now(self, clock: Timestamp) -> Timestamp {
        clock.max(self.0)
    }

    /// The horizon after a purge of rows whose time was over at `now`.
    pub fn advance(self, now: Timestamp) -> Self {
        Self(self.0.max(now))
    }
}
