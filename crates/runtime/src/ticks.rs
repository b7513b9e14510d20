//! The thread that makes guests' time pass. While no worker has a turn it sleeps: an idle engine
//! takes no processor time.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::guest::Guests;
use crate::shared::lock;

/// How many workers have a turn.
#[derive(Debug, Default)]
pub(crate) struct TurnCount {
    turns: AtomicUsize,
    /// The ticking thread sleeps, or is about to: a worker that begins a turn wakes it.
    asleep: AtomicBool,
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// A worker's turn, until this is dropped.
pub(crate) struct Turn<'a>(&'a TurnCount);

impl TurnCount {
    pub(crate) fn enter(&self) -> Turn<'_> {
        self.turns.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            // The lock is taken so that the notice does not fall between the thread's last look and
            // its sleep.
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
    running: Arc<TurnCount>,
    thread: Option<JoinHandle<()>>,
}

impl Ticks {
    pub(crate) fn start(guests: &Arc<Guests>) -> io::Result<Self> {
        let running = Arc::new(TurnCount::default());
        let (guests, told) = (Arc::clone(guests), Arc::clone(&running));
        let name = "indelible-ticks".to_owned();
        let thread = thread::Builder::new().name(name).spawn(move || tick(&guests, &told))?;
        Ok(Self { running, thread: Some(thread) })
    }

    pub(crate) fn running(&self) -> Arc<TurnCount> {
        Arc::clone(&self.running)
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        *lock(&self.running.stopped) = true;
        self.running.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was logged.
            let _ = thread.join();
        }
    }
}

fn tick(guests: &Guests, running: &TurnCount) {
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

    /// Time passes while a worker has a turn, however often turns begin and end, and only then.
    #[test]
    fn time_passes_while_somebody_works() {
        let options = GuestOptions { guests_max: 1, ..GuestOptions::default() };
        let guests = Guests::new(options, Artifacts::memory()).expect("room for one");
        let ticks = Ticks::start(&guests).expect("a thread");
        let running = ticks.running();
        for _ in 0..3 {
            let before = guests.ticks();
            let turn = running.enter();
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
