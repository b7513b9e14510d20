//! Functions written with the Rust SDK, one for each thing that it offers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_journal::{Ending, ErrorKind, Failure, RetryBound, RetryClass, RetryPolicy};
use indelible_runtime::Parking;

use crate::support::{House, KEEP, by_hand, failed, returned};

/// Parked and dropped.
fn houses() -> impl Iterator<Item = House> {
    [KEEP, Parking::Drop].into_iter().map(|parking| {
        let house = House::new(by_hand(parking));
        house.deploy("behaviours");
        house
    })
}

/// A function, run in both ways, returns this and writes these events.
#[track_caller]
fn writes(function: &str, input: &str, output: &str, events: &[&str]) {
    for house in houses() {
        let (id, ending) = house.run(function, input);
        assert_eq!(returned(&ending), output);
        let names = house.names(&id);
        assert_eq!(names[1..names.len() - 1], *events);
    }
}

/// A function, run in both ways, fails like this.
#[track_caller]
fn fails(function: &str, input: &str, kind: ErrorKind, words: &str) -> Failure {
    let mut last = None;
    for house in houses() {
        let (_, ending) = house.run(function, input);
        let failure = failed(&ending).clone();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(words), "{}", failure.message);
        last = Some(failure);
    }
    last.unwrap()
}

/// J-85: what the calls of the SDK write.
#[test]
fn calls_of_the_sdk() {
    writes("echo", "[1, {\"a\": null}]", "[1, {\"a\": null}]", &[]);
    writes("add", "[1, 2]", "3", &[]);
    writes(
        "sleep_ms",
        "5",
        "null",
        &["TimerScheduled", "ExecutionAwaiting", "TimerFired", "ExecutionResumed"],
    );
    writes(
        "sequence",
        "1",
        "1",
        &[
            "InvokeScheduled",
            "ExecutionAwaiting",
            "InvokeStarted",
            "InvokeCompleted",
            "ExecutionResumed",
        ],
    );
    writes(
        "fan_out",
        "1",
        "1",
        &[
            "JoinSetCreated",
            "InvokeScheduled",
            "JoinSetSubmitted",
            "ExecutionAwaiting",
            "InvokeStarted",
            "InvokeCompleted",
            "ExecutionResumed",
            "JoinSetAwaited",
        ],
    );
    for house in houses() {
        let (id, _) = house.run("now_twice", "null");
        let names = house.names(&id);
        assert_eq!(names[1..3], ["TimeRecorded", "TimeRecorded"]);
        let (id, ending) = house.run("random_twice", "null");
        assert_eq!(house.names(&id)[1..3], ["RandomGenerated", "RandomGenerated"]);
        let numbers: (u32, u32) = serde_json::from_str(&returned(&ending)).unwrap();
        assert_ne!(numbers.0, numbers.1);
    }
}

/// C-39: functions are persist and not `idem`, with three retries, unless they say otherwise.
#[test]
fn the_default_class() {
    let house = House::new(by_hand(KEEP));
    house.deploy("behaviours");
    let all = house.wait(house.engine().components()).unwrap();
    let manifest = house.wait(house.engine().manifest(&all[0].1)).unwrap().unwrap();
    let policy = |name: &str| manifest.function(name).unwrap().retry_policy.clone();
    assert_eq!(*policy("add"), RetryPolicy::default());
    let flaky = policy("flaky");
    assert_eq!((flaky.class, flaky.bound), (RetryClass::PERSIST_IDEM, RetryBound::Unbounded));
}

#[test]
fn fan_in() {
    for house in houses() {
        for function in ["fan_out", "fan_out_all", "sequence"] {
            let (_, ending) = house.run(function, "20");
            let expected = if function == "sequence" { "20" } else { "210" };
            assert_eq!(returned(&ending), expected, "{function}");
        }
    }
}

#[test]
fn races_and_time_outs() {
    for house in houses() {
        assert_eq!(returned(&house.run("race_timer", "[10, 20]").1), "\"timer\"");
        assert_eq!(returned(&house.run("race_timer", "[20, 10]").1), "\"call\"");
        assert_eq!(returned(&house.run("signal_or_timer", "[\"go\", 10]").1), "null");
        assert_eq!(returned(&house.run("signal_or_call", "[\"go\", 10]").1), "\"call\"");
    }
}

#[test]
fn signals() {
    for house in houses() {
        let id = house.start("one", "wait_signals", "[\"go\", 3]");
        for number in ["1", "\"two\"", "[3]"] {
            house.signal(&id, "go", number);
        }
        house.work();
        assert_eq!(returned(&house.ending(&id)), "[1,\"two\",[3]]");
        let id = house.start("two", "signal_or_timer", "[\"go\", 1000]");
        house.signal(&id, "go", "7");
        house.work();
        assert_eq!(returned(&house.ending(&id)), "7");
    }
}

#[test]
fn failures() {
    fails("fail", "\"no funds\"", ErrorKind::UserError, "no funds");
    let typed = fails("fail_typed", "51", ErrorKind::UserError, "declined with code 51");
    assert_eq!(typed.detail.unwrap().to_string(), "{\"code\":51}");
    fails("fail_transient", "\"busy\"", ErrorKind::Transient, "busy");
    let trap = fails("trap", "\"oh dear\"", ErrorKind::Trap, "oh dear");
    assert!(trap.message.contains("failing.rs:"), "{}", trap.message);
    fails("recurse_calls", "0", ErrorKind::UserError, "64 deep");
    for house in houses() {
        assert_eq!(returned(&house.run("flaky", "4").1), "4");
        assert_eq!(returned(&house.run("panic_once", "null").1), "2");
    }
}

#[test]
fn cancelling() {
    for house in houses() {
        let id = house.start("one", "cleanup", "3600000");
        house.work();
        house.cancel(&id);
        house.work_through();
        assert_eq!(house.ending(&id), Ending::Cancelled("enough".to_owned()));
        let notes = house
            .tree(&id)
            .iter()
            .filter(|(key, _)| house.row(key.execution_id()).function.as_str() == "note")
            .count();
        assert_eq!(notes, 1, "it cleaned up");

        let id = house.start("two", "stubborn", "null");
        house.work();
        house.cancel(&id);
        house.work_through();
        let Ending::Cancelled(reason) = house.ending(&id) else { panic!() };
        assert!(reason.contains("the time limit for cleaning up passed"), "{reason}");

        let (id, ending) = house.run("leaves_running", "3600000");
        assert_eq!(returned(&ending), "\"left\"");
        assert_eq!(house.tree(&id).len(), 1, "what was not started is dropped");
    }
}

/// Functions of another component, by name.
#[test]
fn other_components() {
    for house in houses() {
        let input = "[\"other/greet\", \"ann\"]";
        let (_, ending) = house.run("calls_remote", input);
        assert_eq!(failed(&ending).message, "other/greet: no component \"other\" is deployed");
        house.deploy("other");
        let id = house.start("now", "calls_remote", input);
        house.work();
        assert!(returned(&house.ending(&id)).contains("ann"));
    }
}
