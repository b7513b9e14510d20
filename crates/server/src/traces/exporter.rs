//! Sends the spans of finished executions to a collector. No execution waits for it or depends on
//! it: what does not fit is dropped and counted, and what the collector does not take is given up.
//! Journals are read from the store, accepted or durable: traces are exempt from D2. An execution
//! that a crash took back is exported again, with the same ids, when it has ended again.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use indelible_journal::{Attempt, Attempts, JournalKey};
use indelible_records::journals;
use indelible_store::{ReadError, Store};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

use super::otlp;
use super::post::{Endpoint, EndpointError, PostOutcome};
use super::spans::{Fold, STEPS_MAX, Span};

/// How many rows of a journal are read at a time.
const ROWS_MAX: usize = 64;

/// How many failed attempts before the last are exported, the latest first: a function that is
/// retried without bound may have any number.
const EARLIER_ATTEMPTS_MAX: u32 = 16;

/// How many batches wait while one is sent, at most. Past it no journal is read until a batch is
/// done, and the queue fills.
const BATCHES_MAX: usize = 4;

/// The longest wait between two requests with the same batch.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Where to send spans, and how many.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where a collector listens: `http://HOST:4318/v1/traces`. A collector on the same machine is
    /// usual, and does TLS and credentials itself.
    pub endpoint: String,
    /// What this server is called in traces.
    pub service_name: String,
    /// How many executions may wait to be told of. More are dropped: memory is bounded, and a
    /// collector that is away for long costs spans, not calls.
    pub queue_max: NonZeroUsize,
    /// How many steps of one execution get a span.
    pub steps_max: usize,
    /// How many spans one request carries: about half a megabyte.
    pub batch_spans_max: NonZeroUsize,
    /// How long spans wait for others before they are sent.
    pub linger: Duration,
    /// How long one request may take.
    pub timeout: Duration,
    /// How often a batch is sent before it is given up.
    pub tries_max: u32,
    /// How long to wait before the second time; doubled each time.
    pub backoff: Duration,
}

impl Config {
    /// The usual bounds.
    pub fn new(endpoint: impl Into<String>) -> Self {
        let count = |count| NonZeroUsize::new(count).expect("it is more than none");
        Self {
            endpoint: endpoint.into(),
            service_name: "indelible".to_owned(),
            queue_max: count(16_384),
            steps_max: STEPS_MAX,
            batch_spans_max: count(512),
            linger: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            tries_max: 5,
            backoff: Duration::from_secs(1),
        }
    }
}

/// Why an exporter cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The endpoint is invalid.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// What came of it so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Spans that a collector has taken.
    pub spans_exported: u64,
    /// Spans that no collector took: given up or refused.
    pub spans_failed: u64,
    /// Executions that were not exported, because too many waited.
    pub executions_dropped: u64,
    /// Executions whose journal could not be read.
    pub executions_unread: u64,
}

/// A bounded queue of finished executions, and the task that exports them.
#[derive(Debug)]
pub struct Exporter {
    config: Config,
    endpoint: Endpoint,
    sender: mpsc::Sender<JournalKey>,
    /// `Some` until the exporter is started.
    receiver: Mutex<Option<mpsc::Receiver<JournalKey>>>,
    /// Resolves when the queue is closed and every batch is done.
    ending: Mutex<Option<oneshot::Receiver<()>>>,
    closing: Notify,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    unread: AtomicU64,
}

impl Exporter {
    /// An exporter that queues, and sends once it is started: the engine needs its observer before
    /// there is a store to read from.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        let endpoint = Endpoint::parse(&config.endpoint)?;
        let (sender, receiver) = mpsc::channel(config.queue_max.get());
        Ok(Arc::new(Self {
            config,
            endpoint,
            sender,
            receiver: Mutex::new(Some(receiver)),
            ending: Mutex::new(None),
            closing: Notify::new(),
            counts: Counts::default(),
        }))
    }

    /// Begins to tell of what is queued, on the runtime that this is called on. Once.
    pub fn start(self: &Arc<Self>, store: Store) {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(receiver) = receiver else { return };
        let (ended, ending) = oneshot::channel();
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(ending);
        let exporter = Arc::clone(self);
        tokio::spawn(async move {
            exporter.run(receiver, store).await;
            let _ = ended.send(());
        });
    }

    /// This execution is over. Never waits: if there is no room, it is dropped and counted.
    pub fn queue(&self, key: &JournalKey) {
        if self.sender.try_send(key.clone()).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What came of it so far.
    pub fn counters(&self) -> Counters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counters {
            spans_exported: read(&self.counts.exported),
            spans_failed: read(&self.counts.failed),
            executions_dropped: read(&self.counts.dropped),
            executions_unread: read(&self.counts.unread),
        }
    }

    /// Closes the queue, and sends what is queued for at most this long. The store must still be
    /// open.
    pub async fn close(&self, at_most: Duration) {
        self.closing.notify_one();
        let ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ending) = ending {
            let _ = timeout(at_most, ending).await;
        }
    }

    async fn run(self: Arc<Self>, mut receiver: mpsc::Receiver<JournalKey>, store: Store) {
        let (batches, sent) = mpsc::channel(BATCHES_MAX);
        let poster = tokio::spawn(Arc::clone(&self).post_all(sent));
        let mut waiting = VecDeque::new();
        let mut due = Instant::now();
        loop {
            let key = tokio::select! {
                key = receiver.recv() => key,
                () = sleep_until(due), if !waiting.is_empty() => {
                    self.hand_over(&mut waiting, &batches, 1).await;
                    continue;
                }
                () = self.closing.notified() => {
                    receiver.close();
                    continue;
                }
            };
            let Some(key) = key else { break };
            if waiting.is_empty() {
                due = Instant::now() + self.config.linger;
            }
            let (store, steps_max) = (store.clone(), self.config.steps_max);
            // A read may go to disk.
            let read = tokio::task::spawn_blocking(move || read(&store, &key, steps_max));
            match read.await {
                Ok(Ok(spans)) => waiting.extend(spans),
                _ => _ = self.counts.unread.fetch_add(1, Ordering::Relaxed),
            }
            let full = self.config.batch_spans_max.get();
            self.hand_over(&mut waiting, &batches, full).await;
        }
        self.hand_over(&mut waiting, &batches, 1).await;
        drop(batches);
        let _ = poster.await;
    }

    /// Hands over batches while there are at least so many spans.
    async fn hand_over(
        &self,
        waiting: &mut VecDeque<Span>,
        batches: &mpsc::Sender<Vec<Span>>,
        at_least: usize,
    ) {
        while waiting.len() >= at_least {
            let count = waiting.len().min(self.config.batch_spans_max.get());
            let batch: Vec<Span> = waiting.drain(..count).collect();
            // The receiver lives until `batches` is dropped, so this cannot fail.
            let _ = batches.send(batch).await;
        }
    }

    async fn post_all(self: Arc<Self>, mut batches: mpsc::Receiver<Vec<Span>>) {
        let mut works = true;
        while let Some(batch) = batches.recv().await {
            let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            let body = Bytes::from(otlp::body(&self.config.service_name, &batch));
            drop(batch);
            let taken = self.post(&body).await;
            match (std::mem::replace(&mut works, taken), taken) {
                (true, false) => warn!("trace collector unavailable; dropping spans"),
                (false, true) => info!("trace collector available again"),
                _ => {}
            }
            let counter = if taken { &self.counts.exported } else { &self.counts.failed };
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Whether a collector took it in the end.
    async fn post(&self, body: &Bytes) -> bool {
        let mut wait = self.config.backoff;
        for attempt in 1..=self.config.tries_max.max(1) {
            let posted = timeout(self.config.timeout, self.endpoint.post(body.clone())).await;
            let after = match posted {
                Ok(PostOutcome::Taken) => return true,
                Ok(PostOutcome::Refused) => return false,
                Ok(PostOutcome::Later(after)) => after,
                Err(_) => None,
            };
            if attempt < self.config.tries_max {
                sleep(after.unwrap_or(wait)).await;
                wait = wait.saturating_mul(2).min(BACKOFF_MAX);
            }
        }
        false
    }
}

/// The spans of an execution that is over, with those of the attempts before.
fn read(store: &Store, key: &JournalKey, steps_max: usize) -> Result<Vec<Span>, ReadError> {
    let mut spans = read_one(store, key, steps_max)?;
    if spans.is_empty() {
        // Its trace is not sampled.
        return Ok(spans);
    }
    let (own, callers) = key.attempts().as_slice().split_last().expect("there is its own");
    for number in (1..own.get()).rev().take(EARLIER_ATTEMPTS_MAX as usize) {
        let mut attempts = callers.to_vec();
        attempts.extend(Attempt::new(number));
        let earlier = Attempts::new(&attempts)
            .and_then(|attempts| JournalKey::new(key.execution_id().clone(), attempts).ok());
        if let Some(earlier) = earlier {
            spans.append(&mut read_one(store, &earlier, steps_max)?);
        }
    }
    Ok(spans)
}

fn read_one(store: &Store, key: &JournalKey, steps_max: usize) -> Result<Vec<Span>, ReadError> {
    let mut fold = Fold::new(key.clone(), steps_max);
    // One row first: it says whether there is a trace at all, and most have none.
    let (mut from, mut rows) = (0, 1);
    loop {
        let events = journals::read(store, key, from, rows)?.value;
        if !events.records.iter().all(|record| fold.add(record)) {
            return Ok(Vec::new());
        }
        match events.next {
            Some(next) => (from, rows) = (next, ROWS_MAX),
            None => return Ok(fold.finish()),
        }
    }
}
