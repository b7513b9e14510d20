//! Rules about waiting: for what, when, and until when.

use indelible_journal::{AwaitKind, Event, PromiseId, Status, WaitSet};

use super::{Step, signal_promise};

/// CF-1: "TimerFired(pid) requires preceding TimerScheduled(pid)."
pub(super) fn cf_1(step: &Step<'_>) -> bool {
    let Event::TimerFired { promise_id: timer } = step.event() else { return true };
    step.exists(
        |event| matches!(event, Event::TimerScheduled { promise_id, .. } if promise_id == timer),
    )
}

/// CF-4: "AwaitSignal.promise_id must match the single waiting_on promise_id." It governs Signal
/// only (C-37).
pub(super) fn cf_4(step: &Step<'_>) -> bool {
    let Event::ExecutionAwaiting { waiting_on, kind } = step.event() else { return true };
    let AwaitKind::Signal { promise_id, .. } = kind else { return true };
    waiting_on.promises().eq([promise_id.clone()])
}

/// J-46: "awaitExecution: Running." While Cancelling, C-22 forbids it.
pub(super) fn j_46(step: &Step<'_>) -> bool {
    !matches!(step.event(), Event::ExecutionAwaiting { .. })
        || matches!(step.status(), Some(Status::Running | Status::Cancelling))
}

/// What is waited for: the listed promises, or what was submitted to the named join set and not
/// taken from it (J-90).
fn members(step: &Step<'_>, waiting_on: &WaitSet) -> Vec<PromiseId> {
    let Some(set) = waiting_on.join_set() else { return waiting_on.promises().collect() };
    let submitted = step.before.iter().filter_map(|record| match &record.event {
        Event::JoinSetSubmitted { join_set_id, promise_id } if *join_set_id == set => {
            Some(promise_id.clone())
        }
        _ => None,
    });
    let taken = |promise: &PromiseId| {
        step.exists(|event| {
            matches!(event, Event::JoinSetAwaited { join_set_id, promise_id, .. }
                if *join_set_id == set && promise_id == promise)
        })
    };
    submitted.filter(|promise| !taken(promise)).collect()
}

/// J-47: "status Blocked and wait satisfied"; J-33: "Single and All = every waited promise
/// resolved; Any = at least one; Signal = a SignalReceived with its promise_id exists"; C-37: "any
/// one satisfies" SignalOr.
pub(super) fn j_47(step: &Step<'_>) -> bool {
    if !matches!(step.event(), Event::ExecutionResumed) {
        return true;
    }
    let Some(Status::Blocked { waiting_on, kind }) = step.status() else { return false };
    match kind {
        AwaitKind::Single | AwaitKind::All => {
            members(step, &waiting_on).iter().all(|p| step.resolved(p))
        }
        AwaitKind::Any | AwaitKind::SignalOr { .. } => {
            members(step, &waiting_on).iter().any(|p| step.resolved(p))
        }
        AwaitKind::Signal { promise_id: promise, .. } => step.exists(|event| {
            matches!(event, Event::SignalReceived { promise_id, .. } if *promise_id == promise)
        }),
    }
}

/// Whether something that can resolve has taken this child.
fn can_resolve(step: &Step<'_>, promise: &PromiseId) -> bool {
    step.exists(|event| match event {
        Event::InvokeScheduled { promise_id, .. }
        | Event::TimerScheduled { promise_id, .. }
        | Event::SignalReceived { promise_id, .. } => promise_id == promise,
        _ => false,
    })
}

/// C-26: "reject awaits on promises that can never resolve. Only promises with InvokeScheduled can
/// be submitted to a join set."
pub(super) fn c_26(step: &Step<'_>) -> bool {
    match step.event() {
        Event::ExecutionAwaiting { waiting_on, kind } => {
            let own = waiting_on.execution_id() == step.execution_id();
            let members = members(step, waiting_on);
            let others_can_resolve = members
                .iter()
                .filter(|member| Some(*member) != signal_promise(kind))
                .all(|member| can_resolve(step, member));
            let enough = match kind {
                AwaitKind::Single => waiting_on.promises().count() == 1,
                AwaitKind::Any | AwaitKind::All => !members.is_empty(),
                AwaitKind::Signal { promise_id, .. } => *promise_id == step.next_child(),
                AwaitKind::SignalOr { .. } => true, // C-37
            };
            own && others_can_resolve && enough
        }
        Event::JoinSetSubmitted { promise_id: promise, .. } => step.exists(|event| {
            matches!(event, Event::InvokeScheduled { promise_id, .. } if promise_id == promise)
        }),
        _ => true,
    }
}

/// C-37: "waiting_on is that next, unallocated child plus allocated promises."
pub(super) fn c_37(step: &Step<'_>) -> bool {
    let Event::ExecutionAwaiting { waiting_on, kind } = step.event() else { return true };
    let AwaitKind::SignalOr { promise_id, .. } = kind else { return true };
    waiting_on.lists(promise_id)
        && *promise_id == step.next_child()
        && waiting_on.promises().any(|member| member != *promise_id)
}
