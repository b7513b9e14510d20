//! The 20 events (J-9 to J-30, with C-37 and C-38) and the entry that holds one.
//!
//! This is the vocabulary. [`crate::Journal`] decides what may follow what; [`crate::binary`] and
//! [`crate::json`] define how an event is written.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{Attempt, Attempts, ComponentDigest, ExecutionId, JoinSetId, PromiseId};
use crate::names::{DeliveryId, FunctionName, OperationKey, SignalName, TraceParent};
use crate::payload::{Failure, Outcome, Payload};
use crate::policy::{RetryCause, RetryPolicy};
use crate::time::{Micros, Timestamp};
use crate::wait::{AwaitKind, WaitSet};

/// One thing that happened to an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    // Lifecycle: an execution starts and ends properly.
    /// J-9: always the first.
    ExecutionStarted(Box<Started>),
    /// J-10: the function returned.
    ExecutionCompleted {
        /// What it returned.
        result: Payload,
    },
    /// J-11: the function returned an error or trapped, or the runtime ended it.
    ExecutionFailed {
        /// What went wrong.
        error: Box<Failure>,
    },
    /// J-12: a cancel was requested; cleaning up is allowed from here on (see J-80).
    CancelRequested {
        /// Why, for people.
        reason: String,
    },
    /// J-13: the cancellation is final.
    ExecutionCancelled {
        /// Why, for people.
        reason: String,
    },

    // Side effects: what was done outside is not done again.
    /// J-14: the durable intent to do something.
    InvokeScheduled {
        /// The call's promise: the next child.
        promise_id: PromiseId,
        /// Whether it is a function or an effect; later events of this promise inherit it.
        kind: InvokeKind,
        /// The function, or the label of an HTTP effect.
        function_name: FunctionName,
        /// Its argument, or the HTTP request.
        input: Payload,
        /// What may be done if it fails (C-38).
        retry_policy: Arc<RetryPolicy>,
    },
    /// J-15: an attempt is in flight.
    InvokeStarted {
        /// The call's promise.
        promise_id: PromiseId,
        /// Which attempt.
        attempt: Attempt,
    },
    /// J-16: the call is over; replay returns this result.
    InvokeCompleted {
        /// The call's promise.
        promise_id: PromiseId,
        /// How it ended.
        result: Outcome,
        /// The attempt that ended it.
        attempt: Attempt,
    },
    /// J-17: an attempt is over and another follows.
    InvokeRetrying {
        /// The call's promise.
        promise_id: PromiseId,
        /// The attempt that is over.
        failed_attempt: Attempt,
        /// Why another follows (C-38).
        cause: RetryCause,
        /// What went wrong.
        error: Box<Failure>,
        /// When the next attempt is due.
        retry_at: Timestamp,
    },

    // Nondeterminism: captured once, replayed verbatim.
    /// J-18: random bytes.
    RandomGenerated {
        /// The next child.
        promise_id: PromiseId,
        /// The bytes.
        value: Bytes,
    },
    /// J-19: the time.
    TimeRecorded {
        /// The next child.
        promise_id: PromiseId,
        /// The time: this entry's own timestamp, so that it never goes back (C-19).
        time: Timestamp,
    },

    // Control flow: the same path on replay.
    /// J-20: a sleep began.
    TimerScheduled {
        /// The timer's promise: the next child.
        promise_id: PromiseId,
        /// How long the sleep takes.
        duration: Micros,
        /// When it is over.
        fire_at: Timestamp,
    },
    /// J-21: a sleep is over.
    TimerFired {
        /// The timer's promise.
        promise_id: PromiseId,
    },
    /// J-22: a signal arrived and is buffered. It comes from outside the tree, so it has no
    /// promise.
    SignalDelivered {
        /// The name that it was sent to.
        signal_name: SignalName,
        /// What it carries.
        payload: Payload,
        /// Its number among the deliveries of that name.
        delivery_id: DeliveryId,
    },
    /// J-23: the workflow consumed a signal.
    SignalReceived {
        /// The await's promise: the next child.
        promise_id: PromiseId,
        /// The name of the signal.
        signal_name: SignalName,
        /// What it carried.
        payload: Payload,
        /// Its number among the deliveries of that name.
        delivery_id: DeliveryId,
    },
    /// J-24: the workflow waits.
    ExecutionAwaiting {
        /// The promises that it waits for.
        waiting_on: WaitSet,
        /// How many of them have to be resolved, or which signal has to come.
        kind: AwaitKind,
    },
    /// J-25: the wait is satisfied.
    ExecutionResumed,

    // Concurrency: results in the same order on replay.
    /// J-26: a join set was created.
    JoinSetCreated {
        /// The set: the next child.
        join_set_id: JoinSetId,
    },
    /// J-27: a call was put into a set.
    JoinSetSubmitted {
        /// The set.
        join_set_id: JoinSetId,
        /// The call's promise.
        promise_id: PromiseId,
    },
    /// J-28: a result was taken out of a set. It marks the order for replay and changes no
    /// status.
    JoinSetAwaited {
        /// The set.
        join_set_id: JoinSetId,
        /// The call's promise.
        promise_id: PromiseId,
        /// The call's result, as completed (C-20).
        result: Outcome,
    },
}

/// What an execution is started with (J-9, C-38).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The version of the code, fixed for its life.
    pub component_digest: ComponentDigest,
    /// Its function in the component.
    pub function_name: FunctionName,
    /// Its argument.
    pub input: Payload,
    /// The caller; for a root, the execution that started it, if it was one.
    pub parent_id: Option<ExecutionId>,
    /// For a root: the operation that its hash is made from (see C-31).
    pub idempotency_key: Option<OperationKey>,
    /// The attempt at this execution, and at each of its callers (see C-32).
    pub attempts: Attempts,
    /// What the guest may use.
    pub limits: Limits,
    /// For a root; the policy of a child is in its caller's journal.
    pub retry_policy: Option<Arc<RetryPolicy>>,
    /// The trace that its starter gave. No decision depends on it; it is stored so that an
    /// execution stays in its trace when it goes on after a crash.
    pub trace_parent: Option<TraceParent>,
}

/// Limits that a guest can notice, pinned so that replay cannot take another path (D6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Linear memory, in bytes.
    pub memory_bytes_max: u64,
    /// The stack, in bytes.
    pub stack_bytes_max: u64,
    /// Elements in all tables.
    pub table_elements_max: u64,
}

/// What is invoked (J-29). A new kind of effect is a new variant here, not a new event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InvokeKind {
    /// A function of a component: tasks and workflows are the same (J-94).
    Function,
    /// A request to the outside world.
    Http,
}

/// The five categories; each serves one property (J-30, J-89).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Soundness: proper start and end.
    Lifecycle,
    /// Replay correctness: what was done outside is not done again.
    SideEffects,
    /// Determinism: the same entropy.
    Nondeterminism,
    /// State reconstruction: the same path.
    ControlFlow,
    /// Total order: the same order of results.
    Concurrency,
}

impl Event {
    /// The event's name, as the specification has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ExecutionStarted(_) => "ExecutionStarted",
            Self::ExecutionCompleted { .. } => "ExecutionCompleted",
            Self::ExecutionFailed { .. } => "ExecutionFailed",
            Self::CancelRequested { .. } => "CancelRequested",
            Self::ExecutionCancelled { .. } => "ExecutionCancelled",
            Self::InvokeScheduled { .. } => "InvokeScheduled",
            Self::InvokeStarted { .. } => "InvokeStarted",
            Self::InvokeCompleted { .. } => "InvokeCompleted",
            Self::InvokeRetrying { .. } => "InvokeRetrying",
            Self::RandomGenerated { .. } => "RandomGenerated",
            Self::TimeRecorded { .. } => "TimeRecorded",
            Self::TimerScheduled { .. } => "TimerScheduled",
            Self::TimerFired { .. } => "TimerFired",
            Self::SignalDelivered { .. } => "SignalDelivered",
            Self::SignalReceived { .. } => "SignalReceived",
            Self::ExecutionAwaiting { .. } => "ExecutionAwaiting",
            Self::ExecutionResumed => "ExecutionResumed",
            Self::JoinSetCreated { .. } => "JoinSetCreated",
            Self::JoinSetSubmitted { .. } => "JoinSetSubmitted",
            Self::JoinSetAwaited { .. } => "JoinSetAwaited",
        }
    }

    /// The event's category (J-30).
    pub fn category(&self) -> Category {
        match self {
            Self::ExecutionStarted(_)
            | Self::ExecutionCompleted { .. }
            | Self::ExecutionFailed { .. }
            | Self::CancelRequested { .. }
            | Self::ExecutionCancelled { .. } => Category::Lifecycle,
            Self::InvokeScheduled { .. }
            | Self::InvokeStarted { .. }
            | Self::InvokeCompleted { .. }
            | Self::InvokeRetrying { .. } => Category::SideEffects,
            Self::RandomGenerated { .. } | Self::TimeRecorded { .. } => Category::Nondeterminism,
            Self::TimerScheduled { .. }
            | Self::TimerFired { .. }
            | Self::SignalDelivered { .. }
            | Self::SignalReceived { .. }
            | Self::ExecutionAwaiting { .. }
            | Self::ExecutionResumed => Category::ControlFlow,
            Self::JoinSetCreated { .. }
            | Self::JoinSetSubmitted { .. }
            | Self::JoinSetAwaited { .. } => Category::Concurrency,
        }
    }

    /// Whether no event may follow (S-4).
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::ExecutionCompleted { .. }
                | Self::ExecutionFailed { .. }
                | Self::ExecutionCancelled { .. }
        )
    }
}

/// An event's place in its journal, from 0 (J-6, C-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(u64);

impl Sequence {
    /// The first place.
    pub const ZERO: Self = Self(0);

    /// Place `number`.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The place, from 0.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// An event as it was read, not yet checked to belong at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place, as stored.
    pub sequence: Sequence,
    /// When it was written.
    pub timestamp: Timestamp,
    /// What happened.
    pub event: Event,
}

/// An event that a journal accepted. Only [`crate::Journal`] makes one, so everything that is
/// written to storage has passed every rule (D1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry(Record);

impl Entry {
    pub(crate) fn accepted(record: Record) -> Self {
        Self(record)
    }

    /// Its place in the journal.
    pub fn sequence(&self) -> Sequence {
        self.0.sequence
    }

    /// When it was written.
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp
    }

    /// What happened.
    pub fn event(&self) -> &Event {
        &self.0.event
    }

    /// The record, without the proof that it was accepted.
    pub fn as_record(&self) -> &Record {
        &self.0
    }

    /// The record, without the proof that it was accepted.
    pub fn into_record(self) -> Record {
        self.0
    }
}
