//! Rules about signals: delivered, buffered, consumed.

use indelible_journal::{AwaitKind, Event, SignalName, Status};

use super::Step;

/// How many deliveries of this name there were.
fn deliveries(step: &Step<'_>, name: &SignalName) -> u64 {
    step.count(
        |event| matches!(event, Event::SignalDelivered { signal_name, .. } if signal_name == name),
    )
}

/// How many of them were consumed.
fn receipts(step: &Step<'_>, name: &SignalName) -> u64 {
    step.count(
        |event| matches!(event, Event::SignalReceived { signal_name, .. } if signal_name == name),
    )
}

/// CF-2: "SignalReceived(name, delivery_id, payload) requires preceding SignalDelivered(name,
/// delivery_id, payload)."
pub(super) fn cf_2(step: &Step<'_>) -> bool {
    let Event::SignalReceived { signal_name: name, payload: carried, delivery_id: id, .. } =
        step.event()
    else {
        return true;
    };
    step.exists(|event| {
        matches!(event, Event::SignalDelivered { signal_name, payload, delivery_id }
            if signal_name == name && delivery_id == id && payload == carried)
    })
}

/// CF-3: "Each delivery_id is consumed by at most one SignalReceived."
pub(super) fn cf_3(step: &Step<'_>) -> bool {
    let Event::SignalReceived { signal_name: name, delivery_id: id, .. } = step.event() else {
        return true;
    };
    !step.exists(|event| {
        matches!(event, Event::SignalReceived { signal_name, delivery_id, .. }
            if signal_name == name && delivery_id == id)
    })
}

/// J-44: "delivery_id = delivered count of that name + 1."
pub(super) fn j_44(step: &Step<'_>) -> bool {
    let Event::SignalDelivered { signal_name, delivery_id, .. } = step.event() else {
        return true;
    };
    delivery_id.get() == deliveries(step, signal_name) + 1
}

/// J-45: "delivery_id = received count + 1 (FIFO)."
pub(super) fn j_45(step: &Step<'_>) -> bool {
    let Event::SignalReceived { signal_name, delivery_id, .. } = step.event() else {
        return true;
    };
    delivery_id.get() == receipts(step, signal_name) + 1
}

/// J-78: "Signal already buffered at await_signal => SignalReceived at once, no block."
pub(super) fn j_78(step: &Step<'_>) -> bool {
    let Event::ExecutionAwaiting { kind, .. } = step.event() else { return true };
    match kind {
        AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } => {
            deliveries(step, name) == receipts(step, name)
        }
        AwaitKind::Single | AwaitKind::Any | AwaitKind::All => true,
    }
}

/// C-16: "allow SignalReceived when Running, or when Blocked(Signal{name,pid}) with the same name
/// and pid == next child"; C-22: or Cancelling; C-37: "SignalReceived is allowed while so blocked
/// if no other member is resolved."
pub(super) fn c_16(step: &Step<'_>) -> bool {
    let Event::SignalReceived { promise_id: promise, signal_name, .. } = step.event() else {
        return true;
    };
    let (waiting_on, kind) = match step.status() {
        Some(Status::Running | Status::Cancelling) => return true,
        Some(Status::Blocked { waiting_on, kind }) => (waiting_on, kind),
        Some(Status::Completed | Status::Failed | Status::Cancelled) | None => return false,
    };
    match kind {
        AwaitKind::Signal { name, promise_id } => {
            name == *signal_name && promise_id == *promise && *promise == step.next_child()
        }
        AwaitKind::SignalOr { name, promise_id } => {
            let other_resolved =
                waiting_on.promises().any(|member| member != promise_id && step.resolved(&member));
            name == *signal_name
                && promise_id == *promise
                && *promise == step.next_child()
                && !other_resolved
        }
        AwaitKind::Single | AwaitKind::Any | AwaitKind::All => false,
    }
}
