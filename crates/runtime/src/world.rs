//! What the engine needs of the world, as interfaces: a test or a simulation puts its own in
//! their place. The disk is behind `indelible_store::Store`; threads are [`crate::Engine`]'s.

use indelible_execution::UnresolvedEffect;
pub use indelible_execution::{Purpose, output::AfterFailure};
use indelible_journal::{Failure, JournalKey, Micros, Timestamp};
use indelible_records::executions::Standing;

pub use crate::guest::host::Level;
pub use crate::trouble::{Severity, Trouble};

/// The clock. It may be set back: journals do not depend on it (C-19). It may be set ahead:
/// retention does not follow (C-3).
pub trait Clock: Send + Sync + 'static {
    /// The time now, by the wall clock.
    fn now(&self) -> Timestamp;

    /// Time that has passed since a fixed moment of this process. Setting the wall clock does not
    /// change it, and it never goes back.
    fn elapsed(&self) -> Micros;
}

/// Randomness.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes`. A simulation derives them from a seed and their purpose, so that its runs can
    /// be repeated.
    fn fill(&self, purpose: Purpose<'_>, bytes: &mut [u8]);
}

/// Told what an operator may want to know, beside the log. The engine neither depends on it nor
/// waits for it, and a crash may undo what it was told (D2 exempts logs).
pub trait Observer: Send + Sync + 'static {
    /// A guest logged a line.
    fn logged(&self, line: LogLine<'_>) {
        let _ = line;
    }

    /// An attempt at an execution failed (see C-32).
    fn attempt_failed(&self, key: &JournalKey, failure: &Failure, then: AfterFailure) {
        let _ = (key, failure, then);
    }

    /// An execution is over for good, with this standing. Told when the end is accepted.
    fn ended(&self, key: &JournalKey, standing: Standing) {
        let _ = (key, standing);
    }

    /// An execution is stuck (see C-25): it does not go on before an operator decides.
    fn stuck(&self, key: &JournalKey, why: &str) {
        let _ = (key, why);
    }

    /// It is unknown whether an effect or a call happened, or a person is asked now (D5, see
    /// C-78). Told when that is durable, so that the operator finds it.
    fn unresolved(&self, effect: &UnresolvedEffect) {
        let _ = effect;
    }

    /// The engine met a problem of its own. The log has it already.
    fn trouble(&self, trouble: &Trouble<'_>) {
        let _ = trouble;
    }
}

/// How often in a row a process may die of an execution before that is stuck (C-85).
pub const DEATHS_MAX: u32 = 3;

/// Remembers, when the process has died, which executions were being replayed: one that takes the
/// process with it three times in a row is stuck (C-85).
pub trait Witness: Send + Sync + 'static {
    /// How often in a row the process died while this execution was being replayed.
    fn deaths(&self, key: &JournalKey) -> u32 {
        let _ = key;
        0
    }

    /// Whether there is an execution that a process died of and that may run again: after
    /// [`DEATHS_MAX`] deaths it may not.
    fn has_suspects(&self) -> bool {
        false
    }

    /// This execution is about to be replayed.
    fn replaying(&self, key: &JournalKey) {
        let _ = key;
    }

    /// This execution was not replayed after all: its deaths are what they were.
    fn untouched(&self, key: &JournalKey) {
        let _ = key;
    }

    /// The process has survived this execution: its deaths are forgotten.
    fn survived(&self, key: &JournalKey) {
        let _ = key;
    }
}

/// A line that a guest logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// The execution that logged it.
    pub key: &'a JournalKey,
    /// Its level.
    pub level: Level,
    /// The line.
    pub message: &'a str,
    /// Its fields, by name.
    pub fields: &'a [(String, String)],
}

/// An observer and a witness that do nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentObserver;

impl Observer for SilentObserver {}

impl Witness for SilentObserver {}

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
            // Ids made without the system's randomness could collide: better to stop.
            getrandom::fill(bytes).expect("the system has no randomness to give");
        }
    }
}
