//! Doubts: what stays open when it is unknown whether something happened, with its evidence, and how
//! it is settled afterwards (C-78).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use indelible_journal::{Attempt, ExecutionId, Micros, PromiseId, Timestamp};
use indelible_records::doubts::{Doubt, DoubtState, Filter, Finding, StateName};
use indelible_records::{audit, check};
use indelible_runtime::{
    Actor, Attribution, CommandRefusal, ControlError, Options, PersonDecision, Resolution,
    Retention,
};

use crate::support::wire::{Wire, answer, answered, timed_out};
use crate::support::{House, KEEP, by_hand, returned};

/// Finished trees go after an hour.
const HOUR: Micros = Micros::from_secs(3_600);
const AFTER_AN_HOUR: Retention =
    Retention { completed: Some(HOUR), failed: Some(HOUR), cancelled: Some(HOUR) };

fn house(options: Options) -> (House, Arc<Wire>) {
    let mut house = House::new(options);
    let wire = Wire::new();
    house.http = wire.clone();
    house.reopen();
    house.deploy("behaviours");
    (house, wire)
}

fn spec(path: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    format!(r#"{{"method":"POST","url":"http://peer/{path}","backoff_ms":10{more}}}"#)
}

/// The doubts of a house, with the settled ones behind the others.
fn doubts(house: &House, filter: Filter) -> Vec<(PromiseId, Doubt)> {
    let page = house.wait(house.engine().doubts(filter, true, None, 100)).unwrap();
    assert!(page.next.is_none());
    page.doubts.into_iter().map(|(id, doubt)| (id.promise(), doubt)).collect()
}

#[track_caller]
fn only(house: &House) -> Doubt {
    let mut all = doubts(house, Filter::default());
    assert_eq!(all.len(), 1, "{all:?}");
    let findings = check::check(house.engine().store(), &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    all.remove(0).1
}

fn resolve(
    house: &House,
    promise: &PromiseId,
    attempt: Option<u32>,
    resolution: Resolution,
) -> Result<(), ControlError> {
    let attempt = attempt.map(|number| Attempt::new(number).unwrap());
    let decided = PersonDecision::by(Actor::new("ada"), "looked it up");
    let resolved = house.engine().resolve_attempt(promise, attempt, resolution, decided);
    house.wait(resolved).map(drop)
}

#[track_caller]
fn refused(resolved: Result<(), ControlError>, part: &str) {
    match resolved {
        Err(ControlError::CommandRefusal(CommandRefusal::NotUnresolved(why))) => {
            assert!(why.contains(part), "{why}");
        }
        other => panic!("it was not refused: {other:?}"),
    }
}

fn settled(doubt: &Doubt) -> (Finding, Option<u16>, &str) {
    match &doubt.state {
        DoubtState::Settled(settled) => (settled.finding, settled.status, &settled.actor),
        state => panic!("it is {state:?}"),
    }
}

/// C-78: an effect that ends as Indeterminate leaves a doubt with its evidence, in the same commit,
/// though its function goes on; settling it changes no journal, is done once, and does not run
/// anything again.
#[test]
fn what_ends_as_indeterminate_stays_open() {
    let (mut house, wire) = house(by_hand(KEEP));
    let input =
        spec("unsent,unknown,200", r#""retries":2,"body":"cents=500","headers":[["x-a","b"]]"#);
    let id = house.start("order-7", "sends", &input);
    house.work_through();
    assert!(returned(&house.ending(&id)).contains("Indeterminate"));
    let events = house.events(&id).len();
    let promise = id.child(0);
    for crash in [false, true] {
        if crash {
            house.crash();
        }
        let doubt = only(&house);
        assert!(matches!(doubt.state, DoubtState::Ended { .. }), "{doubt:?}");
        assert_eq!(
            (doubt.attempt.get(), &*doubt.label),
            (2, "POST http://peer/unsent,unknown,200")
        );
        let evidence = &doubt.evidence;
        assert_eq!((&*evidence.namespace, &*evidence.function), ("tests", "sends"));
        assert_eq!(evidence.input.text.as_deref(), Some(&*input));
        let sent = evidence.request.as_ref().unwrap();
        assert_eq!((&*sent.method, &*sent.url), ("POST", "http://peer/unsent,unknown,200"));
        assert_eq!(sent.body.text.as_deref(), Some("cents=500"));
        assert!(sent.headers.contains(&("x-a".to_owned(), "b".to_owned())), "{sent:?}");
        assert_eq!(
            sent.idempotency_key,
            wire.sent()[1].idempotency_key,
            "the other side got this one"
        );
        let ends: Vec<_> = evidence.attempts.iter().map(|own| (own.attempt, &*own.end)).collect();
        assert_eq!(ends.len(), 2, "{ends:?}");
        assert!(ends[0].1.contains("was not sent"), "{ends:?}");
    }
    assert_eq!(house.told.unresolved.lock().unwrap().len(), 1, "the operator was told once");

    refused(resolve(&house, &promise, None, Resolution::RunAgain), "does not run again");
    refused(resolve(&house, &promise, Some(1), Resolution::DidNotHappen), "attempt 2 is in doubt");
    resolve(&house, &promise, Some(2), Resolution::Happened(answer(201))).unwrap();
    assert_eq!(settled(&only(&house)), (Finding::Happened, Some(201), "ada"));
    refused(resolve(&house, &promise, None, Resolution::AcceptUnknown), "ada settled it");
    house.crash();
    assert_eq!(settled(&only(&house)), (Finding::Happened, Some(201), "ada"));
    assert_eq!((house.events(&id).len(), wire.count()), (events, 2), "nothing else has changed");
    let record = audit::before(house.engine().store(), Timestamp::MAX, 10).unwrap().value;
    let settlements = record.iter().filter(|entry| entry.action == "resolve: happened");
    assert_eq!(settlements.count(), 1);
    assert_eq!(house.wait(house.engine().open_doubts(10)).unwrap(), (0, None));
}

/// C-78: a doubt outlives its tree, and can be settled then; a promise that never was in doubt is
/// unknown.
#[test]
fn a_doubt_outlives_its_tree() {
    let (mut house, _) = house(by_hand(KEEP));
    let id = house.start("a", "sends", &spec("unknown", ""));
    house.work_through();
    house.move_clock(Micros::from_secs(7_200));
    let swept = house.wait(house.engine().sweep(&AFTER_AN_HOUR, 1_000)).unwrap();
    assert_eq!(swept.trees, 1, "{swept:?}");
    assert!(house.wait(house.engine().view(&id)).unwrap().is_none());
    house.crash();
    assert!(only(&house).is_open());
    let other = resolve(&house, &id.child(7), None, Resolution::DidNotHappen);
    assert!(
        matches!(other, Err(ControlError::CommandRefusal(CommandRefusal::Unknown))),
        "{other:?}"
    );
    resolve(&house, &id.child(0), None, Resolution::AcceptUnknown).unwrap();
    assert_eq!(settled(&only(&house)), (Finding::AcceptedUnknown, None, "ada"));
}

/// C-78: an answer that comes after its effect has ended as Indeterminate settles the doubt, and
/// changes nothing else; a gateway's word settles nothing.
#[test]
fn a_late_answer_settles_a_doubt() {
    let (house, wire) = house(by_hand(KEEP));
    let id = house.start("a", "sends", &spec("open", ""));
    house.work();
    let mut late = wire.end_and_keep(timed_out());
    house.work_through();
    let events = house.events(&id).len();
    late(answered(504));
    house.work_through();
    assert!(only(&house).is_open());
    late(answered(201));
    house.work_through();
    assert_eq!(settled(&only(&house)), (Finding::Happened, Some(201), "peer"));
    assert_eq!(house.events(&id).len(), events);
}

/// C-38, C-78: an effect that is held is one doubt from its beginning to its end, also when a person
/// has it run again and it is unknown once more; accepting that it stays unknown ends it as
/// Indeterminate.
#[test]
fn a_held_effect_is_one_doubt() {
    let (house, wire) = house(by_hand(KEEP));
    let id = house.start("a", "sends", &spec("unknown,unknown", r#""hold":true"#));
    house.work_through();
    let promise = id.child(0);
    assert_eq!(only(&house).state, DoubtState::Held);
    resolve(&house, &promise, Some(1), Resolution::RunAgain).unwrap();
    assert_eq!(settled(&only(&house)).0, Finding::RunAgain);
    house.work_through();
    let again = only(&house);
    assert_eq!((&again.state, again.attempt.get()), (&DoubtState::Held, 2));
    assert_eq!(again.evidence.attempts.len(), 2, "{:?}", again.evidence.attempts);
    refused(resolve(&house, &promise, Some(1), Resolution::RunAgain), "attempt 2 is in doubt");
    assert_eq!(wire.count(), 2, "a decision that comes late sends nothing");
    resolve(&house, &promise, Some(2), Resolution::AcceptUnknown).unwrap();
    house.work_through();
    assert!(returned(&house.ending(&id)).contains("Indeterminate"));
    assert_eq!(settled(&only(&house)).0, Finding::AcceptedUnknown);
}

/// C-24, C-78: cancelling an execution with an unknown request does not make the question go away.
#[test]
fn a_cancel_leaves_the_doubt() {
    let (house, _) = house(by_hand(KEEP));
    let id = house.start("a", "sends", &spec("unknown", r#""hold":true"#));
    house.work_through();
    assert_eq!(only(&house).state, DoubtState::Held);
    house.wait(house.engine().cancel(&id, Attribution::because("enough"))).unwrap();
    house.work_through();
    assert!(house.row(&id).standing.is_terminal());
    let doubt = only(&house);
    assert!(matches!(doubt.state, DoubtState::Ended { .. }), "{doubt:?}");
    assert_eq!(house.wait(house.engine().unresolved(None, 10)).unwrap(), [], "none is awaited");
    let filter = |states| Filter { states, ..Filter::default() };
    assert_eq!(doubts(&house, filter(vec![StateName::Ended])).len(), 1);
    assert_eq!(doubts(&house, filter(vec![StateName::Held])).len(), 0);
}

/// C-41, C-78: a volatile call that is lost with its process is a doubt, and so is an effect of a
/// volatile function that ends as Indeterminate.
#[test]
fn what_is_volatile_leaves_doubts() {
    let (mut house, wire) = house(by_hand(KEEP));
    let calls = |path: &str| format!(r#"["glance",{}]"#, spec(path, ""));
    let lost = house.start("lost", "calls_volatile", &calls("open"));
    house.work();
    assert_eq!(wire.open(), 1);
    house.crash();
    house.work_through();
    let doubt = only(&house);
    assert!(matches!(doubt.state, DoubtState::Ended { .. }), "{doubt:?}");
    assert_eq!((&*doubt.label, &doubt.evidence.request), ("glance", &None));
    assert!(doubt.evidence.call.as_ref().unwrap().text.as_ref().unwrap().contains("open"));
    resolve(&house, &lost.child(0), None, Resolution::DidNotHappen).unwrap();

    let id = house.start("seen", "calls_volatile", &calls("unknown"));
    house.work_through();
    let open: Vec<_> = doubts(&house, Filter { tree: Some(*id.root()), ..Filter::default() });
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0].0, ExecutionId::new(id.child(0)).unwrap().child(0));
    assert_eq!(open[0].1.evidence.function, "glance");
}
