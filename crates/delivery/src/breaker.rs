//! The circuit breaker of an endpoint: it stops attempts at an endpoint that fails, and lets one
//! through from time to time.
//!
//! ```text
//!            share of failures in the window            open_for has passed
//!   Closed ─────────────────────────────────▶ Open ─────────────────────────▶ HalfOpen
//!      ▲                                       ▲                                │ one trial
//!      │                                       └──────── it failed ─────────────┤
//!      └──────────────────────────────────────────────── it was delivered ──────┘
//! ```
//!
//! A message that meets an open breaker waits; that uses up none of its attempts. The breaker is a
//! value: it is stored when its state changes, and so it survives a restart.

use indelible_journal::{Micros, Timestamp};

use crate::bytes::{Decoder, Encoder, Malformed};

const VERSION: u8 = 1;
/// Into how many parts the window is divided: it moves by a part.
const PARTS: usize = 8;
/// A trial whose end was lost with its process counts as failed after this long.
const TRIAL_LOST: Micros = Micros::from_secs(600);

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// It opens when this share of the attempts in the window failed, in percent.
    pub failures_percent: u8,
    /// Fewer attempts in the window than this prove nothing.
    pub attempts_min: u32,
    /// How long an attempt counts.
    pub window: Micros,
    /// How long it stays open before a trial.
    pub open_for: Micros,
}

impl Thresholds {
    /// Half of at least ten attempts in a minute; then a pause of half a minute.
    pub const DEFAULT: Self = Self {
        failures_percent: 50,
        attempts_min: 10,
        window: Micros::from_secs(60),
        open_for: Micros::from_secs(30),
    };
}

/// How an attempt ended, for the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// It was delivered.
    Delivered,
    /// It was not.
    Failed,
}

/// Whether attempts may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They may.
    Closed,
    /// They may not before `until`.
    Open {
        /// Since when.
        since: Timestamp,
        /// When a trial may begin.
        until: Timestamp,
        /// How many attempts were in the window that opened it.
        attempts: u32,
        /// How many of them failed.
        failed: u32,
    },
    /// One may, and its end decides.
    HalfOpen {
        /// When the trial began; `None` before it.
        trial: Option<Timestamp>,
    },
}

/// What an attempt that wants to begin meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It begins.
    Attempt,
    /// It begins as the one trial.
    Trial,
    /// It waits until then.
    Wait(Timestamp),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Part {
    attempts: u32,
    failed: u32,
}

/// The breaker of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    state: State,
    /// When the newest part of the window began.
    newest: Timestamp,
    /// The parts of the window, the newest first.
    parts: [Part; PARTS],
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed, newest: Timestamp::EPOCH, parts: [Part::default(); PARTS] }
    }
}

impl Breaker {
    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether an attempt may begin now. The answer [`Admission::Trial`] is a change that is
    /// stored before the attempt leaves: after a crash there is still only one trial.
    pub fn admit(&mut self, now: Timestamp) -> Admission {
        match self.state {
            State::Closed => Admission::Attempt,
            State::Open { until, .. } if now < until => Admission::Wait(until),
            State::HalfOpen { trial: Some(since) } => {
                let lost = since.saturating_add(TRIAL_LOST);
                if now < lost { Admission::Wait(lost) } else { self.begin_trial(now) }
            }
            State::Open { .. } | State::HalfOpen { trial: None } => self.begin_trial(now),
        }
    }

    fn begin_trial(&mut self, now: Timestamp) -> Admission {
        self.state = State::HalfOpen { trial: Some(now) };
        Admission::Trial
    }

    /// Takes how an attempt ended that began at `began`; whether the state has changed.
    ///
    /// Attempts that began before the breaker opened can end while it is open or has a trial. They
    /// say nothing new.
    pub fn record(
        &mut self,
        sample: Sample,
        began: Timestamp,
        now: Timestamp,
        thresholds: &Thresholds,
    ) -> bool {
        match self.state {
            State::Closed => self.count(sample, now, thresholds),
            State::HalfOpen { trial: Some(since) } if began >= since => {
                match sample {
                    Sample::Delivered => *self = Self::default(),
                    Sample::Failed => self.open(now, 1, 1, thresholds),
                }
                true
            }
            State::Open { .. } | State::HalfOpen { .. } => false,
        }
    }

    /// Closes it: an operator says so, or the endpoint has changed.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    fn count(&mut self, sample: Sample, now: Timestamp, thresholds: &Thresholds) -> bool {
        self.advance(now, thresholds.window);
        self.parts[0].attempts = self.parts[0].attempts.saturating_add(1);
        if sample == Sample::Failed {
            self.parts[0].failed = self.parts[0].failed.saturating_add(1);
        }
        let sum =
            |count: fn(&Part) -> u32| self.parts.iter().map(count).fold(0, u32::saturating_add);
        let (attempts, failed) = (sum(|part| part.attempts), sum(|part| part.failed));
        let is_enough = attempts >= thresholds.attempts_min;
        let share = u64::from(failed) * 100;
        let is_open =
            is_enough && share >= u64::from(attempts) * u64::from(thresholds.failures_percent);
        if is_open && failed > 0 {
            self.open(now, attempts, failed, thresholds);
        }
        self.state != State::Closed
    }

    /// Moves the window. A clock that goes back counts into the newest part.
    fn advance(&mut self, now: Timestamp, window: Micros) {
        let part = (window.get() / PARTS as u64).max(1);
        let passed = now.saturating_since(self.newest).get() / part;
        let passed_parts = usize::try_from(passed).unwrap_or(PARTS).min(PARTS);
        self.parts.rotate_right(passed_parts % PARTS);
        self.parts[..passed_parts].fill(Part::default());
        self.newest = self.newest.saturating_add(Micros::new(passed * part));
    }

    fn open(&mut self, now: Timestamp, attempts: u32, failed: u32, thresholds: &Thresholds) {
        let until = now.saturating_add(thresholds.open_for);
        let state = State::Open { since: now, until, attempts, failed };
        *self = Self { state, ..Self::default() };
    }

    /// Its row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::version(VERSION);
        match self.state {
            State::Closed => out.u8(1),
            State::Open { since, until, attempts, failed } => {
                out.u8(2);
                out.time(since);
                out.time(until);
                out.u32(attempts);
                out.u32(failed);
            }
            State::HalfOpen { trial } => {
                out.u8(3);
                out.option(trial, Encoder::time);
            }
        }
        out.time(self.newest);
        for part in &self.parts {
            out.u32(part.attempts);
            out.u32(part.failed);
        }
        out.finish()
    }

    /// The breaker of a row.
    pub fn decode(row: &[u8]) -> Result<Self, Malformed> {
        Decoder::row(row, VERSION, |from| {
            let state = match from.u8()? {
                1 => State::Closed,
                2 => State::Open {
                    since: from.time()?,
                    until: from.time()?,
                    attempts: from.u32()?,
                    failed: from.u32()?,
                },
                3 => State::HalfOpen { trial: from.option(Decoder::time)? },
                _ => return Err(Malformed("a breaker has an unknown state")),
            };
            let newest = from.time()?;
            let mut parts = [Part::default(); PARTS];
            for part in &mut parts {
                *part = Part { attempts: from.u32()?, failed: from.u32()? };
            }
            Ok(Self { state, newest, parts })
        })
    }
}
