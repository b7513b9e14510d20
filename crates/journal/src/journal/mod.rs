//! The state machine: accepts an event or refuses it, and keeps what the next decision needs.
//!
//! [`Journal`] holds no events. It holds what they say about the present: the status, each child
//! with its result, the signals, the join sets. So it decides about the next event in a time that
//! does not depend on how many there were (D1), and a replay finds every result by its number.
//!
//! Checking and applying are apart: `check` only reads, so a refusal leaves no trace; `apply`
//! cannot fail.

mod apply;
mod attempt;
mod check;
mod commands;
mod index;
mod waiting;

pub use attempt::NextAttemptError;
pub use commands::Invoke;
pub use index::{InvokePhase, OpenInvoke, OpenTimer};
pub use waiting::Waiting;

pub(crate) use index::{Child, InputHash, InvokeState, Membership};

use index::{Delivery, LiveWait, Signals};

use crate::event::{Entry, Event, Record, Sequence, Started};
use crate::ids::{ComponentDigest, JournalKey, PromiseId};
use crate::payload::{ErrorKind, Failure, Outcome, Payload};
use crate::status::Status;
use crate::time::Timestamp;
use crate::violation::Violation;

/// One attempt at an execution, as its events so far describe it (J-8, J-86).
///
/// Two journals are equal when no future event, and no replay, could tell them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    key: JournalKey,
    /// How many events there are; also the next one's sequence.
    length: u64,
    /// None only while there are no events.
    status: Option<Status>,
    /// Timestamps never go below this one (C-19).
    last_timestamp: Timestamp,
    /// What it was started with; none only while there are no events.
    started: Option<Box<Started>>,
    /// Every child by its number: the allocated children of J-8, and the replay index of J-72.
    children: Vec<Child>,
    /// Deliveries in the order of their arrival, consumed or not: a next attempt gets them all
    /// (see C-32).
    deliveries: Vec<Delivery>,
    /// The bytes of the payloads that were not consumed.
    unread_bytes: usize,
    /// With `taken`: the submissions to and results of all join sets. A replay that has seen fewer
    /// is behind.
    submitted: u64,
    taken: u64,
    signals: Signals,
    /// Some exactly while the status is Blocked on listed members.
    wait: Option<LiveWait>,
    /// Where the last wait was recorded, if the guest has made no call since: a replay that is not
    /// past it repeats an earlier run.
    awaited_at: Option<Sequence>,
    cancel: Option<Cancel>,
    /// Whether any InvokeStarted was recorded: a retry of this attempt may depend on it (see C-32).
    effect_started: bool,
    ending: Option<Ending>,
}

/// Where and why a cancel was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cancel {
    at: Sequence,
    reason: String,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It returned this.
    Completed(Payload),
    /// It failed with this.
    Failed(Box<Failure>),
    /// It was cancelled for this reason.
    Cancelled(String),
}

impl Ending {
    /// The ending that this event is, if it is terminal.
    pub fn of(event: Event) -> Option<Self> {
        match event {
            Event::ExecutionCompleted { result } => Some(Self::Completed(result)),
            Event::ExecutionFailed { error } => Some(Self::Failed(error)),
            Event::ExecutionCancelled { reason } => Some(Self::Cancelled(reason)),
            _ => None,
        }
    }
}

impl Journal {
    /// A journal without events.
    pub fn new(key: JournalKey) -> Self {
        Self {
            key,
            length: 0,
            status: None,
            last_timestamp: Timestamp::EPOCH,
            started: None,
            children: Vec::new(),
            deliveries: Vec::new(),
            unread_bytes: 0,
            submitted: 0,
            taken: 0,
            signals: Signals::default(),
            wait: None,
            awaited_at: None,
            cancel: None,
            effect_started: false,
            ending: None,
        }
    }

    /// Accepts an event, or refuses it and stays as it was.
    ///
    /// Callers use a command if there is one: it makes ids, attempts and delivery numbers itself.
    pub fn append(&mut self, timestamp: Timestamp, event: Event) -> Result<Entry, Violation> {
        let sequence = Sequence::new(self.length);
        self.append_record(Record { sequence, timestamp, event })
    }

    /// Accepts an event with its place, or refuses it and stays as it was.
    pub fn append_record(&mut self, record: Record) -> Result<Entry, Violation> {
        if let Err(refusal) = self.check(&record) {
            return Err(refusal.at(self.length));
        }
        self.apply(&record);
        Ok(Entry::accepted(record))
    }

    /// Rebuilds a journal from its stored events, checking each as if it were new: every child id
    /// is derived again, and an event that this code could not have written is refused (J-7, J-81).
    pub fn recover(
        key: JournalKey,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Self, Violation> {
        let mut journal = Self::new(key);
        for record in records {
            journal.append_record(record)?;
        }
        Ok(journal)
    }

    /// The key that it is stored under (see C-32).
    pub fn key(&self) -> &JournalKey {
        &self.key
    }

    /// How many events it has: its version (J-6).
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The status; none while it is empty.
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// The timestamp of the last event.
    pub fn last_timestamp(&self) -> Timestamp {
        self.last_timestamp
    }

    /// What it was started with; none while it is empty.
    pub fn started(&self) -> Option<&Started> {
        self.started.as_deref()
    }

    /// The version of the code that it is pinned to (J-5).
    pub fn component_digest(&self) -> Option<&ComponentDigest> {
        self.started().map(|started| &started.component_digest)
    }

    /// The number that the next child gets (J-2).
    pub fn next_child(&self) -> u32 {
        u32::try_from(self.children.len()).expect("check refuses a child past the last number")
    }

    /// The promise that the next child gets.
    pub fn next_promise(&self) -> PromiseId {
        self.key.execution_id().child(self.next_child())
    }

    /// How it ended; none while it goes on.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Where and why a cancel was asked for.
    pub fn cancel_requested(&self) -> Option<(Sequence, &str)> {
        self.cancel.as_ref().map(|cancel| (cancel.at, cancel.reason.as_str()))
    }

    /// Whether any call was ever started. A failed attempt that started none is retried even if its
    /// function is not `idem` (C-32).
    pub fn effect_started(&self) -> bool {
        self.effect_started
    }

    /// The result of a completed call.
    pub fn result(&self, promise: &PromiseId) -> Option<&Outcome> {
        self.invoke(promise)?.result()
    }

    /// The calls that are scheduled and not completed, each with its last attempt, if one was
    /// started. They have to be settled before the end (see C-40), and recovery looks among them
    /// for unknown outcomes (see C-41).
    pub fn open_invokes(&self) -> impl Iterator<Item = OpenInvoke> + '_ {
        self.children.iter().enumerate().filter_map(|(number, child)| {
            let Child::Invoke(invoke) = child else { return None };
            let number = u32::try_from(number).expect("children have u32 numbers");
            invoke.open(self.key.execution_id().child(number))
        })
    }

    /// A call that is scheduled and not completed.
    pub fn open_invoke(&self, promise: &PromiseId) -> Option<OpenInvoke> {
        self.invoke(promise)?.open(promise.clone())
    }

    /// The timers that have not fired.
    pub fn open_timers(&self) -> impl Iterator<Item = OpenTimer> + '_ {
        self.children.iter().enumerate().filter_map(|(number, child)| {
            let Child::Timer(timer) = child else { return None };
            let number = u32::try_from(number).expect("children have u32 numbers");
            timer.fired_at.is_none().then(|| OpenTimer {
                promise_id: self.key.execution_id().child(number),
                duration: timer.duration,
                fire_at: timer.fire_at,
            })
        })
    }

    /// Whether a call ended with an unknown outcome: no next attempt may follow then (C-32).
    pub fn has_indeterminate(&self) -> bool {
        self.children.iter().any(|child| match child {
            Child::Invoke(invoke) => matches!(invoke.result(),
                Some(Outcome::Err(failure)) if failure.kind == ErrorKind::Indeterminate),
            _ => false,
        })
    }

    /// Whether a call ended so after this event.
    pub fn has_indeterminate_since(&self, event: Sequence) -> bool {
        self.children.iter().any(|child| match child {
            Child::Invoke(InvokeState {
                phase: index::Phase::Completed { at, result }, ..
            }) => {
                *at > event
                    && matches!(result,
                        Outcome::Err(failure) if failure.kind == ErrorKind::Indeterminate)
            }
            _ => false,
        })
    }

    /// Whether a promise is a timer that has not fired.
    pub fn is_timer_open(&self, promise: &PromiseId) -> bool {
        matches!(self.child(promise), Some(Child::Timer(timer)) if timer.fired_at.is_none())
    }

    /// When a timer is due that has not fired.
    pub fn timer_fires_at(&self, promise: &PromiseId) -> Option<Timestamp> {
        match self.child(promise) {
            Some(Child::Timer(timer)) if timer.fired_at.is_none() => Some(timer.fire_at),
            _ => None,
        }
    }

    /// When the wait ends, if the execution waits for one timer and nothing else.
    pub fn sleeps_until(&self) -> Option<Timestamp> {
        let Some(Status::Blocked { waiting_on, kind: crate::AwaitKind::Single }) = &self.status
        else {
            return None;
        };
        match self.child(&waiting_on.promises().next()?) {
            Some(Child::Timer(timer)) => Some(timer.fire_at),
            _ => None,
        }
    }

    /// How many signals arrived and were not consumed.
    pub fn unread_signals(&self) -> usize {
        self.deliveries.len() - self.signals.consumed()
    }

    /// How many bytes the payloads of these signals have.
    pub fn unread_signal_bytes(&self) -> usize {
        self.unread_bytes
    }

    pub(crate) fn join_set_totals(&self) -> (u64, u64) {
        (self.submitted, self.taken)
    }

    pub(crate) fn awaited_at(&self) -> Option<Sequence> {
        self.awaited_at
    }

    pub(crate) fn child(&self, promise: &PromiseId) -> Option<&Child> {
        let number = promise.number_in(self.key.execution_id())?;
        self.children.get(number as usize)
    }

    pub(crate) fn child_at(&self, number: u32) -> Option<&Child> {
        self.children.get(number as usize)
    }

    fn invoke(&self, promise: &PromiseId) -> Option<&index::InvokeState> {
        match self.child(promise)? {
            Child::Invoke(invoke) => Some(invoke),
            _ => None,
        }
    }
}
