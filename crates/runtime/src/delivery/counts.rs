//! What post offices have done, in numbers, since the engine was opened.

use std::sync::atomic::{AtomicU64, Ordering};

use indelible_delivery::attempt::AttemptEnd;
use indelible_delivery::delivery::Outcome;

/// How a delivery can end, by name.
const OUTCOMES: [&str; 6] =
    ["delivered", "dead", "ended", "reissued", "abandoned", "indeterminate"];

/// How an attempt can end, by name.
const ENDS: [&str; 5] = ["delivered", "failed", "not_sent", "forbidden", "unknown"];

/// The counters of all post offices.
#[derive(Debug, Default)]
pub(crate) struct DeliveryCounts {
    accepted: AtomicU64,
    repeated: AtomicU64,
    outcomes: [AtomicU64; OUTCOMES.len()],
    ends: [AtomicU64; ENDS.len()],
}

/// What post offices have done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryReadings {
    /// Messages that were accepted.
    pub accepted: u64,
    /// Messages that came again under their keys.
    pub repeated: u64,
    /// Deliveries, by their outcomes. A dead letter that is decided counts a second time.
    pub outcomes: [(&'static str, u64); OUTCOMES.len()],
    /// Attempts, by their ends.
    pub attempts: [(&'static str, u64); ENDS.len()],
}

impl DeliveryCounts {
    pub(super) fn accepted(&self, is_prior: bool) {
        let counter = if is_prior { &self.repeated } else { &self.accepted };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn settled(&self, outcome: &Outcome) {
        let place = match outcome {
            Outcome::Delivered => 0,
            Outcome::Dead(_) => 1,
            Outcome::Ended(_) => 2,
            Outcome::Reissued(_) => 3,
            Outcome::Abandoned => 4,
            Outcome::Indeterminate => 5,
        };
        self.outcomes[place].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, end: &AttemptEnd) {
        let place = match end {
            AttemptEnd::Answered { status: 200..=299, .. } => 0,
            AttemptEnd::Answered { .. } => 1,
            AttemptEnd::NotSent => 2,
            AttemptEnd::Forbidden => 3,
            AttemptEnd::Unknown(_) => 4,
        };
        self.ends[place].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn readings(&self) -> DeliveryReadings {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeliveryReadings {
            accepted: load(&self.accepted),
            repeated: load(&self.repeated),
            outcomes: std::array::from_fn(|at| (OUTCOMES[at], load(&self.outcomes[at]))),
            attempts: std::array::from_fn(|at| (ENDS[at], load(&self.ends[at]))),
        }
    }
}
