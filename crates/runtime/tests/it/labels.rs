//! Labels of executions (C-79): those of a start, and those that functions set, through crashes,
//! repeated requests, further attempts and retention.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_idempotency::{ConsumerNamespace, parse_key};
use indelible_journal::{ErrorKind, ExecutionId, Micros, Payload};
use indelible_records::labels::{LABELS_MAX, Labels};
use indelible_records::{BY_LABEL, check};
use indelible_runtime::{
    Filter, KeyUse, Options, Pace, Parking, Retention, Start, StartRefused, Verdict,
};
use indelible_store::Scan;

use crate::support::{House, KEEP, by_hand, failed, returned};

fn labels(texts: &[&str]) -> Labels {
    Labels::of_start(texts.iter().map(|text| text.parse().unwrap())).unwrap()
}

fn house(parking: Parking) -> House {
    // A commit for each call of a guest: the process can die between any two.
    let house = House::new(Options { pace: Pace::Lockstep, ..by_hand(parking) });
    house.deploy("script");
    house
}

/// The labels of an execution, as its row has them.
fn shown(house: &House, id: &ExecutionId) -> Vec<String> {
    house.row(id).labels.iter().map(ToString::to_string).collect()
}

/// The roots that have a label.
fn found(house: &House, label: &str) -> Vec<ExecutionId> {
    let filter =
        Filter { labels: vec![label.parse().unwrap()], latest_only: true, ..Filter::default() };
    let page = house.wait(house.engine().list(&filter, None, 100)).unwrap();
    page.executions.into_iter().map(|row| row.key.execution_id().clone()).collect()
}

/// What happened in an execution. Not its waits: a child that ends before its caller asks for it, as
/// after a death, is not waited for. Not what is delivered and may be read: it may come twice.
fn history(house: &House, id: &ExecutionId) -> Vec<&'static str> {
    let mut names = house.names(id);
    names.retain(|name| {
        !["ExecutionAwaiting", "ExecutionResumed", "SignalDelivered"].contains(name)
    });
    names
}

fn assert_sound(house: &House) {
    house.settle();
    assert_eq!(check::check(house.engine().store(), &mut |_| {}).unwrap().problems, []);
}

const STEPS: &str = r#"[
    {"label":["stage","new"]}, {"now":0}, {"timer":["t",5]}, {"await":"t"},
    {"label":["stage","waits"]}, {"label":["order","8"]}, {"signal":"go"},
    {"label":["stage","went"]}, {"call":["c","main",[{"label":["stage","below"]},{"return":1}]]},
    {"await":"c"}, {"label":["stage","done"]}, {"return":1}
]"#;

/// Runs the steps to their end, through one death of the process; returns the execution, and how many
/// commits there were.
fn story(house: &mut House, dies_after: Option<u64>) -> (ExecutionId, u64) {
    let start = house.request("op", "script/main", STEPS);
    let start = Start { labels: labels(&["order=7", "tenant=x"]), ..start };
    let before = house.disk.taken();
    if let Some(commits) = dies_after {
        house.disk.dies_after(commits);
    }
    let started = house.wait(house.engine().start(start.clone()));
    let id = match started {
        Ok(started) => started.execution_id,
        Err(error) => {
            assert!(house.disk.is_dead(), "{error}");
            house.crash();
            house.engine_start(start)
        }
    };
    for round in 0..3 {
        house.work_through();
        if house.disk.is_dead() {
            house.crash();
            house.work_through();
        }
        if round < 2 {
            // Repeated after a death, it is delivered twice: only the first is read.
            let go = indelible_journal::SignalName::new("go").unwrap();
            let nothing = indelible_runtime::Attribution::default();
            _ = house.wait(house.engine().signal(&id, &go, Payload::json("1"), nothing));
        }
    }
    house.settle();
    (id, house.disk.taken() - before)
}

/// C-79: a function's labels are stored with its steps, the last value wins, and no event has them:
/// with the process dying after every single commit, labels, index and journal are those of a run
/// without a death. A child's labels are in its own row, and found by no list.
#[test]
fn labels_survive_every_crash() {
    for parking in [KEEP, Parking::Drop] {
        let mut whole = house(parking);
        let (id, commits) = story(&mut whole, None);
        let expected = ["order=8", "stage=done", "tenant=x"];
        assert_eq!(shown(&whole, &id), expected);
        assert_eq!(shown(&whole, &ExecutionId::new(id.child(3)).unwrap()), ["stage=below"]);
        let happened = history(&whole, &id);
        assert!(commits > 4, "{commits}");
        for dies_after in 0..commits {
            let mut house = house(parking);
            let (again, _) = story(&mut house, Some(dies_after));
            assert_eq!(again, id, "{dies_after}");
            assert_eq!(shown(&house, &id), expected, "{dies_after}");
            assert_eq!(history(&house, &id), happened, "{dies_after}");
            assert_eq!(found(&house, "stage=done"), std::slice::from_ref(&id), "{dies_after}");
            for gone in ["order=7", "stage=new", "stage=waits", "stage=below"] {
                assert_eq!(found(&house, gone), [], "{gone} {dies_after}");
            }
            assert_sound(&house);
        }
    }
}

/// A guest that waits has its labels stored, and its replay does not change them back.
#[test]
fn a_replay_changes_nothing() {
    let mut house = house(Parking::Drop);
    let start = house.request("op", "script/main", STEPS);
    let id = house.engine_start(start);
    house.work_through();
    assert_eq!(shown(&house, &id), ["order=8", "stage=waits"]);
    house.crash();
    house.work_through();
    let row = house.row(&id);
    assert_eq!(shown(&house, &id), ["order=8", "stage=waits"]);
    // The guest runs over what is recorded and waits again: nothing is written.
    house.engine().nudge(&id);
    house.work_through();
    assert_eq!(house.row(&id), row);
    house.signal(&id, "go", "1");
    house.work_through();
    assert_eq!(shown(&house, &id), ["order=8", "stage=done"]);
}

/// C-79, I-8: labels are not part of the request. A repetition with others finds the same execution,
/// which keeps those of the first start; by key and by operation id.
#[test]
fn the_first_start_counts() {
    let house = house(KEEP);
    let waits = r#"[{"signal":"go"}]"#;
    let key = parse_key(&ConsumerNamespace::new("tests").unwrap(), Some("order-7")).unwrap();
    let by_id = house.request("op", "script/main", waits);
    let by_key = Start { operation_id: None, idempotency_key: key, ..by_id.clone() };
    for (start, name) in [(by_id, None), (by_key, Some("order-7"))] {
        let first = Start { labels: labels(&["order=7"]), ..start.clone() };
        let first = house.wait(house.engine().start(first)).unwrap();
        let again = Start { labels: labels(&["order=8", "x=y"]), ..start };
        let again = house.wait(house.engine().start(again)).unwrap();
        assert_eq!((&again.execution_id, again.verdict), (&first.execution_id, Verdict::InFlight));
        assert_eq!(shown(&house, &first.execution_id), ["order=7"]);
        assert_eq!(house.row(&first.execution_id).idempotency_key.as_deref(), name);
    }
    assert_eq!(found(&house, "order=7").len(), 2);
    assert_eq!(found(&house, "order=8"), []);
}

/// A label that does not fit traps, the same live and replayed; what was set before it stays. A
/// function may set as many as its start has left.
#[test]
fn what_does_not_fit_traps() {
    let house = house(KEEP);
    let fails = |id: &str, steps: String, given: &[&str], words: &str| {
        let start = house.request(id, "script/main", &steps);
        let id = house.engine_start(Start { labels: labels(given), ..start });
        house.work_through();
        let ending = house.ending(&id);
        let failure = failed(&ending);
        assert_eq!(failure.kind, ErrorKind::Trap);
        assert!(failure.message.contains(words), "{failure}");
        id
    };
    let own = |count: usize| {
        let own = (0..count).map(|number| format!(r#"{{"label":["n{number}","x"]}}"#));
        format!("[{}]", own.chain([r#"{"return":1}"#.to_owned()]).collect::<Vec<_>>().join(","))
    };
    let id = fails("many", own(LABELS_MAX), &["order=7"], "at most 16 labels");
    assert_eq!(shown(&house, &id).len(), LABELS_MAX);
    let error = house.row(&id).error.unwrap();
    assert!(error.kind == ErrorKind::Trap && error.message.contains("at most 16"), "{error:?}");
    let start = house.request("all", "script/main", &own(LABELS_MAX - 1));
    let id = house.engine_start(Start { labels: labels(&["n0=given", "order=7"]), ..start });
    house.work_through();
    assert_eq!(returned(&house.ending(&id)), "1");
    assert_eq!(house.row(&id).labels.get("n0"), Some("x"));
    fails("name", r#"[{"label":["a b","1"]}]"#.to_owned(), &[], "the name of a label");
    fails("value", r#"[{"label":["a","1\n2"]}]"#.to_owned(), &[], "no control characters");
    let long = format!(r#"[{{"label":["a","{}"]}}]"#, "x".repeat(257));
    fails("long", long, &[], "at most 256 bytes");
    assert_sound(&house);
}

/// The next attempt has the labels and the key of the one before, and a volatile function leaves its
/// own with its end.
#[test]
fn attempts_and_volatile_functions() {
    let house = house(KEEP);
    let key = parse_key(&ConsumerNamespace::new("tests").unwrap(), Some("k")).unwrap();
    let steps = r#"[{"label":["stage","a"]},{"below":[2,[{"transient":"later"}]]},{"return":1}]"#;
    let start = house.request("op", "script/idem", steps);
    let start =
        Start { operation_id: None, idempotency_key: key, labels: labels(&["order=7"]), ..start };
    let id = house.engine_start(start);
    house.work_through();
    let row = house.row(&id);
    assert_eq!(row.key.attempts().own().get(), 2);
    assert_eq!(shown(&house, &id), ["order=7", "stage=a"]);
    assert_eq!(row.idempotency_key.as_deref(), Some("k"));
    let each = Filter { labels: vec!["stage=a".parse().unwrap()], ..Filter::default() };
    let each = house.wait(house.engine().list(&each, None, 10)).unwrap().executions;
    let ends: Vec<_> = each.iter().map(|row| row.error.as_ref().map(|error| error.kind)).collect();
    // They began at one moment.
    assert_eq!(ends, [Some(ErrorKind::Transient), None]);

    house.deploy("behaviours");
    let start = house.request("volatile", "behaviours/labels_volatile", "\"b\"");
    let id = house.engine_start(Start { labels: labels(&["order=8"]), ..start });
    house.work_through();
    assert_eq!(shown(&house, &id), ["order=8", "stage=b"]);
    assert_eq!(found(&house, "stage=b"), [id]);
    assert_sound(&house);
}

/// What a key was used for is known as long as its record: after retention has taken the execution,
/// too, whose labels and index entries have gone with it.
#[test]
fn a_key_outlives_its_execution() {
    let mut house = house(KEEP);
    let named = |value: &str| {
        parse_key(&ConsumerNamespace::new("tests").unwrap(), Some(value)).unwrap().unwrap()
    };
    let start = house.request("x", "script/main", r#"[{"label":["stage","a"]},{"return":1}]"#);
    let start = Start {
        operation_id: None,
        idempotency_key: Some(named("order-7")),
        labels: labels(&["order=7"]),
        ..start
    };
    let used = |house: &House, key: &str| house.wait(house.engine().key_use(&named(key))).unwrap();
    assert_eq!(used(&house, "order-7"), None);
    let started = house.wait(house.engine().start(start.clone())).unwrap();
    let Some(KeyUse::Start { operation_id, operation, row, .. }) = used(&house, "order-7") else {
        panic!("it was started")
    };
    assert_eq!(operation_id, started.operation_id);
    assert_eq!(operation.execution_id(), started.execution_id);
    assert_eq!(row.unwrap().key.execution_id(), &started.execution_id);
    house.work_through();
    house.move_clock(Micros::from_secs(60));
    let retention = Retention { completed: Some(Micros::from_secs(1)), ..Retention::default() };
    house.retain_once(retention);
    assert_eq!(house.engine().store().scan(&Scan::all(BY_LABEL, 10)).unwrap().value.rows, []);
    let Some(KeyUse::Start { in_progress: false, row: None, .. }) = used(&house, "order-7") else {
        panic!("its record is there")
    };
    let refused = Start { input: Payload::json("2"), ..start };
    let refused = house.wait(house.engine().start(refused));
    assert!(matches!(refused, Err(StartRefused::Mismatch)));
    assert_sound(&house);
}
