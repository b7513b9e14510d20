//! The thread that makes guests' time pass. While no worker has a turn nobody needs it, and it
//! sleeps: an engine that has nothing to do takes no time from the machine.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::guest::Guests;
use crate::shared::lock;

/// How many workers have a turn.
#[derive(Debug, Default)]
pub(crate) struct Running {
    turns: AtomicUsize,
    /// The thread sleeps, or is about to: whoever begins a turn wakes it.
    asleep: AtomicBool,
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// A worker has a turn, until this is dropped.
pub(crate) struct Turn<'a>(&'a Running);

impl Running {
    pub(crate) fn begin(&self) -> Turn<'_> {
        self.turns.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            // Under the lock, so that it is not told between its last look and its sleep.
            drop(lock(&self.stopped));
            self.changed.notify_all();
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turns.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The thread that makes guests' time pass, until this is dropped.
pub(crate) struct Ticks {
    running: Arc<Running>,
    thread: Option<JoinHandle<()>>,
}

impl Ticks {
    pub(crate) fn start(guests: &Arc<Guests>) -> io::Result<Self> {
        let running = Arc::new(Running::default());
        let (guests, told) = (Arc::clone(guests), Arc::clone(&running));
        let name = "indelible-ticks".to_owned();
        let thread = thread::Builder::new().name(name).spawn(move || tick(&guests, &told))?;
        Ok(Self { running, thread: Some(thread) })
    }

    pub(crate) fn running(&self) -> Arc<Running> {
        Arc::clone(&self.running)
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        *lock(&self.running.stopped) = true;
        self.running.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

fn tick(guests: &Guests, running: &Running) {
    let tick = Duration::from_micros(guests.options().tick.get());
    let mut stopped = lock(&running.stopped);
    while !*stopped {
        running.asleep.store(true, Ordering::SeqCst);
        if running.turns.load(Ordering::SeqCst) == 0 {
            stopped = running.changed.wait(stopped).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        running.asleep.store(false, Ordering::SeqCst);
        let waited = running.changed.wait_timeout(stopped, tick);
        stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
        guests.tick();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::{Artifacts, GuestOptions};

    /// Time passes while somebody works, however often work begins and ends, and only then.
    #[test]
    fn time_passes_while_somebody_works() {
        let options = GuestOptions { guests_max: 1, ..GuestOptions::default() };
        let guests = Guests::new(options, Artifacts::memory()).expect("room for one");
        let ticks = Ticks::start(&guests).expect("a thread");
        let running = ticks.running();
        for _ in 0..3 {
            let before = guests.ticks();
            let turn = running.begin();
            while guests.ticks() < before + 3 {
                thread::yield_now();
            }
            drop(turn);
            while !running.asleep.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }
        drop(ticks);
    }
}
