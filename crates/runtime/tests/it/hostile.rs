//! Guests that misbehave: that execution fails with an error that helps, and its neighbours do
//! not notice.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use indelible_journal::{ErrorKind, ExecutionId, SignalName};
use indelible_runtime::{Attribution, CommandRefusal, ControlError, Options, StartRefused};
use serde_json::{Value, json};

use crate::support::disk::Disk;
use crate::support::{House, KEEP, by_hand, failed, guests, returned};

fn strict(options: Options) -> House {
    let house = House::with(Arc::new(Disk::new()), options, guests::strict());
    house.deploy("script");
    house
}

/// It fails with this kind and these words, and a neighbour that waited all the while goes on.
#[track_caller]
fn check(program: &Value, kind: ErrorKind, words: &[&str]) -> House {
    let house = strict(by_hand(KEEP));
    let neighbour = house.start("neighbour", "script/main", "[{\"signal\":\"go\"}]");
    let id = house.start("hostile", "script/main", &program.to_string());
    house.work_through();
    let ending = house.ending(&id);
    let failure = failed(&ending);
    assert_eq!(failure.kind, kind, "{failure}");
    for word in words {
        assert!(failure.message.contains(word), "no {word:?} in: {}", failure.message);
    }
    house.signal(&neighbour, "go", "1");
    house.work();
    assert_eq!(returned(&house.ending(&neighbour)), "[{\"signal\":1}]");
    house
}

#[test]
fn a_panic_says_what_and_where() {
    check(
        &json!([{ "panic": "the till is empty" }]),
        ErrorKind::Trap,
        &["the till is empty", "script/src/lib.rs:"],
    );
}

#[test]
fn a_stack_that_overflows() {
    check(&json!([{ "recurse": 0 }]), ErrorKind::Trap, &["stack"]);
}

#[test]
fn a_memory_hog() {
    check(&json!([{ "hog": 0 }]), ErrorKind::Trap, &["memory", "67108864"]);
}

#[test]
fn a_flood_of_lines() {
    let house = check(
        &json!([{ "repeat": [1_000_000, [{ "log": "again" }]] }]),
        ErrorKind::Trap,
        &["log", "1000"],
    );
    assert_eq!(house.told.lines.lock().unwrap().len(), 1_000);
}

/// A loop without end uses up its budget; meanwhile others have their turns.
#[test]
fn a_loop_without_end() {
    let house = strict(by_hand(KEEP));
    let spin = house.start("spin", "script/main", "[{\"spin\":0}]");
    let quick = house.start("quick", "script/main", "[{\"return\":1}]");
    while !house.row(&quick).standing.is_terminal() {
        assert!(house.engine().step(), "nothing is left to do");
    }
    assert!(!house.row(&spin).standing.is_terminal(), "it ran to its end before its neighbour");
    house.work();
    let ending = house.ending(&spin);
    let failure = failed(&ending);
    assert_eq!(failure.kind, ErrorKind::Timeout);
    assert!(failure.message.contains("200ms"), "{}", failure.message);
}

/// D8: what is replayed is not counted: many short stretches are no long one.
#[test]
fn time_is_counted_by_stretches() {
    let house = strict(by_hand(KEEP));
    let steps = json!([{ "repeat": [300, [
        { "call": ["a", "main", [{ "return": 1 }]] }, { "await": "a" },
    ]] }]);
    let id = house.start("many", "script/main", &steps.to_string());
    house.work();
    assert_eq!(returned(&house.ending(&id)).matches('1').count(), 300);
}

/// A journal has an end: a loop of calls that write into it comes to it.
#[test]
fn a_journal_without_end() {
    let house = strict(Options { journal_events_max: 500, ..by_hand(KEEP) });
    let id = house.start("long", "script/main", "[{\"repeat\":[100000,[{\"now\":0}]]}]");
    house.work();
    let ending = house.ending(&id);
    let failure = failed(&ending);
    assert_eq!(failure.kind, ErrorKind::Trap);
    assert!(failure.message.contains("500 events"), "{}", failure.message);
    assert_eq!(house.row(&id).length, 501);
}

#[test]
fn payloads_have_a_size() {
    check(&json!([{ "big": 1_048_577 }]), ErrorKind::UserError, &["1048576"]);
    let big = "x".repeat(1 << 20);
    check(
        &json!([{ "call_big": ["a", "main", 1_048_576] }]),
        ErrorKind::Trap,
        &["the input of the call has", "1048576"],
    );

    // At the doors of the engine, too: nothing has changed then.
    let house = strict(by_hand(KEEP));
    let started = house.wait(house.engine().start(house.request("big", "script/main", &big)));
    assert!(started.is_ok(), "as much as is allowed is allowed: {started:?}");
    let more = format!("{big}x");
    let refused = house.wait(house.engine().start(house.request("more", "script/main", &more)));
    assert!(matches!(refused, Err(StartRefused::TooLarge { max: 1_048_576, .. })), "{refused:?}");
    let id = house.start("waits", "script/main", "[{\"signal\":\"go\"}]");
    let name = SignalName::new("go").unwrap();
    let payload = indelible_journal::Payload::json(more);
    let refused = house.wait(house.engine().signal(&id, &name, payload, Attribution::default()));
    assert!(matches!(refused, Err(ControlError::TooLarge { .. })), "{refused:?}");
}

/// C-26, C-21, JS-1, JS-2, JS-7: what makes no sense traps, and says why.
#[test]
fn promises_that_nobody_gave_out() {
    let trap = |program: Value, words: &[&str]| {
        check(&program, ErrorKind::Trap, words);
    };
    trap(json!([{ "raw_await": 7 }]), &["C-26"]);
    trap(json!([{ "now": 0 }, { "raw_await": 0 }]), &["C-26"]);
    trap(json!([{ "any": [] }]), &["C-26"]);
    trap(json!([{ "timer": ["t", 1] }, { "all": ["t", "t"] }]), &["J-90"]);
    trap(json!([{ "raw_submit": [0, 0] }]), &["JS-1"]);
    trap(json!([{ "set": "s" }, { "timer": ["t", 1] }, { "submit": ["s", "t"] }]), &["C-26"]);
    let call = json!({ "call": ["a", "main", [{ "return": 1 }]] });
    let submit = json!({ "submit": ["s", "a"] });
    trap(json!([{ "set": "s" }, call, submit, submit]), &["C-21"]);
    let other = json!({ "submit": ["o", "a"] });
    trap(json!([{ "set": "s" }, { "set": "o" }, call, submit, other]), &["JS-7"]);
    let more = json!({ "call": ["b", "main", []] });
    let late = json!({ "submit": ["s", "b"] });
    trap(json!([{ "set": "s" }, call, submit, { "next": "s" }, more, late]), &["JS-2"]);
    trap(json!([{ "signal": "" }]), &["name"]);
    trap(json!([{ "random": 65_537 }]), &["65536"]);
}

/// A wait for all of nothing is over at once.
#[test]
fn all_of_nothing() {
    let house = strict(by_hand(KEEP));
    let id = house.start("none", "script/main", "[{\"all\":[]}]");
    house.work();
    assert_eq!(returned(&house.ending(&id)), "[[]]");
}

/// Signals are buffered up to a number of bytes; what was read makes room.
#[test]
fn the_bytes_of_signals_are_bounded() {
    let house = strict(Options { signals_buffered_bytes_max: 10, ..by_hand(KEEP) });
    let id = house.start(
        "one",
        "script/main",
        "[{\"timer\":[\"t\",10]},{\"await\":\"t\"},{\"signal\":\"go\"},{\"signal\":\"end\"}]",
    );
    let send = |name: &str, json: &'static str| {
        let name = SignalName::new(name).unwrap();
        let payload = indelible_journal::Payload::json(json);
        house.wait(house.engine().signal(&id, &name, payload, Attribution::default()))
    };
    assert_eq!(send("go", "\"4567\"").unwrap().value.get(), 1);
    let full = send("go", "12345");
    assert!(
        matches!(full, Err(ControlError::CommandRefusal(CommandRefusal::FullBytes(10)))),
        "{full:?}"
    );
    assert_eq!(send("go", "1234").unwrap().value.get(), 2);
    house.pass(indelible_journal::Micros::from_millis(10));
    // What is waited for is read at once, and needs no room.
    assert_eq!(send("end", "123456789").unwrap().value.get(), 1);
    house.work();
    let noted = returned(&house.ending(&id));
    assert_eq!(noted, "[null,{\"signal\":\"4567\"},{\"signal\":123456789}]");
}

/// Signals are buffered up to a number; what was read makes room.
#[test]
fn signals_are_bounded() {
    let house = strict(Options { signals_buffered_max: 2, ..by_hand(KEEP) });
    let id = house.start(
        "one",
        "script/main",
        "[{\"timer\":[\"t\",10]},{\"await\":\"t\"},{\"signal\":\"go\"},{\"signal\":\"end\"}]",
    );
    let send = |id: &ExecutionId, name: &str| {
        let name = SignalName::new(name).unwrap();
        let payload = indelible_journal::Payload::json("1");
        house.wait(house.engine().signal(id, &name, payload, Attribution::default()))
    };
    assert_eq!(send(&id, "go").unwrap().value.get(), 1);
    assert_eq!(send(&id, "go").unwrap().value.get(), 2);
    let full = send(&id, "go");
    assert!(matches!(full, Err(ControlError::CommandRefusal(CommandRefusal::Full(2)))), "{full:?}");
    house.pass(indelible_journal::Micros::from_millis(10));
    assert_eq!(send(&id, "end").unwrap().value.get(), 1);
    house.work();
    assert!(matches!(send(&id, "go"), Err(ControlError::CommandRefusal(CommandRefusal::Over(_)))));
    let nobody: ExecutionId =
        id.to_string().replace(|c: char| c.is_ascii_digit(), "a").parse().unwrap();
    assert!(matches!(
        send(&nobody, "go"),
        Err(ControlError::CommandRefusal(CommandRefusal::Unknown))
    ));
    // A buffer full of others does not keep out what is waited for.
    let id = house.start("two", "script/main", "[{\"signal\":\"end\"}]");
    house.work();
    send(&id, "go").unwrap();
    send(&id, "go").unwrap();
    let full = send(&id, "go");
    assert!(matches!(full, Err(ControlError::CommandRefusal(CommandRefusal::Full(2)))), "{full:?}");
    send(&id, "end").unwrap();
    house.work();
    assert_eq!(returned(&house.ending(&id)), "[{\"signal\":1}]");
}
