//! Journals that were legal until something was done to them: an event lost, written twice, moved
//! or altered. Some are legal still.

use indelible_journal::{
    Attempt, AwaitKind, ComponentDigest, DeliveryId, Event, JoinSetId, Micros, PromiseId, Record,
    RetryCause, Sequence, SignalName, Timestamp,
};

use super::generate::Generated;
use super::make::{
    any_policy, attempts, delivery, foreign, operation, outcome, payload, signal, wait_set,
};
use super::propose::Proposer;
use indelible_test_support::Prng;

/// Does one thing to a legal journal, and says what.
pub(crate) fn mutate(rng: &mut Prng, legal: &Generated) -> (&'static str, Vec<Record>) {
    let mut journal = legal.journal.clone();
    let index = rng.index(journal.len());
    let other = rng.index(journal.len());
    let next = (index + 1).min(journal.len() - 1);
    let what = match rng.below(12) {
        0 | 1 => {
            journal.remove(index);
            "drop"
        }
        2 => {
            let copy = journal[index].clone();
            journal.insert(other, copy);
            "duplicate"
        }
        3 => {
            swap(rng, &mut journal, index, next);
            "swap with the next"
        }
        4 => {
            swap(rng, &mut journal, index, other);
            "swap"
        }
        5 => {
            let off = rng.pick(&[1, 2, u64::MAX]).expect("there are three");
            let sequence = journal[index].sequence.get().wrapping_add(off);
            journal[index].sequence = Sequence::new(sequence);
            return ("alter a sequence", journal);
        }
        6 => {
            journal[index].timestamp = near(rng, journal[index].timestamp);
            "alter a timestamp"
        }
        7 => {
            let mut other =
                Proposer { rng, execution: &legal.execution, before: &journal[..index] };
            journal[index] = other.propose();
            "replace"
        }
        _ => {
            alter(rng, legal, &mut journal[index].event);
            "alter an event"
        }
    };
    if rng.one_in(6) {
        return (what, journal);
    }
    for (number, record) in (0..).zip(&mut journal) {
        record.sequence = Sequence::new(number);
    }
    (what, journal)
}

/// Swaps two events; half of the time the timestamps stay, or C-19 would hide everything else.
fn swap(rng: &mut Prng, journal: &mut [Record], one: usize, other: usize) {
    journal.swap(one, other);
    if rng.one_in(2) {
        let timestamp = journal[one].timestamp;
        journal[one].timestamp = journal[other].timestamp;
        journal[other].timestamp = timestamp;
    }
}

fn near(rng: &mut Prng, time: Timestamp) -> Timestamp {
    if rng.one_in(2) {
        return time.saturating_add(Micros::new(1 + rng.below(3)));
    }
    Timestamp::from_micros(time.as_micros() - 1 - rng.below(3)).expect("it is earlier")
}

fn alter_attempt(rng: &mut Prng, attempt: &mut Attempt) {
    let next = attempt.next().expect("attempts are small");
    let less = Attempt::new(attempt.get() - 1).filter(|_| rng.one_in(2));
    *attempt = less.unwrap_or(next);
}

fn alter_delivery(rng: &mut Prng, id: &mut DeliveryId) {
    let less = DeliveryId::new(id.get() - 1).filter(|_| rng.one_in(2));
    *id = less.unwrap_or(delivery(id.get() + 1));
}

fn alter_name(name: &mut SignalName) {
    *name = signal(if name.as_str() == "approve" { "reject" } else { "approve" });
}

fn any_promise(rng: &mut Prng, legal: &Generated) -> PromiseId {
    let number = u32::try_from(rng.below(12)).expect("below 12");
    if rng.one_in(10) { foreign().child(number) } else { legal.execution.pid(number) }
}

/// Alters one field; sometimes it is one that no rule looks at.
fn alter(rng: &mut Prng, legal: &Generated, event: &mut Event) {
    let other = any_promise(rng, legal);
    let field = rng.below(4);
    match event {
        Event::ExecutionStarted(started) => match rng.below(6) {
            0 => started.component_digest = ComponentDigest::of(b"another"),
            1 => started.parent_id = Some(foreign()),
            2 => started.idempotency_key = Some(operation("op-2")),
            3 => started.attempts = attempts(&[2, 1]),
            4 => started.retry_policy = Some(any_policy(1)),
            _ => started.input = payload(1),
        },
        Event::InvokeScheduled { promise_id, input, retry_policy, .. } => match field {
            0 => *promise_id = other,
            1 => *input = payload(2),
            _ => *retry_policy = any_policy(rng.number()),
        },
        Event::InvokeStarted { promise_id, attempt } => match field {
            0 => *promise_id = other,
            _ => alter_attempt(rng, attempt),
        },
        Event::InvokeCompleted { promise_id, result, attempt } => match field {
            0 => *promise_id = other,
            1 => *result = outcome(rng.number()),
            _ => alter_attempt(rng, attempt),
        },
        Event::InvokeRetrying { promise_id, failed_attempt, cause, .. } => match field {
            0 => *promise_id = other,
            1 => alter_attempt(rng, failed_attempt),
            _ => *cause = rng.pick(&RetryCause::ALL).expect("there are five"),
        },
        Event::TimeRecorded { promise_id, time } => match field {
            0 => *promise_id = other,
            _ => *time = near(rng, *time),
        },
        Event::TimerScheduled { promise_id, duration, fire_at } => match field {
            0 => *promise_id = other,
            1 => *duration = Micros::new(rng.below(9)),
            _ => *fire_at = near(rng, *fire_at),
        },
        Event::SignalDelivered { signal_name, payload: carried, delivery_id } => match field {
            0 => *carried = payload(rng.number()),
            1 => alter_name(signal_name),
            _ => alter_delivery(rng, delivery_id),
        },
        Event::SignalReceived { promise_id, signal_name, payload: carried, delivery_id } => {
            match field {
                0 => *promise_id = other,
                1 => *carried = payload(rng.number()),
                2 => alter_name(signal_name),
                _ => alter_delivery(rng, delivery_id),
            }
        }
        Event::ExecutionAwaiting { waiting_on, kind } => match field {
            0 => *kind = other_kind(rng, kind, &other),
            1 => *waiting_on = wait_set(&foreign(), waiting_on.listed().unwrap_or(&[0])),
            _ => {
                let mut numbers = waiting_on.listed().unwrap_or_default().to_vec();
                if !numbers.is_empty() && rng.one_in(2) {
                    numbers.swap_remove(rng.index(numbers.len()));
                } else {
                    numbers.push(u32::try_from(rng.below(12)).expect("below 12"));
                }
                *waiting_on = legal.execution.wait(&numbers);
            }
        },
        Event::JoinSetSubmitted { join_set_id, promise_id } => match field {
            0 | 1 => *join_set_id = JoinSetId::at(other),
            _ => *promise_id = other,
        },
        Event::JoinSetAwaited { join_set_id, promise_id, result } => match field {
            0 => *join_set_id = JoinSetId::at(other),
            1 => *promise_id = other,
            _ => *result = outcome(rng.number()),
        },
        Event::JoinSetCreated { join_set_id } => *join_set_id = JoinSetId::at(other),
        Event::RandomGenerated { promise_id, .. } | Event::TimerFired { promise_id } => {
            *promise_id = other;
        }
        // These have no field that a rule reads: become another of them.
        Event::ExecutionCompleted { .. }
        | Event::ExecutionFailed { .. }
        | Event::CancelRequested { .. }
        | Event::ExecutionCancelled { .. }
        | Event::ExecutionResumed => {
            *event = match rng.below(4) {
                0 => Event::ExecutionCompleted { result: payload(0) },
                1 => Event::CancelRequested { reason: "altered".into() },
                2 => Event::ExecutionCancelled { reason: "altered".into() },
                _ => Event::ExecutionResumed,
            }
        }
    }
}

/// Another kind of waiting; of a signal, often the same with another name or promise.
fn other_kind(rng: &mut Prng, kind: &AwaitKind, other: &PromiseId) -> AwaitKind {
    let (mut name, mut promise_id) = match kind {
        AwaitKind::Signal { name, promise_id } | AwaitKind::SignalOr { name, promise_id } => {
            (name.clone(), promise_id.clone())
        }
        AwaitKind::Single | AwaitKind::Any | AwaitKind::All => (signal("approve"), other.clone()),
    };
    match rng.below(3) {
        0 => alter_name(&mut name),
        1 => promise_id = other.clone(),
        _ => {}
    }
    match rng.below(5) {
        0 => AwaitKind::Single,
        1 => AwaitKind::Any,
        2 => AwaitKind::All,
        3 => AwaitKind::Signal { name, promise_id },
        _ => AwaitKind::SignalOr { name, promise_id },
    }
}
