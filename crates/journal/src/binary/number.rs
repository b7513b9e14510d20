//! The numbers of events and other variants on disk. They are written out, not derived from the
//! order in a source file, and no number is ever used again for something else.

use crate::event::{Event, InvokeKind};
use crate::payload::ErrorKind;
use crate::policy::RetryCause;

/// A variant without fields that is one byte on disk.
pub(super) trait Numbered: Copy {
    /// What is wrong with a number that stands for no variant.
    const UNKNOWN: &'static str;

    /// Its byte.
    fn number(self) -> u8;

    /// The variant that this byte stands for.
    fn from_number(number: u8) -> Option<Self>;
}

macro_rules! numbered {
    ($type:ident, $unknown:literal, { $($variant:ident = $number:literal,)* }) => {
        impl Numbered for $type {
            const UNKNOWN: &'static str = $unknown;

            fn number(self) -> u8 {
                match self {
                    $(Self::$variant => $number,)*
                }
            }

            fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered!(InvokeKind, "an unknown kind of call", {
    Function = 0,
    Http = 1,
});

numbered!(RetryCause, "an unknown cause of a retry", {
    Failed = 0,
    NotSent = 1,
    EngineLost = 2,
    ReconciledNotDone = 3,
    Operator = 4,
});

numbered!(ErrorKind, "an unknown kind of failure", {
    UserError = 0,
    Transient = 1,
    Trap = 2,
    Timeout = 3,
    Cancelled = 4,
    Nondeterminism = 5,
    Indeterminate = 6,
    NotPerformed = 7,
    Uncategorized = 8,
});

/// Bytes of [`crate::Outcome`].
pub(super) mod outcome {
    pub(crate) const OK: u8 = 0;
    pub(crate) const ERR: u8 = 1;
}

/// Bytes of [`crate::AwaitKind`].
pub(super) mod await_kind {
    pub(crate) const SINGLE: u8 = 0;
    pub(crate) const ANY: u8 = 1;
    pub(crate) const ALL: u8 = 2;
    pub(crate) const SIGNAL: u8 = 3;
    pub(crate) const SIGNAL_OR: u8 = 4;
}

/// Bytes of [`Event`]. None is 0, so that zeros in a damaged file are no event.
pub(super) mod tag {
    pub(crate) const EXECUTION_STARTED: u8 = 1;
    pub(crate) const EXECUTION_COMPLETED: u8 = 2;
    pub(crate) const EXECUTION_FAILED: u8 = 3;
    pub(crate) const CANCEL_REQUESTED: u8 = 4;
    pub(crate) const EXECUTION_CANCELLED: u8 = 5;
    pub(crate) const INVOKE_SCHEDULED: u8 = 6;
    pub(crate) const INVOKE_STARTED: u8 = 7;
    pub(crate) const INVOKE_COMPLETED: u8 = 8;
    pub(crate) const INVOKE_RETRYING: u8 = 9;
    pub(crate) const RANDOM_GENERATED: u8 = 10;
    pub(crate) const TIME_RECORDED: u8 = 11;
    pub(crate) const TIMER_SCHEDULED: u8 = 12;
    pub(crate) const TIMER_FIRED: u8 = 13;
    pub(crate) const SIGNAL_DELIVERED: u8 = 14;
    pub(crate) const SIGNAL_RECEIVED: u8 = 15;
    pub(crate) const EXECUTION_AWAITING: u8 = 16;
    pub(crate) const EXECUTION_RESUMED: u8 = 17;
    pub(crate) const JOIN_SET_CREATED: u8 = 18;
    pub(crate) const JOIN_SET_SUBMITTED: u8 = 19;
    pub(crate) const JOIN_SET_AWAITED: u8 = 20;
}

/// The byte that an event begins with.
pub(super) fn tag_of(event: &Event) -> u8 {
    match event {
        Event::ExecutionStarted(_) => tag::EXECUTION_STARTED,
        Event::ExecutionCompleted { .. } => tag::EXECUTION_COMPLETED,
        Event::ExecutionFailed { .. } => tag::EXECUTION_FAILED,
        Event::CancelRequested { .. } => tag::CANCEL_REQUESTED,
        Event::ExecutionCancelled { .. } => tag::EXECUTION_CANCELLED,
        Event::InvokeScheduled { .. } => tag::INVOKE_SCHEDULED,
        Event::InvokeStarted { .. } => tag::INVOKE_STARTED,
        Event::InvokeCompleted { .. } => tag::INVOKE_COMPLETED,
        Event::InvokeRetrying { .. } => tag::INVOKE_RETRYING,
        Event::RandomGenerated { .. } => tag::RANDOM_GENERATED,
        Event::TimeRecorded { .. } => tag::TIME_RECORDED,
        Event::TimerScheduled { .. } => tag::TIMER_SCHEDULED,
        Event::TimerFired { .. } => tag::TIMER_FIRED,
        Event::SignalDelivered { .. } => tag::SIGNAL_DELIVERED,
        Event::SignalReceived { .. } => tag::SIGNAL_RECEIVED,
        Event::ExecutionAwaiting { .. } => tag::EXECUTION_AWAITING,
        Event::ExecutionResumed => tag::EXECUTION_RESUMED,
        Event::JoinSetCreated { .. } => tag::JOIN_SET_CREATED,
        Event::JoinSetSubmitted { .. } => tag::JOIN_SET_SUBMITTED,
        Event::JoinSetAwaited { .. } => tag::JOIN_SET_AWAITED,
    }
}

/// Bits of the byte that an ExecutionStarted begins with.
pub(super) mod started {
    pub(crate) const PARENT: u8 = 1 << 0;
    pub(crate) const IDEMPOTENCY_KEY: u8 = 1 << 1;
    pub(crate) const RETRY_POLICY: u8 = 1 << 2;
    pub(crate) const TRACE_PARENT: u8 = 1 << 3;
    pub(crate) const KNOWN: u8 = PARENT | IDEMPOTENCY_KEY | RETRY_POLICY | TRACE_PARENT;
}

/// The number that a wait set begins with.
pub(super) mod wait_set {
    /// The rest of a join set, whose number follows.
    pub(crate) const REST_OF: u64 = 0;
    /// The members are listed: this number plus the number of runs.
    pub(crate) const LISTED: u64 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-38: the lists of causes and kinds are in the order of their numbers, as they say.
    #[test]
    fn lists_are_in_order() {
        let causes = RetryCause::ALL.map(Numbered::number);
        assert!(causes.iter().copied().eq(0..5));
        assert_eq!(causes.map(RetryCause::from_number), RetryCause::ALL.map(Some));
        let kinds = ErrorKind::ALL.map(Numbered::number);
        assert!(kinds.iter().copied().eq(0..9));
        assert_eq!(kinds.map(ErrorKind::from_number), ErrorKind::ALL.map(Some));
    }
}
