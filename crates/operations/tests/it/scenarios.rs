//! Stories of one operation that a person can read. The cross product is in `table.rs`.

use indelible_journal::{ErrorKind, Failure, Outcome, Payload, RetryClass};
use indelible_operations::Binding;
use indelible_operations::retention::Age;
use indelible_operations::state::{
    self, Attempt, Decision, IgnoreReason, Input, Interest, Meaning, Operation, Refusal,
    Resolution, Run, State,
};

const CLASSES: [RetryClass; 4] = [
    RetryClass::PERSIST,
    RetryClass::PERSIST_IDEM,
    RetryClass::VOLATILE,
    RetryClass::VOLATILE_IDEM,
];

/// A server with one operation, and how often its handler was started.
struct Server {
    class: RetryClass,
    operation: Option<Operation<Outcome>>,
    started: u32,
}

impl Server {
    fn new(class: RetryClass) -> Self {
        Self { class, operation: None, started: 0 }
    }

    fn ask(&mut self) -> Decision<Outcome> {
        let binding = Binding::of("charge", &Payload::json("500"));
        let attempt = Attempt { class: self.class, binding, age: Age::Fresh };
        let step = state::attempt(self.operation.as_ref(), &attempt).expect("it can happen");
        self.started += u32::from(matches!(step.decision, Decision::Start | Decision::RunAgain));
        self.operation = step.put.or(self.operation.take());
        step.decision
    }

    fn tell(&mut self, input: Input<Outcome>) -> Meaning {
        let step = state::apply(self.operation.as_ref(), input).expect("it can happen");
        self.started += u32::from(step.decision == Meaning::RunAgain);
        self.operation = step.put.or(self.operation.take());
        step.decision
    }

    fn run(&self) -> Run {
        self.operation.as_ref().expect("it was admitted").run
    }

    fn is_live(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.state.is_live())
    }
}

fn ok() -> Outcome {
    Outcome::Ok(Payload::json("true"))
}

fn failed(kind: ErrorKind) -> Outcome {
    Failure::new(kind, "no").into()
}

/// V-3, V-4: a client that knows nothing asks again. Whichever of the five realities lies behind
/// that, it is answered truly, and what is not idem was executed once at most.
#[test]
fn five_realities() {
    for class in CLASSES {
        // The first attempt never left.
        let mut server = Server::new(class);
        assert_eq!(server.ask(), Decision::Start);

        // It arrived, and its handler has not begun; or it still runs: to the client it is one.
        assert_eq!(server.ask(), Decision::Attach);
        assert_eq!(server.started, 1);

        // It was done, and the reply was lost.
        let run = server.run();
        server.tell(Input::Returned(run, ok()));
        assert_eq!(server.ask(), Decision::Replay(ok()));
        assert_eq!(server.started, 1);

        // Its handler failed, and said so.
        let mut server = Server::new(class);
        server.ask();
        server.tell(Input::Returned(Run::FIRST, failed(ErrorKind::UserError)));
        assert_eq!(server.ask(), Decision::Replay(failed(ErrorKind::UserError)));
        assert_eq!(server.started, 1);

        // It was lost half-way, with or without effects.
        let mut server = Server::new(class);
        server.ask();
        server.tell(Input::Lost(Run::FIRST));
        let idem = [RetryClass::PERSIST_IDEM, RetryClass::VOLATILE_IDEM].contains(&class);
        let (expected, started) = match idem {
            true => (Decision::RunAgain, 2),
            false => (Decision::Refuse(Refusal::Indeterminate), 1),
        };
        assert_eq!((server.ask(), server.started), (expected, started), "{class:?}");
    }
}

/// V-44, V-38: a cancel and a return race; whichever is first is what retries see.
#[test]
fn a_cancel_races_a_return() {
    let mut server = Server::new(RetryClass::VOLATILE);
    server.ask();
    assert_eq!(server.tell(Input::Returned(Run::FIRST, ok())), Meaning::Sealed);
    assert_eq!(server.tell(Input::Cancelled), Meaning::Ignored(IgnoreReason::Sealed));
    assert_eq!(server.ask(), Decision::Replay(ok()));

    let mut server = Server::new(RetryClass::VOLATILE);
    server.ask();
    assert_eq!(server.tell(Input::Cancelled), Meaning::Released);
    let late = server.tell(Input::Returned(Run::FIRST, ok()));
    assert_eq!(late, Meaning::Ignored(IgnoreReason::Released));
    assert_eq!(server.ask(), Decision::Refuse(Refusal::Indeterminate));
}

/// V-75, V-33: a cancel undoes nothing. Whether a cancelled operation had its effect is unknown,
/// and the answer does not claim that it had none.
#[test]
fn a_cancel_is_no_rollback() {
    let mut server = Server::new(RetryClass::VOLATILE);
    server.ask();
    server.tell(Input::Cancelled);
    assert_eq!(server.ask(), Decision::Refuse(Refusal::Indeterminate));
    assert_eq!(server.started, 1);
}

/// V-41, V-43, C-24: a persist operation goes on, whichever callers leave; when its execution was
/// cancelled by a command of its own, it seals as that, or as Indeterminate if something it did is.
#[test]
fn a_persist_operation_goes_on() {
    for end in [ok(), failed(ErrorKind::Cancelled), failed(ErrorKind::Indeterminate)] {
        let mut server = Server::new(RetryClass::PERSIST);
        server.ask();
        assert_eq!(server.tell(Input::Cancelled), Meaning::Detached);
        assert_eq!(server.tell(Input::Dropped(Interest::NoCaller)), Meaning::Detached);
        assert!(server.is_live());
        assert_eq!(server.ask(), Decision::Attach);
        assert_eq!(server.tell(Input::Returned(Run::FIRST, end.clone())), Meaning::Sealed);
        assert_eq!(server.ask(), Decision::Replay(end));
    }
}

/// V-30, V-42: a volatile operation is released when its last caller has gone, not the first.
#[test]
fn one_of_two_callers_leaves() {
    let mut server = Server::new(RetryClass::VOLATILE_IDEM);
    server.ask();
    server.ask();
    assert_eq!(server.tell(Input::Dropped(Interest::Others)), Meaning::Detached);
    assert!(server.is_live());
    assert_eq!(server.tell(Input::Dropped(Interest::NoCaller)), Meaning::Released);
    assert!(!server.is_live());
}

/// V-11, V-32, V-76: a re-run is the one owner. What the released run says late is not its outcome.
#[test]
fn a_late_return_is_not_the_re_runs() {
    let mut server = Server::new(RetryClass::VOLATILE_IDEM);
    server.ask();
    let first = server.run();
    server.tell(Input::Cancelled);
    assert_eq!(server.ask(), Decision::RunAgain);
    let second = server.run();
    assert!(second > first);
    let late = server.tell(Input::Returned(first, failed(ErrorKind::Cancelled)));
    assert_eq!(late, Meaning::Ignored(IgnoreReason::EarlierRun));
    assert!(server.is_live());
    assert_eq!(server.tell(Input::Returned(second, ok())), Meaning::Sealed);
    assert_eq!(server.ask(), Decision::Replay(ok()));
}

/// V-46, V-47: Indeterminate is told apart from a failure of the application, from Cancelled, and
/// from a failure to reach anybody, which is no decision at all.
#[test]
fn indeterminate_is_its_own_answer() {
    let mut server = Server::new(RetryClass::PERSIST);
    server.ask();
    server.tell(Input::Lost(Run::FIRST));
    let unknown = server.ask();
    for kind in ErrorKind::ALL {
        let mut server = Server::new(RetryClass::PERSIST);
        server.ask();
        server.tell(Input::Returned(Run::FIRST, failed(kind)));
        assert_ne!(server.ask(), unknown);
    }
}

/// C-4, C-28: an attempt of a handler that fails in passing is no return. Nothing is said, and the
/// operation stays Live while its owner tries again; the failure that is the last one seals.
#[test]
fn a_passing_failure_is_no_return() {
    let mut server = Server::new(RetryClass::PERSIST_IDEM);
    server.ask();
    assert_eq!(server.ask(), Decision::Attach);
    let last = failed(ErrorKind::Transient);
    assert_eq!(server.tell(Input::Returned(Run::FIRST, last.clone())), Meaning::Sealed);
    assert_eq!(server.ask(), Decision::Replay(last));
    assert_eq!(server.started, 1);
}

/// V-35, V-39, V-48, C-38: after a crash the outcome is found on disk, or a person says what it is;
/// both seal, and the first of them stays.
#[test]
fn what_was_lost_is_found_or_decided() {
    let lost = || {
        let mut server = Server::new(RetryClass::PERSIST);
        server.ask();
        assert_eq!(server.tell(Input::Lost(Run::FIRST)), Meaning::Indeterminate);
        server
    };
    let mut server = lost();
    assert_eq!(server.tell(Input::Recovered(Run::FIRST, ok())), Meaning::Sealed);
    assert_eq!(server.ask(), Decision::Replay(ok()));

    let mut server = lost();
    let not = failed(ErrorKind::NotPerformed);
    let said = server.tell(Input::Resolved(Resolution::DidNotHappen(not.clone())));
    assert_eq!(said, Meaning::Sealed);
    let found = server.tell(Input::Recovered(Run::FIRST, ok()));
    assert_eq!(found, Meaning::Ignored(IgnoreReason::Sealed));
    assert_eq!(server.ask(), Decision::Replay(not));

    // To run it again is a person's decision, also where no client may.
    let mut server = lost();
    assert_eq!(server.ask(), Decision::Refuse(Refusal::Indeterminate));
    assert_eq!(server.tell(Input::Resolved(Resolution::RunAgain)), Meaning::RunAgain);
    assert_eq!((server.ask(), server.started), (Decision::Attach, 2));
}

/// V-13, V-19: there is no way to write down a persist operation as Released: the state has no
/// room for it, and an operation that is read back as Released runs again as a volatile one.
#[test]
fn what_is_released_is_volatile() {
    let mut server = Server::new(RetryClass::VOLATILE_IDEM);
    server.ask();
    server.tell(Input::Cancelled);
    server.ask();
    let state = &server.operation.as_ref().expect("it was admitted").state;
    assert_eq!(state, &State::Live(RetryClass::VOLATILE_IDEM));
}

/// V-17: the class is fixed at admission. A method that is declared otherwise later does not
/// change what an operation is.
#[test]
fn the_class_is_fixed_at_admission() {
    let mut server = Server::new(RetryClass::PERSIST);
    server.ask();
    server.class = RetryClass::VOLATILE_IDEM;
    assert_eq!(server.ask(), Decision::Attach);
    assert_eq!(server.tell(Input::Cancelled), Meaning::Detached);
    server.tell(Input::Lost(Run::FIRST));
    assert_eq!(server.ask(), Decision::Refuse(Refusal::Indeterminate));
}
