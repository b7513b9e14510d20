//! The states of an operation, and what happens to it (V-10 to V-48, V-76).
//!
//! ```text
//!              first attempt
//!    Absent ──────────────────▶ Live ──── the handler returns ────▶ Sealed
//!                               │ ▲ │                                 ▲
//!       cancel, no caller waits │ │ │  lost before an outcome         │ recovered,
//!             (volatile)        │ │ │  is recoverable                 │ or a person says
//!                               ▼ │ ▼                                 │
//!                        Released ┴ Indeterminate ────────────────────┘
//!                        run again: if idem, or a person says so
//! ```
//!
//! `table.rs` has one row for each transition, with the ids of what it carries out. There is no way
//! back to Absent: only [retention](crate::retention) takes records away (V-22, C-4).

mod table;

use std::fmt;
use std::num::NonZeroU64;

use indelible_journal::{Idempotency, RetryClass};

use crate::binding::Binding;
use crate::retention::Age;

/// The record of an operation. An operation without one is Absent.
///
/// Every value is legal, so that a record can be stored and read back without a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<O> {
    /// What its id stands for (V-9).
    pub binding: Binding,
    /// The current run, or the last one.
    pub run: Run,
    /// Its state.
    pub state: State<O>,
}

/// The state of an admitted operation. It keeps the class of its method, fixed at admission (V-17),
/// while the class still decides anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State<O> {
    /// It has an owner, and no outcome yet (V-11).
    Live(RetryClass),
    /// Responsibility was given up, without an outcome. Only a volatile operation can be released:
    /// the variant has no place for a durability (V-13, V-19).
    Released(Idempotency),
    /// It has this outcome, for good (V-14).
    Sealed(O),
    /// Whether it has an outcome cannot be proven (V-15).
    Indeterminate(RetryClass),
}

/// The number of a run of an operation, from 1. A run starts only when none is live (V-76); the
/// number tells a late report of an earlier run from one of the current run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run(NonZeroU64);

impl Run {
    /// The first.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Run `number`; `None` for 0.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, from 1.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A request attempt under an operation's id. A retry is another attempt at the same operation; it
/// does not revive an earlier attempt (V-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The class of the method. It counts only when the operation is admitted (V-17).
    pub class: RetryClass,
    /// The binding of the request.
    pub binding: Binding,
    /// What the id means if it has no record.
    pub age: Age,
}

/// How an attempt is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<O> {
    /// It is admitted. The operation starts.
    Start,
    /// The operation is running: the attempt waits for it.
    Attach,
    /// The operation has this outcome, whether good or bad (V-37, V-45).
    Replay(O),
    /// The operation runs again, under the same id.
    RunAgain,
    /// Nothing runs, and nothing changes.
    Refuse(Refusal),
}

/// Why an attempt is refused. None of these is an outcome of the operation (V-47).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// Its id stands for another request (V-9).
    #[error("the operation id was already used for another method or other arguments")]
    Conflict,
    /// Its id is unknown, and too old to be new (V-59).
    #[error("the operation id is older than the retention of operations")]
    Expired,
    /// Its id is unknown, and was made in the future (C-3).
    #[error("the operation id lies in the future by more than clocks may differ")]
    TooFarAhead,
    /// Whether the operation happened cannot be known, and doing it again is not safe (V-46).
    #[error("it is unknown whether the operation happened")]
    Indeterminate,
}

/// Everything that can happen to an operation, except attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<O> {
    /// The run has an outcome: its handler returned (V-36), with a value or an error (C-28), or its
    /// execution was cancelled and has settled (C-24). For a persist operation this input comes
    /// only after the outcome is durable (V-21).
    Returned(Run, O),
    /// The runtime lost the run, and with it the outcome (V-48). A run that goes on by replay after
    /// a crash is not lost (C-41).
    Lost(Run),
    /// The outcome of the run was found in durable state (V-35, V-39).
    Recovered(Run, O),
    /// A caller asks to cancel. A cancel undoes nothing (V-75).
    Cancelled,
    /// A caller no longer waits: it dropped its interest, its connection broke, or it timed out.
    Dropped(Interest),
    /// A person says what became of it (C-38).
    Resolved(Resolution<O>),
}

/// Whether other callers wait for an operation when one has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interest {
    /// No other caller waits.
    NoCaller,
    /// Other callers are attached to it.
    Others,
}

/// How a person resolves an operation that is Indeterminate (C-38).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution<O> {
    /// It happened, with this outcome.
    Happened(O),
    /// It did not happen. Callers are given the outcome that says so, of the kind
    /// [`NotPerformed`](indelible_journal::ErrorKind::NotPerformed).
    DidNotHappen(O),
    /// It is to run again. The person answers for its safety: this is the proof from outside that
    /// V-24 speaks of.
    RunAgain,
}

/// What an input led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The operation is Sealed now. The callers that wait for it are told.
    Sealed,
    /// The operation is Released now. Its run is stopped, or its result ignored.
    Released,
    /// The operation is Indeterminate now. The callers that wait for it are told so (V-48).
    Indeterminate,
    /// The operation runs again.
    RunAgain,
    /// A caller is no longer told of the outcome; the operation goes on.
    Detached,
    /// Nothing changed: something else came first.
    Ignored(IgnoreReason),
    /// Nothing changed: there is nothing for a person to decide.
    Unresolvable(Unresolvable),
}

/// Why an input was ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IgnoreReason {
    /// There is no such operation.
    Absent,
    /// It was released (V-44).
    Released,
    /// It has an outcome (V-38).
    Sealed,
    /// Its run was lost. Its outcome counts only once it is found in durable state.
    Indeterminate,
    /// The input is of an earlier run.
    EarlierRun,
}

/// Why there is nothing to resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unresolvable {
    /// There is no such operation.
    #[error("no such operation")]
    Absent,
    /// It is still running, and will have an outcome.
    #[error("the operation is still running")]
    Live,
    /// Responsibility for it was given up.
    #[error("the operation was released and has no owner")]
    Released,
    /// It has an outcome (V-38).
    #[error("the operation already has an outcome")]
    Sealed,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<O, D> {
    /// The record to write before anything else follows. `None`: nothing has changed.
    pub put: Option<Operation<O>>,
    /// The decision.
    pub decision: D,
}

/// An input that cannot happen: the host has a bug. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImpossibleInput {
    /// A run of an operation that was never admitted.
    #[error("run {0} belongs to an operation that was never admitted")]
    NeverAdmitted(Run),
    /// A run that has not begun.
    #[error("run {run} has not begun: run {last} is the last")]
    NeverBegun {
        /// The run.
        run: Run,
        /// The last that has begun.
        last: Run,
    },
    /// The last run that can be counted was lost.
    #[error("the operation has no run numbers left")]
    NoMoreRuns,
}

/// Handles an attempt.
pub fn attempt<O: Clone>(
    known: Option<&Operation<O>>,
    attempt: &Attempt,
) -> Result<Step<O, Decision<O>>, ImpossibleInput> {
    let bound = match known {
        Some(known) if known.binding != attempt.binding => table::BindingMatch::Other,
        _ => table::BindingMatch::Same,
    };
    let state = known.map(|known| &known.state);
    let (next, decision) = table::on_attempt(state, bound, attempt.age, attempt.class);
    let binding = known.map_or(attempt.binding, |known| known.binding);
    Ok(Step { put: put(known, binding, next)?, decision })
}

/// Handles everything else that happens to an operation.
pub fn apply<O: Clone>(
    known: Option<&Operation<O>>,
    input: Input<O>,
) -> Result<Step<O, Meaning>, ImpossibleInput> {
    let when = match (known, &input) {
        (Some(known), Input::Returned(run, _) | Input::Lost(run) | Input::Recovered(run, _)) => {
            let (run, last) = (*run, known.run);
            if run > last {
                return Err(ImpossibleInput::NeverBegun { run, last });
            }
            if run < last { table::RunMatch::Late } else { table::RunMatch::Now }
        }
        _ => table::RunMatch::Now,
    };
    let (next, decision) = table::on_input(known.map(|known| &known.state), when, input)?;
    // Only an attempt creates a record.
    let put = match known {
        Some(known) => put(Some(known), known.binding, next)?,
        None => None,
    };
    Ok(Step { put, decision })
}

/// The record with its next state. A transition to Live starts a new run.
fn put<O>(
    known: Option<&Operation<O>>,
    binding: Binding,
    next: Option<State<O>>,
) -> Result<Option<Operation<O>>, ImpossibleInput> {
    let Some(state) = next else { return Ok(None) };
    let run = match (known, &state) {
        (None, _) => Run::FIRST,
        (Some(known), State::Live(_)) => known.run.next().ok_or(ImpossibleInput::NoMoreRuns)?,
        (Some(known), _) => known.run,
    };
    Ok(Some(Operation { binding, run, state }))
}

impl<O> State<O> {
    /// Whether a run owns it: no other run may start.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }
}

/// `Live`, `Released`, `Sealed` or `Indeterminate`.
impl<O> fmt::Display for State<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Live(_) => "Live",
            Self::Released(_) => "Released",
            Self::Sealed(_) => "Sealed",
            Self::Indeterminate(_) => "Indeterminate",
        })
    }
}
