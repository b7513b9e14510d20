//! What a request meets that may be a repetition. The table of [`indelible_operations::state`]
//! decides; this module puts what the operation's record says into the table's words.

use indelible_journal::{Durability, RetryClass};
use indelible_operations::Binding;
use indelible_operations::retention::Age;
use indelible_operations::state::{self, Attempt, Decision, Input, Interest, Meaning, Run, State};

/// What is known of an operation, from its record or from the rows of its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The function and input that its id stands for.
    pub binding: Binding,
    /// The class of its function, in the version that it was admitted with (V-17).
    pub class: RetryClass,
    /// How far the operation is.
    pub progress: Progress,
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// No outcome is on record, and the tree has the execution in memory or will load it.
    GoesOn,
    /// No outcome is on record, and the tree does not have the execution in memory. A persist one
    /// goes on by itself all the same (C-41); a volatile one was lost with its process, or
    /// released.
    NotInMemory,
    /// Its outcome is on record.
    Ended,
}

/// What a request meets (V-9, V-29 to V-35).
pub fn decide(known: Option<&Known>, asked: &OperationAttempt) -> Decision<()> {
    let OperationAttempt { binding, age } = *asked;
    // This class decides nothing: an operation that is admitted has the class of its function in
    // the version that it is started with, for good (V-17).
    let class = RetryClass::PERSIST;
    let known = known.map(operation);
    let step = state::attempt(known.as_ref(), &Attempt { class, binding, age });
    step.expect("there is one run").decision
}

/// A request to start an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationAttempt {
    /// The function and input that are asked for.
    pub binding: Binding,
    /// What the id means if it has no record (C-3).
    pub age: Age,
}

/// Whether an operation of this class is released when the last caller that waited for it has gone;
/// if not, it goes on (V-13, V-18, V-19, V-42, V-43).
pub(crate) fn is_released_when_unwatched(class: RetryClass) -> bool {
    let binding = Binding::from_bytes([0; 32]);
    let live = state::Operation { binding, run: Run::FIRST, state: State::Live(class) };
    let gone: Input<()> = Input::Dropped(Interest::NoCaller);
    state::apply(Some(&live), gone).is_ok_and(|step| step.decision == Meaning::Released)
}

/// An operation as the table knows it: live, or live and then ended or lost. No record says whether
/// a volatile operation was released or lost; in both cases it is unknown how far it came.
fn operation(known: &Known) -> state::Operation<()> {
    let Known { binding, class, progress } = *known;
    let live = state::Operation { binding, run: Run::FIRST, state: State::Live(class) };
    let then = match progress {
        Progress::Ended => Input::Returned(Run::FIRST, ()),
        Progress::NotInMemory if class.durability == Durability::Volatile => {
            Input::Lost(Run::FIRST)
        }
        Progress::NotInMemory | Progress::GoesOn => return live,
    };
    let step = state::apply(Some(&live), then);
    step.expect("there is one run").put.unwrap_or(live)
}

#[cfg(test)]
mod tests {
    use indelible_journal::Idempotency;
    use indelible_operations::state::Refusal;

    use super::*;

    const IDEM: RetryClass =
        RetryClass { durability: Durability::Volatile, idempotency: Idempotency::Idem };
    const NOT_IDEM: RetryClass =
        RetryClass { durability: Durability::Volatile, idempotency: Idempotency::NonIdem };
    const PERSIST: RetryClass =
        RetryClass { durability: Durability::Persist, idempotency: Idempotency::NonIdem };

    fn meets(known: Option<(RetryClass, Progress)>, age: Age) -> Decision<()> {
        let binding = Binding::from_bytes([1; 32]);
        let known = known.map(|(class, progress)| Known { binding, class, progress });
        decide(known.as_ref(), &OperationAttempt { binding, age })
    }

    /// V-10, V-16, V-29, V-59, C-3: without a record, the age of the id decides.
    #[test]
    fn without_a_record() {
        assert_eq!(meets(None, Age::Fresh), Decision::Start);
        assert_eq!(meets(None, Age::Expired), Decision::Refuse(Refusal::Expired));
        assert_eq!(meets(None, Age::TooFarAhead), Decision::Refuse(Refusal::TooFarAhead));
    }

    /// V-11, V-14, V-15, V-17, V-24 to V-35, V-45, V-47: with a record, its progress and the class
    /// that the operation was admitted with decide.
    #[test]
    fn with_a_record() {
        use Progress::{Ended, GoesOn, NotInMemory};
        let unknown = Decision::Refuse(Refusal::Indeterminate);
        for (class, progress, decision) in [
            (PERSIST, GoesOn, Decision::Attach),
            (PERSIST, NotInMemory, Decision::Attach),
            (PERSIST, Ended, Decision::Replay(())),
            (IDEM, GoesOn, Decision::Attach),
            (IDEM, NotInMemory, Decision::RunAgain),
            (IDEM, Ended, Decision::Replay(())),
            (NOT_IDEM, GoesOn, Decision::Attach),
            (NOT_IDEM, NotInMemory, unknown),
            (NOT_IDEM, Ended, Decision::Replay(())),
        ] {
            for age in [Age::Fresh, Age::Expired, Age::TooFarAhead] {
                assert_eq!(meets(Some((class, progress)), age), decision, "{class:?} {progress:?}");
            }
        }
    }

    /// V-9, C-6: another request under the id is a conflict, whatever became of the first.
    #[test]
    fn another_request() {
        for progress in [Progress::Ended, Progress::GoesOn, Progress::NotInMemory] {
            let known = Known { binding: Binding::from_bytes([1; 32]), class: IDEM, progress };
            let asked = OperationAttempt { binding: Binding::from_bytes([2; 32]), age: Age::Fresh };
            let decision = decide(Some(&known), &asked);
            assert_eq!(decision, Decision::Refuse(Refusal::Conflict));
        }
    }
}
