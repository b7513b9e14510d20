//! What the engine needs of the world, as interfaces: a test or a simulation puts its own in
//! their place. The disk is behind `indelible_store::Store`; threads are [`crate::Engine`]'s.

use indelible_execution::UnresolvedEffect;
pub use indelible_execution::{Purpose, output::Then};
use indelible_journal::{Failure, JournalKey, Micros, Timestamp};
use indelible_records::executions::Standing;

pub use crate::guest::host::Level;

/// The clock. It may be set back: journals do not mind (C-19). It may be set ahead: retention does
/// not believe that (C-3).
pub trait Clock: Send + Sync + 'static {
    /// The time now, by the wall clock.
    fn now(&self) -> Timestamp;

    /// Time that has passed since some moment of this process. Setting the wall clock does not
    /// change it, and it never goes back.
    fn elapsed(&self) -> Micros;
}

/// Randomness.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes`. Whoever wants runs that can be repeated makes them from a seed and from
    /// what they are for.
    fn fill(&self, purpose: Purpose<'_>, bytes: &mut [u8]);
}

/// Told what people may want to know. Nothing depends on it, nothing waits for it, and what it
/// is told may be taken back by a crash (D2 exempts logs).
pub trait Observer: Send + Sync + 'static {
    /// A guest logged a line.
    fn logged(&self, line: LogLine<'_>) {
        let _ = line;
    }

    /// An attempt at an execution came to nothing (see C-32).
    fn attempt_failed(&self, key: &JournalKey, failure: &Failure, then: Then) {
        let _ = (key, failure, then);
    }

    /// An execution is over for good, and stands like this: told when that was accepted.
    fn ended(&self, key: &JournalKey, standing: Standing) {
        let _ = (key, standing);
    }

    /// An execution does not go on by itself: it is stuck (see C-25), and somebody should look.
    fn held(&self, key: &JournalKey, why: &str) {
        let _ = (key, why);
    }

    /// Nobody knows whether an effect happened, and it waits for a person (D5). Told when that is
    /// durable: whoever looks finds it.
    fn unresolved(&self, effect: &UnresolvedEffect) {
        let _ = effect;
    }

    /// The engine itself met something that should not be: an unreadable row, a store that
    /// stopped.
    fn trouble(&self, what: &str) {
        let _ = what;
    }
}

/// How often in a row a process may die of an execution before that is held (C-85).
pub const DEATHS_MAX: u32 = 3;

/// Remembers, when the process has died, which executions were being replayed: one that takes the
/// process with it three times in a row is held (C-85).
pub trait Witness: Send + Sync + 'static {
    /// How often in a row the process died while this was being replayed.
    fn deaths(&self, key: &JournalKey) -> u32 {
        let _ = key;
        0
    }

    /// Whether there is anything that a process died of and that may run again: what died
    /// [`DEATHS_MAX`] times does not.
    fn has_suspects(&self) -> bool {
        false
    }

    /// This is about to be replayed.
    fn replaying(&self, key: &JournalKey) {
        let _ = key;
    }

    /// This was not replayed after all: its deaths are what they were.
    fn untouched(&self, key: &JournalKey) {
        let _ = key;
    }

    /// The process has survived it: its deaths are forgotten.
    fn survived(&self, key: &JournalKey) {
        let _ = key;
    }
}

/// A line that a guest logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Whose line.
    pub key: &'a JournalKey,
    /// How important.
    pub level: Level,
    /// The line.
    pub message: &'a str,
    /// What belongs to it.
    pub fields: &'a [(String, String)],
}

/// Tells nobody, and remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

impl Witness for Silent {}

/// The system's clock and randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

#[expect(clippy::disallowed_methods, reason = "this is the shell where the clock is read")]
mod system {
    use std::sync::LazyLock;
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    use super::{Clock, Entropy, Micros, Purpose, System, Timestamp};

    /// The moment from which elapsed time counts.
    static FIRST_LOOK: LazyLock<Instant> = LazyLock::new(Instant::now);

    impl Clock for System {
        fn now(&self) -> Timestamp {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
            Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
        }

        fn elapsed(&self) -> Micros {
            let passed = FIRST_LOOK.elapsed().as_micros();
            Micros::new(u64::try_from(passed).unwrap_or(u64::MAX))
        }
    }

    impl Entropy for System {
        fn fill(&self, _purpose: Purpose<'_>, bytes: &mut [u8]) {
            // Without the system's randomness nothing random can be had, and ids made without it
            // could collide: better to stop.
            getrandom::fill(bytes).expect("the system has no randomness to give");
        }
    }
}
