//! Reads on behalf of viewers: lists, views, streams, look-ups. They run on threads of their own, so
//! that neither a thread that serves connections nor a worker ever waits for the store because of a
//! viewer.
//!
//! Each read belongs to a lane. Look-ups, of a row or two, have their own threads: they wait for no
//! page. The other lanes share theirs and take turns, one piece of work each, so a thousand streams
//! hold up a list by one piece, not by a thousand. Those threads have a lower priority than the rest
//! of the process: when there is more to do than processors, callers come before viewers.
//!
//! A lane is bounded. A read that finds it full is refused as busy; a stream waits for room instead.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::engine::EngineError;
use crate::options::Options;
use crate::shared::{Shared, lock};

/// What a read is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// A row or two, by their keys: whose an execution is, what is known of an operation.
    Lookups,
    /// One execution: its details, its tree, its events.
    Views,
    /// A page of a list: executions, unresolved effects, the audit record.
    Lists,
    /// The next piece of a stream of events.
    Streams,
}

impl Lane {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lookups, Self::Views, Self::Lists, Self::Streams];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookups => "lookups",
            Self::Views => "views",
            Self::Lists => "lists",
            Self::Streams => "streams",
        }
    }
}

/// Which lanes a thread serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pool {
    Lookups,
    Pages,
}

impl Pool {
    pub(crate) const ALL: [Self; 2] = [Self::Lookups, Self::Pages];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lookups => "lookups",
            Self::Pages => "pages",
        }
    }

    fn lanes(self) -> &'static [Lane] {
        match self {
            Self::Lookups => &[Lane::Lookups],
            Self::Pages => &[Lane::Views, Lane::Lists, Lane::Streams],
        }
    }

    fn of(lane: Lane) -> Self {
        if lane == Lane::Lookups { Self::Lookups } else { Self::Pages }
    }
}

/// How much nicer than the rest of the process the threads of pages are: while there is something
/// else to do, they get about a tenth of a processor's time, and all of it when there is not.
#[cfg(target_os = "linux")]
const PAGES_NICE: i32 = 10;

/// A piece of work.
type Job = Box<dyn FnOnce(&Shared) + Send>;

/// What happens in a lane now, and what has happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneReadings {
    /// Which.
    pub lane: Lane,
    /// Reads that wait for a thread, or for room.
    pub waiting: usize,
    /// Those that a thread is at.
    pub running: usize,
    /// Pieces that a thread has taken, so far: a page or a stream has several.
    pub taken: u64,
    /// Reads that were refused because the lane was full, so far.
    pub refused: u64,
}

/// The reads that wait, and the threads that they wait for.
pub(crate) struct Reader {
    queue: Mutex<ReadQueue>,
    wake: [Condvar; Pool::ALL.len()],
    bounds: [LaneBound; Lane::ALL.len()],
    /// Without threads, reads are done by their callers: see [`Options::workers`].
    threaded: bool,
}

#[derive(Default)]
struct ReadQueue {
    jobs: [VecDeque<Job>; Lane::ALL.len()],
    running: [usize; Lane::ALL.len()],
    taken: [u64; Lane::ALL.len()],
    /// The lane that is looked at first, of each pool: the one behind the last that had a turn.
    turn: [usize; Pool::ALL.len()],
    closed: bool,
}

/// The bound of a lane.
struct LaneBound {
    free: Arc<Semaphore>,
    max: usize,
    /// Reads that wait for room.
    waiting: AtomicUsize,
    refused: AtomicU64,
}

impl Reader {
    pub(crate) fn new(options: &Options) -> Self {
        let threaded = options.workers > 0;
        let bounds = Lane::ALL.map(|lane| {
            let max = match lane {
                // Nothing is queued.
                _ if !threaded => usize::MAX,
                // Each belongs to a caller that is let in by other bounds, and takes microseconds.
                Lane::Lookups => options.callers_waiting_max,
                Lane::Views | Lane::Lists | Lane::Streams => options.reads_waiting_max,
            };
            let max = max.clamp(1, Semaphore::MAX_PERMITS);
            let (waiting, refused) = Default::default();
            LaneBound { free: Arc::new(Semaphore::new(max)), max, waiting, refused }
        });
        let queue = ReadQueue::default();
        Self { queue: Mutex::new(queue), wake: Default::default(), bounds, threaded }
    }

    /// Room for one read in a lane.
    pub(crate) async fn enter(&self, lane: Lane) -> Result<Entered, EngineError> {
        let bound = &self.bounds[lane as usize];
        let free = Arc::clone(&bound.free);
        let permit = match free.try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) if lane == Lane::Streams => {
                let _waits = WaitForRoom::new(&bound.waiting);
                let permit = Arc::clone(&bound.free).acquire_owned().await;
                permit.map_err(|_| EngineError::Stopped)?
            }
            Err(_) if bound.free.is_closed() => return Err(EngineError::Stopped),
            Err(_) => {
                bound.refused.fetch_add(1, Ordering::Relaxed);
                return Err(EngineError::ReadsBusy { lane: lane.name(), waiting: bound.max });
            }
        };
        Ok(Entered { lane, permit: Arc::new(permit) })
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
        self.wake[Pool::of(lane) as usize].notify_one();
    }

    /// Does what there is to read, one piece at a time, until the engine stops.
    pub(crate) fn work(&self, shared: &Shared, pool: Pool) {
        if pool == Pool::Pages {
            yield_to_others();
        }
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return;
            }
            let Some((lane, job)) = queue.next(pool) else {
                let wake = &self.wake[pool as usize];
                queue = wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
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

    /// Takes nothing any more; what waits is dropped, and its callers are told.
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
            let waiting = queue.jobs[at].len() + bound.waiting.load(Ordering::Relaxed);
            let refused = bound.refused.load(Ordering::Relaxed);
            LaneReadings {
                lane,
                waiting,
                running: queue.running[at],
                taken: queue.taken[at],
                refused,
            }
        })
    }
}

impl ReadQueue {
    /// The next piece of work for a thread of this pool: its lanes take turns.
    fn next(&mut self, pool: Pool) -> Option<(Lane, Job)> {
        let lanes = pool.lanes();
        let first = self.turn[pool as usize];
        for offset in 0..lanes.len() {
            let place = (first + offset) % lanes.len();
            let lane = lanes[place];
            if let Some(job) = self.jobs[lane as usize].pop_front() {
                self.turn[pool as usize] = place + 1;
                return Some((lane, job));
            }
        }
        None
    }
}

/// Room for one read in a lane, until it is dropped.
pub(crate) struct Entered {
    lane: Lane,
    /// A piece that is queued holds it too: a caller that goes leaves its piece in the queue, where
    /// it counts until a thread passes over it.
    permit: Arc<OwnedSemaphorePermit>,
}

impl Entered {
    /// Has a piece of work done, behind those that are queued in its lane.
    pub(crate) async fn run<T: Send + 'static>(
        &mut self,
        shared: &Shared,
        work: impl FnOnce(&Shared) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let reader = &shared.reader;
        if !reader.threaded {
            return Ok(work(shared));
        }
        let (reply, answer) = oneshot::channel();
        let permit = Arc::clone(&self.permit);
        let job = move |shared: &Shared| {
            if !reply.is_closed() {
                let done = catch_unwind(AssertUnwindSafe(|| work(shared)));
                // The caller may have gone meanwhile.
                let _ = reply.send(done);
            }
            drop(permit);
        };
        reader.push(self.lane, Box::new(job));
        match answer.await {
            Ok(Ok(done)) => Ok(done),
            // It is the caller's request that met a mistake; the thread goes on.
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(EngineError::Stopped),
        }
    }
}

/// A read that waits for room.
struct WaitForRoom<'a>(&'a AtomicUsize);

impl<'a> WaitForRoom<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for WaitForRoom<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lowers the priority of this thread. On Linux it is a thread's; elsewhere it would be the whole
/// process's, and is left alone. A system that refuses leaves it as it is.
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

    fn order(queue: &mut ReadQueue, pool: Pool) -> Vec<Lane> {
        std::iter::from_fn(|| queue.next(pool).map(|(lane, _)| lane)).collect()
    }

    /// Many streams hold up a view and a list by one piece each, and look-ups by none.
    #[test]
    fn lanes_take_turns() {
        use Lane::{Lists, Lookups, Streams, Views};
        let mut queue = queue(&[Streams, Streams, Streams, Streams, Lists, Lists, Views, Lookups]);
        assert_eq!(
            order(&mut queue, Pool::Pages),
            [Views, Lists, Streams, Lists, Streams, Streams, Streams]
        );
        assert_eq!(order(&mut queue, Pool::Lookups), [Lookups]);
        // Whichever lane comes again is behind those that have not had their turn.
        for lane in [Views, Lists, Streams] {
            queue.jobs[lane as usize].push_back(Box::new(|_| {}));
        }
        assert_eq!(queue.next(Pool::Pages).map(|(lane, _)| lane), Some(Views));
        queue.jobs[Views as usize].push_back(Box::new(|_| {}));
        assert_eq!(order(&mut queue, Pool::Pages), [Lists, Streams, Views]);
    }
}
