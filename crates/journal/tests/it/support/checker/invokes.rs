//! Rules about calls and their attempts.

use indelible_journal::{
    Attempt, Durability, ErrorKind, Event, Idempotency, InvokeKind, PromiseId, RetryBound,
    RetryCause, RetryPolicy,
};

use super::Step;

fn last_started(step: &Step<'_>, promise: &PromiseId) -> Option<Attempt> {
    step.before.iter().rev().find_map(|record| match &record.event {
        Event::InvokeStarted { promise_id, attempt } if promise_id == promise => Some(*attempt),
        _ => None,
    })
}

fn last_retried(step: &Step<'_>, promise: &PromiseId) -> Option<Attempt> {
    step.before.iter().rev().find_map(|record| match &record.event {
        Event::InvokeRetrying { promise_id, failed_attempt, .. } if promise_id == promise => {
            Some(*failed_attempt)
        }
        _ => None,
    })
}

/// Whether this attempt of the call is over and another was to follow.
fn retried(step: &Step<'_>, promise: &PromiseId, attempt: Attempt) -> bool {
    step.exists(|event| {
        matches!(event, Event::InvokeRetrying { promise_id, failed_attempt, .. }
            if promise_id == promise && *failed_attempt == attempt)
    })
}

fn completed(step: &Step<'_>, promise: &PromiseId) -> bool {
    step.exists(
        |event| matches!(event, Event::InvokeCompleted { promise_id, .. } if promise_id == promise),
    )
}

/// SE-1: "InvokeStarted(pid) requires preceding InvokeScheduled(pid)."
pub(super) fn se_1(step: &Step<'_>) -> bool {
    let Event::InvokeStarted { promise_id: promise, .. } = step.event() else { return true };
    step.exists(
        |event| matches!(event, Event::InvokeScheduled { promise_id, .. } if promise_id == promise),
    )
}

/// SE-2: "InvokeCompleted(pid) requires preceding InvokeStarted(pid)."
pub(super) fn se_2(step: &Step<'_>) -> bool {
    let Event::InvokeCompleted { promise_id: promise, .. } = step.event() else { return true };
    step.exists(
        |event| matches!(event, Event::InvokeStarted { promise_id, .. } if promise_id == promise),
    )
}

/// SE-3: "InvokeRetrying(pid, attempt) requires preceding InvokeStarted(pid, attempt)."
pub(super) fn se_3(step: &Step<'_>) -> bool {
    let Event::InvokeRetrying { promise_id: promise, failed_attempt, .. } = step.event() else {
        return true;
    };
    step.exists(|event| {
        matches!(event, Event::InvokeStarted { promise_id, attempt }
            if promise_id == promise && attempt == failed_attempt)
    })
}

/// SE-4: "No InvokeStarted/Retrying after InvokeCompleted for same pid."
pub(super) fn se_4(step: &Step<'_>) -> bool {
    match step.event() {
        Event::InvokeStarted { promise_id, .. } | Event::InvokeRetrying { promise_id, .. } => {
            !completed(step, promise_id)
        }
        _ => true,
    }
}

/// SE-5 with C-1 and C-38: "the validator checks count <= n only when bounded"; "only Failed and
/// NotSent count towards the bound."
pub(super) fn se_5(step: &Step<'_>) -> bool {
    let Event::InvokeRetrying { promise_id: promise, .. } = step.event() else { return true };
    let counts = |event: &Event| {
        matches!(
            event,
            Event::InvokeRetrying { promise_id, cause: RetryCause::Failed | RetryCause::NotSent, .. }
                if promise_id == promise
        )
    };
    let count = step.count(counts) + u64::from(counts(step.event()));
    match call(step, promise).map(|(_, policy)| policy.bound) {
        Some(RetryBound::Bounded(bound)) => count <= u64::from(bound),
        Some(RetryBound::Unbounded) | None => true,
    }
}

/// J-41: "completeInvoke: not completed."
pub(super) fn j_41(step: &Step<'_>) -> bool {
    let Event::InvokeCompleted { promise_id, .. } = step.event() else { return true };
    !completed(step, promise_id)
}

/// C-18: "attempts contiguous from 1: Started(n+1) requires Retrying(n); Completed.attempt must
/// equal the last started attempt. Completed(n) not after Retrying(n)." A call that never started
/// is the matter of SE-2 and SE-3.
pub(super) fn c_18(step: &Step<'_>) -> bool {
    match step.event() {
        Event::InvokeStarted { promise_id, attempt } => match last_started(step, promise_id) {
            None => *attempt == Attempt::FIRST,
            Some(last) => {
                retried(step, promise_id, last)
                    && last_retried(step, promise_id).and_then(Attempt::next) == Some(*attempt)
            }
        },
        Event::InvokeCompleted { promise_id, attempt, .. }
        | Event::InvokeRetrying { promise_id, failed_attempt: attempt, .. } => {
            last_started(step, promise_id)
                .is_none_or(|last| *attempt == last && !retried(step, promise_id, *attempt))
        }
        _ => true,
    }
}

/// What a call is, and the policy that it was scheduled with.
fn call<'a>(step: &'a Step<'_>, promise: &PromiseId) -> Option<(InvokeKind, &'a RetryPolicy)> {
    step.before.iter().find_map(|record| match &record.event {
        Event::InvokeScheduled { promise_id, kind, retry_policy, .. } if promise_id == promise => {
            Some((*kind, &**retry_policy))
        }
        _ => None,
    })
}

/// C-28: what a function returned is its outcome, and no failed attempt.
pub(super) fn c_28(step: &Step<'_>) -> bool {
    let Event::InvokeRetrying { promise_id, cause, error, .. } = step.event() else { return true };
    let returned = matches!(error.kind, ErrorKind::UserError | ErrorKind::Cancelled);
    let function = call(step, promise_id).is_some_and(|(kind, _)| kind == InvokeKind::Function);
    !(*cause == RetryCause::Failed && returned && function)
}

/// C-29: "retry only if the callee is idem" when it is unknown what the last attempt did: the
/// engine was lost, a request was sent and not answered in time, or it is said to be Indeterminate.
/// A reconciler's word needs a reconciler (C-38).
pub(super) fn c_29(step: &Step<'_>) -> bool {
    let Event::InvokeRetrying { promise_id, cause, error, .. } = step.event() else { return true };
    let Some((kind, policy)) = call(step, promise_id) else { return true };
    let idem = policy.class.idempotency == Idempotency::Idem;
    match cause {
        RetryCause::EngineLost => idem,
        RetryCause::ReconciledNotDone => policy.reconciler.is_some(),
        RetryCause::Failed => match error.kind {
            ErrorKind::Indeterminate => idem && kind == InvokeKind::Http,
            ErrorKind::Timeout => idem || kind == InvokeKind::Function,
            _ => true,
        },
        RetryCause::NotSent | RetryCause::Operator => true,
    }
}

/// C-41: "A persist function is never unknown: its own journal goes on."
pub(super) fn c_41(step: &Step<'_>) -> bool {
    let Event::InvokeRetrying { promise_id, cause, .. } = step.event() else { return true };
    let unknown = matches!(cause, RetryCause::EngineLost | RetryCause::ReconciledNotDone);
    !unknown
        || !call(step, promise_id).is_some_and(|(kind, policy)| {
            kind == InvokeKind::Function && policy.class.durability == Durability::Persist
        })
}
