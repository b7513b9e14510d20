//! Observes the lines that guests log when they go on, which happens before the commit.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use indelible_runtime::world::{LogLine, Observer, Trouble};

use super::drive::nanos;
use super::histogram::Histogram;

/// Counts lines.
#[derive(Debug, Default)]
pub(super) struct LineCounter(AtomicU64);

impl LineCounter {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Observer for LineCounter {
    fn logged(&self, _line: LogLine<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn trouble(&self, trouble: &Trouble<'_>) {
        super::note(&format!("warning: {trouble}"));
    }
}

/// How many signals of a sender can be under way before their times are overwritten.
const TIMES: usize = 256;

/// Measures the time from a signal to the line that its guest logs, which is the signal's value.
pub(super) struct Timing {
    start: Instant,
    senders: Vec<Sender>,
    heard: AtomicU64,
}

struct Sender {
    /// When each of the last signals was sent, in nanoseconds since the start.
    times: Vec<AtomicU64>,
    latencies: Mutex<Histogram>,
}

impl Timing {
    pub(super) fn new(senders: u32) -> Self {
        let sender = |_| Sender {
            times: (0..TIMES).map(|_| AtomicU64::new(0)).collect(),
            latencies: Mutex::default(),
        };
        let senders = (0..senders).map(sender).collect();
        Self { start: Instant::now(), senders, heard: AtomicU64::new(0) }
    }

    /// Notes the time of a sender's signal of this number, and returns the value to send.
    pub(super) fn sending(&self, sender: u32, number: u32) -> u64 {
        let times = &self.senders[sender as usize].times;
        times[number as usize % TIMES].store(nanos(self.start.elapsed()), Ordering::SeqCst);
        u64::from(sender) << 32 | u64::from(number)
    }

    /// How many signals arrived.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::SeqCst)
    }

    /// How long the signals took.
    pub(super) fn latencies(&self) -> Histogram {
        let mut all = Histogram::default();
        for sender in &self.senders {
            all.merge(&sender.latencies.lock().unwrap_or_else(PoisonError::into_inner));
        }
        all
    }
}

impl Observer for Timing {
    fn logged(&self, line: LogLine<'_>) {
        let now = nanos(self.start.elapsed());
        let Ok(carried) = line.message.parse::<u64>() else { return };
        let (sender, number) = ((carried >> 32) as usize, carried as u32 as usize);
        let Some(sender) = self.senders.get(sender) else { return };
        let sent = sender.times[number % TIMES].load(Ordering::SeqCst);
        let mut latencies = sender.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.add(now.saturating_sub(sent));
        self.heard.fetch_add(1, Ordering::SeqCst);
    }

    fn trouble(&self, trouble: &Trouble<'_>) {
        super::note(&format!("warning: {trouble}"));
    }
}
