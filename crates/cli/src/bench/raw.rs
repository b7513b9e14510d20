//! The rate of the disk itself, for the same producers: one writer thread, with one write and one
//! `fdatasync` of a growing file for each group. A group is whatever is queued when the writer is
//! free; the writer does not wait for larger groups.
#![expect(clippy::disallowed_methods, reason = "the raw writer owns a file")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::SEED_RAW;
use super::drive::{Producer, Windows, drive};
use super::place::BenchFolder;
use super::step::StepRun;
use super::steps::{Steps, serialised};
use crate::failure::Failure;

pub(super) fn run(
    runtime: &Runtime,
    file: &Path,
    producers: u32,
    length: Duration,
) -> Result<StepRun, Failure> {
    let queue = Arc::new(Queue::default());
    let open = File::options().write(true).create_new(true).open(file);
    let writer = open.and_then(|file| {
        let queue = Arc::clone(&queue);
        let name = "raw writer".to_owned();
        std::thread::Builder::new().name(name).spawn(move || queue.write(file))
    });
    let writer = writer.map_err(|error| failed(&error))?;
    let all = (0..producers).map(|number| {
        // The second step of an execution has every kind of write, the delete too.
        let mut steps = Steps::new(SEED_RAW, u64::from(number));
        steps.next();
        Batches { queue: Arc::clone(&queue), bytes: serialised(&steps.next()) }
    });
    let driven = drive(runtime, all.collect(), Windows::one(length), |_| Ok(()));
    queue.lock().closed = true;
    queue.work.notify_one();
    let written = writer.join().map_err(|_| failed(&io::Error::other("its thread panicked")));
    fs::remove_file(file).map_err(|error| failed(&error))?;
    let (driven, (fsyncs, bytes_given)) = (driven?, written?);
    Ok(StepRun { driven, fsyncs, bytes_given })
}

/// Runs a measurement, and measures the disk alone for a second before and after it. Returns the
/// median time of a sync in microseconds too.
pub(super) fn beside<T>(
    runtime: &Runtime,
    place: &BenchFolder,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, f64), Failure> {
    let alone = || run(runtime, &place.join("raw"), 1, Duration::from_secs(1));
    let mut syncs = alone()?.driven.all;
    let done = work()?;
    syncs.merge(&alone()?.driven.all);
    let [median_us] = syncs.latencies.micros([500]);
    Ok((done, median_us))
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(format!("the raw disk cannot be measured: {error}"))
        .hint("choose a folder on another disk with --dir")
}

/// How a group ended; None until then.
type Outcome = Option<Result<(), String>>;

/// The batches that wait for the writer.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    open: Vec<Bytes>,
    /// Tells all producers of the open group how it ended.
    outcome: watch::Sender<Outcome>,
    writing: bool,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, batch: Bytes) -> watch::Receiver<Outcome> {
        let mut state = self.lock();
        let wake = state.open.is_empty() && !state.writing;
        state.open.push(batch);
        let outcome = state.outcome.subscribe();
        drop(state);
        if wake {
            self.work.notify_one();
        }
        outcome
    }

    /// Runs on the writer's thread; returns how many syncs it made, and of how many bytes.
    fn write(&self, mut file: File) -> (u64, u64) {
        let (mut syncs, mut bytes) = (0, 0);
        let mut buffer = Vec::new();
        loop {
            let mut state = self.lock();
            state.writing = false;
            while state.open.is_empty() {
                if state.closed {
                    return (syncs, bytes);
                }
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let group = std::mem::take(&mut state.open);
            let outcome = std::mem::take(&mut state.outcome);
            state.writing = true;
            drop(state);
            buffer.clear();
            group.iter().for_each(|batch| buffer.extend_from_slice(batch));
            let result = file.write_all(&buffer).and_then(|()| file.sync_data());
            if result.is_ok() {
                syncs += 1;
                bytes += buffer.len() as u64;
            }
            outcome.send_replace(Some(result.map_err(|error| error.to_string())));
        }
    }
}

/// Commits the same batch over and over.
struct Batches {
    queue: Arc<Queue>,
    bytes: Bytes,
}

impl Producer for Batches {
    type Input = Bytes;

    fn prepare(&mut self) -> Bytes {
        self.bytes.clone()
    }

    async fn commit(&mut self, batch: Bytes) -> Result<(), Failure> {
        let mut outcome = self.queue.push(batch);
        let ended = outcome.wait_for(Option::is_some).await.map_err(io::Error::other);
        let ended = ended.map(|ended| ended.clone().expect("it was waited for"));
        let written = ended.and_then(|ended| ended.map_err(io::Error::other));
        written.map_err(|error| failed(&error))
    }
}
