//! A refusal: which rule an event would break, where, and why. Rules go by their ids and names in
//! the specification (J-87).

use std::fmt;

use crate::event::Sequence;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $id:literal,)*) => {
        /// A rule that an event can break, by its id in the specification.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// All rules that a journal can refuse for.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The id, such as `SE-4`.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }
        }
    };
}

rules! {
    /// `monotonic_sequence` (J-54, INV-2): entry i has sequence i.
    S1 = "S-1",
    /// `starts_with_started` (J-53, INV-1): the first event is ExecutionStarted.
    S2 = "S-2",
    /// `terminal_is_last` (J-55, INV-3): nothing follows a terminal event. It implies S-3.
    S4 = "S-4",
    /// `cancelled_requires_requested` (J-57).
    S5 = "S-5",
    /// `started_requires_scheduled` (J-58, INV-5).
    SE1 = "SE-1",
    /// `completed_requires_started` (J-59).
    SE2 = "SE-2",
    /// `retrying_requires_started` (J-60): the same attempt.
    SE3 = "SE-3",
    /// `no_events_after_completed` (J-61): no attempt or retry of a completed call.
    SE4 = "SE-4",
    /// No more retries than the call's policy allows (J-62, C-1).
    SE5 = "SE-5",
    /// `timer_fired_requires_scheduled` (J-63).
    CF1 = "CF-1",
    /// `signal_received_requires_delivered` (J-64): the same name, number and payload.
    CF2 = "CF-2",
    /// `signal_consumed_once` (J-65).
    CF3 = "CF-3",
    /// `await_signal_consistent` (J-66): a signal await waits on exactly its own promise.
    CF4 = "CF-4",
    /// `submit_requires_created` (J-67).
    JS1 = "JS-1",
    /// `no_submit_after_await` (J-67).
    JS2 = "JS-2",
    /// `awaited_requires_member` (J-68). With JS-5 it implies JS-6.
    JS3 = "JS-3",
    /// `awaited_requires_completed` (J-68).
    JS4 = "JS-4",
    /// `no_double_consume` (J-69).
    JS5 = "JS-5",
    /// `promise_single_owner` (J-69).
    JS7 = "JS-7",
    /// A root's hash is made of the parts that its ExecutionStarted holds (C-31).
    J1 = "J-1",
    /// A new promise is the execution's next child; it implies J-92 and INV-6.
    J2 = "J-2",
    /// An execution starts once.
    J35 = "J-35",
    /// A child is allocated while the guest runs.
    J39 = "J-39",
    /// A call completes once.
    J41 = "J-41",
    /// Deliveries are numbered from 1, by name, without a gap.
    J44 = "J-44",
    /// Signals are consumed first in, first out.
    J45 = "J-45",
    /// The guest can only wait while it runs.
    J46 = "J-46",
    /// An execution resumes when it is blocked and what it waits for is there (J-33).
    J47 = "J-47",
    /// A call is submitted while the guest runs.
    J49 = "J-49",
    /// A result is taken while the guest runs.
    J50 = "J-50",
    /// A signal that is already there is consumed at once, not waited for.
    J78 = "J-78",
    /// There are only so many child numbers, and members of a wait or a join set.
    J82 = "J-82",
    /// A signal is received while the guest runs, or by the very await that waits for it.
    C16 = "C-16",
    /// Attempts follow one another: 1, retry, 2, retry, 3, completed.
    C18 = "C-18",
    /// Time does not go back, and a timer fires once, not early.
    C19 = "C-19",
    /// A result taken from a join set is the one that its call completed with.
    C20 = "C-20",
    /// A call is submitted to a set once.
    C21 = "C-21",
    /// Cancelling lasts until the end, and is asked for once.
    C22 = "C-22",
    /// A blocked execution does not complete.
    C23 = "C-23",
    /// What is awaited can resolve; what is submitted is a call.
    C26 = "C-26",
    /// What a function returned is its outcome: it is not tried again for that.
    C28 = "C-28",
    /// An attempt whose outcome is unknown is followed by another only if that is safe.
    C29 = "C-29",
    /// An ExecutionStarted says what its journal's key says.
    C32 = "C-32",
    /// An await of a signal or others names the next child and at least one other promise.
    C37 = "C-37",
    /// A persist function is never unknown.
    C41 = "C-41",
}

impl Rule {
    /// Whether a guest can break it by what it asks for: then the guest gets an error, live and
    /// replayed alike. Breaking any other is a mistake of the engine (D1).
    pub const fn is_guests(self) -> bool {
        matches!(
            self,
            Self::JS1 | Self::JS2 | Self::JS7 | Self::C21 | Self::C26 | Self::C37 | Self::J82
        )
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// An event was refused; the journal is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule} at sequence {sequence}: {reason}")]
pub struct Violation {
    /// The rule that it would break.
    pub rule: Rule,
    /// The place that it would have taken.
    pub sequence: Sequence,
    /// Why, for people.
    pub reason: String,
}
