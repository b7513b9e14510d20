//! Rules about join sets.

use indelible_journal::{Event, JoinSetId, PromiseId};

use super::Step;

/// Whether the call was put into this set.
fn submitted(step: &Step<'_>, set: &JoinSetId, promise: &PromiseId) -> bool {
    step.exists(|event| {
        matches!(event, Event::JoinSetSubmitted { join_set_id, promise_id }
            if join_set_id == set && promise_id == promise)
    })
}

/// JS-1: "JoinSetSubmitted(js) requires preceding JoinSetCreated(js)."
pub(super) fn js_1(step: &Step<'_>) -> bool {
    let Event::JoinSetSubmitted { join_set_id: set, .. } = step.event() else { return true };
    step.exists(
        |event| matches!(event, Event::JoinSetCreated { join_set_id } if join_set_id == set),
    )
}

/// JS-2: "No JoinSetSubmitted(js) after any JoinSetAwaited(js)."
pub(super) fn js_2(step: &Step<'_>) -> bool {
    let Event::JoinSetSubmitted { join_set_id: set, .. } = step.event() else { return true };
    !step.exists(
        |event| matches!(event, Event::JoinSetAwaited { join_set_id, .. } if join_set_id == set),
    )
}

/// JS-3: "JoinSetAwaited(js, pid) requires preceding JoinSetSubmitted(js, pid)."
pub(super) fn js_3(step: &Step<'_>) -> bool {
    let Event::JoinSetAwaited { join_set_id, promise_id, .. } = step.event() else { return true };
    submitted(step, join_set_id, promise_id)
}

/// JS-4: "JoinSetAwaited(_, pid) requires preceding InvokeCompleted(pid)."
pub(super) fn js_4(step: &Step<'_>) -> bool {
    let Event::JoinSetAwaited { promise_id: promise, .. } = step.event() else { return true };
    step.exists(
        |event| matches!(event, Event::InvokeCompleted { promise_id, .. } if promise_id == promise),
    )
}

/// JS-5: "No two JoinSetAwaited for same (js_id, pid) pair."
pub(super) fn js_5(step: &Step<'_>) -> bool {
    let Event::JoinSetAwaited { join_set_id: set, promise_id: promise, .. } = step.event() else {
        return true;
    };
    !step.exists(|event| {
        matches!(event, Event::JoinSetAwaited { join_set_id, promise_id, .. }
            if join_set_id == set && promise_id == promise)
    })
}

/// JS-7: "A promise_id appears in at most one join set."
pub(super) fn js_7(step: &Step<'_>) -> bool {
    let Event::JoinSetSubmitted { join_set_id: set, promise_id: promise } = step.event() else {
        return true;
    };
    !step.exists(|event| {
        matches!(event, Event::JoinSetSubmitted { join_set_id, promise_id }
            if promise_id == promise && join_set_id != set)
    })
}

/// J-49: "submitToJoinSet: Running"; C-22: or Cancelling.
pub(super) fn j_49(step: &Step<'_>) -> bool {
    !matches!(step.event(), Event::JoinSetSubmitted { .. }) || step.runs()
}

/// J-50: "awaitJoinSet: Running"; C-22: or Cancelling.
pub(super) fn j_50(step: &Step<'_>) -> bool {
    !matches!(step.event(), Event::JoinSetAwaited { .. }) || step.runs()
}

/// C-20: "must equal InvokeCompleted.result of that promise." That there is one is JS-4.
pub(super) fn c_20(step: &Step<'_>) -> bool {
    let Event::JoinSetAwaited { promise_id: promise, result: taken, .. } = step.event() else {
        return true;
    };
    !step.exists(|event| {
        matches!(event, Event::InvokeCompleted { promise_id, result, .. }
            if promise_id == promise && result != taken)
    })
}

/// C-21: "Same pid submitted twice to the same set: reject second submit."
pub(super) fn c_21(step: &Step<'_>) -> bool {
    let Event::JoinSetSubmitted { join_set_id, promise_id } = step.event() else { return true };
    !submitted(step, join_set_id, promise_id)
}
