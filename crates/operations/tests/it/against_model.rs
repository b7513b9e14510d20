//! The state machine against a slow reading of the specification (`model`): random sequences of
//! what can happen, for the four classes; both must agree after every step.

use indelible_journal::{Codec, Durability, Idempotency, Payload, RetryClass};
use indelible_operations::Binding;
use indelible_operations::retention::Age;
use indelible_operations::state::{
    self, Attempt, Decision, IgnoreReason, ImpossibleInput, Input, Interest, Meaning, Operation,
    Refusal, Resolution, Run, State, Unresolvable,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::{Happened, Meets, Stands, Story};

const CLASSES: [RetryClass; 4] = [
    RetryClass::PERSIST,
    RetryClass::PERSIST_IDEM,
    RetryClass::VOLATILE,
    RetryClass::VOLATILE_IDEM,
];

/// What comes next, without the number of the run: that depends on what came before.
#[derive(Debug, Clone, Copy)]
enum Next {
    Attempt { asks_for: char, age: Age, class: RetryClass },
    Returned(Which, char),
    Lost(Which),
    Recovered(Which, char),
    Cancelled,
    Dropped(Interest),
    Happened(char),
    DidNotHappen(char),
    RunAgain,
}

/// Which run reports.
#[derive(Debug, Clone, Copy)]
enum Which {
    Last,
    /// An earlier one, if there was one.
    Earlier(u64),
    NotBegun,
}

fn nexts() -> impl Strategy<Value = Vec<Next>> {
    let which = || {
        prop_oneof![
            8 => Just(Which::Last),
            3 => (0u64..4).prop_map(Which::Earlier),
            1 => Just(Which::NotBegun),
        ]
    };
    let outcome = || select(vec!['x', 'y', 'z']);
    let asks_for = prop_oneof![4 => Just('a'), 1 => Just('b')];
    let age =
        prop_oneof![4 => Just(Age::Fresh), 1 => Just(Age::Expired), 1 => Just(Age::TooFarAhead)];
    // A later attempt says another class only by mistake; it must not matter.
    let class = select(CLASSES.to_vec());
    let attempt = (asks_for, age, class).prop_map(|(asks_for, age, class)| Next::Attempt {
        asks_for,
        age,
        class,
    });
    let next = prop_oneof![
        8 => attempt,
        2 => (which(), outcome()).prop_map(|(run, outcome)| Next::Returned(run, outcome)),
        4 => which().prop_map(Next::Lost),
        1 => (which(), outcome()).prop_map(|(run, outcome)| Next::Recovered(run, outcome)),
        2 => Just(Next::Cancelled),
        1 => Just(Next::Dropped(Interest::NoCaller)),
        1 => Just(Next::Dropped(Interest::Others)),
        1 => outcome().prop_map(Next::Happened),
        1 => outcome().prop_map(Next::DidNotHappen),
        2 => Just(Next::RunAgain),
    ];
    vec(next, 1..40)
}

fn binding(asks_for: char) -> Binding {
    Binding::of("method", &Payload::new(Codec::TEXT, asks_for.to_string()))
}

/// The run that reports, given which was the last. None: there is none.
fn run(which: Which, last: Option<u64>) -> Option<Run> {
    let last = last.unwrap_or(0);
    match which {
        Which::Last => Run::new(last),
        Which::Earlier(by) => Run::new(last.saturating_sub(1 + by)),
        Which::NotBegun => Run::new(last + 1),
    }
}

/// How the machine's record stands, in the model's words.
fn stands(operation: Option<&Operation<char>>) -> Stands {
    let Some(operation) = operation else { return Stands::Absent };
    match &operation.state {
        State::Live(_) => Stands::Live(operation.run.get()),
        State::Released(_) => Stands::Released,
        State::Sealed(outcome) => Stands::Sealed(*outcome),
        State::Indeterminate(_) => Stands::Indeterminate,
    }
}

fn meets(decision: &Decision<char>) -> Meets {
    match decision {
        Decision::Start => Meets::Start,
        Decision::Attach => Meets::Attach,
        Decision::Replay(outcome) => Meets::Replay(*outcome),
        Decision::RunAgain => Meets::RunAgain,
        Decision::Refuse(Refusal::Conflict) => Meets::Conflict,
        Decision::Refuse(Refusal::Expired | Refusal::TooFarAhead) => Meets::NotNewEnough,
        Decision::Refuse(Refusal::Indeterminate) => Meets::Indeterminate,
    }
}

/// What an input must have meant, from how the model stands before and after it.
fn meant(before: Stands, after: Stands, input: &Input<char>, late: bool) -> Meaning {
    let resolves = matches!(input, Input::Resolved(_));
    match (before, after) {
        // It changed something.
        (Stands::Live(_) | Stands::Indeterminate, Stands::Sealed(_)) => Meaning::Sealed,
        (Stands::Live(_), Stands::Released) => Meaning::Released,
        (Stands::Live(_), Stands::Indeterminate) => Meaning::Indeterminate,
        (Stands::Indeterminate, Stands::Live(_)) => Meaning::RunAgain,
        // It did not: why?
        (Stands::Absent, _) if resolves => Meaning::Unresolvable(Unresolvable::Absent),
        (Stands::Absent, _) => Meaning::Ignored(IgnoreReason::Absent),
        (Stands::Sealed(_), _) if resolves => Meaning::Unresolvable(Unresolvable::Sealed),
        (Stands::Sealed(_), _) => Meaning::Ignored(IgnoreReason::Sealed),
        _ if late => Meaning::Ignored(IgnoreReason::EarlierRun),
        (Stands::Live(_), _) if resolves => Meaning::Unresolvable(Unresolvable::Live),
        (Stands::Live(_), _) => Meaning::Detached,
        (Stands::Released, _) if resolves => Meaning::Unresolvable(Unresolvable::Released),
        (Stands::Released, _) => Meaning::Ignored(IgnoreReason::Released),
        (Stands::Indeterminate, _) => Meaning::Ignored(IgnoreReason::Indeterminate),
    }
}

/// Both sides, one step at a time.
struct Both {
    story: Story,
    operation: Option<Operation<char>>,
}

impl Both {
    fn new(class: RetryClass) -> Self {
        Self { story: Story::new(class), operation: None }
    }

    fn step(&mut self, next: Next) -> Result<(), TestCaseError> {
        let known = self.operation.as_ref();
        let last = known.map(|operation| operation.run.get());
        let report = |which, input: fn(Run, char) -> Input<char>, outcome| {
            run(which, last).map(|run| (Some(run), input(run, outcome)))
        };
        let input = match next {
            Next::Attempt { asks_for, age, class } => return self.attempt(asks_for, age, class),
            Next::Returned(which, outcome) => report(which, Input::Returned, outcome),
            Next::Lost(which) => report(which, |run, _| Input::Lost(run), '-'),
            Next::Recovered(which, outcome) => report(which, Input::Recovered, outcome),
            Next::Cancelled => Some((None, Input::Cancelled)),
            Next::Dropped(interest) => Some((None, Input::Dropped(interest))),
            Next::Happened(o) => Some((None, Input::Resolved(Resolution::Happened(o)))),
            Next::DidNotHappen(o) => Some((None, Input::Resolved(Resolution::DidNotHappen(o)))),
            Next::RunAgain => Some((None, Input::Resolved(Resolution::RunAgain))),
        };
        match input {
            Some((run, input)) => self.input(run, &input),
            None => Ok(()),
        }
    }

    fn attempt(
        &mut self,
        asks_for: char,
        age: Age,
        class: RetryClass,
    ) -> Result<(), TestCaseError> {
        // The class is the method's: the one that the operation is admitted with.
        let class = if self.operation.is_some() { class } else { self.story.class };
        let attempt = Attempt { class, binding: binding(asks_for), age };
        let step = state::attempt(self.operation.as_ref(), &attempt)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let new_enough = age == Age::Fresh;
        prop_assert_eq!(meets(&step.decision), self.story.meets(asks_for, new_enough));
        if let Decision::Refuse(refusal @ (Refusal::Expired | Refusal::TooFarAhead)) = step.decision
        {
            prop_assert_eq!(refusal == Refusal::Expired, age == Age::Expired);
        }
        let changes = matches!(step.decision, Decision::Start | Decision::RunAgain);
        prop_assert_eq!(step.put.is_some(), changes);
        self.story.happened.push(Happened::Attempt { asks_for, new_enough });
        self.put(step.put)
    }

    fn input(&mut self, run: Option<Run>, input: &Input<char>) -> Result<(), TestCaseError> {
        let last = self.operation.as_ref().map(|operation| operation.run);
        let step = state::apply(self.operation.as_ref(), input.clone());
        // What cannot be is refused, and has not happened.
        match (run, last) {
            (Some(run), None) => {
                prop_assert_eq!(step, Err(ImpossibleInput::NeverAdmitted(run)));
                return Ok(());
            }
            (Some(run), Some(last)) if run > last => {
                prop_assert_eq!(step, Err(ImpossibleInput::NeverBegun { run, last }));
                return Ok(());
            }
            _ => {}
        }
        let step = step.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let before = self.story.stands();
        self.story.happened.push(match *input {
            Input::Returned(run, outcome) => Happened::Returned { run: run.get(), outcome },
            Input::Lost(run) => Happened::Lost { run: run.get() },
            Input::Recovered(run, outcome) => Happened::Found { run: run.get(), outcome },
            Input::Cancelled => Happened::CancelAsked,
            Input::Dropped(interest) => {
                Happened::CallerGone { others_wait: interest == Interest::Others }
            }
            Input::Resolved(Resolution::Happened(outcome) | Resolution::DidNotHappen(outcome)) => {
                Happened::PersonSaid { outcome }
            }
            Input::Resolved(Resolution::RunAgain) => Happened::PersonRunsAgain,
        });
        let after = self.story.stands();
        prop_assert_eq!(step.decision, meant(before, after, input, run < last && run.is_some()));
        prop_assert_eq!(step.put.is_some(), before != after);
        self.put(step.put)
    }

    /// Takes the new record, and compares.
    fn put(&mut self, put: Option<Operation<char>>) -> Result<(), TestCaseError> {
        if put.is_some() {
            self.operation = put;
        }
        let operation = self.operation.as_ref();
        prop_assert_eq!(stands(operation), self.story.stands());
        let runs = operation.map_or(0, |operation| operation.run.get());
        prop_assert_eq!(runs, self.story.beginnings().len() as u64);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// V-9 to V-48 as far as they are about states, V-75, V-76: whatever happens in whatever order,
    /// machine and model agree. By id: V-10, V-11, V-13, V-14, V-15, V-16, V-17, V-18, V-19, V-22,
    /// V-23, V-24, V-25, V-26, V-27, V-28, V-29, V-30, V-31, V-32, V-33, V-34, V-35, V-36, V-37,
    /// V-38, V-40, V-41, V-42, V-43, V-44, V-45, V-46, V-47, V-59, C-24, C-38.
    #[test]
    fn machine_and_model_agree(class in select(CLASSES.to_vec()), nexts in nexts()) {
        let mut both = Both::new(class);
        for next in nexts {
            both.step(next)?;
        }
    }

    /// V-11, V-22, V-24, V-38, C-4: in every sequence, the record never goes; an outcome never
    /// changes; there is a second run only after the first has stopped, and, if it is not idem, only
    /// because a person says so; what is persist is never Released.
    #[test]
    fn what_never_happens(class in select(CLASSES.to_vec()), nexts in nexts()) {
        let mut both = Both::new(class);
        for next in nexts {
            let before = both.operation.clone();
            both.step(next)?;
            let after = both.operation.clone();
            let Some(before) = before else { continue };
            let after = after.expect("a record does not go");
            prop_assert_eq!(before.binding, after.binding);
            if matches!(before.state, State::Sealed(_)) {
                prop_assert_eq!(&after, &before);
            }
            if after.run != before.run {
                prop_assert_eq!(after.run.get(), before.run.get() + 1);
                prop_assert!(!before.state.is_live() && after.state.is_live());
                let idem = class.idempotency == Idempotency::Idem;
                prop_assert!(idem || matches!(next, Next::RunAgain));
            }
            if class.durability == Durability::Persist {
                prop_assert!(!matches!(after.state, State::Released(_)));
            }
        }
    }
}
