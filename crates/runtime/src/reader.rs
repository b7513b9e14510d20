//! Reads for clients: lists, views, streams, look-ups. They run on threads of their own, so that
//! neither a connection's thread nor a worker waits for the store because of them.
//!
//! Each read belongs to a lane. Look-ups, of a row or two, have their own threads: they wait for no
//! page. So have checks of inputs, which read nothing but take time. The other lanes share theirs and take turns, one piece of work each, so a thousand streams
//! hold up a list by one piece, not by a thousand. Those threads have a lower priority than the
//! rest of the process: when processors are short, calls come before lists, views and streams.
//!
//! A lane is bounded. A full lane refuses a read as busy; a stream waits for a permit instead.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot};

use crate::engine::EngineError;
use crate::options::Options;
use crate::shared::{Shared, lock};

/// What a read is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// A row or two, by their keys: an execution's namespace, an operation's record.
    Lookups,
    /// One execution: its details, its tree, its events.
    Views,
    /// A page of a list: executions, unresolved effects, the audit record.
    Lists,
    /// The next piece of a stream of events.
    Streams,
    /// The input of a call, which may take long to check.
    Inputs,
}

impl Lane {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Lookups, Self::Views, Self::Lists, Self::Streams, Self::Inputs];

    /// Its name.
    pub fn name(self) -> &'static str {
        ["lookups", "views", "lists", "streams", "inputs"][self as usize]
    }
}

/// The pools of threads: each has a name, and lanes that take turns.
pub(crate) const POOLS: [(&str, &[Lane]); 3] = [
    ("lookups", &[Lane::Lookups]),
    ("pages", &[Lane::Views, Lane::Lists, Lane::Streams]),
    ("inputs", &[Lane::Inputs]),
];

/// The pool with the lower priority.
const PAGES: usize = 1;

fn pool_of(lane: Lane) -> usize {
    match lane {
        Lane::Lookups => 0,
        Lane::Views | Lane::Lists | Lane::Streams => PAGES,
        Lane::Inputs => 2,
    }
}

/// The nice value of the pages' threads: while other threads have work, they get about a tenth of a
/// processor's time, and all of it otherwise.
#[cfg(target_os = "linux")]
const PAGES_NICE: i32 = 10;

type Job = Box<dyn FnOnce(&Shared) + Send>;

/// What happens in a lane now, and what has happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneReadings {
    /// The lane.
    pub lane: Lane,
    /// Reads that wait for a thread, or for a permit.
    pub waiting: usize,
    /// Reads that a thread is working on.
    pub running: usize,
    /// Pieces that a thread has taken, so far: a page or a stream has several.
    pub taken: u64,
    /// Reads that were refused because the lane was full, so far.
    pub refused: u64,
}

/// A permit for one read in a lane, until it is dropped. A queued piece holds it too: if its caller
/// goes, the piece counts until a thread takes it from the queue.
pub(crate) type LanePermit = Arc<OwnedSemaphorePermit>;

/// The queued reads, and the bounds of the lanes.
pub(crate) struct Reader {
    queue: Mutex<ReadQueue>,
    wake: [Condvar; POOLS.len()],
    bounds: [LaneBound; Lane::ALL.len()],
    /// Without threads, each caller reads for itself: see [`Options::workers`].
    threaded: bool,
}

#[derive(Default)]
struct ReadQueue {
    jobs: [VecDeque<Job>; Lane::ALL.len()],
    running: [usize; Lane::ALL.len()],
    taken: [u64; Lane::ALL.len()],
    /// For each pool, the lane that is next: the one behind the last that had a turn.
    turn: [usize; POOLS.len()],
    closed: bool,
}

struct LaneBound {
    free: Arc<Semaphore>,
    max: usize,
    /// Each read that waits for a permit has a clone.
    waiting: Arc<()>,
    refused: AtomicU64,
}

impl Reader {
    pub(crate) fn new(options: &Options) -> Self {
        let threaded = options.workers > 0;
        let bounds = Lane::ALL.map(|lane| {
            let max = match lane {
                // Nothing is queued.
                _ if !threaded => usize::MAX,
                // Each belongs to a caller that other bounds have admitted.
                Lane::Lookups | Lane::Inputs => options.callers_waiting_max,
                Lane::Views | Lane::Lists | Lane::Streams => options.reads_waiting_max,
            };
            let max = max.clamp(1, Semaphore::MAX_PERMITS);
            let (waiting, refused) = Default::default();
            LaneBound { free: Arc::new(Semaphore::new(max)), max, waiting, refused }
        });
        let queue = ReadQueue::default();
        Self { queue: Mutex::new(queue), wake: Default::default(), bounds, threaded }
    }

    /// Takes a permit for one read in a lane.
    pub(crate) async fn enter(&self, lane: Lane) -> Result<LanePermit, EngineError> {
        let bound = &self.bounds[lane as usize];
        let free = || Arc::clone(&bound.free);
        let permit = match free().try_acquire_owned() {
            Err(TryAcquireError::NoPermits) if lane == Lane::Streams => {
                let _waits = Arc::clone(&bound.waiting);
                free().acquire_owned().await.ok()
            }
            Err(TryAcquireError::NoPermits) => {
                bound.refused.fetch_add(1, Ordering::Relaxed);
                return Err(EngineError::ReadsBusy { lane: lane.name(), max: bound.max });
            }
            permit => permit.ok(),
        };
        permit.map(Arc::new).ok_or(EngineError::Stopped)
    }

    /// Does a piece of work, after those that are queued in its lane.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        shared: &Shared,
        lane: Lane,
        entered: &LanePermit,
        work: impl FnOnce(&Shared) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        if !self.threaded {
            return Ok(work(shared));
        }
        let (reply, answer) = oneshot::channel();
        let entered = Arc::clone(entered);
        let job = move |shared: &Shared| {
            if !reply.is_closed() {
                let done = catch_unwind(AssertUnwindSafe(|| work(shared)));
                // The caller may have gone meanwhile.
                let _ = reply.send(done);
            }
            drop(entered);
        };
        self.push(lane, Box::new(job));
        match answer.await {
            Ok(Ok(done)) => Ok(done),
            // A defect in this caller's read: the panic goes on in the caller, not in the thread.
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(EngineError::Stopped),
        }
    }

    fn push(&self, lane: Lane, job: Job) {
        {
            let mut queue = lock(&self.queue);
            if queue.closed {
                // Dropped here: its caller is told.
                return;
            }
            queue.jobs[lane as usize].push_back(job);
        }
        self.wake[pool_of(lane)].notify_one();
    }

    /// Does queued pieces, one at a time, until the engine stops.
    pub(crate) fn work(&self, shared: &Shared, pool: usize) {
        if pool == PAGES {
            yield_to_others();
        }
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return;
            }
            let Some((lane, job)) = queue.next(pool) else {
                queue = self.wake[pool].wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.running[lane as usize] += 1;
            queue.taken[lane as usize] += 1;
            drop(queue);
            job(shared);
            queue = lock(&self.queue);
            queue.running[lane as usize] -= 1;
        }
    }

    /// Accepts nothing any more; queued pieces are dropped, and their callers are told.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            std::mem::take(&mut queue.jobs)
        };
        drop(dropped);
        self.bounds.iter().for_each(|bound| bound.free.close());
        self.wake.iter().for_each(Condvar::notify_all);
    }

    pub(crate) fn readings(&self) -> [LaneReadings; Lane::ALL.len()] {
        let queue = lock(&self.queue);
        Lane::ALL.map(|lane| {
            let (at, bound) = (lane as usize, &self.bounds[lane as usize]);
            LaneReadings {
                lane,
                waiting: queue.jobs[at].len() + Arc::strong_count(&bound.waiting) - 1,
                running: queue.running[at],
                taken: queue.taken[at],
                refused: bound.refused.load(Ordering::Relaxed),
            }
        })
    }
}

impl ReadQueue {
    /// The next piece of work for a thread of this pool: its lanes take turns.
    fn next(&mut self, pool: usize) -> Option<(Lane, Job)> {
        let (_, lanes) = POOLS[pool];
        let first = self.turn[pool];
        (first..first + lanes.len()).find_map(|turn| {
            let lane = lanes[turn % lanes.len()];
            let job = self.jobs[lane as usize].pop_front()?;
            self.turn[pool] = turn + 1;
            Some((lane, job))
        })
    }
}

/// Lowers the priority of this thread. Linux has priorities for threads; elsewhere it would be the
/// whole process's, and is left alone. If the system refuses, it stays as it is.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, PAGES_NICE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(lanes: &[Lane]) -> ReadQueue {
        let mut queue = ReadQueue::default();
        for lane in lanes {
            queue.jobs[*lane as usize].push_back(Box::new(|_| {}));
        }
        queue
    }

    fn order(queue: &mut ReadQueue, pool: usize) -> Vec<Lane> {
        std::iter::from_fn(|| queue.next(pool).map(|(lane, _)| lane)).collect()
    }

    /// Many streams hold up a view and a list by one piece each, and look-ups by none.
    #[test]
    fn lanes_take_turns() {
        use Lane::{Lists, Lookups, Streams, Views};
        let mut queue = queue(&[Streams, Streams, Streams, Streams, Lists, Lists, Views, Lookups]);
        assert_eq!(
            order(&mut queue, PAGES),
            [Views, Lists, Streams, Lists, Streams, Streams, Streams]
        );
        assert_eq!(order(&mut queue, pool_of(Lookups)), [Lookups]);
        // A lane that had a turn is behind those that have not.
        for lane in [Views, Lists, Streams] {
            queue.jobs[lane as usize].push_back(Box::new(|_| {}));
        }
        assert_eq!(queue.next(PAGES).map(|(lane, _)| lane), Some(Views));
        queue.jobs[Views as usize].push_back(Box::new(|_| {}));
        assert_eq!(order(&mut queue, PAGES), [Lists, Streams, Views]);
    }
}
