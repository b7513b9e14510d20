//! The simulated world of an engine: a clock that moves when the simulation moves it, randomness
//! from the seed, and an observer that writes down what the engine reports.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indelible_journal::{Failure, JournalKey, Micros, Timestamp};
use indelible_runtime::UnresolvedEffect;
use indelible_runtime::world::{AfterFailure, Clock, Entropy, Observer, Purpose, Trouble};
use indelible_store::PauseTime;

use crate::disk::Disk;
use crate::transcript::Transcript;

/// When the clock starts.
const MORNING: u64 = 1_800_000_000_000_000;

/// The clock.
pub(crate) struct SimClock(AtomicU64);

impl SimClock {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(MORNING))
    }

    pub(crate) fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst)).expect("it was set to a time")
    }

    /// Follows the wall clock, also when that is set: no simulation runs retention, whose clock
    /// must not.
    fn elapsed(&self) -> Micros {
        Micros::new(self.0.load(Ordering::SeqCst).saturating_sub(MORNING))
    }
}

/// A pause of the store lasts as long as the clock says.
impl PauseTime for SimClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.elapsed().get())
    }
}

/// Randomness as a function of the seed and of the purpose, so that a replay gets the same bytes.
pub(crate) struct SimEntropy {
    pub(crate) seed: u64,
    pub(crate) ids: AtomicU64,
}

impl Entropy for SimEntropy {
    fn fill(&self, purpose: Purpose<'_>, bytes: &mut [u8]) {
        let purpose = match purpose {
            Purpose::Guest(promise) => format!("guest {promise}"),
            Purpose::Jitter(key) => format!("jitter {key}"),
            Purpose::Id => format!("id {}", self.ids.fetch_add(1, Ordering::SeqCst)),
        };
        let mut state = xxhash_rust::xxh3::xxh3_64_with_seed(purpose.as_bytes(), self.seed);
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
    }
}

/// Writes everything to the transcript, and keeps reports that no correct engine makes.
pub(crate) struct SimObserver {
    pub(crate) transcript: Arc<Transcript>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) wrong: Mutex<Vec<String>>,
}

impl SimObserver {
    /// The first report that no correct engine makes.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    fn note(&self, what: String) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

impl Observer for SimObserver {
    fn attempt_failed(&self, key: &JournalKey, failure: &Failure, then: AfterFailure) {
        self.transcript.say(format_args!("  {key:#}: {failure}; {then:?}"));
    }

    /// No program of a simulation diverges from its journal.
    fn stuck(&self, key: &JournalKey, why: &str) {
        self.transcript.say(format_args!("  {key:#}: held: {why}"));
        self.note(format!("{key:#} is held: {why}"));
    }

    fn unresolved(&self, effect: &UnresolvedEffect) {
        self.transcript.say(format_args!("  {:#} waits for a person", effect.promise));
    }

    /// Expected of an engine whose disk has failed, and of no other.
    fn trouble(&self, trouble: &Trouble<'_>) {
        self.transcript.say(format_args!("  trouble: {trouble}"));
        if self.disk.is_well() {
            self.note(format!("the disk is well, and there is trouble: {trouble}"));
        }
    }
}
