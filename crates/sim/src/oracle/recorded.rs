//! What was free to vary in an attempt, read from its journal into the interpreter's terms. It must
//! have varied within the rules: timers do not fire early, signals are read in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use indelible_http::{Request, Response};
use indelible_journal::{
    Codec, Ending, ErrorKind, Event, InvokeKind, JournalKey, Outcome as JournalOutcome, Payload,
    PromiseId, Record, RetryPolicy, Timestamp,
};
use serde_json::{Value, json};

use super::interpret::{Failure, Outcome};

/// Something that a program asked for.
#[derive(Debug)]
pub(super) enum Child {
    Call {
        function: String,
        input: Value,
        scheduled_at: u64,
        started: bool,
        /// Where in the journal it completed, and how.
        completed: Option<(u64, Outcome)>,
    },
    Http {
        method: String,
        url: String,
        policy: Arc<RetryPolicy>,
        started: bool,
        /// Where in the journal it completed, and how.
        completed: Option<(u64, Outcome)>,
    },
    Timer {
        millis: u64,
        fired_at: Option<u64>,
    },
    Set,
    Random(Vec<u8>),
    Time(u64),
    Signal {
        name: String,
        value: Value,
        at: u64,
    },
}

/// What the journal records of an attempt. Places in it are sequence numbers.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) function: String,
    pub(super) input: Value,
    pub(super) children: Vec<Child>,
    /// For each join set, the children that were submitted, in order.
    pub(super) submitted: BTreeMap<u32, Vec<u32>>,
    pub(super) taken: BTreeMap<u32, Vec<u32>>,
    /// Where a cancel was asked for, when, and why.
    pub(super) cancel: Option<(u64, Timestamp, String)>,
    /// Names and values of the signals that were delivered.
    pub(super) delivered: Vec<(String, Value)>,
    pub(super) ending: Ending,
    pub(super) ended_at: Timestamp,
    /// Whether the journal holds no event that needs a running guest.
    pub(super) never_ran: bool,
}

/// A payload as the guest and the interpreter see it: JSON as it is, an HTTP answer as its status,
/// anything else as null.
pub(super) fn value(payload: &Payload) -> Value {
    if payload.codec == Codec::HTTP
        && let Ok(answer) = Response::decode(&payload.bytes)
    {
        return json!({ "status": answer.status });
    }
    serde_json::from_slice(&payload.bytes).unwrap_or(Value::Null)
}

/// A kind of failure by its name.
pub(super) fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::UserError => "UserError",
        ErrorKind::Transient => "Transient",
        ErrorKind::Trap => "Trap",
        ErrorKind::Timeout => "Timeout",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Nondeterminism => "Nondeterminism",
        ErrorKind::Indeterminate => "Indeterminate",
        ErrorKind::NotPerformed => "NotPerformed",
        ErrorKind::Uncategorized => "Uncategorized",
    }
}

pub(super) fn failure(failure: &indelible_journal::Failure) -> Failure {
    Failure { kind: kind(failure.kind), message: failure.message.clone() }
}

fn outcome(outcome: &JournalOutcome) -> Outcome {
    match outcome {
        JournalOutcome::Ok(payload) => Ok(value(payload)),
        JournalOutcome::Err(error) => Err(failure(error)),
    }
}

fn number(promise: &PromiseId) -> u32 {
    promise.path().last().copied().unwrap_or_default()
}

impl Recorded {
    /// Reads a journal that has passed every rule and is over. `by_the_clock`: the clock was never
    /// set back, so no event may be stamped before it was due.
    pub(super) fn read(
        key: &JournalKey,
        records: &[Record],
        by_the_clock: bool,
    ) -> Result<Self, String> {
        let Some(Event::ExecutionStarted(started)) = records.first().map(|record| &record.event)
        else {
            return Err(format!("{key:#} does not begin"));
        };
        let last = records.last().expect("it has a first");
        let ending = match &last.event {
            Event::ExecutionCompleted { result } => Ending::Completed(result.clone()),
            Event::ExecutionFailed { error } => Ending::Failed(error.clone()),
            Event::ExecutionCancelled { reason } => Ending::Cancelled(reason.clone()),
            _ => return Err(format!("{key:#} does not end")),
        };
        let mut recorded = Self {
            function: started.function_name.to_string(),
            input: value(&started.input),
            children: Vec::new(),
            submitted: BTreeMap::new(),
            taken: BTreeMap::new(),
            cancel: None,
            delivered: Vec::new(),
            ending,
            ended_at: last.timestamp,
            never_ran: true,
        };
        let mut times = Times { by_the_clock, ..Times::default() };
        for (place, record) in records.iter().enumerate() {
            let next = records.get(place + 1).map(|record| &record.event);
            times.check(record, next).map_err(|wrong| format!("{key:#}: {wrong}"))?;
            recorded.take(record).map_err(|wrong| format!("{key:#}: {wrong}"))?;
        }
        Ok(recorded)
    }

    fn take(&mut self, record: &Record) -> Result<(), String> {
        let at = record.sequence.get();
        match &record.event {
            Event::ExecutionStarted(_)
            | Event::ExecutionCompleted { .. }
            | Event::ExecutionFailed { .. }
            | Event::ExecutionCancelled { .. } => {}
            Event::CancelRequested { reason } => {
                self.cancel = Some((at, record.timestamp, reason.clone()));
            }
            Event::SignalDelivered { signal_name, payload, .. } => {
                self.delivered.push((signal_name.to_string(), value(payload)));
            }
            other => {
                self.never_ran = false;
                self.guest(other, at)?;
            }
        }
        Ok(())
    }

    /// Takes an event that needs a running guest.
    fn guest(&mut self, event: &Event, at: u64) -> Result<(), String> {
        match event {
            Event::InvokeScheduled { kind: InvokeKind::Http, input, retry_policy, .. } => {
                let request = Request::decode(&input.bytes).map_err(|error| error.to_string())?;
                let Request { method, url, .. } = request;
                let policy = Arc::clone(retry_policy);
                let (started, completed) = (false, None);
                self.children.push(Child::Http { method, url, policy, started, completed });
            }
            Event::InvokeScheduled { function_name, input, .. } => {
                self.children.push(Child::Call {
                    function: function_name.to_string(),
                    input: value(input),
                    scheduled_at: at,
                    started: false,
                    completed: None,
                });
            }
            Event::InvokeStarted { promise_id, .. } => {
                if let Some(Child::Call { started, .. } | Child::Http { started, .. }) =
                    self.child(promise_id)
                {
                    *started = true;
                }
            }
            Event::InvokeCompleted { promise_id, result, .. } => {
                let result = outcome(result);
                if let Some(Child::Call { completed, .. } | Child::Http { completed, .. }) =
                    self.child(promise_id)
                {
                    *completed = Some((at, result));
                }
            }
            Event::TimerScheduled { duration, .. } => {
                let millis = duration.get() / 1_000;
                self.children.push(Child::Timer { millis, fired_at: None });
            }
            Event::TimerFired { promise_id } => {
                if let Some(Child::Timer { fired_at, .. }) = self.child(promise_id) {
                    *fired_at = Some(at);
                }
            }
            Event::RandomGenerated { value, .. } => {
                self.children.push(Child::Random(value.to_vec()));
            }
            Event::TimeRecorded { time, .. } => self.children.push(Child::Time(time.as_micros())),
            Event::SignalReceived { signal_name, payload, .. } => {
                let (name, value) = (signal_name.to_string(), value(payload));
                self.received(&name, &value)?;
                self.children.push(Child::Signal { name, value, at });
            }
            Event::JoinSetCreated { .. } => self.children.push(Child::Set),
            Event::JoinSetSubmitted { join_set_id, promise_id } => {
                let set = number(join_set_id.place());
                self.submitted.entry(set).or_default().push(number(promise_id));
            }
            Event::JoinSetAwaited { join_set_id, promise_id, .. } => {
                let set = number(join_set_id.place());
                self.taken.entry(set).or_default().push(number(promise_id));
            }
            _ => {}
        }
        Ok(())
    }

    fn child(&mut self, promise: &PromiseId) -> Option<&mut Child> {
        self.children.get_mut(number(promise) as usize)
    }

    /// The n-th signal read of a name is the n-th that was delivered.
    fn received(&self, name: &str, value: &Value) -> Result<(), String> {
        let read = self
            .children
            .iter()
            .filter(|child| matches!(child, Child::Signal { name: other, .. } if other == name));
        let mut came = self.delivered.iter().filter(|(other, _)| other == name);
        let next = came.nth(read.count()).map(|(_, value)| value);
        ensure!(next == Some(value), "it read {value} of {name}, but {next:?} was next");
        Ok(())
    }

    /// Where a call, effect or timer ended.
    pub(super) fn resolved_at(&self, number: u32) -> Option<u64> {
        match self.children.get(number as usize)? {
            Child::Call { completed, .. } | Child::Http { completed, .. } => {
                completed.as_ref().map(|(at, _)| *at)
            }
            Child::Timer { fired_at, .. } => *fired_at,
            _ => None,
        }
    }

    /// Whether a call or effect of it ended as Indeterminate.
    pub(super) fn is_unknown(&self) -> bool {
        self.is_unknown_since(0)
    }

    /// Whether one ended as Indeterminate after a cancel was asked for.
    pub(super) fn is_unknown_since_cancel(&self) -> bool {
        self.cancel.as_ref().is_some_and(|(at, ..)| self.is_unknown_since(*at))
    }

    fn is_unknown_since(&self, from: u64) -> bool {
        self.children.iter().any(|child| match child {
            Child::Call { completed: Some((at, Err(failure))), .. }
            | Child::Http { completed: Some((at, Err(failure))), .. } => {
                *at > from && failure.kind == "Indeterminate"
            }
            _ => false,
        })
    }

    /// Whether an attempt had begun something outside itself (C-32).
    pub(super) fn effect_started(&self) -> bool {
        self.children.iter().any(|child| {
            matches!(child, Child::Call { started: true, .. } | Child::Http { started: true, .. })
        })
    }
}

/// When things may happen at the earliest.
#[derive(Default)]
struct Times {
    by_the_clock: bool,
    last: Timestamp,
    due: BTreeMap<u32, Timestamp>,
}

impl Times {
    /// Time does not go back, and nothing happens before it is due.
    fn check(&mut self, record: &Record, next: Option<&Event>) -> Result<(), String> {
        let now = record.timestamp;
        ensure!(now >= self.last, "time goes back at {}", record.sequence);
        self.last = now;
        match &record.event {
            Event::TimerScheduled { promise_id, duration, .. } => {
                self.due.insert(number(promise_id), now.saturating_add(*duration));
            }
            Event::InvokeRetrying { promise_id, retry_at, .. } => {
                self.due.insert(number(promise_id), *retry_at);
            }
            Event::TimerFired { promise_id } | Event::InvokeStarted { promise_id, .. } => {
                // A call that is cancelled before its next attempt is written as started and
                // completed at once.
                let over = matches!(next, Some(Event::InvokeCompleted { promise_id: other, .. })
                    if other == promise_id);
                let due = self.due.remove(&number(promise_id));
                let early = due.is_some_and(|due| now < due);
                let legal = !early || over || !self.by_the_clock;
                ensure!(legal, "{promise_id:#} was early at {}", record.sequence);
            }
            _ => {}
        }
        Ok(())
    }
}
