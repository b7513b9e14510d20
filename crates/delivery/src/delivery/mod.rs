//! The delivery of one message to one endpoint: its states, and what each input does.
//!
//! ```text
//!              begin                2xx
//!   Queued ─────────────▶ Sending ───────▶ Delivered
//!     ▲  │                ▲  │   │
//!     │  │ breaker        │  │   │ no further attempt is allowed
//!     │  ▼                │  ▼   ▼
//!     │ Waiting ──────────┘  └▶ Dead ──▶ Reissued (another message), Abandoned
//!     └────────── the same message again ──┘
//! ```
//!
//! [`step`] is the whole table. What it returns is stored before anything of it is done: an attempt
//! leaves only when its `Sending` is durable (D2), so that a crash finds every attempt that may
//! have left.

mod encoding;

use std::fmt;

use indelible_journal::{Idempotency, Micros, Timestamp};

use crate::attempt::{AttemptEnd, Busy503, FailureRecord, Meaning, Unknown};
use crate::bounds::{FAILURES_MAX, RETRY_AFTER_MAX};
use crate::breaker::Sample;
use crate::ids::MessageId;
use crate::schedule::{Jitter, Schedule};

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It may be sent.
    Queued,
    /// An attempt may be on the wire: the last one that was counted.
    Sending {
        /// When it began.
        since: Timestamp,
    },
    /// It is not sent before `until`.
    Waiting {
        /// Until when.
        until: Timestamp,
        /// Why.
        cause: WaitCause,
    },
    /// It arrived.
    Delivered {
        /// When the answer came.
        at: Timestamp,
        /// Its status.
        status: u16,
    },
    /// It is a dead letter, and waits for a decision.
    Dead {
        /// Since when.
        at: Timestamp,
        /// Why.
        reason: DeadReason,
    },
    /// It was a dead letter, and its message was issued again under another id.
    Reissued {
        /// When that was decided.
        at: Timestamp,
        /// The other id.
        by: MessageId,
    },
    /// It is over without having arrived, as a person decided, or governance (O-27).
    Abandoned {
        /// When.
        at: Timestamp,
    },
    /// It is over, and its type has no dead letters (O-55).
    Ended {
        /// When.
        at: Timestamp,
        /// Why.
        reason: DeadReason,
    },
}

/// Why a delivery waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitCause {
    /// An attempt failed.
    Retry,
    /// The breaker of the endpoint is open, or its rate is used up. It costs no attempt.
    Endpoint,
}

/// Why no further attempt is allowed (impl C-58).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// The schedule has no further attempt (O-28).
    Exhausted,
    /// The receiver, or an address rule, refused it for good.
    Refused,
    /// The endpoint answered 410, or was deleted.
    EndpointGone,
    /// An attempt may have arrived, and the receiver cannot tell a repetition (C-52).
    Unknown,
    /// Its TTL has passed (C-14).
    Expired,
}

impl DeadReason {
    /// All reasons, in the order of their numbers on disk.
    pub const ALL: [Self; 5] =
        [Self::Exhausted, Self::Refused, Self::EndpointGone, Self::Unknown, Self::Expired];

    const NAMES: [&str; 5] = [
        "MAX_RETRIES_EXCEEDED",
        "REFUSED",
        "ENDPOINT_GONE",
        "OUTCOME_UNKNOWN",
        "MESSAGE_TTL_EXPIRED",
    ];

    /// Its number, from 1.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The reason with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }
}

/// Its code.
impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::NAMES[*self as usize])
    }
}

/// One message on its way to one endpoint. The row's key names both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Where it stands.
    pub state: State,
    /// How many attempts have begun. The number of one is never used again.
    pub attempts: u32,
    /// How many retries the schedule has given since the message was queued, or queued again.
    pub retries: u32,
    /// An attempt at it ended unknown, and nothing has proved that it did not arrive (C-52).
    pub may_have_arrived: bool,
    /// The attempts that failed, oldest first, at most [`FAILURES_MAX`].
    pub failures: Vec<FailureRecord>,
}

/// What is known beside the delivery itself.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The server's time.
    pub now: Timestamp,
    /// A random number for the wait after a failure.
    pub jitter: Jitter,
    /// What the endpoint, or the type of the message, allows.
    pub policy: Policy<'a>,
}

/// What an endpoint, or the type of a message, allows.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    /// When it is tried again.
    pub schedule: &'a Schedule,
    /// Whether the receiver tells repetitions.
    pub class: Idempotency,
    /// The last moment at which it is of use; `None` if it always is, or is stamped anew for each
    /// round (C-60).
    pub expires_at: Option<Timestamp>,
    /// What a 503 with `Retry-After` proves.
    pub busy: Busy503,
    /// What becomes of it when no further attempt is allowed.
    pub ending: Ending,
}

/// What becomes of a delivery that has no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// A dead letter (O-28).
    DeadLetter,
    /// Nothing (O-55).
    Nothing,
    /// There is always a further attempt (O-27).
    Never,
}

/// What happens to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// It is its turn: breaker, rate and lane let it through.
    Begin,
    /// It is its turn, and the endpoint takes nothing before this time.
    Postpone(Timestamp),
    /// The attempt with this number ended.
    End {
        /// Which attempt.
        attempt: u32,
        /// How.
        end: AttemptEnd,
        /// Why, for people.
        text: &'a str,
    },
    /// The process that sent its last attempt died.
    Lost,
    /// Time has passed: is it still of use?
    Tick,
    /// Its endpoint was deleted.
    EndpointDeleted,
    /// A dead letter is sent again under the same id (C-61).
    Redeliver,
    /// A dead letter is issued again under this id (O-36).
    Reissue(MessageId),
    /// A dead letter is given up (O-36), or governance cancels the message (O-27).
    Abandon,
}

/// What a step comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The delivery, to be stored first.
    pub delivery: Delivery,
    /// What follows.
    pub next: Next,
    /// The endpoint is disabled: it answered 410.
    pub disables_endpoint: bool,
    /// What the breaker of the endpoint is told.
    pub sample: Option<Sample>,
}

/// What follows a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it stands where it stood.
    Keep,
    /// Send this attempt, once the delivery is durable.
    Send {
        /// Its number, from 1.
        attempt: u32,
    },
    /// Ask again then, or at once if it is not later than now.
    Wait(Timestamp),
    /// It has an outcome; a dead letter is entered if it is [`Outcome::Dead`].
    Settled(Outcome),
}

/// How a delivery ended, for what waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It arrived.
    Delivered,
    /// It is a dead letter.
    Dead(DeadReason),
    /// It is over without a dead letter.
    Ended(DeadReason),
    /// It goes on under another id.
    Reissued(MessageId),
    /// It was given up, and did not arrive.
    Abandoned,
    /// It was given up, and may have arrived (C-52).
    Indeterminate,
}

/// The input does not fit the state. Nothing changes: it is a report about an earlier attempt, or a
/// second decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this cannot happen to a delivery in its state")]
pub struct Illegal;

impl Default for Delivery {
    fn default() -> Self {
        Self {
            state: State::Queued,
            attempts: 0,
            retries: 0,
            may_have_arrived: false,
            failures: Vec::new(),
        }
    }
}

impl Delivery {
    /// How it ended; `None` while it is under way.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::Queued | State::Sending { .. } | State::Waiting { .. } => None,
            State::Delivered { .. } => Some(Outcome::Delivered),
            State::Dead { reason, .. } => Some(Outcome::Dead(reason)),
            State::Ended { reason, .. } => Some(Outcome::Ended(reason)),
            State::Reissued { by, .. } => Some(Outcome::Reissued(by)),
            // C-52: never "not performed".
            State::Abandoned { .. } if self.may_have_arrived => Some(Outcome::Indeterminate),
            State::Abandoned { .. } => Some(Outcome::Abandoned),
        }
    }

    fn moved(mut self, state: State, next: Next) -> Step {
        self.state = state;
        Step { delivery: self, next, disables_endpoint: false, sample: None }
    }

    fn settled(self, state: State) -> Step {
        let mut step = self.moved(state, Next::Keep);
        let outcome = step.delivery.outcome().expect("the caller gives a state that is over");
        step.next = Next::Settled(outcome);
        step
    }

    /// No further attempt is allowed, for this reason.
    fn finished(self, reason: DeadReason, context: &Context<'_>) -> Step {
        let at = context.now;
        match context.policy.ending {
            Ending::DeadLetter => self.settled(State::Dead { at, reason }),
            Ending::Nothing => self.settled(State::Ended { at, reason }),
            // impl O-27: only acceptance and governance end it.
            Ending::Never => self.waiting(context, None),
        }
    }

    /// Another attempt follows if the schedule has one that begins in time (impl C-14, C-58).
    fn waiting(mut self, context: &Context<'_>, retry_after: Option<Micros>) -> Step {
        let Context { now, jitter, policy } = context;
        let never_ends = policy.ending == Ending::Never;
        let Some(wait) = policy.schedule.wait(self.retries, *jitter) else {
            // A schedule that ends does not fit a message that does not: its last wait repeats.
            let last = policy.schedule.longest_wait();
            return if never_ends {
                let until = now.saturating_add(last);
                self.moved(State::Waiting { until, cause: WaitCause::Retry }, Next::Wait(until))
            } else {
                self.finished(DeadReason::Exhausted, context)
            };
        };
        let wait = retry_after.map_or(wait, |asked| wait.max(asked.min(RETRY_AFTER_MAX)));
        let until = now.saturating_add(wait);
        if !never_ends && policy.expires_at.is_some_and(|expires| until > expires) {
            return self.finished(DeadReason::Expired, context);
        }
        self.retries = self.retries.saturating_add(1);
        self.moved(State::Waiting { until, cause: WaitCause::Retry }, Next::Wait(until))
    }

    fn is_expired(&self, context: &Context<'_>) -> bool {
        let Policy { expires_at, ending, .. } = context.policy;
        ending != Ending::Never && expires_at.is_some_and(|expires| expires < context.now)
    }

    fn note(&mut self, failure: FailureRecord) {
        if self.failures.len() >= FAILURES_MAX {
            self.failures.remove(0);
        }
        self.failures.push(failure);
    }

    /// The end of the attempt that is under way (impl C-52).
    fn ended(mut self, end: AttemptEnd, text: &str, context: &Context<'_>) -> Step {
        let now = context.now;
        let meaning = end.meaning(context.policy.busy);
        if let (Meaning::Delivered, AttemptEnd::Answered { status, .. }) = (meaning, end) {
            let mut step = self.settled(State::Delivered { at: now, status });
            step.sample = Some(Sample::Delivered);
            return step;
        }
        if let Some(code) = end.code() {
            self.note(FailureRecord::new(self.attempts, now, code, text));
        }
        let mut step = match meaning {
            Meaning::Delivered | Meaning::NotProcessed => self.waiting(context, end.retry_after()),
            Meaning::RefusedForGood => self.finished(DeadReason::Refused, context),
            Meaning::EndpointGone => self.finished(DeadReason::EndpointGone, context),
            Meaning::Unknown => {
                self.may_have_arrived = true;
                match context.policy.class {
                    Idempotency::Idem => self.waiting(context, end.retry_after()),
                    Idempotency::NonIdem => self.finished(DeadReason::Unknown, context),
                }
            }
        };
        step.disables_endpoint = meaning == Meaning::EndpointGone;
        // An address rule says nothing about the endpoint, nor does the death of a process.
        let is_ours =
            matches!(end, AttemptEnd::Forbidden | AttemptEnd::Unknown(Unknown::EngineLost));
        step.sample = (!is_ours).then_some(Sample::Failed);
        step
    }
}

/// What an input does to a delivery.
pub fn step(
    mut delivery: Delivery,
    input: Input<'_>,
    context: &Context<'_>,
) -> Result<Step, Illegal> {
    let now = context.now;
    Ok(match (delivery.state, input) {
        (
            State::Queued | State::Waiting { .. },
            Input::Begin | Input::Postpone(_) | Input::Tick,
        ) if delivery.is_expired(context) => delivery.finished(DeadReason::Expired, context),
        (State::Queued | State::Waiting { .. }, Input::Begin) => {
            // Numbers of attempts do not wrap: the last one is used again after 2^32 of them.
            delivery.attempts = delivery.attempts.saturating_add(1);
            let attempt = delivery.attempts;
            delivery.moved(State::Sending { since: now }, Next::Send { attempt })
        }
        (State::Queued | State::Waiting { .. }, Input::Postpone(until)) => {
            let cause = WaitCause::Endpoint;
            delivery.moved(State::Waiting { until, cause }, Next::Wait(until))
        }
        (State::Sending { .. }, Input::End { attempt, end, text })
            if attempt == delivery.attempts =>
        {
            delivery.ended(end, text, context)
        }
        (State::Sending { .. }, Input::Lost) => {
            let text = "the server stopped during the attempt";
            delivery.ended(AttemptEnd::Unknown(Unknown::EngineLost), text, context)
        }
        (State::Queued | State::Waiting { .. }, Input::EndpointDeleted) => {
            delivery.finished(DeadReason::EndpointGone, context)
        }
        (State::Sending { .. }, Input::EndpointDeleted) => {
            delivery.may_have_arrived = true;
            delivery.finished(DeadReason::EndpointGone, context)
        }
        (State::Dead { .. }, Input::Redeliver) => {
            // impl C-61: attempts of its own, under the same id.
            delivery.retries = 0;
            delivery.moved(State::Queued, Next::Wait(now))
        }
        (State::Dead { .. }, Input::Reissue(by)) => {
            delivery.settled(State::Reissued { at: now, by })
        }
        (State::Sending { .. }, Input::Abandon) => {
            delivery.may_have_arrived = true;
            delivery.settled(State::Abandoned { at: now })
        }
        (State::Queued | State::Waiting { .. } | State::Dead { .. }, Input::Abandon) => {
            delivery.settled(State::Abandoned { at: now })
        }
        (state, Input::Tick) => delivery.moved(state, Next::Keep),
        _ => return Err(Illegal),
    })
}
