//! The table of transitions. A row says: in this state, of this class, on this input, the operation
//! goes to that state (`None`: it stays as it is), and it means that. The ids are what the row
//! carries out. A row that names no class holds for all four.

use indelible_journal::Durability::{self, Persist, Volatile};
use indelible_journal::Idempotency::{self, Idem, NonIdem};
use indelible_journal::RetryClass;

use super::Input::{Cancelled, Dropped, Lost, Recovered, Resolved, Returned};
use super::Interest::{Nobody, Others};
use super::Resolution::{self, DidNotHappen, Happened};
use super::{Decision, Ignored, Impossible, Input, Meaning, Refusal, State, Unresolvable};
use crate::retention::Age;

/// Whether an attempt asks for what its id stands for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    Same,
    Other,
}

/// Whether a report is of the present run.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Now,
    Late,
}

/// A state, with its class taken apart.
enum At<'a, O> {
    Absent,
    Live(Durability, Idempotency),
    Released(Idempotency),
    Sealed(&'a O),
    Indeterminate(Durability, Idempotency),
}

fn at<O>(state: Option<&State<O>>) -> At<'_, O> {
    match state {
        None => At::Absent,
        Some(State::Live(class)) => At::Live(class.durability, class.idempotency),
        Some(State::Released(idempotency)) => At::Released(*idempotency),
        Some(State::Sealed(outcome)) => At::Sealed(outcome),
        Some(State::Indeterminate(class)) => At::Indeterminate(class.durability, class.idempotency),
    }
}

fn live<O>(durability: Durability, idempotency: Idempotency) -> Option<State<O>> {
    Some(State::Live(RetryClass { durability, idempotency }))
}

fn unknown<O>(durability: Durability, idempotency: Idempotency) -> Option<State<O>> {
    Some(State::Indeterminate(RetryClass { durability, idempotency }))
}

/// What an attempt meets; `class` is that of a method whose operation is admitted (V-17).
#[rustfmt::skip]
#[expect(clippy::match_same_arms, reason = "a row for each case, with the ids that it carries out")]
pub(super) fn on_attempt<O: Clone>(
    state: Option<&State<O>>,
    bound: Bound,
    age: Age,
    class: RetryClass,
) -> (Option<State<O>>, Decision<O>) {
    use Bound::{Other, Same};
    use Decision::{Attach, Refuse, Replay, RunAgain, Start};
    use Refusal::{Conflict, Expired, Indeterminate, TooFarAhead};
    match (at(state), bound, age) {
        (At::Absent,                    _,     Age::Fresh)       => (Some(State::Live(class)), Start), // V-10, V-16, V-29
        (At::Absent,                    _,     Age::Expired)     => (None, Refuse(Expired)),           // V-59, C-3
        (At::Absent,                    _,     Age::TooFarAhead) => (None, Refuse(TooFarAhead)),       // C-3

        // The id is known: its age says nothing any more. What it stands for comes before all else.
        (_,                             Other, _) => (None, Refuse(Conflict)),                         // V-9, C-6
        (At::Live(..),                  Same,  _) => (None, Attach),                                   // V-11, V-23, V-30
        (At::Sealed(outcome),           Same,  _) => (None, Replay(outcome.clone())),                  // V-14, V-31, V-37, V-45
        (At::Released(Idem),            Same,  _) => (live(Volatile, Idem), RunAgain),                 // V-26, V-32, V-76
        (At::Released(NonIdem),         Same,  _) => (None, Refuse(Indeterminate)),                    // V-24, V-25, V-33
        (At::Indeterminate(d, Idem),    Same,  _) => (live(d, Idem), RunAgain),                        // V-28, V-34, V-76
        (At::Indeterminate(_, NonIdem), Same,  _) => (None, Refuse(Indeterminate)),                    // V-24, V-27, V-35, V-46
    }
}

/// What anything else means.
#[rustfmt::skip]
#[expect(clippy::match_same_arms, reason = "a row for each case, with the ids that it carries out")]
pub(super) fn on_input<O>(
    state: Option<&State<O>>,
    when: When,
    input: Input<O>,
) -> Result<(Option<State<O>>, Meaning), Impossible> {
    use Meaning::{Detached, RunAgain};
    use When::{Late, Now};
    let ignored = |because| (None, Meaning::Ignored(because));
    let unresolvable = |because| (None, Meaning::Unresolvable(because));
    Ok(match (at(state), when, input) {
        (At::Absent,            _,    Cancelled | Dropped(_))     => ignored(Ignored::Absent),                          // V-10
        (At::Absent,            _,    Resolved(_))                => unresolvable(Unresolvable::Absent),                // V-10
        (At::Absent,            _,    Returned(run, _) | Lost(run) | Recovered(run, _))
                                                                  => return Err(Impossible::NeverAdmitted(run)),        // V-22

        // Absorbing: whatever comes, whoever says it.
        (At::Sealed(_),         _,    Resolved(_))                => unresolvable(Unresolvable::Sealed),                // V-38
        (At::Sealed(_),         _,    _)                          => ignored(Ignored::Sealed),                          // V-38, V-44

        // There is one owner: a run before it has no say.
        (_,                     Late, _)                          => ignored(Ignored::EarlierRun),                      // V-11, V-76

        (At::Live(..),          Now,  Returned(_, outcome))       => (Some(State::Sealed(outcome)), Meaning::Sealed),   // V-16, V-36, C-24, C-28
        (At::Live(..),          Now,  Recovered(_, outcome))      => (Some(State::Sealed(outcome)), Meaning::Sealed),   // V-20, V-39
        (At::Live(d, i),        Now,  Lost(_))                    => (unknown(d, i), Meaning::Indeterminate),           // V-15, V-16, V-22, V-48
        (At::Live(Volatile, i), Now,  Cancelled)                  => (Some(State::Released(i)), Meaning::Released),     // V-13, V-16, V-40
        (At::Live(Persist, _),  Now,  Cancelled)                  => (None, Detached),                                  // V-19, V-41, C-24
        (At::Live(Volatile, i), Now,  Dropped(Nobody))            => (Some(State::Released(i)), Meaning::Released),     // V-13, V-18, V-42
        (At::Live(Volatile, _), Now,  Dropped(Others))            => (None, Detached),                                  // V-30
        (At::Live(Persist, _),  Now,  Dropped(_))                 => (None, Detached),                                  // V-19, V-43
        (At::Live(..),          Now,  Resolved(_))                => unresolvable(Unresolvable::Live),                  // V-11

        // The release came first. Nobody is responsible any more: no run, and no person.
        (At::Released(_),       Now,  Resolved(_))                => unresolvable(Unresolvable::Released),              // V-13, V-76
        (At::Released(_),       Now,  _)                          => ignored(Ignored::Released),                        // V-44

        // Only what is durable, or a person, says what became of it.
        (At::Indeterminate(..), Now,  Recovered(_, outcome))      => (Some(State::Sealed(outcome)), Meaning::Sealed),   // V-35, V-76
        (At::Indeterminate(..), Now,  Resolved(Happened(outcome)))
                                                                  => (Some(State::Sealed(outcome)), Meaning::Sealed),   // C-38
        (At::Indeterminate(..), Now,  Resolved(DidNotHappen(outcome)))
                                                                  => (Some(State::Sealed(outcome)), Meaning::Sealed),   // C-38
        (At::Indeterminate(d, i), Now, Resolved(Resolution::RunAgain))
                                                                  => (live(d, i), RunAgain),                            // C-38, V-24
        (At::Indeterminate(..), Now,  _)                          => ignored(Ignored::Indeterminate),                   // V-46, V-47
    })
}
