//! A slow checker: every rule is one small function, written from the text of its invariant, that
//! looks through the whole prefix. No state is carried from event to event, nothing is indexed,
//! and nothing is shared with the state machine under test: it is here to be believed on sight.

mod invokes;
mod lifecycle;
mod sets;
mod signals;
mod waits;

use std::collections::BTreeSet;

use indelible_journal::{AwaitKind, Event, ExecutionId, JournalKey, PromiseId, Record, Status};

/// One event, and what came before it.
pub(crate) struct Step<'a> {
    key: &'a JournalKey,
    before: &'a [Record],
    record: &'a Record,
}

/// Says whether a step respects one rule.
type Holds = fn(&Step<'_>) -> bool;

/// Every rule, by its id.
const RULES: &[(&str, Holds)] = &[
    ("S-1", lifecycle::s_1),
    ("S-2", lifecycle::s_2),
    ("S-4", lifecycle::s_4),
    ("S-5", lifecycle::s_5),
    ("J-1", lifecycle::j_1),
    ("J-2", lifecycle::j_2),
    ("J-35", lifecycle::j_35),
    ("J-39", lifecycle::j_39),
    ("J-82", lifecycle::j_82),
    ("C-19", lifecycle::c_19),
    ("C-22", lifecycle::c_22),
    ("C-23", lifecycle::c_23),
    ("C-32", lifecycle::c_32),
    ("SE-1", invokes::se_1),
    ("SE-2", invokes::se_2),
    ("SE-3", invokes::se_3),
    ("SE-4", invokes::se_4),
    ("SE-5", invokes::se_5),
    ("J-41", invokes::j_41),
    ("C-18", invokes::c_18),
    ("C-28", invokes::c_28),
    ("C-29", invokes::c_29),
    ("C-41", invokes::c_41),
    ("CF-2", signals::cf_2),
    ("CF-3", signals::cf_3),
    ("J-44", signals::j_44),
    ("J-45", signals::j_45),
    ("J-78", signals::j_78),
    ("C-16", signals::c_16),
    ("CF-1", waits::cf_1),
    ("CF-4", waits::cf_4),
    ("J-46", waits::j_46),
    ("J-47", waits::j_47),
    ("C-26", waits::c_26),
    ("C-37", waits::c_37),
    ("JS-1", sets::js_1),
    ("JS-2", sets::js_2),
    ("JS-3", sets::js_3),
    ("JS-4", sets::js_4),
    ("JS-5", sets::js_5),
    ("JS-7", sets::js_7),
    ("J-49", sets::j_49),
    ("J-50", sets::j_50),
    ("C-20", sets::c_20),
    ("C-21", sets::c_21),
];

/// The ids of all rules that are checked here.
pub(crate) fn rule_ids() -> BTreeSet<&'static str> {
    RULES.iter().map(|(id, _)| *id).collect()
}

/// The first index whose event must not stand there, and every rule that it breaks; none for a
/// legal journal.
pub(crate) fn check(
    key: &JournalKey,
    journal: &[Record],
) -> Option<(usize, BTreeSet<&'static str>)> {
    (0..journal.len()).find_map(|index| {
        let broken = broken(key, &journal[..index], &journal[index]);
        (!broken.is_empty()).then_some((index, broken))
    })
}

/// Every rule that `record` breaks after the legal journal `before`.
pub(crate) fn broken(
    key: &JournalKey,
    before: &[Record],
    record: &Record,
) -> BTreeSet<&'static str> {
    let step = Step { key, before, record };
    RULES.iter().filter(|(_, holds)| !holds(&step)).map(|(id, _)| *id).collect()
}

/// J-32: "Fold: Started->Running, Awaiting->Blocked, Resumed->Running, CancelRequested->Cancelling,
/// Completed/Failed/Cancelled->terminal; all other 13 events leave it." None for an empty journal.
pub(crate) fn status(journal: &[Record]) -> Option<Status> {
    let mut status = None;
    for record in journal {
        match &record.event {
            Event::ExecutionStarted(_) | Event::ExecutionResumed => status = Some(Status::Running),
            Event::ExecutionAwaiting { waiting_on, kind } => {
                let (waiting_on, kind) = (waiting_on.clone(), kind.clone());
                status = Some(Status::Blocked { waiting_on, kind });
            }
            Event::CancelRequested { .. } => status = Some(Status::Cancelling),
            Event::ExecutionCompleted { .. } => status = Some(Status::Completed),
            Event::ExecutionFailed { .. } => status = Some(Status::Failed),
            Event::ExecutionCancelled { .. } => status = Some(Status::Cancelled),
            Event::InvokeScheduled { .. }
            | Event::InvokeStarted { .. }
            | Event::InvokeCompleted { .. }
            | Event::InvokeRetrying { .. }
            | Event::RandomGenerated { .. }
            | Event::TimeRecorded { .. }
            | Event::TimerScheduled { .. }
            | Event::TimerFired { .. }
            | Event::SignalDelivered { .. }
            | Event::SignalReceived { .. }
            | Event::JoinSetCreated { .. }
            | Event::JoinSetSubmitted { .. }
            | Event::JoinSetAwaited { .. } => {}
        }
    }
    status
}

/// The child that an event allocates, if it allocates one: J-39 names the first five, C-15 the
/// join set.
pub(crate) fn allocated(event: &Event) -> Option<&PromiseId> {
    match event {
        Event::InvokeScheduled { promise_id, .. }
        | Event::RandomGenerated { promise_id, .. }
        | Event::TimeRecorded { promise_id, .. }
        | Event::TimerScheduled { promise_id, .. }
        | Event::SignalReceived { promise_id, .. } => Some(promise_id),
        Event::JoinSetCreated { join_set_id } => Some(join_set_id.place()),
        _ => None,
    }
}

/// J-34: "Resolvers are InvokeCompleted, TimerFired, SignalReceived only."
pub(crate) fn resolved(journal: &[Record], promise: &PromiseId) -> bool {
    journal.iter().any(|record| match &record.event {
        Event::InvokeCompleted { promise_id, .. }
        | Event::TimerFired { promise_id }
        | Event::SignalReceived { promise_id, .. } => promise_id == promise,
        _ => false,
    })
}

impl Step<'_> {
    fn execution_id(&self) -> &ExecutionId {
        self.key.execution_id()
    }

    fn event(&self) -> &Event {
        &self.record.event
    }

    /// Whether an earlier event is like this.
    fn exists(&self, like: impl Fn(&Event) -> bool) -> bool {
        self.before.iter().any(|record| like(&record.event))
    }

    /// How many earlier events are like this.
    fn count(&self, like: impl Fn(&Event) -> bool) -> u64 {
        self.before.iter().filter(|record| like(&record.event)).map(|_| 1).sum()
    }

    fn resolved(&self, promise: &PromiseId) -> bool {
        resolved(self.before, promise)
    }

    fn status(&self) -> Option<Status> {
        status(self.before)
    }

    /// Where a guard says Running, read Running or Cancelling (C-22).
    fn runs(&self) -> bool {
        matches!(self.status(), Some(Status::Running | Status::Cancelling))
    }

    /// J-2: the child that the next allocating event takes.
    fn next_child(&self) -> PromiseId {
        let children = self.count(|event| allocated(event).is_some());
        self.execution_id().child(u32::try_from(children).expect("tests have few children"))
    }
}

/// The promise that a kind sets apart from the rest of its wait set.
fn signal_promise(kind: &AwaitKind) -> Option<&PromiseId> {
    match kind {
        AwaitKind::Signal { promise_id, .. } | AwaitKind::SignalOr { promise_id, .. } => {
            Some(promise_id)
        }
        AwaitKind::Single | AwaitKind::Any | AwaitKind::All => None,
    }
}
