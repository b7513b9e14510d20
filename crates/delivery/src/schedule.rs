//! When the next attempt is: backoff with jitter under a cap, or a list of waits.

use indelible_journal::{Backoff, Micros, RetryBound};

/// What spreads attempts that would come at once (O-22): a share in [0.9, 1.1), in parts of 2^32.
/// The caller draws the number; equal numbers give equal waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter(pub u32);

impl Jitter {
    /// A wait multiplied by the share: at least nine tenths of it, and less than eleven.
    fn apply(self, wait: u128) -> u128 {
        // 0.9 + 0.2 * x / 2^32, in tenths and without rounding up: the upper end is never reached.
        let tenths = 9 * (1_u128 << 32) + 2 * u128::from(self.0);
        wait.saturating_mul(tenths) / (10 << 32)
    }
}

/// The wait before the retry with this number, 0 for the first (impl O-22). The exponent saturates,
/// and the cap comes after the jitter, so that nothing exceeds it.
pub fn backoff(backoff: Backoff, retries: u32, jitter: Jitter) -> Micros {
    // Past 2^64 times the base every cap is reached, if the base is not zero.
    let wait = u128::from(backoff.base.get()) << retries.min(63);
    let wait = jitter.apply(wait).min(u128::from(backoff.cap.get()));
    Micros::new(u64::try_from(wait).expect("the cap has 64 bits"))
}

/// The longest time that all waits can take together (impl O-23); `None` if they are unbounded.
pub fn worst_case(bound: RetryBound, cap: Micros) -> Option<Micros> {
    match bound {
        RetryBound::Bounded(retries) => {
            Some(Micros::new(cap.get().saturating_mul(u64::from(retries))))
        }
        RetryBound::Unbounded => None,
    }
}

/// When a message is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// After each of these waits; as many retries as there are waits.
    Steps(Vec<Micros>),
    /// After waits that double.
    Exponential {
        /// Base and cap.
        backoff: Backoff,
        /// How many retries there are.
        bound: RetryBound,
    },
}

impl Schedule {
    /// What Standard Webhooks recommends: ten attempts over 75 hours.
    pub fn standard() -> Self {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        let waits = [
            5,
            5 * MINUTE,
            30 * MINUTE,
            2 * HOUR,
            5 * HOUR,
            10 * HOUR,
            14 * HOUR,
            20 * HOUR,
            24 * HOUR,
        ];
        Self::Steps(waits.map(Micros::from_secs).to_vec())
    }

    /// The wait before the retry with this number, 0 for the first; `None` if there is no further
    /// one. No wait exceeds the longest step or the cap.
    pub fn wait(&self, retries: u32, jitter: Jitter) -> Option<Micros> {
        match self {
            Self::Steps(steps) => {
                let step = steps.get(usize::try_from(retries).ok()?)?;
                Some(backoff(Backoff { base: *step, cap: self.longest_wait() }, 0, jitter))
            }
            Self::Exponential { bound: RetryBound::Bounded(most), .. } if retries >= *most => None,
            Self::Exponential { backoff: waits, .. } => Some(backoff(*waits, retries, jitter)),
        }
    }

    /// The longest wait between two attempts.
    pub fn longest_wait(&self) -> Micros {
        match self {
            Self::Steps(steps) => steps.iter().max().copied().unwrap_or(Micros::ZERO),
            Self::Exponential { backoff, .. } => backoff.cap,
        }
    }

    /// The longest time from the first attempt to the last, without what attempts themselves take;
    /// `None` if it is unbounded.
    pub fn horizon(&self) -> Option<Micros> {
        match self {
            Self::Steps(steps) => Some(Micros::new(
                steps.iter().map(|step| step.get()).sum::<u64>().div_ceil(10) * 11,
            )),
            Self::Exponential { backoff, bound } => worst_case(*bound, backoff.cap),
        }
    }
}
