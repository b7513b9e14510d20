//! Permits to compile: how many components are compiled at a time, and in which threads.
//!
//! A component that is quickly compiled does not wait for one that is not: each kind has permits of
//! its own. Components that are loaded again, to run their functions, need no permit: they do not
//! wait for deployments.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The most bytes of a component that counts as quickly compiled: it takes some seconds. Guests in
/// Rust have a tenth of that; guests with an interpreter in them have more.
const QUICK_BYTES_MAX: usize = 4 << 20;

/// How many quickly compiled components are compiled at a time.
const QUICK_AT_ONCE: usize = 2;

/// How many other components are compiled at a time: each takes hundreds of megabytes.
const SLOW_AT_ONCE: usize = 1;

/// How many of each kind wait at most. Each keeps a thread and its component's bytes.
const WAITING_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Compilers {
    quick: Lane,
    slow: Lane,
}

/// The permits for one kind of component.
#[derive(Debug, Default)]
struct Lane {
    taken: Mutex<CompilerUse>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct CompilerUse {
    inside: usize,
    waiting: usize,
}

/// As many components wait as may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Busy {
    pub(super) waiting: usize,
}

/// A permit to compile one component, until it is dropped.
#[derive(Debug)]
pub(super) struct CompilerPermit<'a>(&'a Lane);

impl Compilers {
    /// Waits for a permit for a component of so many bytes.
    pub(super) fn enter(&self, bytes: usize) -> Result<CompilerPermit<'_>, Busy> {
        if bytes <= QUICK_BYTES_MAX {
            self.quick.enter(QUICK_AT_ONCE)
        } else {
            self.slow.enter(SLOW_AT_ONCE)
        }
    }
}

impl Lane {
    fn enter(&self, at_once: usize) -> Result<CompilerPermit<'_>, Busy> {
        let mut taken = self.taken();
        if taken.inside >= at_once {
            if taken.waiting >= WAITING_MAX {
                return Err(Busy { waiting: taken.waiting });
            }
            taken.waiting += 1;
            let full = |taken: &mut CompilerUse| taken.inside >= at_once;
            taken = self.left.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner);
            taken.waiting -= 1;
        }
        taken.inside += 1;
        Ok(CompilerPermit(self))
    }

    fn taken(&self) -> MutexGuard<'_, CompilerUse> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CompilerPermit<'_> {
    fn drop(&mut self) {
        self.0.taken().inside -= 1;
        self.0.left.notify_one();
    }
}

/// Compiles with threads of its own for wasmtime's parallel work. In the shared threads, functions
/// of one component would wait behind those of another.
pub(super) fn in_own_threads<T: Send>(compile: impl FnOnce() -> T + Send) -> T {
    let threads = rayon::ThreadPoolBuilder::new().thread_name(|_| "compiler".into()).build();
    match threads {
        Ok(threads) => threads.install(compile),
        // No threads can be started: the shared ones do it.
        Err(_) => compile(),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn each_kind_has_room_of_its_own() {
        let compilers = Compilers::default();
        let _slow = compilers.enter(QUICK_BYTES_MAX + 1).expect("there is room");
        let first = compilers.enter(QUICK_BYTES_MAX).expect("there is room");
        let _second = compilers.enter(0).expect("there is room");
        // A third waits until one has left.
        thread::scope(|scope| {
            let third = scope.spawn(|| compilers.enter(0).map(drop));
            while compilers.quick.taken().waiting == 0 {
                thread::yield_now();
            }
            assert!(!third.is_finished(), "there is no room");
            drop(first);
            assert_eq!(third.join().expect("it does not panic"), Ok(()));
        });
    }

    #[test]
    fn too_many_do_not_wait() {
        let compilers = Compilers::default();
        let slow = compilers.enter(usize::MAX).expect("there is room");
        thread::scope(|scope| {
            for _ in 0..WAITING_MAX {
                scope.spawn(|| compilers.enter(usize::MAX).map(drop).expect("it may wait"));
            }
            while compilers.slow.taken().waiting < WAITING_MAX {
                thread::yield_now();
            }
            let busy = compilers.enter(usize::MAX).map(drop);
            assert_eq!(busy, Err(Busy { waiting: WAITING_MAX }));
            drop(slow);
        });
        assert_eq!(compilers.slow.taken().inside, 0);
    }
}
