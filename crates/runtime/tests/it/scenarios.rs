//! What functions can do, each thing once, in every way of running it: parked, dropped and
//! replayed, and with a crash after every commit.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use indelible_journal::{Ending, ErrorKind, Micros};
use indelible_records::executions::Standing;
use indelible_runtime::{Attribution, Options, Pace};
use serde_json::{Value, json};

use crate::support::disk::Disk;
use crate::support::scenario::{Act, at_rest, main, of};
use crate::support::{House, KEEP, by_hand, failed, returned};

fn sleep(ms: u64) -> Value {
    json!([{ "timer": ["t", ms] }, { "await": "t" }, { "return": ms }])
}

fn value(ending: &Ending) -> Value {
    serde_json::from_str(&returned(ending)).unwrap()
}

/// J-72, J-73, J-75, J-76, C-30: calls one after the other; each is an execution with its own journal.
#[test]
fn calls_in_sequence() {
    let ran = main(json!([
        { "call": ["a", "main", [{ "return": 1 }]] }, { "await": "a" },
        { "call": ["b", "main", [{ "return": 2 }]] }, { "await": "b" },
    ]))
    .check();
    assert_eq!(value(&ran.ending), json!([1, 2]));
    assert_eq!(ran.house.tree(&ran.id).len(), 3);
    assert_eq!(
        ran.house.names(&ran.id),
        [
            "ExecutionStarted",
            "InvokeScheduled",
            "ExecutionAwaiting",
            "InvokeStarted",
            "InvokeCompleted",
            "ExecutionResumed",
            "InvokeScheduled",
            "ExecutionAwaiting",
            "InvokeStarted",
            "InvokeCompleted",
            "ExecutionResumed",
            "ExecutionCompleted",
        ]
    );
}

/// C-30: two calls are scheduled before one wait; their results come in the order asked for.
#[test]
fn calls_in_parallel() {
    let ran = main(json!([
        { "call": ["a", "main", sleep(20)] },
        { "call": ["b", "main", sleep(10)] },
        { "all": ["a", "b"] },
        { "await": "b" },
    ]))
    .check();
    assert_eq!(value(&ran.ending), json!([[20, 10], 10]));
}

/// C-37: the first of several wins, live and replayed alike; the other is cancelled at the end.
#[test]
fn a_race() {
    let ran = main(json!([
        { "call": ["slow", "main", sleep(60_000)] },
        { "call": ["quick", "main", sleep(10)] },
        { "timer": ["limit", 1_000] },
        { "any": ["slow", "quick", "limit"] },
    ]))
    .check();
    assert_eq!(value(&ran.ending), json!([["quick", 10]]));
}

/// A time-out: the timer wins.
#[test]
fn a_time_out() {
    let ran = main(json!([
        { "call": ["slow", "main", sleep(60_000)] },
        { "timer": ["limit", 1_000] },
        { "any": ["slow", "limit"] },
    ]))
    .check();
    assert_eq!(value(&ran.ending), json!([["limit", null]]));
}

/// J-91: results of a join set come in the order in which they arrived; then there are no more.
#[test]
fn a_join_set_by_turns() {
    let ran = main(json!([
        { "set": "s" },
        { "call": ["a", "main", sleep(30)] }, { "submit": ["s", "a"] },
        { "call": ["b", "main", sleep(10)] }, { "submit": ["s", "b"] },
        { "call": ["c", "main", sleep(20)] }, { "submit": ["s", "c"] },
        { "next": "s" }, { "next": "s" }, { "next": "s" }, { "next": "s" },
    ]))
    .check();
    assert_eq!(value(&ran.ending), json!([["b", 10], ["c", 20], ["a", 30], "exhausted"]));
}

/// J-85: all of a join set at once.
#[test]
fn a_join_set_at_once() {
    let ran = main(json!([
        { "set": "s" },
        { "call": ["a", "main", sleep(30)] }, { "submit": ["s", "a"] },
        { "call": ["b", "main", sleep(10)] }, { "submit": ["s", "b"] },
        { "take_all": "s" }, { "take_all": "s" },
    ]))
    .check();
    assert_eq!(value(&ran.ending), json!([[["b", 10], ["a", 30]], []]));
}

/// J-79: time and randomness are captured once; an execution knows itself.
#[test]
fn what_is_not_computed() {
    let ran = main(json!([
        { "now": 0 }, { "random": 4 }, { "context": 0 },
        { "timer": ["t", 5_000] }, { "await": "t" },
        { "now": 0 }, { "random": 4 }, { "log": "once" },
        { "timer": ["t", 5_000] }, { "await": "t" },
    ]))
    .check();
    let notes = value(&ran.ending);
    assert_eq!(notes[4].as_u64().unwrap() - notes[0].as_u64().unwrap(), 5_000_000);
    assert_ne!(notes[1], notes[5]);
    assert_eq!(notes[2]["attempt"], 1);
    assert_eq!(notes[2]["id"], ran.id.to_string());
    assert_eq!(notes[2]["function"], "main");
    assert_eq!(notes[2]["parent"], Value::Null);
}

/// What was logged before is not logged again when it is replayed, wherever a guest was dropped:
/// also not what stands between its last call and the wait.
#[test]
fn what_is_replayed_is_not_logged_again() {
    let steps = json!([
        { "log": "first" }, { "timer": ["t", 1] }, { "log": "before" }, { "await": "t" },
        { "log": "after" }, { "await": "t" }, { "log": "again" },
        { "call": ["a", "main", sleep(10)] }, { "call": ["b", "main", sleep(20)] },
        { "log": "called" }, { "any": ["a", "b"] }, { "log": "one" }, { "all": ["a", "b"] },
        { "log": "both" }, { "set": "s" },
        { "call": ["c", "main", sleep(30)] }, { "submit": ["s", "c"] },
        { "call": ["d", "main", sleep(40)] }, { "submit": ["s", "d"] },
        { "log": "submitted" }, { "next": "s" }, { "log": "next" }, { "next": "s" },
        { "log": "last" }, { "timer": ["u", 1] }, { "await": "u" }, { "log": "over" },
    ]);
    let expected = [
        "first",
        "before",
        "after",
        "again",
        "called",
        "one",
        "both",
        "submitted",
        "next",
        "last",
        "over",
    ];
    for parking in [KEEP, indelible_runtime::Parking::Drop] {
        let ran = main(steps.clone()).run(parking);
        assert_eq!(*ran.house.told.lines.lock().unwrap(), expected);
    }
}

/// J-78: signals that came before anybody waited are taken in their order; then it blocks.
#[test]
fn signals_buffered_and_awaited() {
    let ran = main(json!([
        { "signal": "go" }, { "signal": "go" }, { "signal": "stop" }, { "signal": "go" },
    ]))
    .acts([
        Act::Signal("go", json!(1)),
        Act::Signal("stop", json!("x")),
        Act::Signal("go", json!(2)),
        Act::Signal("go", json!(3)),
    ])
    .check();
    let signal = |value: Value| json!({ "signal": value });
    let expected =
        json!([signal(json!(1)), signal(json!(2)), signal(json!("x")), signal(json!(3))]);
    assert_eq!(value(&ran.ending), expected);
}

/// C-37: approval with a time-out; the signal wins.
#[test]
fn a_signal_before_its_time_out() {
    let ran = main(json!([{ "timer": ["limit", 1_000] }, { "signal_or": ["approve", ["limit"]] }]))
        .acts([Act::Pass(10), Act::Signal("approve", json!(true))])
        .check();
    assert_eq!(value(&ran.ending), json!([{ "signal": true }]));
}

/// C-37: if another wins, the delivery stays for a later await.
#[test]
fn a_signal_after_its_time_out() {
    let ran = main(json!([
        { "timer": ["limit", 1_000] }, { "signal_or": ["approve", ["limit"]] },
        { "signal": "approve" },
    ]))
    .acts([Act::Pass(1_000), Act::Signal("approve", json!("late"))])
    .check();
    assert_eq!(value(&ran.ending), json!([["limit", null], { "signal": "late" }]));
}

/// C-28: what a function returned is its outcome, also an error; its caller can match on it.
#[test]
fn an_error_is_an_outcome() {
    let ran = main(json!([
        { "call": ["a", "idem", [{ "fail": "no such card" }]] }, { "await": "a" },
    ]))
    .check();
    let expected = json!([{ "err": "ErrorKind::UserError", "message": "no such card" }]);
    assert_eq!(value(&ran.ending), expected);
    assert_eq!(ran.house.tree(&ran.id).len(), 2, "it was tried once");

    let ran = of("script/idem", json!([{ "fail": "no" }])).check();
    assert_eq!(failed(&ran.ending).kind, ErrorKind::UserError);
    assert_eq!(ran.house.tree(&ran.id).len(), 1, "it was tried once");
}

/// C-32: an error marked as passing is a failed attempt: a child's, and a root's.
#[test]
fn a_passing_error_is_tried_again() {
    let program = json!([{ "below": [3, [{ "transient": "not yet" }]] }, { "return": "done" }]);
    let ran = main(json!([{ "call": ["a", "idem", program] }, { "await": "a" }])).check();
    assert_eq!(value(&ran.ending), json!(["done"]));
    assert_eq!(ran.house.tree(&ran.id).len(), 4, "the root and three attempts");
    let names = ran.house.names(&ran.id);
    assert_eq!(names.iter().filter(|name| **name == "InvokeRetrying").count(), 2);

    let ran = of("script/idem", program).check();
    assert_eq!(value(&ran.ending), json!("done"));
    assert_eq!(ran.house.tree(&ran.id).len(), 3, "three attempts");
    assert_eq!(ran.house.row(&ran.id).key.attempts().own().get(), 3);
}

/// C-1, C-32: the policy's bound holds, and then the error is the outcome.
#[test]
fn tries_are_bounded() {
    let program = json!([{ "transient": "never" }]);
    let ran = main(json!([{ "call": ["a", "idem", program] }, { "await": "a" }])).check();
    let expected = json!([{ "err": "ErrorKind::Transient", "message": "never" }]);
    assert_eq!(value(&ran.ending), expected);
    assert_eq!(ran.house.tree(&ran.id).len(), 5, "the root, and one try and three more");

    let ran = of("script/idem", program).check();
    assert_eq!(failed(&ran.ending).kind, ErrorKind::Transient);
    assert_eq!(ran.house.tree(&ran.id).len(), 4);
}

/// C-32: a trap of a function that is not `idem` is tried again if no effect was started.
#[test]
fn a_trap_without_an_effect_is_tried_again() {
    let ran = of(
        "script/plain",
        json!([
            { "now": 0 }, { "below": [2, [{ "panic": "oh" }]] }, { "return": "done" },
        ]),
    )
    .check();
    assert_eq!(value(&ran.ending), json!("done"));
}

/// C-32: and not if one was, whatever came of it.
#[test]
fn a_trap_after_an_effect_is_not_tried_again() {
    let ran = of(
        "script/plain",
        json!([
            { "call": ["a", "main", [{ "return": 1 }]] }, { "await": "a" },
            { "below": [2, [{ "panic": "oh" }]] },
        ]),
    )
    .check();
    let failure = failed(&ran.ending);
    assert_eq!(failure.kind, ErrorKind::Trap);
    assert!(failure.message.contains("oh"), "{}", failure.message);
    assert_eq!(ran.house.tree(&ran.id).len(), 2, "it was tried once");
}

/// C-32: if a call of an attempt ends as Indeterminate, there is no next attempt, and the outcome
/// is Indeterminate.
#[test]
fn what_is_not_known_is_not_tried_again() {
    let unknown = json!([{ "unknown": "the answer was lost" }]);
    let ran = of(
        "script/idem",
        json!([{ "call": ["a", "main", unknown] }, { "await": "a" }, { "transient": "again" }]),
    )
    .check();
    let failure = failed(&ran.ending);
    assert_eq!(failure.kind, ErrorKind::Indeterminate);
    assert!(failure.message.contains("again"), "{}", failure.message);
    assert_eq!(ran.house.tree(&ran.id).len(), 2, "it was tried once");
}

/// C-32: an attempt that follows gets every signal again, in order, consumed or not.
#[test]
fn signals_stay_for_the_next_attempt() {
    let ran = of(
        "script/idem",
        json!([
            { "signal": "go" }, { "below": [2, [{ "transient": "again" }]] }, { "signal": "go" },
        ]),
    )
    .acts([Act::Signal("go", json!(1)), Act::Signal("go", json!(2))])
    .check();
    assert_eq!(value(&ran.ending), json!([{ "signal": 1 }, { "signal": 2 }]));
}

/// C-40: what is in flight when a function returns is cancelled and awaited first.
#[test]
fn what_is_left_running_is_settled() {
    let ran = main(json!([
        { "call": ["a", "main", sleep(3_600_000)] },
        { "timer": ["t", 10] }, { "await": "t" },
        { "return": "bye" },
    ]))
    .check();
    assert_eq!(value(&ran.ending), json!("bye"));
    let tree = ran.house.tree(&ran.id);
    let child = tree.last().unwrap().1.last().unwrap();
    assert_eq!(child.event.name(), "ExecutionCancelled");
    let names = ran.house.names(&ran.id);
    assert_eq!(names[names.len() - 2..], ["InvokeCompleted", "ExecutionCompleted"]);
}

/// C-40: a call that was not started is dropped, and never runs.
#[test]
fn what_was_not_started_is_dropped() {
    let ran = main(json!([{ "call": ["a", "main", sleep(1)] }, { "return": "bye" }])).check();
    assert_eq!(value(&ran.ending), json!("bye"));
    assert_eq!(ran.house.tree(&ran.id).len(), 1);
    let names = ran.house.names(&ran.id);
    assert_eq!(names, ["ExecutionStarted", "InvokeScheduled", "ExecutionCompleted"]);
}

/// C-40: and a cancel that comes while the rest is settled does not bring it back.
#[test]
fn what_was_dropped_stays_dropped() {
    let slow_to_leave = json!([
        { "cancelled": [{ "timer": ["t", 50] }, { "await": "t" }] }, { "signal": "never" },
    ]);
    let ran = main(json!([
        { "call": ["a", "main", slow_to_leave] }, { "timer": ["t", 10] }, { "await": "t" },
        { "call": ["b", "main", sleep(1)] }, { "return": "bye" },
    ]))
    .acts([Act::Pass(10), Act::Cancel])
    .run(crate::support::KEEP);
    assert_eq!(value(&ran.ending), json!("bye"));
    let names = ran.house.names(&ran.id);
    let starts = names.iter().filter(|name| **name == "InvokeStarted").count();
    assert_eq!(starts, 1, "the second call never began: {names:?}");
}

/// C-40, C-32: a trap settles what is in flight, too, before another attempt follows.
#[test]
fn a_trap_settles_what_is_in_flight() {
    let ran = of(
        "script/idem",
        json!([
            { "call": ["a", "main", sleep(3_600_000)] },
            { "timer": ["t", 10] }, { "await": "t" },
            { "below": [2, [{ "panic": "oh" }]] },
            { "return": "done" },
        ]),
    )
    .check();
    assert_eq!(value(&ran.ending), json!("done"));
    let cancelled = ran
        .house
        .tree(&ran.id)
        .iter()
        .filter(|(_, records)| records.last().unwrap().event.name() == "ExecutionCancelled")
        .count();
    assert_eq!(cancelled, 2, "the call of each attempt");
}

/// C-22, C-24: a cancel reaches what is in flight; the guest is told once, learns what became of
/// its call, and compensates.
#[test]
fn a_cancel_is_cleaned_up_after() {
    let ran = main(json!([
        { "cancelled": [
            { "await": "a" },
            { "call": ["undo", "main", [{ "return": "undone" }]] }, { "await": "undo" },
            { "timer": ["t", 5] }, { "await": "t" },
        ] },
        { "call": ["a", "main", sleep(3_600_000)] }, { "await": "a" },
    ]))
    .acts([Act::Pass(10), Act::Cancel])
    .check();
    assert_eq!(ran.ending, Ending::Cancelled("enough".to_owned()));
    let tree = ran.house.tree(&ran.id);
    let lasts: Vec<_> =
        tree.iter().map(|(_, records)| records.last().unwrap().event.name()).collect();
    assert_eq!(lasts, ["ExecutionCancelled", "ExecutionCancelled", "ExecutionCompleted"]);
    let names = ran.house.names(&ran.id);
    let waits = names.iter().filter(|name| **name == "ExecutionAwaiting").count();
    assert_eq!(waits, 1, "no wait is written while it is being cancelled: {names:?}");
}

/// C-22: a guest that does not care ends as cancelled, too.
#[test]
fn a_cancel_without_cleanup() {
    let ran = main(json!([{ "signal": "never" }])).acts([Act::Cancel]).check();
    assert_eq!(ran.ending, Ending::Cancelled("enough".to_owned()));
}

/// C-22: a guest that had returned, or never waits again, was not told: its outcome counts.
#[test]
fn a_cancel_that_nobody_was_told_of() {
    let slow_to_leave = json!([
        { "cancelled": [{ "timer": ["t", 50] }, { "await": "t" }] }, { "signal": "never" },
    ]);
    let ran = main(json!([
        { "call": ["a", "main", slow_to_leave] }, { "timer": ["t", 10] }, { "await": "t" },
        { "return": "done" },
    ]))
    .acts([Act::Pass(10), Act::Cancel])
    .check();
    assert_eq!(value(&ran.ending), json!("done"));
    assert!(ran.house.names(&ran.id).contains(&"CancelRequested"));
}

/// C-22: cleaning up has a time limit; a guest that goes on for ever is ended.
#[test]
fn cleaning_up_takes_so_long_at_most() {
    let ran = main(json!([
        { "cancelled": [{ "signal": "never" }] },
        { "signal": "never" },
    ]))
    .acts([Act::Cancel, Act::Pass(59_000)])
    .check();
    let Ending::Cancelled(reason) = &ran.ending else { panic!("{:?}", ran.ending) };
    assert_eq!(reason, "enough (the time limit for cleaning up passed)");
}

/// C-22: the limit is not forgotten when the process dies while what the guest left is settled.
#[test]
fn time_is_over_and_calls_are_left() {
    let slow_to_leave = json!([
        { "cancelled": [{ "timer": ["t", 50] }, { "await": "t" }] }, { "signal": "never" },
    ]);
    let ran = main(json!([
        { "cancelled": [
            { "call": ["undo", "main", slow_to_leave] }, { "signal": "never" },
        ] },
        { "signal": "never" },
    ]))
    .acts([Act::Cancel, Act::Pass(60_000)])
    .check();
    let Ending::Cancelled(reason) = &ran.ending else { panic!("{:?}", ran.ending) };
    assert_eq!(reason, "enough (the time limit for cleaning up passed)");
}

/// C-22: nor when it is told twice that the time is over, before what was left is settled.
#[test]
fn time_is_over_twice() {
    let slow_to_leave = json!([
        { "cancelled": [{ "timer": ["t", 50] }, { "await": "t" }] }, { "signal": "never" },
    ]);
    let program = json!([
        { "cancelled": [{ "call": ["undo", "main", slow_to_leave] }, { "signal": "never" }] },
        { "signal": "never" },
    ]);
    let mut house = House::new(by_hand(KEEP));
    house.deploy("script");
    let id = house.start("one", "script/main", &program.to_string());
    house.work();
    house.cancel(&id);
    house.work();
    house.move_clock(Micros::from_secs(60));
    house.engine().fire_due().unwrap();
    house.engine().fire_again();
    house.work();
    house.settle();
    house.crash();
    house.work_through();
    let Ending::Cancelled(reason) = house.ending(&id) else { panic!("it was cancelled") };
    assert_eq!(reason, "enough (the time limit for cleaning up passed)");
    at_rest(&house, &id);
}

/// C-22: the timer with which an attempt began, told again, is not the end of its cleaning up.
#[test]
fn cleaning_up_is_not_ended_by_another_timer() {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    let program = json!([
        { "cancelled": [{ "signal": "never" }] },
        { "below": [2, [{ "panic": "oh" }]] },
        { "signal": "never" },
    ]);
    let id = house.start("one", "script/idem", &program.to_string());
    house.work();
    house.move_clock_to(house.engine().next_due().unwrap());
    house.engine().fire_due().unwrap();
    // The three of them are there before any takes effect.
    let mut cancel = pin!(house.engine().cancel(&id, Attribution::because("enough")));
    let asked = cancel.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(asked.is_pending());
    house.engine().fire_again();
    house.work();
    house.wait(cancel).unwrap();
    assert_eq!(house.row(&id).standing, Standing::Cancelling);
    house.pass(Micros::from_secs(60));
    assert!(matches!(house.ending(&id), Ending::Cancelled(_)));
}

/// C-40, C-22: calls that had not begun when their caller ended never begin, though they are still
/// in the queue when the engine reads it again. The process dies at every commit of the cleaning
/// up, and comes back when the time for that is over.
#[test]
fn what_had_not_begun_does_not_begin_after_the_end() {
    let program = json!([
        { "cancelled": [
            { "repeat": [3, [{ "call": ["a", "main", []] }]] }, { "signal": "never" },
        ] },
        { "signal": "never" },
    ]);
    let mut deaths = 0;
    for commits in 1.. {
        let options = Options { pace: Pace::Lockstep, ..by_hand(KEEP) };
        let mut house = House::on(Arc::new(Disk::new()), options);
        house.deploy("script");
        let id = house.start("one", "script/main", &program.to_string());
        house.work();
        house.disk.dies_after(commits);
        let cancelled =
            house.wait(house.engine().cancel(&id, Attribution::because("enough"))).is_ok();
        house.work();
        if !house.disk.is_dead() {
            break;
        }
        deaths += 1;
        house.move_clock(Micros::from_secs(60));
        house.crash();
        house.told.trouble.lock().unwrap().clear();
        house.engine().fire_due().unwrap();
        house.work();
        if !cancelled && house.row(&id).standing == Standing::Blocked {
            house.cancel(&id);
        }
        house.work_through();
        assert!(matches!(house.ending(&id), Ending::Cancelled(_)));
        at_rest(&house, &id);
    }
    assert!(deaths > 5, "it died {deaths} times");
}

/// C-22: what goes wrong while cleaning up is said.
#[test]
fn cleaning_up_may_fail() {
    let ran = main(json!([
        { "cancelled": [{ "fail": "the refund was refused" }] },
        { "signal": "never" },
    ]))
    .acts([Act::Cancel])
    .check();
    let Ending::Cancelled(reason) = &ran.ending else { panic!("{:?}", ran.ending) };
    assert_eq!(reason, "enough (while cleaning up: UserError: the refund was refused)");
}

/// C-22, C-32: a call that waits for its next attempt does not begin when it is cancelled.
#[test]
fn a_cancel_between_two_attempts() {
    let ran = main(json!([
        { "cancelled": [{ "await": "a" }] },
        { "call": ["a", "idem", [{ "transient": "again" }]] }, { "await": "a" },
    ]))
    .acts([Act::Cancel])
    .check();
    assert_eq!(ran.ending, Ending::Cancelled("enough".to_owned()));
    assert_eq!(ran.house.tree(&ran.id).len(), 3, "the root, an attempt, and one that never ran");

    let ran = of("script/idem", json!([{ "transient": "again" }])).acts([Act::Cancel]).check();
    assert_eq!(ran.ending, Ending::Cancelled("enough".to_owned()));
}

/// C-32: an attempt that follows a cancelled one is cancelled, too.
#[test]
fn a_cancel_stays_for_the_next_attempt() {
    let ran = of(
        "script/idem",
        json!([
            { "cancelled": [{ "below": [2, [{ "panic": "in cleanup" }]] }] },
            { "signal": "never" },
        ]),
    )
    .acts([Act::Cancel])
    .check();
    assert_eq!(ran.ending, Ending::Cancelled("enough".to_owned()));
    assert_eq!(ran.house.tree(&ran.id).len(), 2);
}

/// A call of a function that does not exist fails where it is awaited, and is known not to have
/// happened.
#[test]
fn calls_to_nobody() {
    let ran = main(json!([
        { "call": ["a", "nobody", []] }, { "await": "a" },
        { "call": ["b", "nowhere/main", []] }, { "await": "b" },
        { "call": ["c", "script/main", [{ "return": 3 }]] }, { "await": "c" },
    ]))
    .check();
    let notes = value(&ran.ending);
    assert_eq!(notes[0]["err"], "ErrorKind::NotPerformed");
    assert_eq!(notes[0]["message"], "the component has no function \"nobody\"");
    assert_eq!(notes[1]["message"], "no component \"nowhere\" is deployed");
    assert_eq!(notes[2], 3);
}

/// J-82: calls nest 64 deep; the one too many is refused, and can be handled.
#[test]
fn calls_nest_so_deep() {
    let ran = main(json!([{ "nest": 100 }])).run(crate::support::KEEP);
    assert_eq!(ran.house.tree(&ran.id).len(), 64);
    assert!(returned(&ran.ending).contains("calls nest at most 64 deep"), "{:?}", ran.ending);
}

/// A journal has so many events at most: the attempt ends there, also when it is run again over
/// what it has.
#[test]
fn journals_are_bounded() {
    let call = json!({ "call": ["a", "main", [{ "return": 1 }]] });
    let steps = json!([call, { "await": "a" }, { "now": 0 }]);
    let mut scenario = main(json!([{ "repeat": [10, steps] }, { "return": "done" }]));
    scenario.options.journal_events_max = 23;
    for parking in [crate::support::KEEP, indelible_runtime::Parking::Drop] {
        let ran = scenario.run(parking);
        let failure = failed(&ran.ending);
        assert_eq!(failure.kind, ErrorKind::Trap);
        assert!(failure.message.contains("23 events"), "{}", failure.message);
    }
}

/// D4: guests that wait leave room for those that they wait for, however few places there are.
#[test]
fn those_who_wait_leave_room() {
    let few = crate::support::guests::fresh();
    let house = House::with(Arc::new(Disk::new()), by_hand(crate::support::KEEP), few);
    house.deploy("script");
    let id = house.start("one", "script/main", "[{\"nest\":15},{\"return\":\"done\"}]");
    let steps = std::iter::from_fn(|| house.engine().step().then_some(())).take(10_000).count();
    assert!(steps < 10_000, "nobody can start: {:?}", house.engine().readings());
    assert_eq!(value(&house.ending(&id)), json!("done"));
}
