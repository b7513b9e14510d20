//! The table of transitions. A row says: in this state, of this class, on this input, the operation
//! goes to that state (`None`: it stays as it is), and this follows. The ids are the requirements
//! that the row carries out. A row that names no class holds for all four.

use indelible_journal::Durability::{self, Persist, Volatile};
use indelible_journal::Idempotency::{self, Idem, NonIdem};
use indelible_journal::RetryClass;

use super::Input::{Cancelled, Dropped, Lost, Recovered, Resolved, Returned};
use super::Interest::{NoCaller, Others};
use super::Resolution::{self, DidNotHappen, Happened};
use super::{
    Decision, IgnoreReason, ImpossibleInput, Input, Meaning, Refusal, State, Unresolvable,
};
use crate::retention::Age;

/// Whether an attempt's binding is the one on record.
#[derive(Debug, Clone, Copy)]
pub(super) enum BindingMatch {
    Same,
    Other,
}

/// Whether a report is of the current run.
#[derive(Debug, Clone, Copy)]
pub(super) enum RunMatch {
    Now,
    Late,
}

/// A state, with its class taken apart.
enum StateKind<'a, O> {
    Absent,
    Live(Durability, Idempotency),
    Released(Idempotency),
    Sealed(&'a O),
    Indeterminate(Durability, Idempotency),
}

fn at<O>(state: Option<&State<O>>) -> StateKind<'_, O> {
    match state {
        None => StateKind::Absent,
        Some(State::Live(class)) => StateKind::Live(class.durability, class.idempotency),
        Some(State::Released(idempotency)) => StateKind::Released(*idempotency),
        Some(State::Sealed(outcome)) => StateKind::Sealed(outcome),
        Some(State::Indeterminate(class)) => {
            StateKind::Indeterminate(class.durability, class.idempotency)
        }
    }
}

fn live<O>(durability: Durability, idempotency: Idempotency) -> Option<State<O>> {
    Some(State::Live(RetryClass { durability, idempotency }))
}

fn unknown<O>(durability: Durability, idempotency: Idempotency) -> Option<State<O>> {
    Some(State::Indeterminate(RetryClass { durability, idempotency }))
}

/// How an attempt is answered; `class` is that of its method, used only on admission (V-17).
#[rustfmt::skip]
#[expect(clippy::match_same_arms, reason = "a row for each case, with the ids that it carries out")]
pub(super) fn on_attempt<O: Clone>(
    state: Option<&State<O>>,
    bound: BindingMatch,
    age: Age,
    class: RetryClass,
) -> (Option<State<O>>, Decision<O>) {
    use BindingMatch::{Other, Same};
    use Decision::{Attach, Refuse, Replay, RunAgain, Start};
    use Refusal::{Conflict, Expired, Indeterminate, TooFarAhead};
    match (at(state), bound, age) {
        (StateKind::Absent,                    _,     Age::Fresh)       => (Some(State::Live(class)), Start), // V-10, V-16, V-29
        (StateKind::Absent,                    _,     Age::Expired)     => (None, Refuse(Expired)),           // V-59, C-3
        (StateKind::Absent,                    _,     Age::TooFarAhead) => (None, Refuse(TooFarAhead)),       // C-3

        // The id has a record: its age no longer counts. The binding is compared before all else.
        (_,                             Other, _) => (None, Refuse(Conflict)),                         // V-9, C-6
        (StateKind::Live(..),                  Same,  _) => (None, Attach),                                   // V-11, V-23, V-30
        (StateKind::Sealed(outcome),           Same,  _) => (None, Replay(outcome.clone())),                  // V-14, V-31, V-37, V-45
        (StateKind::Released(Idem),            Same,  _) => (live(Volatile, Idem), RunAgain),                 // V-26, V-32, V-76
        (StateKind::Released(NonIdem),         Same,  _) => (None, Refuse(Indeterminate)),                    // V-24, V-25, V-33
        (StateKind::Indeterminate(d, Idem),    Same,  _) => (live(d, Idem), RunAgain),                        // V-28, V-34, V-76
        (StateKind::Indeterminate(_, NonIdem), Same,  _) => (None, Refuse(Indeterminate)),                    // V-24, V-27, V-35, V-46
    }
}

/// What any other input leads to.
#[rustfmt::skip]
#[expect(clippy::match_same_arms, reason = "a row for each case, with the ids that it carries out")]
pub(super) fn on_input<O>(
    state: Option<&State<O>>,
    when: RunMatch,
    input: Input<O>,
) -> Result<(Option<State<O>>, Meaning), ImpossibleInput> {
    use Meaning::{Detached, RunAgain};
    use RunMatch::{Late, Now};
    let ignored = |because| (None, Meaning::Ignored(because));
    let unresolvable = |because| (None, Meaning::Unresolvable(because));
    Ok(match (at(state), when, input) {
        (StateKind::Absent,            _,    Cancelled | Dropped(_))     => ignored(IgnoreReason::Absent),                          // V-10
        (StateKind::Absent,            _,    Resolved(_))                => unresolvable(Unresolvable::Absent),                // V-10
        (StateKind::Absent,            _,    Returned(run, _) | Lost(run) | Recovered(run, _))
                                                                  => return Err(ImpossibleInput::NeverAdmitted(run)),        // V-22

        // Absorbing: no input changes it.
        (StateKind::Sealed(_),         _,    Resolved(_))                => unresolvable(Unresolvable::Sealed),                // V-38
        (StateKind::Sealed(_),         _,    _)                          => ignored(IgnoreReason::Sealed),                          // V-38, V-44

        // Only the current run owns the operation: reports of earlier runs are ignored.
        (_,                     Late, _)                          => ignored(IgnoreReason::EarlierRun),                      // V-11, V-76

        (StateKind::Live(..),          Now,  Returned(_, outcome))       => (Some(State::Sealed(outcome)), Meaning::Sealed),   // V-16, V-36, C-24, C-28
        (StateKind::Live(..),          Now,  Recovered(_, outcome))      => (Some(State::Sealed(outcome)), Meaning::Sealed),   // V-20, V-39
        (StateKind::Live(d, i),        Now,  Lost(_))                    => (unknown(d, i), Meaning::Indeterminate),           // V-15, V-16, V-22, V-48
        (StateKind::Live(Volatile, i), Now,  Cancelled)                  => (Some(State::Released(i)), Meaning::Released),     // V-13, V-16, V-40
        (StateKind::Live(Persist, _),  Now,  Cancelled)                  => (None, Detached),                                  // V-19, V-41, C-24
        (StateKind::Live(Volatile, i), Now,  Dropped(NoCaller))          => (Some(State::Released(i)), Meaning::Released),     // V-13, V-18, V-42
        (StateKind::Live(Volatile, _), Now,  Dropped(Others))            => (None, Detached),                                  // V-30
        (StateKind::Live(Persist, _),  Now,  Dropped(_))                 => (None, Detached),                                  // V-19, V-43
        (StateKind::Live(..),          Now,  Resolved(_))                => unresolvable(Unresolvable::Live),                  // V-11

        // The release came first. Neither a run nor a person is responsible any more.
        (StateKind::Released(_),       Now,  Resolved(_))                => unresolvable(Unresolvable::Released),              // V-13, V-76
        (StateKind::Released(_),       Now,  _)                          => ignored(IgnoreReason::Released),                        // V-44

        // Only durable state or a person can settle it.
        (StateKind::Indeterminate(..), Now,  Recovered(_, outcome))      => (Some(State::Sealed(outcome)), Meaning::Sealed),   // V-35, V-76
        (StateKind::Indeterminate(..), Now,  Resolved(Happened(outcome)))
                                                                  => (Some(State::Sealed(outcome)), Meaning::Sealed),   // C-38
        (StateKind::Indeterminate(..), Now,  Resolved(DidNotHappen(outcome)))
                                                                  => (Some(State::Sealed(outcome)), Meaning::Sealed),   // C-38
        (StateKind::Indeterminate(d, i), Now, Resolved(Resolution::RunAgain))
                                                                  => (live(d, i), RunAgain),                            // C-38, V-24
        (StateKind::Indeterminate(..), Now,  _)                          => ignored(IgnoreReason::Indeterminate),                   // V-46, V-47
    })
}
