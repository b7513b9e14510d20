//! From a journal to spans: one for the execution, and one for each of its steps.
//!
//! Pure: the same records make the same spans, with the same ids. A step is a call, an HTTP effect,
//! a sleep or a wait for a signal; it begins when it was scheduled, and ends when its outcome was
//! there. All attempts at a step are one span, and what was tried before the last is an event of it.

use std::collections::BTreeMap;

use indelible_http::Response;
use indelible_journal::{
    AwaitKind, Codec, Event, Failure, InvokeKind, JournalKey, Outcome, Payload, PromiseId, Record,
    SpanId, Started, Timestamp, TraceContext, TraceId,
};

/// The default for how many steps of one execution have spans. A million spans are of no use to a
/// reader of the trace, and too many for a collector at once.
pub const STEPS_MAX: usize = 1_000;

/// The most events of a span: what is retried for days repeats itself.
pub const EVENTS_MAX: usize = 32;

/// The longest text of an error, in bytes: a message may be as long as a payload.
const MESSAGE_BYTES_MAX: usize = 512;

/// A piece of a trace, with its beginning and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Which trace.
    pub trace_id: TraceId,
    /// Its id.
    pub span_id: SpanId,
    /// The span that it is under.
    pub parent: SpanId,
    /// The flags of the trace.
    pub flags: u8,
    /// What it is called.
    pub name: String,
    /// Whether it is a request to another service.
    pub kind: Kind,
    /// When it began.
    pub start: Timestamp,
    /// When it was over.
    pub end: Timestamp,
    /// What else is known.
    pub attributes: Vec<Attribute>,
    /// What happened in between.
    pub events: Vec<SpanEvent>,
    /// How many more events there were than are listed.
    pub events_dropped: u32,
    /// Whether it went well.
    pub status: Status,
}

/// What a span is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something within.
    Internal,
    /// A request to another service.
    Client,
}

/// A name and a value.
pub type Attribute = (&'static str, Value);

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// Something that happened within a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanEvent {
    /// What.
    pub name: &'static str,
    /// When.
    pub at: Timestamp,
    /// What else is known.
    pub attributes: Vec<Attribute>,
}

/// Whether something went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Nothing went wrong.
    Unset,
    /// This went wrong.
    Error(String),
}

/// Makes spans of a journal, record by record: it keeps no more than the spans.
#[derive(Debug)]
pub struct Fold {
    key: JournalKey,
    steps_max: usize,
    execution: Option<Span>,
    ended: bool,
    steps: Vec<Span>,
    /// The open steps by number, as indexes into `steps`.
    open: BTreeMap<u32, usize>,
    /// The signal that the guest waits for, and since when.
    signal_since: Option<(PromiseId, Timestamp)>,
    steps_dropped: i64,
    last: Timestamp,
}

/// The spans of a whole journal; none if its trace is not sampled, or it has no end.
pub fn spans<'a>(
    key: &JournalKey,
    records: impl IntoIterator<Item = &'a Record>,
    steps_max: usize,
) -> Vec<Span> {
    let mut fold = Fold::new(key.clone(), steps_max);
    for record in records {
        if !fold.add(record) {
            break;
        }
    }
    fold.finish()
}

impl Fold {
    /// Nothing yet of this journal.
    pub fn new(key: JournalKey, steps_max: usize) -> Self {
        Self {
            key,
            steps_max,
            execution: None,
            ended: false,
            steps: Vec::new(),
            open: BTreeMap::new(),
            signal_since: None,
            steps_dropped: 0,
            last: Timestamp::EPOCH,
        }
    }

    /// Adds the next record. False: there will be no spans, because the trace is not sampled.
    pub fn add(&mut self, record: &Record) -> bool {
        let at = record.timestamp;
        self.last = self.last.max(at);
        if let Event::ExecutionStarted(started) = &record.event {
            self.execution = begin(&self.key, started, at);
        }
        let Some(execution) = &mut self.execution else { return false };
        match &record.event {
            Event::ExecutionCompleted { .. } => {
                end(execution, at, "Ok", None);
                self.ended = true;
            }
            Event::ExecutionFailed { error } => {
                fail(execution, at, error);
                self.ended = true;
            }
            Event::ExecutionCancelled { reason } => {
                end(execution, at, "Cancelled", Some(reason));
                self.ended = true;
            }
            Event::CancelRequested { reason } => {
                let attributes = vec![("indelible.reason", text(reason))];
                occurs(execution, "cancel requested", at, attributes);
            }
            Event::SignalDelivered { signal_name, .. } => {
                let attributes = vec![("indelible.signal", text(signal_name.as_str()))];
                occurs(execution, "signal delivered", at, attributes);
            }
            Event::InvokeScheduled { promise_id, kind, function_name, .. } => {
                let label = function_name.as_str();
                // The name of a span is for grouping, and a URL would be a group of its own.
                let method = label.split(' ').next().unwrap_or(label);
                let (name, span_kind) = match kind {
                    InvokeKind::Function => (format!("call {label}"), Kind::Internal),
                    InvokeKind::Http => (method.to_owned(), Kind::Client),
                };
                let mut attributes = vec![("indelible.label", text(label))];
                if *kind == InvokeKind::Http {
                    attributes.push(("http.request.method", text(method)));
                }
                self.step(promise_id, name, span_kind, at, attributes);
            }
            Event::InvokeRetrying { promise_id, failed_attempt, cause, error, .. } => {
                if let Some(step) = self.open_step(promise_id) {
                    let attributes = vec![
                        ("indelible.attempt", Value::Number(failed_attempt.get().into())),
                        ("indelible.cause", text(&format!("{cause:?}"))),
                        ("error.type", text(&error.kind.to_string())),
                        ("exception.message", text(&error.message)),
                    ];
                    occurs(step, "retry", at, attributes);
                }
            }
            Event::InvokeCompleted { promise_id, result, attempt } => {
                if let Some(step) = self.close_step(promise_id) {
                    let attempt = Value::Number(attempt.get().into());
                    step.attributes.push(("indelible.attempt", attempt));
                    match result {
                        Outcome::Ok(payload) => answered(step, at, payload),
                        Outcome::Err(failure) => fail(step, at, failure),
                    }
                }
            }
            Event::TimerScheduled { promise_id, duration, .. } => {
                let micros = i64::try_from(duration.get()).unwrap_or(i64::MAX);
                let attributes = vec![("indelible.sleep_us", Value::Number(micros))];
                self.step(promise_id, "sleep".to_owned(), Kind::Internal, at, attributes);
            }
            Event::TimerFired { promise_id } => {
                if let Some(step) = self.close_step(promise_id) {
                    end(step, at, "Ok", None);
                }
            }
            Event::ExecutionAwaiting { kind, .. } => {
                self.signal_since = match kind {
                    AwaitKind::Signal { promise_id, .. }
                    | AwaitKind::SignalOr { promise_id, .. } => Some((promise_id.clone(), at)),
                    _ => None,
                };
            }
            Event::SignalReceived { promise_id, signal_name, .. } => {
                // Without a wait, the signal had arrived before the guest asked.
                let since = self.signal_since.take().filter(|(waits, _)| waits == promise_id);
                let start = since.map_or(at, |(_, since)| since);
                let attributes = vec![("indelible.signal", text(signal_name.as_str()))];
                let name = format!("signal {signal_name}");
                self.step(promise_id, name, Kind::Internal, start, attributes);
                if let Some(step) = self.close_step(promise_id) {
                    end(step, at, "Ok", None);
                }
            }
            Event::ExecutionStarted(_)
            | Event::InvokeStarted { .. }
            | Event::RandomGenerated { .. }
            | Event::TimeRecorded { .. }
            | Event::ExecutionResumed
            | Event::JoinSetCreated { .. }
            | Event::JoinSetSubmitted { .. }
            | Event::JoinSetAwaited { .. } => {}
        }
        true
    }

    /// The spans, the execution's first; none if it has no end yet.
    pub fn finish(mut self) -> Vec<Span> {
        let Some(mut execution) = self.execution.filter(|_| self.ended) else {
            return Vec::new();
        };
        // What an execution leaves behind at its end has no outcome in its journal.
        for place in self.open.into_values() {
            end(&mut self.steps[place], self.last, "Open", None);
        }
        if self.steps_dropped > 0 {
            let dropped = Value::Number(self.steps_dropped);
            execution.attributes.push(("indelible.steps_without_span", dropped));
        }
        self.steps.insert(0, execution);
        self.steps
    }

    fn step(
        &mut self,
        promise: &PromiseId,
        name: String,
        kind: Kind,
        start: Timestamp,
        mut attributes: Vec<Attribute>,
    ) {
        let (Some(execution), Some(number)) =
            (&self.execution, promise.number_in(self.key.execution_id()))
        else {
            return;
        };
        if self.steps.len() >= self.steps_max {
            self.steps_dropped += 1;
            return;
        }
        attributes.push(("indelible.promise_id", text(&promise.to_string())));
        self.open.insert(number, self.steps.len());
        self.steps.push(Span {
            trace_id: execution.trace_id,
            span_id: SpanId::of_step(promise, self.key.attempts()),
            parent: execution.span_id,
            flags: execution.flags,
            name,
            kind,
            start,
            end: start,
            attributes,
            events: Vec::new(),
            events_dropped: 0,
            status: Status::Unset,
        });
    }

    fn open_step(&mut self, promise: &PromiseId) -> Option<&mut Span> {
        let place = self.open.get(&promise.number_in(self.key.execution_id())?)?;
        self.steps.get_mut(*place)
    }

    fn close_step(&mut self, promise: &PromiseId) -> Option<&mut Span> {
        let place = self.open.remove(&promise.number_in(self.key.execution_id())?)?;
        self.steps.get_mut(place)
    }
}

/// The span of an execution; none if its trace is not sampled.
fn begin(key: &JournalKey, started: &Started, at: Timestamp) -> Option<Span> {
    let context = TraceContext::of(started.trace_parent.as_ref()?)?;
    let attributes = vec![
        ("indelible.promise_id", text(&key.execution_id().to_string())),
        ("indelible.attempt", Value::Number(key.attempts().own().get().into())),
        ("indelible.attempts", text(&key.attempts().to_string())),
        ("indelible.component_digest", text(&started.component_digest.to_string())),
    ];
    context.is_sampled().then(|| Span {
        trace_id: context.trace_id(),
        span_id: SpanId::of_execution(key),
        parent: SpanId::of_call(key).unwrap_or(context.parent()),
        flags: context.flags(),
        name: started.function_name.to_string(),
        kind: Kind::Internal,
        start: at,
        end: at,
        attributes,
        events: Vec::new(),
        events_dropped: 0,
        status: Status::Unset,
    })
}

/// Ends a step that has an outcome. A status of 400 or more is an error in the trace, though not to
/// the function.
fn answered(step: &mut Span, at: Timestamp, payload: &Payload) {
    end(step, at, "Ok", None);
    if payload.codec == Codec::HTTP
        && let Ok(response) = Response::decode(&payload.bytes)
    {
        let status = Value::Number(response.status.into());
        step.attributes.push(("http.response.status_code", status));
        if response.status >= 400 {
            step.attributes.push(("error.type", text(&response.status.to_string())));
            step.status = Status::Error(String::new());
        }
    }
}

fn fail(span: &mut Span, at: Timestamp, failure: &Failure) {
    let kind = failure.kind.to_string();
    end(span, at, &kind, Some(&failure.message));
    span.attributes.push(("error.type", Value::Text(kind)));
}

fn end(span: &mut Span, at: Timestamp, outcome: &str, error: Option<&str>) {
    // A clock that was set back makes no span that ends before it begins.
    span.end = at.max(span.start);
    span.attributes.push(("indelible.outcome", text(outcome)));
    if let Some(error) = error {
        span.status = Status::Error(short(error));
    }
}

fn occurs(span: &mut Span, name: &'static str, at: Timestamp, attributes: Vec<Attribute>) {
    if span.events.len() < EVENTS_MAX {
        span.events.push(SpanEvent { name, at, attributes });
    } else {
        span.events_dropped = span.events_dropped.saturating_add(1);
    }
}

fn text(text: &str) -> Value {
    Value::Text(short(text))
}

fn short(text: &str) -> String {
    text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned()
}
