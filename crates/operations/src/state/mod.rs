//! The states of an operation, and what happens to it (V-10 to V-48, V-76).
//!
//! ```text
//!              first attempt
//!    Absent ──────────────────▶ Live ──── the handler returns ────▶ Sealed
//!                               │ ▲ │                                 ▲
//!       cancel, nobody waits    │ │ │  lost before an outcome         │ recovered,
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

/// What is known of an operation. Absent is to have none of these.
///
/// Every value of it is a legal one, so that it can be stored and read back without a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<O> {
    /// What its id stands for (V-9).
    pub binding: Binding,
    /// The run that goes on, or was the last.
    pub run: Run,
    /// How it stands.
    pub state: State<O>,
}

/// How an admitted operation stands. It has the class of its method, fixed when it was admitted
/// (V-17), for as long as that decides anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State<O> {
    /// It has an owner, and no outcome yet (V-11).
    Live(RetryClass),
    /// Responsibility was given up, without an outcome. It is volatile: a persist one has no way
    /// to be written here (V-13, V-19).
    Released(Idempotency),
    /// It has this outcome, for good (V-14).
    Sealed(O),
    /// Nobody can prove whether it has an outcome (V-15).
    Indeterminate(RetryClass),
}

/// Which execution of an operation, from 1. There is another only when none is live (V-76); what an
/// earlier one reports late is not taken for the present one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run(NonZeroU64);

impl Run {
    /// The first.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Run `number`; none for 0.
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
/// revives no earlier one (V-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The class of the method. It is looked at when the operation is admitted, and not again
    /// (V-17).
    pub class: RetryClass,
    /// What is asked for.
    pub binding: Binding,
    /// What the id means if it has no record.
    pub age: Age,
}

/// What an attempt meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<O> {
    /// It is admitted. The operation starts.
    Start,
    /// The operation goes on: it is waited for.
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
    #[error("the operation id was used before, for another method or other arguments")]
    Conflict,
    /// Its id is unknown, and too old to be new (V-59).
    #[error("the operation id is older than operations are remembered")]
    Expired,
    /// Its id is unknown, and was made in the future (C-3).
    #[error("the operation id was made further in the future than clocks may differ")]
    TooFarAhead,
    /// Nobody can know whether the operation happened, and doing it again is not safe (V-46).
    #[error("nobody can know whether the operation happened")]
    Indeterminate,
}

/// What happens to an operation beside attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<O> {
    /// The run has an outcome: its handler returned (V-36), with a value or an error (C-28), or
    /// its execution was cancelled and has settled (C-24). For a persist operation this is said
    /// when the outcome is durable (V-21).
    Returned(Run, O),
    /// The runtime lost the run, and with it the outcome (V-48). What goes on by replay after a
    /// crash is not lost (C-41).
    Lost(Run),
    /// The outcome of the run was found in durable state (V-35, V-39).
    Recovered(Run, O),
    /// A caller asks to cancel. It is an event, and undoes nothing (V-75).
    Cancelled,
    /// A caller waits no longer: it dropped its interest, its connection broke, or its time was
    /// over.
    Dropped(Interest),
    /// A person says what became of it (C-38).
    Resolved(Resolution<O>),
}

/// Who else waits for an operation when a caller has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interest {
    /// Nobody.
    Nobody,
    /// Somebody who attached to it.
    Others,
}

/// What a person says of an operation whose outcome nobody knew (C-38).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution<O> {
    /// It happened, with this outcome.
    Happened(O),
    /// It did not happen. What callers are told is the outcome that says so, of the kind
    /// [`NotPerformed`](indelible_journal::ErrorKind::NotPerformed).
    DidNotHappen(O),
    /// It is to run again. That it is safe is for the person to know: the proof from outside that
    /// V-24 speaks of.
    RunAgain,
}

/// What an input meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The operation is Sealed now. Whoever waits for it is told.
    Sealed,
    /// The operation is Released now. Its run is stopped, or what it does is of no interest.
    Released,
    /// The operation is Indeterminate now. Whoever waits for it is told so (V-48).
    Indeterminate,
    /// The operation runs again.
    RunAgain,
    /// A caller is no longer told of the outcome; the operation goes on.
    Detached,
    /// Nothing changed: something else came first.
    Ignored(Ignored),
    /// Nothing changed: there is nothing for a person to decide.
    Unresolvable(Unresolvable),
}

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ignored {
    /// There is no such operation.
    Absent,
    /// It was released (V-44).
    Released,
    /// It has an outcome (V-38).
    Sealed,
    /// It was lost. Its outcome counts when it is found in durable state, and not before.
    Indeterminate,
    /// This is of a run before the present one.
    EarlierRun,
}

/// Why there is nothing to resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unresolvable {
    /// There is no such operation.
    #[error("there is no such operation")]
    Absent,
    /// It goes on, and will tell.
    #[error("the operation goes on")]
    Live,
    /// Responsibility for it was given up.
    #[error("the operation was released: nobody is responsible for it")]
    Released,
    /// It has an outcome (V-38).
    #[error("the operation has an outcome")]
    Sealed,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<O, D> {
    /// What is to be written down before anything else follows. None: nothing has changed.
    pub put: Option<Operation<O>>,
    /// What it means.
    pub decision: D,
}

/// What cannot have happened: whoever says so has made a mistake. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// A run of an operation that was never admitted.
    #[error("run {0} is of an operation that was never admitted")]
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
    #[error("the operation has run as often as can be counted")]
    NoMoreRuns,
}

/// An attempt arrives.
pub fn attempt<O: Clone>(
    known: Option<&Operation<O>>,
    attempt: &Attempt,
) -> Result<Step<O, Decision<O>>, Impossible> {
    let bound = match known {
        Some(known) if known.binding != attempt.binding => table::Bound::Other,
        _ => table::Bound::Same,
    };
    let state = known.map(|known| &known.state);
    let (next, decision) = table::on_attempt(state, bound, attempt.age, attempt.class);
    let binding = known.map_or(attempt.binding, |known| known.binding);
    Ok(Step { put: put(known, binding, next)?, decision })
}

/// Something else happens.
pub fn apply<O: Clone>(
    known: Option<&Operation<O>>,
    input: Input<O>,
) -> Result<Step<O, Meaning>, Impossible> {
    let when = match (known, &input) {
        (Some(known), Input::Returned(run, _) | Input::Lost(run) | Input::Recovered(run, _)) => {
            let (run, last) = (*run, known.run);
            if run > last {
                return Err(Impossible::NeverBegun { run, last });
            }
            if run < last { table::When::Late } else { table::When::Now }
        }
        _ => table::When::Now,
    };
    let (next, decision) = table::on_input(known.map(|known| &known.state), when, input)?;
    // Only an attempt brings a record where there is none.
    let put = match known {
        Some(known) => put(Some(known), known.binding, next)?,
        None => None,
    };
    Ok(Step { put, decision })
}

/// The record with its next state: a state that is Live is a new run.
fn put<O>(
    known: Option<&Operation<O>>,
    binding: Binding,
    next: Option<State<O>>,
) -> Result<Option<Operation<O>>, Impossible> {
    let Some(state) = next else { return Ok(None) };
    let run = match (known, &state) {
        (None, _) => Run::FIRST,
        (Some(known), State::Live(_)) => known.run.next().ok_or(Impossible::NoMoreRuns)?,
        (Some(known), _) => known.run,
    };
    Ok(Some(Operation { binding, run, state }))
}

impl<O> State<O> {
    /// Nobody can take it over from whoever runs it.
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
