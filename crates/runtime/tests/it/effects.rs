//! HTTP effects: what is sent, how often, and what becomes of an unknown outcome, by class and by
//! how attempts end, with crashes in between. The wire is the test's: the network has tests of its
//! own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use indelible_http::End;
use indelible_journal::{
    Ending, ErrorKind, Event, ExecutionId, InvokeKind, Micros, Outcome, PromiseId, RetryCause,
    Timestamp,
};
use indelible_records::audit;
use indelible_runtime::world::Clock as _;
use indelible_runtime::{
    Actor, Attribution, CommandRefusal, ControlError, Options, Pace, Parking, PersonDecision,
    Resolution,
};

use crate::support::wire::{Wire, answer, answered, timed_out, unknown};
use crate::support::{House, KEEP, by_hand, failed, returned};

/// A house with a wire.
fn house(options: Options) -> (House, Arc<Wire>) {
    let mut house = House::new(options);
    let wire = Wire::new();
    house.http = wire.clone();
    house.reopen();
    house.deploy("behaviours");
    (house, wire)
}

/// A request: method, how attempts end, and more fields.
fn spec(method: &str, path: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    format!(r#"{{"method":"{method}","url":"http://peer/{path}","backoff_ms":10{more}}}"#)
}

/// What a function that sends one request said: its status, or its error.
#[track_caller]
fn said(ending: &Ending) -> String {
    let json: serde_json::Value = serde_json::from_str(&returned(ending)).unwrap();
    match (json["error"].as_str(), json["status"].as_u64()) {
        (Some(error), Some(status)) => format!("{error} ({status})"),
        (Some(error), None) => error.to_owned(),
        (None, status) => status.unwrap().to_string(),
    }
}

/// Works until everything waits for the wire or a timer far ahead.
fn work(house: &House) {
    for _ in 0..5 {
        house.work();
        house.settle();
        std::thread::yield_now();
    }
    house.work();
}

fn actor() -> Actor {
    Actor::new("ada")
}

/// The events about the first effect, without those about anything else.
fn effect_events(house: &House, id: &ExecutionId) -> Vec<String> {
    let own = house.events(id).into_iter();
    own.filter_map(|record| match record.event {
        Event::InvokeScheduled { kind: InvokeKind::Http, .. } => Some("scheduled".to_owned()),
        Event::InvokeStarted { attempt, .. } => Some(format!("started {attempt}")),
        Event::InvokeRetrying { cause, error, .. } => {
            Some(format!("again {cause:?} {}", error.kind))
        }
        Event::InvokeCompleted { result: Outcome::Ok(_), .. } => Some("ok".to_owned()),
        Event::InvokeCompleted { result: Outcome::Err(error), .. } => Some(error.kind.to_string()),
        _ => None,
    })
    .collect()
}

/// D5, V-24, C-29, C-38: what an attempt's end comes to, by class: the outcome, and how many
/// requests left. `idem` is never Indeterminate; what is not `idem` is never sent again unless it
/// was proven unsent or declared not processed.
#[test]
fn every_end_of_an_attempt_comes_to_what_its_class_allows() {
    let (house, wire) = house(by_hand(KEEP));
    let retries = r#""retries":2"#;
    // How attempts end; then for idem and for not idem: the outcome and how many were sent.
    let table = [
        ("200", ("200", 1), ("200", 1)),
        ("404", ("404", 1), ("404", 1)),
        ("500", ("500", 1), ("500", 1)),
        ("429,200", ("200", 2), ("200", 2)),
        ("429", ("429", 3), ("429", 3)),
        ("503,200", ("200", 2), ("503", 1)),
        ("502,200", ("200", 2), ("Indeterminate (502)", 1)),
        ("504,200", ("200", 2), ("Indeterminate (504)", 1)),
        ("502", ("502", 3), ("Indeterminate (502)", 1)),
        ("unknown,200", ("200", 2), ("Indeterminate", 1)),
        ("unknown", ("Transient", 3), ("Indeterminate", 1)),
        ("late,200", ("200", 2), ("Indeterminate", 1)),
        ("late", ("Timeout", 3), ("Indeterminate", 1)),
        ("unsent,200", ("200", 2), ("200", 2)),
        ("unsent", ("NotPerformed", 3), ("NotPerformed", 3)),
        ("unsent,unsent,unknown", ("Transient", 3), ("Indeterminate", 3)),
        ("unknown,unsent", ("Transient", 3), ("Indeterminate", 1)),
        ("429,unknown,200", ("200", 3), ("Indeterminate", 2)),
        ("refused", ("NotPerformed", 1), ("NotPerformed", 1)),
        ("large", ("Uncategorized (200)", 1), ("Uncategorized (200)", 1)),
    ];
    for (path, idem, not_idem) in table {
        for (method, (outcome, sent)) in [("PUT", idem), ("POST", not_idem)] {
            let before = wire.count();
            let id =
                house.start(&format!("{method} {path}"), "sends", &spec(method, path, retries));
            house.work_through();
            assert_eq!(said(&house.ending(&id)), outcome, "{method} {path}");
            assert_eq!(wire.count() - before, sent, "{method} {path}");
        }
    }
    let declared = r#""retries":2,"not_processed":[502],"no_answer":[]"#;
    let (_, ending) = house.run("sends", &spec("POST", "502,504", declared));
    assert_eq!(said(&ending), "504", "what an effect declares counts");
}

/// J-77, I-2, C-29: every attempt carries one key, which is another for another effect.
#[test]
fn attempts_share_their_key() {
    let (house, wire) = house(by_hand(KEEP));
    house.run("sends", &spec("GET", "unknown,unsent,503,200", ""));
    house.run("sends", &spec("GET", "200", ""));
    let keys: Vec<_> = wire.sent().into_iter().map(|sent| sent.idempotency_key).collect();
    assert_eq!(keys.len(), 5);
    assert!(keys[..4].iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_ne!(keys[4], keys[0]);
    assert_eq!(keys[0].len(), 64);
}

/// J-71, C-38: what is written of an effect, phase by phase.
#[test]
fn what_is_written_of_an_effect() {
    let (house, _) = house(by_hand(KEEP));
    let (id, _) = house.run("sends", &spec("GET", "unsent,429,unknown,200", ""));
    let expected = [
        "scheduled",
        "started 1",
        "again NotSent NotPerformed",
        "started 2",
        "again Failed NotPerformed",
        "started 3",
        "again Failed Transient",
        "started 4",
        "ok",
    ];
    assert_eq!(effect_events(&house, &id), expected);
    let (id, _) = house.run("sends", &spec("POST", "unknown", ""));
    assert_eq!(effect_events(&house, &id), ["scheduled", "started 1", "Indeterminate"]);
}

/// O-22, C-1: the waits double, give or take a tenth; a `Retry-After` is honoured where it is
/// longer, and a deadline ends it.
#[test]
fn waits_double_and_the_peer_may_ask_for_more() {
    let (house, wire) = house(by_hand(KEEP));
    let due = |house: &House| house.engine().next_due().map(Timestamp::as_micros);
    let now = |house: &House| house.clock.now().as_micros();
    let id = house.start("a", "sends", &spec("GET", "unknown", r#""unbounded":true"#));
    for retry in 0..6 {
        work(&house);
        let wait = due(&house).unwrap() - now(&house);
        let usual = 10_000 << retry;
        assert!((usual * 9 / 10..=usual * 11 / 10).contains(&wait), "{wait} before retry {retry}");
        house.pass(Micros::new(wait));
    }
    house.cancel(&id);
    house.work_through();
    let before = wire.count();
    let id = house.start("b", "sends", &spec("GET", "soon,200", ""));
    work(&house);
    house.pass(Micros::from_millis(6_900));
    work(&house);
    assert_eq!(wire.count() - before, 1, "the peer asked for seven seconds");
    house.pass(Micros::from_millis(200));
    work(&house);
    assert_eq!((wire.count() - before, said(&house.ending(&id)).as_str()), (2, "200"));
    let id = house.start("c", "sends", &spec("GET", "soon,200", r#""deadline_ms":5000"#));
    house.work_through();
    assert_eq!(said(&house.ending(&id)), "429", "seven seconds are past its deadline");
}

/// D2: nothing leaves before what it depends on is durable.
#[test]
fn nothing_leaves_before_its_start_is_durable() {
    let (house, wire) = house(by_hand(KEEP));
    house.disk.hold();
    let request = house.request("a", "sends", &spec("POST", "200", ""));
    let start = house.engine().start(request);
    let mut start = std::pin::pin!(start);
    let waker = std::task::Waker::noop();
    for _ in 0..50 {
        let poll = start.as_mut().poll(&mut std::task::Context::from_waker(waker));
        assert!(poll.is_pending(), "the disk has not taken it");
        house.engine().step();
    }
    assert_eq!(wire.count(), 0, "the disk has not taken it");
    house.disk.release();
    let id = house.wait(start).unwrap().execution_id;
    house.work_through();
    assert_eq!((wire.count(), said(&house.ending(&id)).as_str()), (1, "200"));
}

/// C-41, V-48, V-22: a crash while an effect is in flight. `idem`: it is sent again. Not `idem`:
/// Indeterminate, and sent once.
#[test]
fn a_crash_in_flight_is_unknown() {
    for pace in [Pace::Ahead, Pace::Lockstep] {
        for parking in [KEEP, Parking::Drop] {
            let (mut house, wire) = house(Options { pace, ..by_hand(parking) });
            let idem = house.start("idem", "sends", &spec("PUT", "open,200", ""));
            let not_idem = house.start("not", "sends", &spec("POST", "open,200", ""));
            let child = house.start("child", "sends_by_call", &spec("POST", "open,200", ""));
            let left = house.start("left", "sends_and_leaves", &spec("POST", "open", ""));
            work(&house);
            assert_eq!(wire.open(), 4);
            house.crash();
            wire.cut();
            house.work_through();
            assert_eq!(said(&house.ending(&idem)), "200");
            assert_eq!(said(&house.ending(&not_idem)), "Indeterminate");
            assert_eq!(said(&house.ending(&child)), "Indeterminate");
            assert_eq!(returned(&house.ending(&left)), "\"left\"");
            assert_eq!(wire.count(), 5, "of four, only the one that is idem was sent again");
            let expected =
                ["scheduled", "started 1", "again EngineLost Transient", "started 2", "ok"];
            assert_eq!(effect_events(&house, &idem), expected);
        }
    }
}

/// An answer that is durable is never forgotten, and one that is not was not seen: a crash at any
/// point of a sequence of effects leads to the same journal of outcomes, with at most one request
/// for each effect that is not `idem`.
#[test]
fn a_crash_at_any_commit_sends_nothing_twice() {
    let specs: Vec<_> = (0..4).map(|_| spec("POST", "200", "")).collect();
    let input = format!("[{}]", specs.join(","));
    for crash_at in 0..14 {
        let (mut house, wire) = house(Options { pace: Pace::Lockstep, ..by_hand(KEEP) });
        house.disk.dies_after(crash_at);
        let request = house.request("a", "sends_in_turn", &input);
        {
            let engine = house.engine();
            let start = engine.start(request.clone());
            let mut start = std::pin::pin!(start);
            let waker = std::task::Waker::noop();
            let mut started = false;
            for _ in 0..200 {
                let mut context = std::task::Context::from_waker(waker);
                started = started || start.as_mut().poll(&mut context).is_ready();
                engine.step();
                if house.disk.is_dead() {
                    break;
                }
            }
        }
        house.disk.revive();
        house.reopen();
        let id = house.engine_start(request);
        house.work_through();
        let json: serde_json::Value = serde_json::from_str(&returned(&house.ending(&id))).unwrap();
        let all = json.as_array().unwrap();
        assert_eq!(all.len(), 4);
        let indeterminate = all.iter().filter(|one| one["error"] == "Indeterminate").count();
        let answered = all.iter().filter(|one| one["status"] == 200).count();
        assert!(indeterminate <= 1 && indeterminate + answered == 4, "{json}");
        // Of one that is Indeterminate it was sent or not; of the others exactly once.
        let sent = wire.count();
        assert!((answered..=answered + indeterminate).contains(&sent), "{crash_at}: {sent} {json}");
    }
}

/// D5, C-38: an effect that is held waits for a person, across crashes, and is listed.
#[test]
fn what_is_held_waits_for_a_person() {
    let (mut house, wire) = house(by_hand(KEEP));
    let id = house.start("a", "sends", &spec("POST", "unknown,200", r#""hold":true"#));
    house.work_through();
    let list = |house: &House| house.wait(house.engine().unresolved(None, 10)).unwrap();
    let held = list(&house);
    assert_eq!(held.len(), 1);
    assert!(held[0].is_held() && held[0].label == "POST http://peer/unknown,200", "{held:?}");
    assert_eq!(*held[0].promise.parent().as_ref().unwrap(), id);
    assert_eq!(house.told.unresolved.lock().unwrap().len(), 1);
    house.crash();
    house.work_through();
    assert_eq!(list(&house), held, "a crash changes nothing");
    assert!(!house.row(&id).standing.is_terminal());
    assert_eq!(wire.count(), 1);
    let happened = Resolution::Happened(answer(201));
    house
        .wait(house.engine().resolve(
            &held[0].promise,
            happened,
            PersonDecision::by(actor(), "saw it"),
        ))
        .unwrap();
    house.work_through();
    assert_eq!(said(&house.ending(&id)), "201");
    assert_eq!((wire.count(), list(&house).len()), (1, 0));
    let store = house.engine().store();
    let audit = audit::before(store, Timestamp::MAX, 10).unwrap().value;
    let body = format!("{:?}", audit[0]);
    for part in ["resolve: happened", "ada", "saw it", &format!("{:?}", held[0].promise)] {
        assert!(body.contains(part), "{body}");
    }
}

/// C-38: the three resolutions, and what each writes.
#[test]
fn each_resolution_goes_on_from_there() {
    let hold = r#""hold":true"#;
    let cases: [(Resolution, &str, usize, &[&str]); 3] = [
        (Resolution::Happened(answer(200)), "200", 1, &["ok"]),
        (Resolution::DidNotHappen, "NotPerformed", 1, &["NotPerformed"]),
        (Resolution::RunAgain, "200", 2, &["again Operator Indeterminate", "started 2", "ok"]),
    ];
    for (resolution, outcome, sent, events) in cases {
        for crash in [false, true] {
            let (mut house, wire) = house(by_hand(KEEP));
            let id = house.start("a", "sends", &spec("POST", "unknown,200", hold));
            house.work_through();
            let promise = id.child(0);
            let resolve = house.engine().resolve(
                &promise,
                resolution.clone(),
                PersonDecision::by(actor(), "why"),
            );
            house.wait(resolve).unwrap();
            if crash {
                house.crash();
            }
            house.work_through();
            assert_eq!(said(&house.ending(&id)), outcome, "{resolution:?}");
            assert_eq!(wire.count(), sent, "{resolution:?}");
            assert_eq!(effect_events(&house, &id)[2..], *events, "{resolution:?}");
        }
    }
}

#[track_caller]
fn refusal(house: &House, promise: &PromiseId, resolution: Resolution) -> CommandRefusal {
    let resolved =
        house.wait(house.engine().resolve(promise, resolution, PersonDecision::by(actor(), "why")));
    match resolved {
        Err(ControlError::CommandRefusal(why)) => why,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// V-38, C-38: what is sealed, in flight, between attempts or not there cannot be resolved, and a
/// second resolution is refused; nothing changes.
#[test]
fn only_what_is_unresolved_can_be_resolved() {
    let (house, wire) = house(by_hand(KEEP));
    let hold = r#""hold":true"#;
    let conflict = |why: CommandRefusal, part: &str| match why {
        CommandRefusal::NotUnresolved(text) => assert!(text.contains(part), "{text}"),
        other => panic!("{other:?}"),
    };
    let id = house.start(
        "a",
        "sends_in_turn",
        &format!("[{},{}]", spec("POST", "unknown", hold), spec("POST", "open", hold)),
    );
    house.work_through();
    let first = id.child(0);
    house
        .wait(house.engine().resolve(
            &first,
            Resolution::DidNotHappen,
            PersonDecision::by(actor(), ""),
        ))
        .unwrap();
    work(&house);
    let events = house.events(&id).len();
    conflict(refusal(&house, &first, Resolution::RunAgain), "ada settled it at ");
    conflict(refusal(&house, &first, Resolution::Happened(answer(200))), "it did not happen");
    conflict(refusal(&house, &id.child(1), Resolution::DidNotHappen), "in flight");
    assert_eq!(refusal(&house, &id.child(7), Resolution::DidNotHappen), CommandRefusal::Unknown);
    let other = ExecutionId::root_of(indelible_journal::RootHash::from_bytes([1; 32]));
    assert_eq!(refusal(&house, &other.child(0), Resolution::DidNotHappen), CommandRefusal::Unknown);
    assert_eq!(house.events(&id).len(), events, "nothing has changed");
    assert!(wire.end(answered(200)));
    house.work_through();
    assert!(matches!(refusal(&house, &id.child(1), Resolution::RunAgain), CommandRefusal::Over(_)));

    let id = house.start(
        "b",
        "sends_in_turn",
        &format!(
            "[{},{}]",
            spec("POST", "unknown", ""),
            spec("GET", "unknown", r#""unbounded":true"#)
        ),
    );
    work(&house);
    let why = refusal(&house, &id.child(0), Resolution::RunAgain);
    conflict(why, "it ended as Indeterminate, and what has ended does not run again");
    conflict(refusal(&house, &id.child(1), Resolution::RunAgain), "has not begun");
}

/// An answer that comes after its time: it says how a held effect ended; after a resolution, or
/// an end as Indeterminate, it changes nothing and is on record.
#[test]
fn a_late_answer_says_what_nobody_else_has_said() {
    let (house, wire) = house(by_hand(KEEP));
    let hold = r#""hold":true"#;
    let audited = |house: &House| {
        let store = house.engine().store();
        let all = audit::before(store, Timestamp::MAX, 100).unwrap().value;
        all.iter().filter(|entry| entry.action == "late response").count()
    };
    let id = house.start("a", "sends", &spec("POST", "open", hold));
    work(&house);
    let mut late = wire.end_and_keep(timed_out());
    house.work_through();
    late(answered(504));
    house.work_through();
    assert!(!house.row(&id).standing.is_terminal(), "a gateway's word is no answer");
    assert_eq!(audited(&house), 1);
    late(answered(201));
    house.work_through();
    assert_eq!(said(&house.ending(&id)), "201");
    assert_eq!(audited(&house), 1);

    let id = house.start(
        "b",
        "sends_in_turn",
        &format!("[{},{}]", spec("POST", "open", hold), spec("POST", "open", "")),
    );
    work(&house);
    let mut late = wire.end_and_keep(timed_out());
    house.work_through();
    let promise = id.child(0);
    let resolve = house.engine().resolve(
        &promise,
        Resolution::DidNotHappen,
        PersonDecision::by(actor(), "no"),
    );
    house.wait(resolve).unwrap();
    late(answered(200));
    work(&house);
    assert_eq!(audited(&house), 2, "it contradicts a person, and is on record");
    let mut late = wire.end_and_keep(timed_out());
    house.work_through();
    late(answered(200));
    house.work_through();
    let json: serde_json::Value = serde_json::from_str(&returned(&house.ending(&id))).unwrap();
    assert_eq!(
        (json[0]["error"].as_str(), json[1]["error"].as_str()),
        (Some("NotPerformed"), Some("Indeterminate")),
        "{json}"
    );
    assert_eq!(audited(&house), 3);
}

/// D5, C-38: the reconciler is asked first. That it happened is believed at once; that it did not,
/// when it is said twice and late enough; then it is sent again.
#[test]
fn a_reconciler_is_asked_first() {
    let settle = r#""settle_ms":60000"#;
    // The lookup's own answers are on the wire too: a path `lookup/KEY` ends as its last part says,
    // which is a key: so the test ends each by hand.
    let processed = |count: u32| {
        let body = format!("{{\"processed\":{count}}}").into();
        End::Answered(indelible_http::Response { body, ..answer(200) })
    };
    let (house, wire) = house(by_hand(KEEP));
    let id = house.start("happened", "sends", &spec("POST", "unknown", settle));
    work(&house);
    assert_eq!(wire.open(), 1, "the reconciler asks the peer");
    wire.end(processed(1));
    work(&house);
    assert_eq!(said(&house.ending(&id)), "200");
    assert_eq!(wire.sent().iter().filter(|sent| sent.request.method == "POST").count(), 1);

    let id = house.start("not", "sends", &spec("POST", "unknown,200", settle));
    work(&house);
    let before = house.clock.now().as_micros();
    wire.end(processed(0));
    work(&house);
    let due = house.engine().next_due().unwrap().as_micros() - before;
    assert!((59_000_000..=61_000_000).contains(&due), "asked again after the settle time: {due}");
    assert_eq!(wire.sent().iter().filter(|sent| sent.request.method == "POST").count(), 2);
    house.pass(Micros::from_secs(61));
    work(&house);
    wire.end(processed(0));
    work(&house);
    house.work_through();
    assert_eq!(said(&house.ending(&id)), "200");
    let events = effect_events(&house, &id);
    assert!(events.contains(&format!("again {:?} NotPerformed", RetryCause::ReconciledNotDone)));
    assert_eq!(wire.sent().iter().filter(|sent| sent.request.method == "POST").count(), 3);
    let keys: Vec<_> =
        wire.sent().into_iter().filter(|sent| sent.request.method == "POST").collect();
    assert_eq!(keys[1].idempotency_key, keys[2].idempotency_key);
}

/// A reconciler that says that it did not happen, and then that it did, is believed the second
/// time; one that never knows leaves it to the policy.
#[test]
fn a_reconciler_may_change_its_mind_or_not_know() {
    let processed = |count: u32| {
        let body = format!("{{\"processed\":{count}}}").into();
        End::Answered(indelible_http::Response { body, ..answer(200) })
    };
    for crash in [false, true] {
        let (mut house, wire) = house(by_hand(KEEP));
        let id = house.start("a", "sends", &spec("POST", "unknown", r#""settle_ms":60000"#));
        work(&house);
        wire.end(processed(0));
        work(&house);
        if crash {
            house.crash();
        }
        house.pass(Micros::from_secs(61));
        work(&house);
        if crash {
            house.crash();
            wire.cut();
            house.work();
            house.pass(Micros::from_secs(5));
            work(&house);
        }
        wire.end(processed(1));
        house.work_through();
        assert_eq!(said(&house.ending(&id)), "200", "it arrived after the first question");
        assert_eq!(wire.sent().iter().filter(|sent| sent.request.method == "POST").count(), 1);
    }
    let (house, wire) = house(by_hand(KEEP));
    for (more, expected) in [("", Some("Indeterminate")), (r#","hold":true"#, None)] {
        let more = format!(r#""settle_ms":1000{more}"#);
        let id = house.start(&more, "sends", &spec("POST", "unknown", &more));
        for _ in 0..200 {
            work(&house);
            if !wire.end(answered(500)) {
                let Some(due) = house.engine().next_due() else { break };
                house.move_clock_to(due);
            }
        }
        house.work_through();
        match expected {
            Some(expected) => assert_eq!(said(&house.ending(&id)), expected),
            None => {
                let list = house.wait(house.engine().unresolved(None, 10)).unwrap();
                assert!(list.len() == 1 && list[0].is_held(), "{list:?}");
            }
        }
    }
}

/// C-40: an effect in flight when its caller ends is awaited; one whose outcome is unknown ends as
/// Indeterminate then, also when it is held.
#[test]
fn an_end_waits_for_what_is_in_flight() {
    let (house, wire) = house(by_hand(KEEP));
    let id = house.start("a", "sends_and_leaves", &spec("POST", "open", ""));
    work(&house);
    house.pass(Micros::from_millis(2));
    assert!(!house.row(&id).standing.is_terminal(), "the request is in flight");
    wire.end(answered(200));
    house.work_through();
    assert_eq!(returned(&house.ending(&id)), "\"left\"");
    assert_eq!(effect_events(&house, &id), ["scheduled", "started 1", "ok"]);
    for (method, outcome) in [("POST", "Indeterminate"), ("PUT", "Transient")] {
        let id = house.start(method, "sends_and_leaves", &spec(method, "open", r#""hold":true"#));
        work(&house);
        house.pass(Micros::from_millis(2));
        wire.end(unknown());
        house.work_through();
        assert_eq!(returned(&house.ending(&id)), "\"left\"");
        assert_eq!(effect_events(&house, &id), ["scheduled", "started 1", outcome]);
    }
    assert!(house.wait(house.engine().unresolved(None, 10)).unwrap().is_empty());
}

/// C-24, C-40, V-75: a cancelled execution waits for its effects in flight; if the outcome of one
/// is unknown, the end is Indeterminate and not Cancelled.
#[test]
fn a_cancel_does_not_call_back_what_is_in_flight() {
    let (house, wire) = house(by_hand(KEEP));
    let id = house.start("known", "sends", &spec("POST", "open", ""));
    work(&house);
    house.cancel(&id);
    work(&house);
    assert!(!house.row(&id).standing.is_terminal());
    wire.end(answered(200));
    house.work_through();
    assert!(matches!(house.ending(&id), Ending::Cancelled(_)));
    let id = house.start("unknown", "sends", &spec("POST", "open", ""));
    work(&house);
    house.cancel(&id);
    work(&house);
    wire.end(unknown());
    house.work_through();
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Indeterminate);
    let id = house.start("held", "sends", &spec("POST", "unknown", r#""hold":true"#));
    work(&house);
    house.cancel(&id);
    house.work_through();
    assert_eq!(failed(&house.ending(&id)).kind, ErrorKind::Indeterminate);
    assert!(house.wait(house.engine().unresolved(None, 10)).unwrap().is_empty());
    let id = house.start("between", "sends", &spec("GET", "unknown", r#""unbounded":true"#));
    work(&house);
    let sent = wire.count();
    house.cancel(&id);
    house.work_through();
    assert!(matches!(house.ending(&id), Ending::Cancelled(_)));
    assert_eq!(wire.count(), sent, "its next attempt has not begun");
}

/// C-32: a function that failed with an effect whose outcome is not known has no other attempt;
/// one whose effects are known has none either unless it is `idem`.
#[test]
fn a_trap_after_an_unknown_effect_is_indeterminate() {
    let (house, wire) = house(by_hand(KEEP));
    let (_, ending) = house.run("sends_and_traps", &spec("POST", "unknown", ""));
    assert_eq!(failed(&ending).kind, ErrorKind::Indeterminate);
    let (_, ending) = house.run("sends_and_traps", &spec("POST", "200", ""));
    assert_eq!(failed(&ending).kind, ErrorKind::Trap);
    assert_eq!(wire.count(), 2);
}

/// Several at once, in a join set; a request raced against a timer.
#[test]
fn several_at_once_and_against_a_timer() {
    for parking in [KEEP, Parking::Drop] {
        let (house, wire) = house(by_hand(parking));
        let specs: Vec<_> = (0..20).map(|n| spec("POST", &format!("{}", 200 + n), "")).collect();
        let id = house.start("many", "sends_at_once", &format!("[{}]", specs.join(",")));
        house.work_through();
        let json: serde_json::Value = serde_json::from_str(&returned(&house.ending(&id))).unwrap();
        for (n, one) in json.as_array().unwrap().iter().enumerate() {
            assert_eq!(one["status"], 200 + n);
        }
        assert_eq!(wire.count(), 20);
        let id =
            house.start("race", "sends_or_timer", &format!("[{},50]", spec("POST", "open", "")));
        work(&house);
        house.pass(Micros::from_millis(60));
        work(&house);
        wire.end(answered(204));
        house.work_through();
        assert!(returned(&house.ending(&id)).starts_with("[\"timer\",{\"status\":204"));
        let (_, ending) = house.run("sends_or_timer", &format!("[{},50]", spec("POST", "200", "")));
        assert!(returned(&ending).starts_with("[\"answer\",{\"status\":200"));
    }
}

/// So many are in flight at most: others wait, and have not begun; a crash loses none of them.
#[test]
fn so_many_are_in_flight_at_most() {
    let (mut house, wire) = house(Options { effects_in_flight_max: 3, ..by_hand(KEEP) });
    let ids: Vec<_> = (0..10)
        .map(|n| house.start(&n.to_string(), "sends", &spec("POST", "open,open", "")))
        .collect();
    work(&house);
    assert_eq!((wire.open(), wire.count()), (3, 3));
    assert_eq!(house.engine().readings().effects_in_flight, 3);
    wire.end(answered(200));
    work(&house);
    assert_eq!((wire.open(), wire.count()), (3, 4));
    house.crash();
    wire.cut();
    work(&house);
    for _ in 0..10 {
        wire.end(answered(200));
        work(&house);
    }
    house.work_through();
    let said: Vec<_> = ids.iter().map(|id| said(&house.ending(id))).collect();
    let unknown = said.iter().filter(|said| *said == "Indeterminate").count();
    assert_eq!((unknown, wire.count()), (3, 10), "{said:?}");
}

/// A peer that hangs fills its own share: requests to another leave at once, and those that wait for
/// the first go on in their turn.
#[test]
fn a_peer_that_hangs_leaves_room_for_others() {
    let options = Options {
        effects_in_flight_max: 8,
        effects_per_component_max: 6,
        effects_per_origin_max: 3,
        ..by_hand(KEEP)
    };
    let (house, wire) = house(options);
    let hanging: Vec<_> =
        (0..20).map(|n| house.start(&n.to_string(), "sends", &spec("POST", "open", ""))).collect();
    work(&house);
    assert_eq!((wire.open(), wire.count()), (3, 3), "the origin's share");
    let elsewhere = |host: &str| spec("POST", "open", "").replace("//peer/", &format!("//{host}/"));
    for (place, host) in ["b:81", "c", "d"].into_iter().enumerate() {
        house.start(host, "sends", &elsewhere(host));
        work(&house);
        assert_eq!(wire.open(), 4 + place, "it leaves at once");
    }
    house.start("e", "sends", &elsewhere("e"));
    work(&house);
    assert_eq!(wire.open(), 6, "the component's share");
    for _ in 0..24 {
        wire.end(answered(200));
        work(&house);
    }
    house.work_through();
    assert_eq!((wire.open(), wire.count()), (0, 24), "none is forgotten");
    for id in hanging {
        assert_eq!(said(&house.ending(&id)), "200");
    }
}

/// Only the engine starts questions to reconcilers: a client that could start one would get to
/// answer for the reconciler.
#[test]
fn the_namespace_of_questions_is_reserved() {
    let (house, _) = house(by_hand(KEEP));
    let mut request = house.request("0.1.1.x", "echo", "1");
    request.namespace = indelible_journal::Namespace::new("indelible.reconcile").unwrap();
    let refused = house.wait(house.engine().start(request));
    assert!(matches!(refused, Err(indelible_runtime::StartRefused::ReservedNamespace)));
}

/// O-22: an attempt that was told twice of its time while there was no room begins once; the next
/// waits for its own time.
#[test]
fn an_attempt_that_waited_for_room_twice_begins_once() {
    let (house, wire) = house(Options { effects_in_flight_max: 1, ..by_hand(KEEP) });
    house.start("a", "sends", &spec("PUT", "429,429,200", r#""retries":5"#));
    work(&house);
    house.start("b", "sends", &spec("PUT", "open", ""));
    work(&house);
    assert_eq!((wire.count(), wire.open()), (2, 1));
    house.pass(Micros::from_millis(12));
    work(&house);
    house.engine().fire_again();
    house.engine().fire_due().unwrap();
    work(&house);
    assert_eq!(wire.count(), 2, "there is no room");
    wire.end(answered(200));
    work(&house);
    assert_eq!(wire.count(), 3, "the third attempt has to wait");
}

/// C-40: the process dies at any point of a cancel, with a request that has found no room: its
/// caller ends all the same.
#[test]
fn a_cancel_that_was_cut_short_reaches_nothing_after_the_end() {
    for crash_at in 0..8 {
        let options = Options { effects_in_flight_max: 1, ..by_hand(KEEP) };
        let (mut house, wire) = house(Options { pace: Pace::Lockstep, ..options });
        house.start("room", "sends", &spec("PUT", "open,200", ""));
        work(&house);
        let id = house.start("a", "sends_and_leaves", &spec("POST", "200", ""));
        work(&house);
        house.disk.dies_after(crash_at);
        {
            let cancel = house.engine().cancel(&id, Attribution::because("enough"));
            let mut cancel = std::pin::pin!(cancel);
            let waker = std::task::Waker::noop();
            for _ in 0..50 {
                let mut context = std::task::Context::from_waker(waker);
                if house.disk.is_dead() || cancel.as_mut().poll(&mut context).is_ready() {
                    break;
                }
                house.engine().step();
            }
        }
        house.disk.revive();
        // What has ended stays in memory until the turn is over.
        house.options.pace = Pace::Ahead;
        house.reopen();
        wire.cut();
        house.work_through();
        assert!(house.row(&id).standing.is_terminal(), "after {crash_at}: {:?}", house.row(&id));
    }
}

/// Requests that make no sense, and components that are not there, end as NotPerformed, and
/// nothing is sent.
#[test]
fn nonsense_is_not_sent() {
    let (house, wire) = house(by_hand(KEEP));
    for (method, more, part) in [
        ("get", "", "capital letters"),
        ("POST", r#""timeout_ms":0"#, "time-out"),
        ("POST", r#""timeout_ms":99999999"#, "time-out"),
    ] {
        let (_, ending) = house.run("sends", &spec(method, "200", more));
        let text = returned(&ending);
        assert!(text.contains("NotPerformed") && text.contains(part), "{text}");
    }
    assert_eq!(wire.count(), 0);
}

/// D2: an engine that stops waits for what is in flight; what it did not begin, the next one does.
#[test]
fn a_stop_is_not_a_crash() {
    let (mut house, wire) = house(Options { workers: 1, ..Options::default() });
    let id = house.start("a", "sends", &spec("POST", "open", ""));
    while wire.open() == 0 {
        std::thread::yield_now();
    }
    let ends = std::thread::spawn({
        let wire = Arc::clone(&wire);
        move || {
            std::thread::yield_now();
            wire.end(answered(200))
        }
    });
    house.reopen();
    assert!(ends.join().unwrap());
    let ending = house.wait_for_disk(house.engine().outcome(&id)).unwrap().unwrap();
    assert_eq!(said(&ending), "200");
    assert_eq!(wire.count(), 1);
}
