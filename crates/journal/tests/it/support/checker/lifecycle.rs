//! Rules about the journal as a whole: its order, its start and end, its time, its children.

use indelible_journal::{Event, InvokeKind, RootHash, Status};

use super::{Step, allocated};

/// S-1: "entry i has sequence i."
pub(super) fn s_1(step: &Step<'_>) -> bool {
    usize::try_from(step.record.sequence.get()) == Ok(step.before.len())
}

/// S-2: "First event is always ExecutionStarted."
pub(super) fn s_2(step: &Step<'_>) -> bool {
    !step.before.is_empty() || matches!(step.event(), Event::ExecutionStarted(_))
}

/// S-4: "Terminal event is the final event." It implies S-3.
pub(super) fn s_4(step: &Step<'_>) -> bool {
    !step.exists(|event| {
        matches!(
            event,
            Event::ExecutionCompleted { .. }
                | Event::ExecutionFailed { .. }
                | Event::ExecutionCancelled { .. }
        )
    })
}

/// S-5: "ExecutionCancelled requires preceding CancelRequested." With C-22 the status is then
/// Cancelling (J-38).
pub(super) fn s_5(step: &Step<'_>) -> bool {
    !matches!(step.event(), Event::ExecutionCancelled { .. })
        || step.exists(|event| matches!(event, Event::CancelRequested { .. }))
}

/// J-35: "journal = [Started@0]": an execution starts once, at index 0.
pub(super) fn j_35(step: &Step<'_>) -> bool {
    !matches!(step.event(), Event::ExecutionStarted(_)) || step.before.is_empty()
}

/// J-1: "root = hash(component_digest, parent, idempotency_key)."
pub(super) fn j_1(step: &Step<'_>) -> bool {
    let Event::ExecutionStarted(started) = step.event() else { return true };
    if !step.execution_id().path().is_empty() {
        return true;
    }
    started.idempotency_key.as_ref().is_some_and(|key| {
        let parent = started.parent_id.as_ref();
        *step.execution_id().root() == RootHash::derive(&started.component_digest, parent, key)
    })
}

/// C-32: "journals are keyed (ExecutionId, attempts)"; "parent_id = the caller's ExecutionId";
/// C-38: the key and the retry policy are "for a root".
pub(super) fn c_32(step: &Step<'_>) -> bool {
    let Event::ExecutionStarted(started) = step.event() else { return true };
    let is_root = step.execution_id().path().is_empty();
    let is_child = started.parent_id == step.execution_id().parent()
        && started.idempotency_key.is_none()
        && started.retry_policy.is_none();
    started.attempts == *step.key.attempts() && (is_root || is_child)
}

/// J-2: "every SDK call at a depth takes the next counter value."
pub(super) fn j_2(step: &Step<'_>) -> bool {
    allocated(step.event()).is_none_or(|promise| *promise == step.next_child())
}

/// J-82: "child counter u32 with checked overflow."
pub(super) fn j_82(step: &Step<'_>) -> bool {
    let too_deep = matches!(step.event(),
        Event::InvokeScheduled { promise_id, kind: InvokeKind::Function, .. }
            if promise_id.depth() == 64);
    let room = allocated(step.event()).is_none()
        || step.count(|event| allocated(event).is_some()) < u64::from(u32::MAX);
    room && !too_deep
}

/// J-39: "status Running; allocate child"; C-22: or Cancelling. SignalReceived has C-16 instead.
pub(super) fn j_39(step: &Step<'_>) -> bool {
    let allocates = matches!(
        step.event(),
        Event::InvokeScheduled { .. }
            | Event::RandomGenerated { .. }
            | Event::TimeRecorded { .. }
            | Event::TimerScheduled { .. }
            | Event::JoinSetCreated { .. }
    );
    !allocates || step.runs()
}

/// C-19: "Timestamps in a journal never decrease"; "fire once, not before fire_at"; J-51: "time =
/// clock; fire_at = clock+duration."
pub(super) fn c_19(step: &Step<'_>) -> bool {
    let now = step.record.timestamp;
    let monotone = step.before.iter().all(|record| record.timestamp <= now);
    let own = match step.event() {
        Event::TimeRecorded { time, .. } => *time == now,
        Event::TimerScheduled { duration, fire_at, .. } => {
            *fire_at == now.saturating_add(*duration)
        }
        Event::TimerFired { promise_id } => {
            let early = step.exists(|event| {
                matches!(event, Event::TimerScheduled { promise_id: timer, fire_at, .. }
                    if timer == promise_id && now < *fire_at)
            });
            let again = step.exists(|event| {
                matches!(event, Event::TimerFired { promise_id: timer } if timer == promise_id)
            });
            !early && !again
        }
        _ => true,
    };
    monotone && own
}

/// C-22: "after CancelRequested the status stays Cancelling until a terminal event; no Awaiting or
/// Resumed is written"; "A second CancelRequested is not written."
pub(super) fn c_22(step: &Step<'_>) -> bool {
    let leaves = matches!(
        step.event(),
        Event::ExecutionAwaiting { .. } | Event::ExecutionResumed | Event::CancelRequested { .. }
    );
    !(leaves && step.status() == Some(Status::Cancelling))
}

/// C-23: "Completed only from Running|Cancelling; Failed also from Blocked."
pub(super) fn c_23(step: &Step<'_>) -> bool {
    !(matches!(step.event(), Event::ExecutionCompleted { .. })
        && matches!(step.status(), Some(Status::Blocked { .. })))
}
