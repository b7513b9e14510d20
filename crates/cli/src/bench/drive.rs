//! Runs producers, each of which commits one item after the other and waits until it is durable,
//! and measures how long each commit takes.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::{JoinError, JoinSet};

use super::histogram::Histogram;
use super::meters::Usage;
use super::report::round;
use crate::failure::Failure;

/// Makes items and commits them, one at a time.
pub(super) trait Producer: Send + 'static {
    type Input: Send;

    /// Makes the next item; this time is not measured.
    fn prepare(&mut self) -> Self::Input;

    /// Returns when the item is durable.
    fn commit(&mut self, input: Self::Input) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A stretch of the measurement: its length, and the latencies and resource use in it.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    pub(super) seconds: f64,
    pub(super) latencies: Histogram,
    pub(super) usage: Usage,
}

impl Stretch {
    pub(super) fn per_s(&self) -> f64 {
        self.latencies.count() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Processor time in seconds, rounded for the report.
    pub(super) fn cpu_s(&self) -> f64 {
        round(self.usage.cpu.as_secs_f64(), 3)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.latencies.merge(&other.latencies);
        self.usage = self.usage.and(other.usage);
    }
}

/// The windows into which the time is divided, one report for each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    pub(super) length: Duration,
    pub(super) count: u32,
}

impl Windows {
    pub(super) fn one(length: Duration) -> Self {
        Self { length, count: 1 }
    }
}

pub(super) struct DriveResult {
    pub(super) all: Stretch,
    /// The longest time without a commit.
    pub(super) stall: Duration,
}

/// The counters that all producers share.
struct Tally {
    start: Instant,
    end: Instant,
    /// One for each producer, so that none waits for another's lock.
    latencies: Vec<Mutex<Histogram>>,
    /// When the last commit was, in nanoseconds since the start.
    last_ns: AtomicU64,
    /// The longest time between two commits, in nanoseconds.
    gap_ns: AtomicU64,
}

impl Tally {
    fn of(&self, producer: usize) -> MutexGuard<'_, Histogram> {
        self.latencies[producer].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, producer: usize, began: Instant, done: Instant) {
        self.of(producer).add(nanos(done - began));
        let now = nanos(done - self.start);
        // Two producers that finish at once may get here in either order; then the gap is 0.
        let before = self.last_ns.fetch_max(now, Ordering::Relaxed);
        self.gap_ns.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
    }

    /// Takes the latencies since the last call.
    fn take(&self) -> Histogram {
        let mut all = Histogram::default();
        let producers = 0..self.latencies.len();
        producers.for_each(|producer| all.merge(&std::mem::take(&mut *self.of(producer))));
        all
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs producers until the time is up.
pub(super) fn drive_for<P: Producer>(
    runtime: &Runtime,
    producers: Vec<P>,
    length: Duration,
) -> Result<Stretch, Failure> {
    Ok(drive(runtime, producers, Windows::one(length), |_| Ok(()))?.all)
}

/// Runs producers until the time is up, and calls `each` after every window. The first error stops
/// all producers.
pub(super) fn drive<P: Producer>(
    runtime: &Runtime,
    producers: Vec<P>,
    windows: Windows,
    mut each: impl FnMut(&Stretch) -> Result<(), Failure>,
) -> Result<DriveResult, Failure> {
    let mut usage = Usage::now();
    let start = Instant::now();
    let tally = Arc::new(Tally {
        start,
        end: start + windows.length * windows.count,
        latencies: producers.iter().map(|_| Mutex::default()).collect(),
        last_ns: AtomicU64::new(0),
        gap_ns: AtomicU64::new(0),
    });
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for (number, producer) in producers.into_iter().enumerate() {
            tasks.spawn(produce(producer, number, Arc::clone(&tally)));
        }
        let mut all = Stretch::default();
        let mut since = start;
        for window in 1..=windows.count {
            if window < windows.count {
                let end = tokio::time::Instant::from_std(start + windows.length * window);
                tokio::time::timeout_at(end, finish(&mut tasks)).await.unwrap_or(Ok(()))?;
            } else {
                finish(&mut tasks).await?;
            }
            let (now, used) = (Instant::now(), Usage::now());
            let stretch = Stretch {
                seconds: (now - since).as_secs_f64(),
                latencies: tally.take(),
                usage: used.since(usage),
            };
            (since, usage) = (now, used);
            each(&stretch)?;
            all.merge(&stretch);
        }
        Ok(DriveResult { all, stall: Duration::from_nanos(tally.gap_ns.load(Ordering::Relaxed)) })
    })
}

/// Waits until all tasks have ended, or one has failed.
async fn finish(tasks: &mut JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error: JoinError| {
            Failure::new(format!("a producer of the benchmark ended early: {error}"))
                .hint("this is a defect of the benchmark; please report it")
        })??;
    }
    Ok(())
}

async fn produce<P: Producer>(
    mut producer: P,
    number: usize,
    tally: Arc<Tally>,
) -> Result<(), Failure> {
    loop {
        let input = producer.prepare();
        let began = Instant::now();
        if began >= tally.end {
            return Ok(());
        }
        producer.commit(input).await?;
        tally.add(number, began, Instant::now());
    }
}
