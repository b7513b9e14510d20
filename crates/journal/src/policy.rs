//! What may be done with a call whose attempt failed, or whose outcome is unknown. It is fixed when
//! the call is scheduled, and stored with it (C-1, C-38, V-17).

use std::fmt;

use crate::ids::ComponentDigest;
use crate::names::FunctionName;
use crate::time::Micros;

/// Everything that decides about another attempt (C-38). In the model it is a name (J-95). It is
/// declared once for a function or an effect, and shared by all its calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RetryPolicy {
    /// Whether it survives its caller, and whether doing it twice is safe.
    pub class: RetryClass,
    /// How many retries there may be.
    pub bound: RetryBound,
    /// How long to wait before each retry.
    pub backoff: Backoff,
    /// How long all attempts together may take.
    pub deadline: Option<Micros>,
    /// How long one attempt may take.
    pub attempt_timeout: Option<Micros>,
    /// The function to ask whether an effect with an unknown outcome happened.
    pub reconciler: Option<Reconciler>,
    /// What to do when the outcome stays unknown.
    pub on_unknown: OnUnknown,
    /// HTTP statuses that prove that the request was not processed.
    pub not_processed: Statuses,
    /// The version that a called function runs, resolved when the call was scheduled (D6). None:
    /// the caller's own component, or an HTTP effect.
    pub callee: Option<ComponentDigest>,
    /// HTTP statuses that do not say whether the request was processed, such as those of a gateway
    /// that got no answer itself. None: the usual ones, [`NO_ANSWER`].
    pub no_answer: Option<Statuses>,
}

/// The statuses that count as no answer unless an effect declares otherwise (D5).
pub const NO_ANSWER: [u16; 2] = [502, 504];

/// The two declared properties of a function or effect (V-18 to V-28).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetryClass {
    /// Whether it is ever released without an outcome.
    pub durability: Durability,
    /// Whether it may be executed again.
    pub idempotency: Idempotency,
}

/// Whether an admitted call may be released without an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Once admitted it is never released (V-19).
    Persist,
    /// It may be released when no caller waits for it any more (V-18).
    Volatile,
}

/// Whether executing the same logical call again is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Idempotency {
    /// It is safe (V-23).
    Idem,
    /// It is not safe: an unknown outcome stays unknown (V-24).
    NonIdem,
}

impl RetryPolicy {
    /// Whether this status does not say whether the request was processed.
    pub fn is_no_answer(&self, status: u16) -> bool {
        match &self.no_answer {
            Some(statuses) => statuses.contains(status),
            None => NO_ANSWER.contains(&status),
        }
    }
}

/// How many retries there may be; only some causes count (C-1, C-38).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryBound {
    /// At most this many.
    Bounded(u32),
    /// Any number.
    Unbounded,
}

/// A set of HTTP statuses: ascending, none twice, so that equal sets are stored alike.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Statuses(Box<[u16]>);

impl Statuses {
    /// These statuses, if they are in order and none stands twice.
    pub fn ascending(statuses: Vec<u16>) -> Option<Self> {
        statuses.is_sorted_by(|a, b| a < b).then(|| Self(statuses.into()))
    }

    /// Whether it is one of them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.binary_search(&status).is_ok()
    }

    /// The statuses, ascending.
    pub fn as_slice(&self) -> &[u16] {
        &self.0
    }
}

/// In any order, with or without repetitions.
impl FromIterator<u16> for Statuses {
    fn from_iter<I: IntoIterator<Item = u16>>(statuses: I) -> Self {
        let mut statuses: Vec<u16> = statuses.into_iter().collect();
        statuses.sort_unstable();
        statuses.dedup();
        Self(statuses.into())
    }
}

impl fmt::Debug for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// How long to wait before a retry: `base` doubled for every retry made, give or take a tenth,
/// never more than `cap` (O-22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backoff {
    /// The wait before the first retry.
    pub base: Micros,
    /// The longest wait.
    pub cap: Micros,
}

/// A function that can tell whether an effect happened (D5).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reconciler {
    /// The function to ask.
    pub function: FunctionName,
    /// How long "did not happen" is not believed: a request on the wire can arrive after the
    /// question.
    pub settle: Micros,
}

/// What becomes of an effect whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnUnknown {
    /// The promise completes as Indeterminate, and the workflow can match on it.
    Indeterminate,
    /// The effect is held for a person.
    Hold,
}

/// Why another attempt follows (C-38).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryCause {
    /// The attempt had an outcome, and it was a failure. Counts towards the bound.
    Failed,
    /// The request never left. Counts towards the bound.
    NotSent,
    /// The engine died while the attempt was in flight: its outcome is unknown.
    EngineLost,
    /// The reconciler said that it did not happen.
    ReconciledNotDone,
    /// A person had it run again.
    Operator,
}

impl RetryCause {
    /// All causes, in the order of their numbers on disk.
    pub const ALL: [Self; 5] =
        [Self::Failed, Self::NotSent, Self::EngineLost, Self::ReconciledNotDone, Self::Operator];

    /// Whether a retry for this cause counts towards the bound.
    pub fn counts(self) -> bool {
        matches!(self, Self::Failed | Self::NotSent)
    }
}

impl RetryClass {
    /// The class of SDK functions that declare none (C-39).
    pub const PERSIST: Self =
        Self { durability: Durability::Persist, idempotency: Idempotency::NonIdem };
    /// Durable, and safe to run again.
    pub const PERSIST_IDEM: Self =
        Self { durability: Durability::Persist, idempotency: Idempotency::Idem };
    /// The class of session-layer methods that declare none (V-18, V-24).
    pub const VOLATILE: Self =
        Self { durability: Durability::Volatile, idempotency: Idempotency::NonIdem };
    /// May be released, and safe to run again.
    pub const VOLATILE_IDEM: Self =
        Self { durability: Durability::Volatile, idempotency: Idempotency::Idem };
}

/// A call that is durable, not `idem`, and retried at most three times.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            class: RetryClass::PERSIST,
            bound: RetryBound::Bounded(3),
            backoff: Backoff { base: Micros::from_secs(1), cap: Micros::from_secs(60) },
            deadline: None,
            attempt_timeout: None,
            reconciler: None,
            on_unknown: OnUnknown::Indeterminate,
            not_processed: Statuses::default(),
            callee: None,
            no_answer: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-38: 502 and 504 count as no answer, unless an effect declares otherwise.
    #[test]
    fn what_counts_as_no_answer() {
        let usual = RetryPolicy::default();
        assert!(usual.is_no_answer(502) && usual.is_no_answer(504) && !usual.is_no_answer(503));
        let none = RetryPolicy { no_answer: Some(Statuses::default()), ..usual.clone() };
        assert!(!none.is_no_answer(502));
        let other = RetryPolicy { no_answer: Some([500].into_iter().collect()), ..usual };
        assert!(other.is_no_answer(500) && !other.is_no_answer(502));
    }

    /// C-38: equal sets of statuses are equal, however they were given.
    #[test]
    fn statuses_are_a_set() {
        let set: Statuses = [503, 429, 503].into_iter().collect();
        assert_eq!(set.as_slice(), [429, 503]);
        assert_eq!(Statuses::ascending(vec![429, 503]), Some(set));
        assert_eq!(Statuses::ascending(vec![503, 429]), None);
        assert_eq!(Statuses::ascending(vec![429, 429]), None);
    }
}
