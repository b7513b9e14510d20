//! `Pause`: the backend cannot be reached, or may have committed a group without saying so. The
//! writer tries the same group again and again; until it is durable nothing behind it is, so no
//! effect and no answer leaves the process (D2).

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Pause;

/// The wait after the first failed try. Most pauses are one lost connection.
const DELAY_MIN: Duration = Duration::from_millis(10);

/// The longest wait between two tries: a backend that is back is found within a second.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// How often a closing store tries before it gives up what is not durable. No caller was told that
/// it is durable.
pub(super) const CLOSING_TRIES_MAX: u32 = 5;

/// How long to wait after so many failed tries.
pub(super) fn delay(tries: u32) -> Duration {
    let factor = 2_u32.checked_pow(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    DELAY_MIN.checked_mul(factor).map_or(DELAY_MAX, |delay| delay.min(DELAY_MAX))
}

/// What the pipeline keeps of a pause: it belongs to the closing group.
#[derive(Debug)]
pub(super) struct PauseState {
    pub(super) pause: Pause,
    /// By the store's [`PauseTime`].
    pub(super) since: Duration,
    pub(super) tries: u32,
    /// Tries since the store is being closed.
    pub(super) closing_tries: u32,
    /// The pause has lasted so long that waiting callers are told.
    pub(super) overdue: bool,
}

impl PauseState {
    pub(super) fn new(pause: Pause, since: Duration) -> Self {
        Self { pause, since, tries: 0, closing_tries: 0, overdue: false }
    }
}

/// The time that passes while a store is paused; tests and simulations bring their own.
pub trait PauseTime: Send + Sync + 'static {
    /// The time since some moment. It never goes back.
    fn now(&self) -> Duration;

    /// Waits so long, or until [`interrupt`](Self::interrupt). A store that is driven by hand never
    /// asks for it.
    fn wait(&self, _delay: Duration) {}

    /// Ends a wait, or the next one if there is none: the store is being closed.
    fn interrupt(&self) {}
}

/// The machine's own time.
#[derive(Debug)]
pub(super) struct MachineTime {
    start: Instant,
    interrupted: Mutex<bool>,
    changed: Condvar,
}

impl MachineTime {
    #[expect(clippy::disallowed_methods, reason = "a store with a writer is a shell: it has time")]
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), interrupted: Mutex::default(), changed: Condvar::new() }
    }
}

impl PauseTime for MachineTime {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&self, delay: Duration) {
        let interrupted = self.interrupted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(interrupted, delay, |cut| !*cut);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    fn interrupt(&self) {
        *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// Time that stands still, for stores that are driven by hand: no caller is told of a pause.
#[derive(Debug)]
pub(super) struct NoTime;

impl PauseTime for NoTime {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits grow, and not beyond their bound.
    #[test]
    fn delays_grow_to_their_bound() {
        assert_eq!(delay(1), DELAY_MIN);
        assert!((1..200).all(|tries| delay(tries) <= delay(tries + 1)));
        assert_eq!(delay(u32::MAX), DELAY_MAX);
    }

    /// A wait that would last for hours ends when the store is closed.
    #[test]
    fn a_wait_can_be_ended() {
        let time = MachineTime::new();
        time.interrupt();
        time.wait(Duration::from_secs(36_000));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| time.wait(Duration::from_secs(36_000)));
            time.interrupt();
            waits.join().unwrap();
        });
    }
}
