//! The rate of the disk itself, for the same producers: one writer thread, and for each group one
//! write and one `fdatasync` of a growing file. Whatever is queued when the writer is free is one
//! group; nothing waits to make groups larger.
#![expect(clippy::disallowed_methods, reason = "the raw writer owns a file")]

use std::fs::{self, File};
use std::future::Future;
use std::io::{self, Write as _};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::runtime::Runtime;

use super::SEED_RAW;
use super::drive::{Driven, Producer, Windows, drive};
use super::steps::{Steps, serialised};
use crate::failure::Failure;

/// What a raw run did.
pub(super) struct Raw {
    pub(super) driven: Driven,
    pub(super) fsyncs: u64,
    pub(super) bytes_given: u64,
}

pub(super) fn run(
    runtime: &Runtime,
    file: &Path,
    producers: u32,
    windows: Windows,
) -> Result<Raw, Failure> {
    let queue = Arc::new(Queue::default());
    let open = File::options().write(true).create_new(true).open(file);
    let writer = open.and_then(|file| {
        let queue = Arc::clone(&queue);
        let name = "raw writer".to_owned();
        std::thread::Builder::new().name(name).spawn(move || queue.write(file))
    });
    let writer = writer.map_err(|error| failed(&error))?;
    let all = (0..producers).map(|number| {
        // The second step: it has all that a step has, the delete too.
        let mut steps = Steps::new(SEED_RAW, u64::from(number));
        steps.next();
        Batches { queue: Arc::clone(&queue), bytes: serialised(&steps.next()) }
    });
    let driven = drive(runtime, all.collect(), windows, |_| Ok(()));
    queue.lock().closed = true;
    queue.work.notify_one();
    let written = writer.join().map_err(|_| failed(&io::Error::other("its thread panicked")));
    fs::remove_file(file).map_err(|error| failed(&error))?;
    let (driven, (fsyncs, bytes_given)) = (driven?, written?);
    Ok(Raw { driven, fsyncs, bytes_given })
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(format!("the raw disk cannot be measured: {error}"))
        .hint("choose a folder on another disk with --dir")
}

/// What waits for the writer.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    open: Vec<Bytes>,
    outcome: Arc<Outcome>,
    writing: bool,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, batch: Bytes) -> Durable {
        let mut state = self.lock();
        let wake = state.open.is_empty() && !state.writing;
        state.open.push(batch);
        let outcome = Arc::clone(&state.outcome);
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Durable(outcome)
    }

    /// The writer's thread: how many syncs it made, of how many bytes.
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
            outcome.end(result.map_err(|error| error.to_string()));
        }
    }
}

/// How a group ended, for all who wait for it: as the store's own, which is not public.
#[derive(Default)]
struct Outcome(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    ended: Option<Result<(), String>>,
    wakers: Vec<Waker>,
}

impl Outcome {
    fn end(&self, result: Result<(), String>) {
        let wakers = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.ended = Some(result);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

struct Durable(Arc<Outcome>);

impl Future for Durable {
    type Output = Result<(), String>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = &waiting.ended {
            return Poll::Ready(result.clone());
        }
        // Each task waits for nothing else, so it comes here once.
        waiting.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

/// The same batch over and over, made beforehand.
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
        let durable = self.queue.push(batch);
        durable.await.map_err(|error| failed(&io::Error::other(error)))
    }
}
