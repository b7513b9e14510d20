//! A journal that the program could not have written leaves the execution stuck, with both sides
//! shown, and changes nothing (C-25).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_journal::{
    Ending, ErrorKind, Event, ExecutionId, Micros, Payload, Record, SignalName, Started,
};
use indelible_records::audit;
use indelible_records::executions::Standing;
use indelible_runtime::{
    Actor, Attribution, CommandRefusal, ControlError, EngineError, Parking, PersonDecision,
    StartRefused,
};
use indelible_store::{Batch, Scan};
use serde_json::{Value, json};

use crate::support::{House, KEEP, by_hand, failed};

/// What `program` finds if the journal is that of `other`, up to its first wait of an hour.
fn found(program: &Value, other: &Value) -> (House, ExecutionId, Vec<Record>) {
    let first = House::new(by_hand(KEEP));
    first.deploy("script");
    let id = first.start("one", "script/main", &other.to_string());
    first.pass(Micros::from_secs(60));
    let mut tree = first.tree(&id);
    let root = &mut tree[0].1[0].event;
    let Event::ExecutionStarted(started) = root else { panic!("{root:?}") };
    let input = Payload::json(program.to_string());
    **started = Started { input, ..(**started).clone() };

    let mut house = House::new(by_hand(KEEP));
    house.deploy("script");
    house.transplant(&tree);
    house.crash();
    house.pass(Micros::from_secs(3_700));
    let records = tree.swap_remove(0).1;
    (house, id, records)
}

/// The execution is stuck, says both sides, and has nothing in its journal that the end of its
/// wait did not bring.
#[track_caller]
fn check(program: &Value, other: &Value, recorded: &str, asked: &str) {
    let (house, id, before) = found(program, other);
    let row = house.row(&id);
    assert_eq!(row.standing, Standing::Stuck, "{row:?}");
    let why = row.stuck.unwrap();
    assert!(why.contains(recorded) && why.contains(asked), "{why}");
    assert_eq!(*house.told.stuck.lock().unwrap(), [why]);
    let events = house.events(&id);
    assert_eq!(events[..before.len()], before);
    let new: Vec<_> = events[before.len()..].iter().map(|r| r.event.name()).collect();
    assert_eq!(new, ["TimerFired", "ExecutionResumed"]);
}

fn with_hour(mut steps: Vec<Value>) -> Value {
    steps.extend([json!({ "timer": ["hour", 3_600_000] }), json!({ "await": "hour" })]);
    Value::Array(steps)
}

fn call(function: &str, input: &Value) -> Vec<Value> {
    vec![json!({ "call": ["a", function, input] }), json!({ "await": "a" })]
}

#[test]
fn another_function() {
    let program = with_hour(call("main", &json!([])));
    let other = with_hour(call("idem", &json!([])));
    check(&program, &other, "Function idem", "Function main");
}

#[test]
fn another_input() {
    let program = with_hour(call("main", &json!([])));
    let other = with_hour(call("main", &json!([{ "note": 1 }])));
    check(&program, &other, "Function main", "with another input");
}

#[test]
fn another_duration() {
    let one = |ms: u64| with_hour(vec![json!({ "timer": ["t", ms] }), json!({ "await": "t" })]);
    check(&one(2), &one(1), "a timer of 1ms", "a timer of 2ms");
}

#[test]
fn a_missing_event() {
    let mut more = vec![json!({ "now": 0 })];
    more.extend(call("main", &json!([])));
    let less = call("main", &json!([]));
    check(&with_hour(more), &with_hour(less), "Function main", "the time");
}

#[test]
fn an_event_too_many() {
    let mut more = call("main", &json!([]));
    more.push(json!({ "random": 8 }));
    let less = call("main", &json!([]));
    check(&with_hour(less), &with_hour(more), "8 random bytes", "a timer of");
}

#[test]
fn another_length_of_randomness() {
    let one = |length: u64| with_hour(vec![json!({ "random": length })]);
    check(&one(8), &one(9), "9 random bytes", "8 random bytes");
}

#[test]
fn a_join_set_instead_of_a_call() {
    let program = with_hour(vec![json!({ "set": "s" })]);
    let other = with_hour(call("main", &json!([])));
    check(&program, &other, "Function main", "a join set");
}

#[test]
fn a_program_that_ends_early() {
    check(&json!([{ "note": 1 }]), &with_hour(vec![]), "a timer of", "to return");
}

#[test]
fn a_program_that_traps_early() {
    check(&json!([{ "panic": "oh" }]), &with_hour(vec![]), "a timer of", "oh");
}

/// C-25, C-38: a person lets it go on, which finds the same, or ends it; who, why and when is
/// written in the same commit.
#[test]
fn a_person_decides() {
    let (house, id, _) = found(&json!([{ "note": 1 }]), &with_hour(vec![]));
    let length = house.row(&id).length;
    let ann = || Actor::new("ann");

    house.wait(house.engine().release(&id, PersonDecision::by(ann(), "a new engine"))).unwrap();
    house.work();
    let row = house.row(&id);
    assert_eq!((row.standing, row.length), (Standing::Stuck, length));

    house.wait(house.engine().fail(&id, PersonDecision::by(ann(), "it is lost"))).unwrap();
    house.work();
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Nondeterminism);
    let again = house.wait(house.engine().fail(&id, PersonDecision::by(ann(), "twice")));
    assert!(
        matches!(again, Err(ControlError::CommandRefusal(CommandRefusal::Over(_)))),
        "{again:?}"
    );

    let last = indelible_journal::Timestamp::MAX;
    let entries = audit::before(house.engine().store(), last, 10).unwrap().value;
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].actor, "ann");
    let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
    assert!(actions.contains(&"release") && actions.contains(&"fail"), "{actions:?}");
}

/// What is not stuck cannot be released or failed.
#[test]
fn only_what_is_held_is_decided_about() {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    let id = house.start("one", "script/main", "[{\"signal\":\"go\"}]");
    let released =
        house.wait(house.engine().release(&id, PersonDecision::by(Actor::new("ann"), "")));
    assert!(
        matches!(released, Err(ControlError::CommandRefusal(CommandRefusal::NotStuck))),
        "{released:?}"
    );
    house.signal(&id, "go", "1");
    house.work();
    assert!(matches!(house.ending(&id), Ending::Completed(_)));
}

/// J-93: an execution whose component is not there is stuck, not failed.
#[test]
fn a_missing_component() {
    let first = House::new(by_hand(KEEP));
    first.deploy("script");
    let id = first.start("one", "script/main", &with_hour(vec![]).to_string());
    first.work();
    let disk = std::sync::Arc::new(crate::support::disk::Disk::new());
    let mut house = House::with(disk, by_hand(KEEP), crate::support::guests::fresh());
    house.transplant(&first.tree(&id));
    house.crash();
    house.pass(Micros::from_secs(3_700));
    let row = house.row(&id);
    assert_eq!(row.standing, Standing::Stuck);
    assert!(row.stuck.as_ref().unwrap().contains("component"), "{row:?}");
    // When it is there, a person releases it, and it goes on.
    house.deploy("script");
    house
        .wait(house.engine().release(&id, PersonDecision::by(Actor::new("ann"), "deployed")))
        .unwrap();
    house.work();
    assert!(matches!(house.ending(&id), Ending::Completed(_)));
}

/// C-25: calls that had not begun when it was stuck begin when it is released, also by another
/// process.
#[test]
fn what_had_not_begun_begins_after_a_release() {
    let program = json!([
        { "call": ["a", "main", [{ "return": 7 }]] },
        { "timer": ["hour", 3_600_000] }, { "await": "hour" }, { "await": "a" },
    ]);
    let first = House::new(by_hand(KEEP));
    first.deploy("script");
    let id = first.start("one", "script/main", &program.to_string());
    first.work();
    // As if the process had died before the call's turn came.
    let mut tree = first.tree(&id);
    tree.truncate(1);
    tree[0].1.truncate(4);
    assert_eq!(tree[0].1[3].event.name(), "ExecutionAwaiting");

    let disk = std::sync::Arc::new(crate::support::disk::Disk::new());
    let mut house = House::with(disk, by_hand(KEEP), crate::support::guests::fresh());
    house.transplant(&tree);
    house.crash();
    house.pass(Micros::from_secs(3_700));
    assert_eq!(house.row(&id).standing, Standing::Stuck);
    house.deploy("script");
    house.crash();
    house
        .wait(house.engine().release(&id, PersonDecision::by(Actor::new("ann"), "deployed")))
        .unwrap();
    house.work();
    assert_eq!(crate::support::returned(&house.ending(&id)), "[null,7]");
}

/// Damaged rows: a start, a view or a signal that needs them fails with that cause, and not as if the
/// engine had stopped. Each place is told once, and other executions go on.
#[test]
fn damage_is_told_once_and_other_executions_go_on() {
    let waits = json!([{ "signal": "go" }, { "return": 1 }]).to_string();
    // Which table; whether the operation is forgotten, so that a start looks for its execution; who is
    // told: a repeated start, a view and a signal.
    for (table, forgotten, starts, controls) in [
        (indelible_records::EXECUTIONS, false, false, true),
        (indelible_records::EXECUTIONS, true, true, true),
        (indelible_records::JOURNALS, false, false, true),
        (indelible_records::OPERATIONS, false, true, false),
    ] {
        let mut house = House::new(by_hand(Parking::Drop));
        house.deploy("script");
        let id = house.start("one", "script/main", &waits);
        house.work();
        let store = house.engine().store();
        let mut batch = Batch::new();
        for (key, value) in store.scan(&Scan::all(table, 100)).unwrap().value.rows {
            let mut value = value.to_vec();
            *value.last_mut().unwrap() ^= 1;
            batch.put(table, key, value);
        }
        if forgotten {
            for (key, _) in
                store.scan(&Scan::all(indelible_records::OPERATIONS, 100)).unwrap().value.rows
            {
                batch.delete(indelible_records::OPERATIONS, key);
            }
        }
        let position = store.submit_blocking(batch).unwrap();
        store.durable(position).wait().unwrap();
        house.crash();
        let engine = house.engine();
        let name = SignalName::new("go").unwrap();
        for _ in 0..3 {
            let again = house.wait(engine.start(house.request("one", "script/main", &waits)));
            match again {
                Err(StartRefused::Engine(error)) => assert!(starts && error.is_damage(), "{error}"),
                again => assert!(!starts && again.is_ok(), "{again:?}"),
            }
            let view = house.wait(engine.view(&id));
            assert_eq!(view.as_ref().is_err_and(EngineError::is_damage), controls, "{view:?}");
            if controls {
                let sent = house.wait(engine.signal(
                    &id,
                    &name,
                    Payload::json("1".to_owned()),
                    Attribution::default(),
                ));
                let damaged =
                    matches!(sent, Err(ControlError::CommandRefusal(CommandRefusal::Damaged(_))));
                assert!(damaged, "{sent:?}");
            }
        }
        let places = engine.readings().store.damaged_places;
        let trouble = house.told.trouble.lock().unwrap().clone();
        let told =
            trouble.iter().filter(|what| what.starts_with("stored data is damaged ")).count();
        assert!(places > 0 && told == places, "{table:?}: {places} {trouble:?}");
        assert!(trouble.len() <= places + 1, "{trouble:?}");
        let other = house.start("two", "script/main", &json!([{ "return": 2 }]).to_string());
        house.work();
        assert_eq!(crate::support::returned(&house.ending(&other)), "2");
    }
}
