//! What is shown of an execution: what it is, how it stands, and what it waits for.

use std::collections::BTreeMap;

use indelible_journal::{
    Attempt, AwaitKind, Ending, ExecutionId, FunctionName, InvokeKind, InvokePhase, JoinSetId,
    Journal, Namespace, OperationId, OperationKey, Payload, PromiseId, Started, Status, Timestamp,
    TraceParent,
};
use indelible_records::doubts::{Doubt, DoubtId};
use indelible_records::executions::Execution as Row;

use crate::unresolved_effect::UnresolvedEffect;

/// The most open promises, or promises that are waited for, that a view lists. The rest is counted:
/// an execution may have a million calls open.
pub const WAITS_MAX: usize = 1_000;

/// An execution as it stands: the last attempt at it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// Its row: which attempt, function, component, standing, times, why it is stuck.
    pub execution: Row,
    /// Whether it is in memory alone (see C-39): its row is not stored, and it has no entries to
    /// read.
    pub volatile: bool,
    /// The operation of its tree's root: namespace and operation id. None only if the root is gone.
    pub operation: Option<OperationKey>,
    /// Its caller; for a root, the execution that started it, if it was one.
    pub parent: Option<ExecutionId>,
    /// The trace that it belongs to.
    pub trace_parent: Option<TraceParent>,
    /// Its input.
    pub input: Payload,
    /// How it ended, if it is over.
    pub ending: Option<Ending>,
    /// Set if it is a next attempt that is not due yet (see C-32).
    pub resting: Option<PendingAttempt>,
    /// What it waits for.
    pub waits: Waits,
}

/// An attempt that has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingAttempt {
    /// When it is due. None if too many timers are due before it to look at them all.
    pub until: Option<Timestamp>,
}

/// What an execution waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Waits {
    /// What its guest waits for. None while it runs, and while it is being cancelled: then waits
    /// are not recorded (see C-22).
    pub guest: Option<GuestWait>,
    /// The open calls, effects and timers, whether its guest waits for them or not: at most
    /// [`WAITS_MAX`], in the order in which they began, timers last.
    pub open: Vec<Open>,
    /// How many are open in all.
    pub open_count: usize,
}

/// What a guest waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuestWait {
    /// Since when.
    pub since: Timestamp,
    /// Whether one promise or all have to be resolved, or which signal has to come.
    pub kind: AwaitKind,
    /// The join set whose next result it waits for, or whose rest.
    pub join_set: Option<JoinSetId>,
    /// The promises that it waits for, beside a signal or alone: at most [`WAITS_MAX`]. Empty for a
    /// join set.
    pub promises: Vec<PromiseId>,
    /// How many promises it waits for in all.
    pub promises_count: usize,
}

/// Something that an execution has begun and that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Open {
    /// An HTTP effect.
    Http {
        /// Its promise.
        promise: PromiseId,
        /// Method and address.
        label: FunctionName,
        /// How far it is.
        stage: Stage,
    },
    /// A call of a function.
    Call {
        /// Its promise: the id of its execution.
        promise: PromiseId,
        /// The function.
        function: FunctionName,
        /// How far it is.
        stage: Stage,
    },
    /// A sleep.
    Timer {
        /// Its promise.
        promise: PromiseId,
        /// Since when, by the journal's time.
        since: Timestamp,
        /// When it is over.
        due: Timestamp,
    },
    /// An effect whose outcome is unknown (D5).
    Unresolved(UnresolvedEffect),
}

/// How far a call or an effect is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has not begun.
    Scheduled {
        /// Since when it is wanted.
        since: Timestamp,
    },
    /// An attempt is in flight.
    InFlight {
        /// Which attempt.
        attempt: Attempt,
        /// Since when.
        since: Timestamp,
    },
    /// An attempt is over, and another follows.
    Retrying {
        /// The one that is over.
        failed: Attempt,
        /// When the next is due.
        retry_at: Timestamp,
    },
}

/// What is known of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationView {
    /// It was accepted.
    Known {
        /// Its execution.
        execution_id: ExecutionId,
        /// No outcome is on record: it goes on or, if it is volatile, was lost (see C-39).
        in_progress: bool,
        /// When it was accepted.
        accepted_at: Timestamp,
    },
    /// It was never started, or its id carries no time and its record was purged.
    Unknown,
    /// It has no record, and is older than operations are remembered: whether it was executed
    /// cannot be known (see V-59, C-3).
    Expired,
    /// It has no record, and its id was made further in the future than clocks may differ (see
    /// C-3).
    FromTheFuture,
}

impl View {
    /// What is known of an execution from how it began.
    pub fn new(execution: Row, started: &Started) -> Self {
        Self {
            execution,
            volatile: false,
            operation: started.idempotency_key.clone(),
            parent: started.parent_id.clone(),
            trace_parent: started.trace_parent.clone(),
            input: started.input.clone(),
            ending: None,
            resting: None,
            waits: Waits::default(),
        }
    }

    /// The namespace of its tree's root.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.operation.as_ref().map(|operation| &operation.namespace)
    }

    /// The operation id of its tree's root.
    pub fn operation_id(&self) -> Option<&OperationId> {
        self.operation.as_ref().map(|operation| &operation.operation_id)
    }
}

impl Waits {
    /// What a journal says, with what it does not: since when its guest waits, and the unresolved
    /// effects.
    pub(crate) fn of(
        journal: &Journal,
        since: Option<Timestamp>,
        unresolved: &BTreeMap<u32, Doubt>,
    ) -> Self {
        let mut waits = Self { guest: guest(journal, since), ..Self::default() };
        if journal.ending().is_some() {
            return waits;
        }
        for open in journal.open_invokes() {
            waits.open_count += 1;
            if waits.open.len() == WAITS_MAX {
                continue;
            }
            let promise = open.promise_id;
            let child = promise.number_in(journal.key().execution_id());
            if let Some((child, doubt)) = child.and_then(|n| Some((n, unresolved.get(&n)?))) {
                let id = DoubtId { key: journal.key().clone(), child };
                waits.open.push(Open::Unresolved(UnresolvedEffect::new(&id, doubt)));
                continue;
            }
            let stage = match open.phase {
                InvokePhase::Scheduled => Stage::Scheduled { since: open.scheduled_time },
                InvokePhase::Started { attempt, since } => Stage::InFlight { attempt, since },
                InvokePhase::Retrying { failed, retry_at } => Stage::Retrying { failed, retry_at },
            };
            let name = open.function_name;
            waits.open.push(match open.kind {
                InvokeKind::Http => Open::Http { promise, label: name, stage },
                InvokeKind::Function => Open::Call { promise, function: name, stage },
            });
        }
        for timer in journal.open_timers() {
            waits.open_count += 1;
            if waits.open.len() < WAITS_MAX {
                let (promise, due) = (timer.promise_id, timer.fire_at);
                let since = due.as_micros().saturating_sub(timer.duration.get());
                let since = Timestamp::from_micros(since).unwrap_or(due);
                waits.open.push(Open::Timer { promise, since, due });
            }
        }
        waits
    }
}

fn guest(journal: &Journal, since: Option<Timestamp>) -> Option<GuestWait> {
    let Some(Status::Blocked { waiting_on, kind }) = journal.status() else { return None };
    // The list contains the promise that the signal would take, which is no call.
    let signal = match kind {
        AwaitKind::Signal { promise_id, .. } | AwaitKind::SignalOr { promise_id, .. } => {
            Some(promise_id)
        }
        AwaitKind::Single | AwaitKind::Any | AwaitKind::All => None,
    };
    let taken = signal.is_some_and(|signal| waiting_on.lists(signal));
    let promises = waiting_on.promises().filter(|promise| Some(promise) != signal);
    Some(GuestWait {
        since: since.unwrap_or_else(|| journal.last_timestamp()),
        kind: kind.clone(),
        join_set: waiting_on.join_set(),
        promises: promises.take(WAITS_MAX).collect(),
        promises_count: waiting_on.promises().len() - usize::from(taken),
    })
}
