//! An execution as stretches of time: what it did itself, and every call, timer and signal that
//! it waited for. Drawing is elsewhere; this is the data, also for `--json`.
//!
//! `kept` holds the rows: all of them, or of a long execution its beginning and its end.

use std::collections::BTreeMap;

use indelible_http::Response;
use indelible_journal::{
    AwaitKind, Codec, DeliveryId, ErrorKind, Event, Failure, Outcome, Payload, PromiseId,
    RetryCause, SignalName, WaitSet,
};
use serde::{Serialize, Serializer};

use super::kept::{Bound, KeptRows};
use super::show::ExecutionView;
use crate::text::plain;

/// How many columns of an error's message are kept.
const MESSAGE_WIDTH_MAX: usize = 300;
/// A call may be retried for ever: only the last reasons are kept.
const REASONS_MAX: usize = 3;

/// The execution's own row first, then the others in the order in which they began.
pub(crate) struct Timeline {
    pub(crate) total_us: u64,
    pub(crate) rows: Vec<Span>,
    /// How many rows are left out, and before which of `rows`.
    pub(crate) between: Option<(usize, u64)>,
}

impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rows.serialize(serializer)
    }
}

#[derive(Clone, Serialize)]
pub(crate) struct Span {
    pub(crate) kind: Kind,
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub(crate) promise_id: Option<PromiseId>,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<u32>,
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
    #[serde(flatten)]
    pub(crate) end: End,
    pub(crate) segments: Vec<Segment>,
    /// The stretch that has not ended yet.
    #[serde(skip)]
    open: Option<(State, u64)>,
    #[serde(skip)]
    pub(crate) note: Note,
}

/// What is shown of a row besides its bar.
#[derive(Clone, Default)]
pub(crate) struct Note {
    /// Which attempts failed, and why: the last few.
    pub(crate) reasons: Vec<(u32, String)>,
    /// The message of its error.
    pub(crate) message: Option<String>,
    /// The status that an HTTP request was answered with.
    pub(crate) status: Option<u16>,
    /// Of a timer: until when the guest last waited for it.
    awaited_until: Option<u64>,
    /// Who is asked whether it happened, while its execution waits for that.
    pub(crate) asked: Option<&'static str>,
    /// Of a join set: how many calls were submitted to it, and how many were awaited.
    pub(crate) members: (u64, u64),
}

#[derive(Serialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Execution,
    /// A call of a function.
    Invoke,
    /// An HTTP request. In the documents that `--json` prints it is an invoke as well.
    #[serde(rename = "invoke")]
    Http,
    Timer,
    Signal,
    /// Only in rows of `indelible show`; a timeline of a journal has none.
    JoinSet,
}

/// How a row ended.
#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "error")]
pub(crate) enum End {
    Ok,
    #[serde(serialize_with = "as_name")]
    Err(ErrorKind),
    /// A wait that something else ended first, a delivery that the guest never received, or a timer
    /// that had not fired when its execution ended.
    Abandoned,
    /// The journal ends before it does.
    Open,
}

#[derive(Serialize, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) state: State,
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
}

/// What goes on in a stretch of time.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// The guest runs, or an attempt is in flight.
    Running,
    /// The execution was asked to cancel, and cleans up.
    Cancelling,
    /// The execution is blocked; a timer or a signal is awaited.
    Waiting,
    /// A call has been scheduled, and no attempt has started.
    Scheduled,
    /// An attempt has failed and the next has not started.
    Retrying,
    /// A signal has arrived before it was asked for.
    Buffered,
    /// The outcome of the attempt is unknown: a person or a reconciler is asked.
    Unknown,
}

fn as_text<S: Serializer>(id: &Option<PromiseId>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id.as_ref().expect("skipped when there is none"))
}

fn as_name<S: Serializer>(kind: &ErrorKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(kind)
}

impl Span {
    fn new(kind: Kind, promise_id: Option<PromiseId>, name: String, first: (State, u64)) -> Self {
        let (attempts, segments, at) = (None, Vec::new(), first.1);
        let (open, end, note) = (Some(first), End::Open, Note::default());
        let (start_us, end_us) = (at, at);
        Self { kind, promise_id, name, attempts, start_us, end_us, end, segments, open, note }
    }

    /// Ends the open stretch and begins another, unless the state is the same.
    fn enter(&mut self, state: State, at: u64) {
        if self.open.is_none_or(|(now, _)| now != state) {
            self.leave(at);
            self.open = Some((state, at));
        }
    }

    fn leave(&mut self, at: u64) {
        if let Some((state, start_us)) = self.open.take() {
            self.segments.push(Segment { state, start_us, end_us: at });
        }
        self.end_us = at;
    }

    fn finish(&mut self, end: End, at: u64) {
        self.leave(at);
        self.end = end;
    }

    /// More calls were submitted to a join set that had ended.
    fn reopen(&mut self, state: State, at: u64) {
        self.end = End::Open;
        self.enter(state, at);
    }

    /// Halves the segments: of two neighbours, the longer one's state counts for both.
    pub(super) fn thin(&mut self) {
        let merged = self.segments.chunks(2).map(|pair| match pair {
            [first, second] => {
                let time = |segment: &Segment| segment.end_us - segment.start_us;
                let longer = if time(first) > time(second) { first } else { second };
                Segment { start_us: first.start_us, end_us: second.end_us, ..*longer }
            }
            alone => alone[0],
        });
        self.segments = merged.collect();
    }

    /// The state that it is in at the end of the journal; none if it has ended.
    pub(crate) fn now(&self) -> Option<State> {
        match self.end {
            End::Open => self.segments.last().map(|segment| segment.state),
            End::Ok | End::Err(_) | End::Abandoned => None,
        }
    }

    /// The number of attempts, such as `×2`; empty for a single one.
    pub(crate) fn attempts_mark(&self) -> String {
        match self.attempts {
            Some(attempts @ 2..) => format!("×{attempts}"),
            _ => String::new(),
        }
    }

    /// Whether the wait gave its child number back: the next child has the same one.
    pub(crate) fn gave_number_back(&self) -> bool {
        self.end == End::Abandoned && self.kind == Kind::Signal && self.promise_id.is_some()
    }
}

impl Timeline {
    /// No rows for a journal without a legal event.
    pub(super) fn of(shown: &ExecutionView) -> Self {
        let total_us = shown.total();
        let Some(started) = shown.started() else {
            return Self { total_us, rows: Vec::new(), between: None };
        };
        let mut spans = Spans::new(started.function_name.to_string(), Bound::None);
        for row in &shown.rows {
            spans.step(row.entry.event(), shown.micros(row));
        }
        spans.finish(total_us)
    }
}

impl Timeline {
    /// A step that has not ended waits for an answer since then: whether it happened is unknown,
    /// and no event says so.
    pub(crate) fn ask(&mut self, promise: &str, since_us: u64, who: &'static str) {
        let is_it = |row: &&mut Span| {
            row.end == End::Open
                && row.promise_id.as_ref().is_some_and(|id| id.to_string() == promise)
        };
        let Some(row) = self.rows.iter_mut().find(is_it) else { return };
        let Some(last) = row.segments.last_mut() else { return };
        let (start_us, end_us) = (since_us.clamp(last.start_us, last.end_us), last.end_us);
        last.end_us = start_us;
        row.segments.push(Segment { state: State::Unknown, start_us, end_us });
        row.note.asked = Some(who);
    }
}

/// Turns events into rows, one event at a time.
#[derive(Clone)]
pub(crate) struct Spans {
    own: Span,
    rows: KeptRows,
    /// The rows that later events may change.
    open: BTreeMap<PromiseId, u64>,
    /// The signal that the guest waits for.
    awaited: Option<PromiseId>,
    /// What else it waits for.
    waiting_on: Option<WaitSet>,
    /// The deliveries that the guest has not received yet, and when they arrived.
    delivered: BTreeMap<(SignalName, DeliveryId), u64>,
}

impl Spans {
    /// Starts with an execution of this function, at time 0.
    pub(crate) fn new(function: String, bound: Bound) -> Self {
        let own = Span::new(Kind::Execution, None, function, (State::Running, 0));
        let (open, delivered) = (BTreeMap::new(), BTreeMap::new());
        let rows = KeptRows::new(bound);
        Self { own, rows, open, awaited: None, waiting_on: None, delivered }
    }

    /// Takes the next event, `at` microseconds after the first.
    pub(crate) fn step(&mut self, event: &Event, at: u64) {
        match event {
            Event::ExecutionCompleted { .. } => self.own.finish(End::Ok, at),
            Event::ExecutionFailed { error } => {
                self.own.finish(End::Err(error.kind), at);
                self.own.note.message = Some(words(&error.message));
            }
            Event::ExecutionCancelled { reason } => {
                self.own.finish(End::Err(ErrorKind::Cancelled), at);
                self.own.note.message = Some(words(reason));
            }
            Event::CancelRequested { .. } => {
                self.own.enter(State::Cancelling, at);
                self.abandon_signal(at);
            }
            Event::ExecutionAwaiting { kind, waiting_on } => {
                self.own.enter(State::Waiting, at);
                self.waiting_on = Some(waiting_on.clone());
                if let AwaitKind::Signal { name, promise_id }
                | AwaitKind::SignalOr { name, promise_id } = kind
                {
                    self.open_span(
                        Kind::Signal,
                        promise_id,
                        name.to_string(),
                        (State::Waiting, at),
                    );
                    self.awaited = Some(promise_id.clone());
                }
            }
            Event::ExecutionResumed => {
                self.own.enter(State::Running, at);
                self.abandon_signal(at);
                self.note_timers(at);
            }
            Event::InvokeScheduled { promise_id, function_name, kind, .. } => {
                let kind = match kind {
                    indelible_journal::InvokeKind::Function => Kind::Invoke,
                    indelible_journal::InvokeKind::Http => Kind::Http,
                };
                self.open_span(kind, promise_id, function_name.to_string(), (State::Scheduled, at));
            }
            Event::InvokeStarted { promise_id, attempt } => {
                if let Some(row) = self.row(promise_id) {
                    row.enter(State::Running, at);
                    row.attempts = Some(attempt.get());
                }
            }
            Event::InvokeRetrying { promise_id, failed_attempt, cause, error, .. } => {
                if let Some(row) = self.row(promise_id) {
                    row.enter(State::Retrying, at);
                    if row.note.reasons.len() == REASONS_MAX {
                        row.note.reasons.remove(0);
                    }
                    row.note.reasons.push((failed_attempt.get(), reason(*cause, error)));
                }
            }
            Event::InvokeCompleted { promise_id, result, .. } => {
                if let Some(row) = self.row(promise_id) {
                    row.note.status = status(result);
                    if let Outcome::Err(failure) = result {
                        row.note.message = Some(words(&failure.message));
                    }
                }
                let end = match result {
                    Outcome::Ok(_) => End::Ok,
                    Outcome::Err(failure) => End::Err(failure.kind),
                };
                self.end(promise_id, end, at);
            }
            Event::TimerScheduled { promise_id, duration, .. } => {
                let name = format!("sleep {}", crate::text::duration(duration.get()));
                self.open_span(Kind::Timer, promise_id, name, (State::Waiting, at));
            }
            Event::TimerFired { promise_id } => self.end(promise_id, End::Ok, at),
            Event::SignalDelivered { signal_name, delivery_id, .. } => {
                self.delivered.insert((signal_name.clone(), *delivery_id), at);
            }
            Event::SignalReceived { promise_id, signal_name, delivery_id, .. } => {
                let delivered = self.delivered.remove(&(signal_name.clone(), *delivery_id));
                if !self.open.contains_key(promise_id) {
                    let first = (State::Buffered, delivered.unwrap_or(at));
                    self.open_span(Kind::Signal, promise_id, signal_name.to_string(), first);
                }
                self.end(promise_id, End::Ok, at);
            }
            Event::JoinSetCreated { join_set_id } if self.rows.has_join_sets() => {
                let (name, first) = ("join set".to_owned(), (State::Waiting, at));
                self.open_span(Kind::JoinSet, join_set_id.place(), name, first);
            }
            Event::JoinSetSubmitted { join_set_id, .. } => {
                if let Some(row) = self.row(join_set_id.place()) {
                    row.note.members.0 += 1;
                    row.reopen(State::Waiting, at);
                }
            }
            Event::JoinSetAwaited { join_set_id, .. } => {
                if let Some(row) = self.row(join_set_id.place()) {
                    row.note.members.1 += 1;
                    if row.note.members.0 == row.note.members.1 {
                        row.finish(End::Ok, at);
                    }
                }
            }
            // `ExecutionStarted` opened the execution's own row; the other events take no time.
            Event::ExecutionStarted(_)
            | Event::RandomGenerated { .. }
            | Event::TimeRecorded { .. }
            | Event::JoinSetCreated { .. } => {}
        }
        self.rows.thin(&mut self.own);
    }

    /// Ends the journal: deliveries that the guest never received get rows; open rows stay open.
    pub(crate) fn finish(mut self, at: u64) -> Timeline {
        let is_over = self.own.end != End::Open;
        for ((name, _), delivered) in std::mem::take(&mut self.delivered) {
            let first = (State::Buffered, delivered);
            self.push(Span::new(Kind::Signal, None, name.to_string(), first));
        }
        let (mut rows, between) = self.rows.into_rows();
        for row in rows.iter_mut().filter(|row| row.end == End::Open) {
            // A finished execution receives no delivery any more, and awaits neither a call of a
            // set nor a timer: that was waited for until something else came first, if at all.
            match (is_over, row.kind, &row.promise_id) {
                (true, Kind::Timer, _) => {
                    row.finish(End::Abandoned, row.note.awaited_until.unwrap_or(row.start_us));
                }
                (true, Kind::JoinSet, _) | (true, Kind::Signal, None) => {
                    row.finish(End::Abandoned, at);
                }
                _ => row.leave(at),
            }
        }
        if !is_over {
            self.own.leave(at);
        }
        let gap = between.map_or(rows.len(), |(place, _)| place);
        rows[..gap].sort_by_key(|row| row.start_us);
        rows[gap..].sort_by_key(|row| row.start_us);
        rows.insert(0, self.own);
        let between = between.map(|(place, count)| (place + 1, count));
        Timeline { total_us: at, rows, between }
    }

    fn open_span(&mut self, kind: Kind, promise: &PromiseId, name: String, first: (State, u64)) {
        let row = self.push(Span::new(kind, Some(promise.clone()), name, first));
        self.open.insert(promise.clone(), row);
    }

    fn push(&mut self, row: Span) -> u64 {
        let (number, dropped) = self.rows.push(row);
        if let Some(promise) = dropped.and_then(|row| row.promise_id) {
            // Another row may have the same promise by now, and must stay open.
            let same = self.open.get(&promise).is_some_and(|row| self.rows.get(*row).is_none());
            if same {
                self.open.remove(&promise);
            }
        }
        number
    }

    fn row(&mut self, promise: &PromiseId) -> Option<&mut Span> {
        self.open.get(promise).and_then(|row| self.rows.get_mut(*row))
    }

    fn end(&mut self, promise: &PromiseId, end: End, at: u64) {
        if let Some(row) = self.open.remove(promise)
            && let Some(row) = self.rows.get_mut(row)
        {
            row.finish(end, at);
        }
    }

    /// The guest goes on: it waited until now for the timers that it named.
    fn note_timers(&mut self, at: u64) {
        let Some(waiting_on) = self.waiting_on.take() else { return };
        for promise in waiting_on.promises() {
            if let Some(row) = self.row(&promise) {
                row.note.awaited_until = Some(at);
            }
        }
    }

    /// The wait ended without the signal: a later delivery is for another await, which may have the
    /// same child number (see C-37).
    fn abandon_signal(&mut self, at: u64) {
        if let Some(promise) = self.awaited.take() {
            self.end(&promise, End::Abandoned, at);
        }
    }
}

/// The first line of a text from outside.
fn words(text: &str) -> String {
    plain(text.lines().next().unwrap_or_default(), MESSAGE_WIDTH_MAX)
}

/// Why an attempt was followed by another.
fn reason(cause: RetryCause, error: &Failure) -> String {
    let message = words(&error.message);
    match cause {
        RetryCause::Failed => format!("{}: {message}", error.kind),
        RetryCause::NotSent => format!("not sent: {message}"),
        RetryCause::EngineLost => "the server stopped while it was in flight".to_owned(),
        RetryCause::ReconciledNotDone => "its reconciler found that it did not happen".to_owned(),
        RetryCause::Operator => "a person asked for another attempt".to_owned(),
    }
}

/// The status of the answer to an HTTP request, if there was one.
fn status(result: &Outcome) -> Option<u16> {
    let answer: &Payload = match result {
        Outcome::Ok(payload) => payload,
        Outcome::Err(failure) => failure.detail.as_ref()?,
    };
    let answer = (answer.codec == Codec::HTTP).then(|| Response::decode(&answer.bytes).ok());
    answer.flatten().map(|answer| answer.status)
}
