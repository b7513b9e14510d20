//! Whether an event may follow: every guard and invariant (J-35 to J-70), each in a time that
//! does not depend on the journal's length, and without allocating unless it refuses.

mod concurrency;
mod control;
pub(super) mod effects;
mod lifecycle;

use super::Journal;
use crate::event::{Event, InvokeKind, Record, Sequence};
use crate::ids::{DEPTH_MAX, PromiseId};
use crate::status::Status;
use crate::violation::{Rule, Violation};

/// A rule, and why the event would break it.
pub(super) struct Refusal {
    pub(super) rule: Rule,
    pub(super) reason: String,
}

impl Refusal {
    /// The violation of the event that would have had this sequence.
    pub(super) fn at(self, length: u64) -> Violation {
        Violation { rule: self.rule, sequence: Sequence::new(length), reason: self.reason }
    }
}

pub(super) type Check = Result<(), Refusal>;

/// Returns a refusal.
macro_rules! refuse {
    ($rule:ident, $($reason:tt)+) => {
        return Err(crate::journal::check::Refusal {
            rule: crate::violation::Rule::$rule,
            reason: format!($($reason)+),
        })
    };
}

/// Refuses unless the condition holds; the reason is made only then.
macro_rules! require {
    ($condition:expr, $rule:ident, $($reason:tt)+) => {
        if !$condition {
            crate::journal::check::refuse!($rule, $($reason)+);
        }
    };
}
use {refuse, require};

/// Whether the guest can do something now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guest {
    /// Running, or cleaning up: whatever is legal when Running is legal when Cancelling (C-22).
    Active,
    Blocked,
}

impl Journal {
    pub(super) fn check(&self, record: &Record) -> Check {
        let Record { sequence, timestamp, event } = record;
        require!(
            sequence.get() == self.length,
            S1,
            "the event has sequence {sequence}, but {} is next",
            self.length
        );
        let Some(status) = &self.status else {
            let Event::ExecutionStarted(started) = event else {
                refuse!(S2, "a journal must begin with ExecutionStarted, not {}", event.name());
            };
            return self.check_started(started);
        };
        // S-4, and with it S-3: after one terminal event nothing follows, so no second one either.
        require!(
            !status.is_terminal(),
            S4,
            "{} after the execution ended: it is {status}",
            event.name()
        );
        require!(
            *timestamp >= self.last_timestamp,
            C19,
            "the time {timestamp} is before the last event's, {}",
            self.last_timestamp
        );
        let guest = match status {
            Status::Blocked { .. } => Guest::Blocked,
            _ => Guest::Active,
        };
        match event {
            Event::ExecutionStarted(_) => refuse!(J35, "the execution has already started"),
            Event::ExecutionCompleted { .. } => Self::check_completed(guest),
            // C-23: the runtime may impose a failure on a blocked execution too.
            Event::ExecutionFailed { .. } => Ok(()),
            Event::CancelRequested { .. } => self.check_cancel_requested(),
            Event::ExecutionCancelled { .. } => self.check_cancelled(),
            Event::InvokeScheduled { promise_id, kind, .. } => {
                self.check_child(guest, promise_id)?;
                Self::check_depth(promise_id, *kind)
            }
            Event::RandomGenerated { promise_id, .. } => self.check_child(guest, promise_id),
            Event::InvokeStarted { promise_id, attempt } => {
                self.check_invoke_started(promise_id, *attempt)
            }
            Event::InvokeCompleted { promise_id, attempt, .. } => {
                self.check_invoke_completed(promise_id, *attempt)
            }
            Event::InvokeRetrying { promise_id, failed_attempt, cause, error, .. } => {
                self.check_invoke_retrying(promise_id, *failed_attempt, *cause, error.kind)
            }
            Event::TimeRecorded { promise_id, time } => {
                self.check_child(guest, promise_id)?;
                Self::check_time(*time, *timestamp)
            }
            Event::TimerScheduled { promise_id, duration, fire_at } => {
                self.check_child(guest, promise_id)?;
                Self::check_timer(*timestamp, *duration, *fire_at)
            }
            Event::TimerFired { promise_id } => self.check_timer_fired(promise_id, *timestamp),
            Event::SignalDelivered { signal_name, delivery_id, .. } => {
                self.check_signal_delivered(signal_name, *delivery_id)
            }
            Event::SignalReceived { promise_id, signal_name, payload, delivery_id } => {
                self.check_signal_received(promise_id, signal_name, payload, *delivery_id)
            }
            Event::ExecutionAwaiting { waiting_on, kind } => self.check_awaiting(waiting_on, kind),
            Event::ExecutionResumed => self.check_resumed(),
            Event::JoinSetCreated { join_set_id } => self.check_child(guest, join_set_id.place()),
            Event::JoinSetSubmitted { join_set_id, promise_id } => {
                self.check_submitted(guest, join_set_id, promise_id)
            }
            Event::JoinSetAwaited { join_set_id, promise_id, result } => {
                self.check_awaited(guest, join_set_id, promise_id, result)
            }
        }
    }

    /// J-39: a new child is allocated while the guest is active, and is the next one (J-2).
    fn check_child(&self, guest: Guest, promise: &PromiseId) -> Check {
        require!(guest == Guest::Active, J39, "a blocked execution cannot make calls");
        self.check_next(promise)
    }

    /// J-82: a function that is called is an execution, and must be able to have children.
    fn check_depth(promise: &PromiseId, kind: InvokeKind) -> Check {
        require!(
            kind != InvokeKind::Function || promise.depth() < DEPTH_MAX,
            J82,
            "calls nest at most {DEPTH_MAX} deep"
        );
        Ok(())
    }

    /// J-2: ids depend on position alone. Because each new child is the next one, no id is
    /// allocated twice (J-92), and because it is a child of this execution, none is allocated by
    /// two (J-70, INV-6).
    fn check_next(&self, promise: &PromiseId) -> Check {
        require!(
            self.children.len() < u32::MAX as usize,
            J82,
            "the execution has no child numbers left"
        );
        require!(
            promise.number_in(self.key.execution_id()) == Some(self.next_child()),
            J2,
            "{promise:#} is not the next child, {:#}",
            self.next_promise()
        );
        Ok(())
    }
}
