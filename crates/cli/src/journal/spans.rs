//! An execution as stretches of time: what it did itself, and every call, timer and signal that
//! it waited for. Drawing is elsewhere; this is the data, also for `--json`.

use std::collections::BTreeMap;

use indelible_journal::{AwaitKind, DeliveryId, ErrorKind, Event, Outcome, PromiseId, SignalName};
use serde::{Serialize, Serializer};

use super::show::Shown;

/// The execution's own row first, then the others in the order in which they began.
pub(super) struct Timeline {
    pub(super) total_us: u64,
    pub(super) rows: Vec<Span>,
}

impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rows.serialize(serializer)
    }
}

#[derive(Serialize)]
pub(super) struct Span {
    kind: Kind,
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub(super) promise_id: Option<PromiseId>,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempts: Option<u32>,
    pub(super) start_us: u64,
    pub(super) end_us: u64,
    #[serde(flatten)]
    pub(super) end: End,
    pub(super) segments: Vec<Segment>,
    /// The stretch that has not ended yet.
    #[serde(skip)]
    open: Option<(State, u64)>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Execution,
    Invoke,
    Timer,
    Signal,
}

/// How a row ended.
#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "error")]
pub(super) enum End {
    Ok,
    #[serde(serialize_with = "as_name")]
    Err(ErrorKind),
    /// A signal that was no longer waited for (something else came first), or that nobody took.
    Abandoned,
    /// The journal ends before it does.
    Open,
}

#[derive(Serialize, Clone, Copy)]
pub(super) struct Segment {
    pub(super) state: State,
    pub(super) start_us: u64,
    pub(super) end_us: u64,
}

/// What goes on in a stretch of time.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// The guest runs, or an attempt is in flight.
    Running,
    /// The execution asked to cancel cleans up.
    Cancelling,
    /// The execution is blocked; a timer or a signal is awaited.
    Waiting,
    /// A call has been scheduled, and no attempt has started.
    Scheduled,
    /// An attempt has failed and the next has not started.
    Retrying,
    /// A signal has arrived before it was asked for.
    Buffered,
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
        let (open, end) = (Some(first), End::Open);
        Self { kind, promise_id, name, attempts, start_us: at, end_us: at, end, segments, open }
    }

    /// One stretch ends here, and another begins.
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

    /// The state that it is in at the end of the journal; none if it has ended.
    pub(super) fn now(&self) -> Option<State> {
        match self.end {
            End::Open => self.segments.last().map(|segment| segment.state),
            End::Ok | End::Err(_) | End::Abandoned => None,
        }
    }

    /// Its number was not taken: the next child has it, and must not be mistaken for this one.
    pub(super) fn gave_number_back(&self) -> bool {
        self.end == End::Abandoned && self.promise_id.is_some()
    }
}

impl Timeline {
    /// Nothing at all for a journal without a legal event.
    pub(super) fn of(shown: &Shown) -> Self {
        let total_us = shown.total();
        let Some(started) = shown.started() else { return Self { total_us, rows: Vec::new() } };
        let name = started.function_name.to_string();
        let own = Span::new(Kind::Execution, None, name, (State::Running, 0));
        let mut builder =
            Builder { rows: vec![own], open: BTreeMap::new(), delivered: BTreeMap::new() };
        for row in &shown.rows {
            builder.step(row.entry.event(), shown.micros(row));
        }
        builder.finish(total_us);
        Self { total_us, rows: builder.rows }
    }
}

struct Builder {
    rows: Vec<Span>,
    /// The rows that something may still happen to.
    open: BTreeMap<PromiseId, usize>,
    /// The deliveries that nobody has taken yet.
    delivered: BTreeMap<(SignalName, DeliveryId), u64>,
}

impl Builder {
    fn step(&mut self, event: &Event, at: u64) {
        match event {
            Event::ExecutionCompleted { .. } => self.rows[0].finish(End::Ok, at),
            Event::ExecutionFailed { error } => self.rows[0].finish(End::Err(error.kind), at),
            Event::ExecutionCancelled { .. } => {
                self.rows[0].finish(End::Err(ErrorKind::Cancelled), at);
            }
            Event::CancelRequested { .. } => {
                self.rows[0].enter(State::Cancelling, at);
                self.abandon_signals(at);
            }
            Event::ExecutionAwaiting { kind, .. } => {
                self.rows[0].enter(State::Waiting, at);
                if let AwaitKind::Signal { name, promise_id }
                | AwaitKind::SignalOr { name, promise_id } = kind
                {
                    self.begin(Kind::Signal, promise_id, name.to_string(), (State::Waiting, at));
                }
            }
            Event::ExecutionResumed => {
                self.rows[0].enter(State::Running, at);
                self.abandon_signals(at);
            }
            Event::InvokeScheduled { promise_id, function_name, .. } => {
                let first = (State::Scheduled, at);
                self.begin(Kind::Invoke, promise_id, function_name.to_string(), first);
            }
            Event::InvokeStarted { promise_id, attempt } => {
                if let Some(row) = self.row(promise_id) {
                    row.enter(State::Running, at);
                    row.attempts = Some(attempt.get());
                }
            }
            Event::InvokeRetrying { promise_id, .. } => {
                if let Some(row) = self.row(promise_id) {
                    row.enter(State::Retrying, at);
                }
            }
            Event::InvokeCompleted { promise_id, result, .. } => {
                let end = match result {
                    Outcome::Ok(_) => End::Ok,
                    Outcome::Err(failure) => End::Err(failure.kind),
                };
                self.end(promise_id, end, at);
            }
            Event::TimerScheduled { promise_id, duration, .. } => {
                let name = format!("sleep {}", super::text::duration(duration.get()));
                self.begin(Kind::Timer, promise_id, name, (State::Waiting, at));
            }
            Event::TimerFired { promise_id } => self.end(promise_id, End::Ok, at),
            Event::SignalDelivered { signal_name, delivery_id, .. } => {
                self.delivered.insert((signal_name.clone(), *delivery_id), at);
            }
            Event::SignalReceived { promise_id, signal_name, delivery_id, .. } => {
                let delivered = self.delivered.remove(&(signal_name.clone(), *delivery_id));
                if !self.open.contains_key(promise_id) {
                    let first = (State::Buffered, delivered.unwrap_or(at));
                    self.begin(Kind::Signal, promise_id, signal_name.to_string(), first);
                }
                self.end(promise_id, End::Ok, at);
            }
            // The first opened the execution's own row; the others take no time.
            Event::ExecutionStarted(_)
            | Event::RandomGenerated { .. }
            | Event::TimeRecorded { .. }
            | Event::JoinSetCreated { .. }
            | Event::JoinSetSubmitted { .. }
            | Event::JoinSetAwaited { .. } => {}
        }
    }

    /// The journal ends here: signals that nobody took get rows, and what is open stays so.
    fn finish(&mut self, at: u64) {
        let is_over = self.rows[0].end != End::Open;
        for ((name, _), delivered) in std::mem::take(&mut self.delivered) {
            let first = (State::Buffered, delivered);
            let mut row = Span::new(Kind::Signal, None, name.to_string(), first);
            if is_over {
                row.finish(End::Abandoned, at);
            }
            self.rows.push(row);
        }
        for row in self.rows.iter_mut().filter(|row| row.end == End::Open) {
            row.leave(at);
        }
        self.rows[1..].sort_by_key(|row| row.start_us);
    }

    fn begin(&mut self, kind: Kind, promise: &PromiseId, name: String, first: (State, u64)) {
        self.open.insert(promise.clone(), self.rows.len());
        self.rows.push(Span::new(kind, Some(promise.clone()), name, first));
    }

    fn row(&mut self, promise: &PromiseId) -> Option<&mut Span> {
        self.open.get(promise).map(|row| &mut self.rows[*row])
    }

    fn end(&mut self, promise: &PromiseId, end: End, at: u64) {
        if let Some(row) = self.open.remove(promise) {
            self.rows[row].finish(end, at);
        }
    }

    /// The wait is over, and not by the signal: a delivery that comes later is for another await,
    /// which may well have the same child number (C-37).
    fn abandon_signals(&mut self, at: u64) {
        let rows = &mut self.rows;
        self.open.retain(|_, row| {
            let row = &mut rows[*row];
            let abandoned = row.kind == Kind::Signal;
            if abandoned {
                row.finish(End::Abandoned, at);
            }
            !abandoned
        });
    }
}
