//! What follows an attempt at an effect of a workflow that has ended (D5, C-29, C-38, C-40).
//!
//! An effect is a call whose outcome is unknown after a crash (see C-41): an HTTP request, or a
//! volatile function. A persist function is not an effect: its own journal goes on.

use indelible_journal::{ErrorKind, Idempotency, OnUnknown, RetryBound, RetryCause, RetryPolicy};

/// How an attempt at an effect ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// A complete answer with this status.
    Answered {
        /// The status.
        status: u16,
    },
    /// An answer that exceeds the size limit.
    TooLarge,
    /// Nothing was sent, provably (D5).
    NotSent,
    /// The request is not allowed or malformed: nothing was sent, and another attempt would not be
    /// either.
    Refused,
    /// It may have happened, and there is no complete answer.
    Unknown(Unknown),
}

/// Why there is no complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// No answer came, or only a part of one.
    NoAnswer,
    /// No answer came in time.
    TimedOut,
    /// The engine died while the attempt was in flight.
    EngineLost,
}

/// What is known of the effect beside how the attempt ended.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The policy that the effect declares.
    pub policy: &'a RetryPolicy,
    /// How many retries have counted towards the bound so far (C-38).
    pub retries_counted: u32,
    /// An earlier attempt may have happened: no reconciler and no person has said that it did not.
    pub maybe_performed: bool,
    /// Whether its deadline leaves time for another attempt.
    pub in_time: bool,
    /// Its caller is ending (C-40): no further attempt, and neither a reconciler nor a person is
    /// asked.
    pub closing: bool,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// It is over with what the peer answered.
    Answer,
    /// It is over with the answer that was too large.
    TooLarge,
    /// Another attempt.
    Again {
        /// Why another attempt follows.
        cause: RetryCause,
        /// The kind of error of the attempt that failed.
        error: ErrorKind,
    },
    /// It is over with a failure of this kind.
    Fail(ErrorKind),
    /// Ask its reconciler.
    Ask,
    /// Hold it for a person.
    Hold,
    /// It is over, and its outcome stays unknown.
    Indeterminate,
}

/// What follows an attempt that ended like this.
pub fn after(ended: Ended, situation: &Situation<'_>) -> Next {
    let policy = situation.policy;
    let idem = policy.class.idempotency == Idempotency::Idem;
    match ended {
        // A status declared as not processed: the declaration comes before what a gateway's status
        // usually means.
        Ended::Answered { status } if policy.not_processed.contains(status) => {
            situation.again(RetryCause::Failed, ErrorKind::NotPerformed).unwrap_or(Next::Answer)
        }
        Ended::Answered { status } if policy.is_no_answer(status) => {
            if idem {
                situation.again(RetryCause::Failed, ErrorKind::Transient).unwrap_or(Next::Answer)
            } else {
                situation.unknown()
            }
        }
        Ended::Answered { .. } => Next::Answer,
        Ended::TooLarge => Next::TooLarge,
        Ended::NotSent => situation
            .again(RetryCause::NotSent, ErrorKind::NotPerformed)
            .unwrap_or_else(|| situation.nothing_left(ErrorKind::Transient)),
        Ended::Refused => situation.nothing_left(ErrorKind::Uncategorized),
        Ended::Unknown(_) if !idem => situation.unknown(),
        Ended::Unknown(unknown) => {
            let (cause, error) = match unknown {
                Unknown::NoAnswer => (RetryCause::Failed, ErrorKind::Transient),
                Unknown::TimedOut => (RetryCause::Failed, ErrorKind::Timeout),
                Unknown::EngineLost => (RetryCause::EngineLost, ErrorKind::Transient),
            };
            situation.again(cause, error).unwrap_or(Next::Fail(error))
        }
    }
}

/// What follows when the reconciler cannot say, or there is none: [`Next::Hold`] or
/// [`Next::Indeterminate`].
pub fn unresolved(policy: &RetryPolicy, closing: bool) -> Next {
    match policy.on_unknown {
        // An effect of an ending caller is not held: the caller's terminal event does not wait for
        // a person (C-40).
        OnUnknown::Hold if !closing => Next::Hold,
        OnUnknown::Hold | OnUnknown::Indeterminate => Next::Indeterminate,
    }
}

impl Situation<'_> {
    /// Another attempt, if there may be one.
    fn again(&self, cause: RetryCause, error: ErrorKind) -> Option<Next> {
        let left = match self.policy.bound {
            RetryBound::Bounded(most) if cause.counts() => self.retries_counted < most,
            // The journal's count does not wrap.
            _ => self.retries_counted < u32::MAX,
        };
        (left && self.in_time && !self.closing).then_some(Next::Again { cause, error })
    }

    /// It may have happened, and doing it twice is not safe: another attempt follows only if the
    /// reconciler or a person says that it did not happen (V-24, C-29).
    fn unknown(&self) -> Next {
        if self.policy.reconciler.is_some() && !self.closing {
            Next::Ask
        } else {
            unresolved(self.policy, self.closing)
        }
    }

    /// This attempt sent nothing, and there is no other. The effect certainly did not happen only
    /// if no earlier attempt may have.
    fn nothing_left(&self, error: ErrorKind) -> Next {
        match self.policy.class.idempotency {
            _ if !self.maybe_performed => Next::Fail(ErrorKind::NotPerformed),
            Idempotency::Idem => Next::Fail(error),
            Idempotency::NonIdem => unresolved(self.policy, self.closing),
        }
    }
}

#[cfg(test)]
mod tests;
