//! Delivery in the engine: post offices as machines of the host, over a disk that dies after any
//! commit and a wire that ends each attempt as its URL says. The rules themselves are tested in
//! `crates/delivery`; here is what storing, loading, sending and crashing make of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::future::Future as _;
use std::sync::Arc;

use bytes::Bytes;
use indelible_delivery::delivery::{DeadReason, State};
use indelible_delivery::signing::{Secret, standard};
use indelible_delivery::{
    ContentType, Delivery, Endpoint, EndpointName, EndpointSettings, EndpointState, LaneKey, Topic,
};
use indelible_http::{Attempt, Part};
use indelible_journal::{Micros, Namespace};
use indelible_ledger::OriginId;
use indelible_records::{audit, check};
use indelible_runtime::delivery::{Accepted, DeadDecision, DeliveryError, MessageView, NewMessage};
use indelible_runtime::{Actor, Attribution, Options, Pace, PersonDecision};

use crate::support::wire::{Wire, answered, unknown};
use crate::support::{House, KEEP, by_hand};

const DAY: Micros = Micros::from_secs(86_400);

fn namespace() -> Namespace {
    Namespace::new("tests").unwrap()
}

/// A house with a wire.
fn house(options: Options) -> (House, Arc<Wire>) {
    let mut house = House::new(options);
    let wire = Wire::new();
    house.http = wire.clone();
    house.reopen();
    (house, wire)
}

fn name(name: &str) -> EndpointName {
    EndpointName::new(name).unwrap()
}

/// An endpoint whose attempts end as the path says.
fn endpoint(name: &str, path: &str, more: &str) -> Endpoint {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    let json = format!(r#"{{"name":"{name}","url":"http://peer/{path}"{more}}}"#);
    serde_json::from_str::<EndpointSettings>(&json).unwrap().read().unwrap()
}

fn put(house: &House, endpoint: Endpoint) -> Option<Secret> {
    let actor = Some(Actor::new("ada"));
    house.wait(house.engine().put_endpoint(&namespace(), endpoint, actor)).unwrap().1
}

fn message(key: &str, body: &str) -> NewMessage {
    NewMessage {
        namespace: namespace(),
        key: OriginId::new(key).unwrap(),
        topic: Topic::new("order.created").unwrap(),
        lane: None,
        content_type: ContentType::new("application/json").unwrap(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

fn send(house: &House, message: NewMessage) -> Result<Accepted, DeliveryError> {
    house.wait(house.engine().send_message(message))
}

fn shown(house: &House, accepted: Accepted) -> MessageView {
    house.wait(house.engine().message(&namespace(), accepted.id)).unwrap()
}

/// How the delivery of a message to an endpoint stands.
#[track_caller]
fn delivery(house: &House, accepted: Accepted, endpoint: &str) -> Delivery {
    let view = shown(house, accepted);
    let found = view.deliveries.into_iter().find(|(name, _)| name.as_str() == endpoint);
    found.expect("it goes to the endpoint").1
}

fn is_delivered(delivery: &Delivery) -> bool {
    matches!(delivery.state, State::Delivered { .. })
}

fn dead(delivery: &Delivery) -> Option<DeadReason> {
    match delivery.state {
        State::Dead { reason, .. } => Some(reason),
        _ => None,
    }
}

fn decide(
    house: &House,
    accepted: Accepted,
    endpoint: &str,
    decision: DeadDecision,
) -> Result<Delivery, DeliveryError> {
    let decided =
        PersonDecision { actor: Actor::new("ada"), reason: "looked".to_owned(), key: None };
    let engine = house.engine();
    house.wait(engine.decide_dead(&namespace(), accepted.id, &name(endpoint), decision, decided))
}

fn header(attempt: &Attempt, name: &str) -> String {
    let found = attempt.request.headers.iter().find(|header| header.name == name).unwrap();
    text(&found.value)
}

fn text(parts: &[Part]) -> String {
    match parts {
        [Part::Bytes(bytes)] => String::from_utf8(bytes.to_vec()).unwrap(),
        parts => panic!("{parts:?}"),
    }
}

/// Works until everything waits for the wire or for time.
fn rest(house: &House) {
    for _ in 0..5 {
        house.work();
        house.settle();
        std::thread::yield_now();
    }
    house.work();
}

/// Passes time until nothing waits for a retry any more: a day at most.
fn through(house: &House) {
    let last = house.clock_time().saturating_add(DAY);
    for _ in 0..3 {
        house.work_until(last);
        rest(house);
    }
}

#[track_caller]
fn assert_sound(house: &House) {
    house.settle();
    assert_eq!(check::check(house.engine().store(), &mut |_| {}).unwrap().problems, []);
}

/// O-24, C-60: every endpoint that wants a message gets the bytes that were given, signed for it, under
/// one id; a repetition of the key is the same message, now and after a restart, and another body under
/// it is refused and changes nothing.
#[test]
fn one_key_is_one_message() {
    let (mut house, wire) = house(by_hand(KEEP));
    let secret = put(&house, endpoint("a", "200", "")).unwrap();
    put(&house, endpoint("b", "200", r#""topics":["order.*"]"#));
    put(&house, endpoint("c", "200", r#""topics":["invoice.*"]"#));
    let body = r#"{ "order" : 7 }"#;
    let first = send(&house, message("order 7", body)).unwrap();
    assert_eq!((first.is_prior, first.endpoints), (false, 2));
    assert!(!first.id.to_string().contains('.'));
    rest(&house);
    assert!(
        is_delivered(&delivery(&house, first, "a")) && is_delivered(&delivery(&house, first, "b"))
    );
    let sent = wire.sent();
    assert_eq!(sent.len(), 2);
    for attempt in &sent {
        assert_eq!(text(&attempt.request.body), body);
        assert_eq!(header(attempt, "content-type"), "application/json");
        assert_eq!(header(attempt, "indelible-topic"), "order.created");
    }
    let (id, timestamp, signature) = (
        header(&sent[0], standard::ID),
        header(&sent[0], standard::TIMESTAMP),
        header(&sent[0], standard::SIGNATURE),
    );
    assert_eq!(id, first.id.to_string());
    let headers = standard::Headers { id: &id, timestamp: &timestamp, signature: &signature };
    let (now, tolerance) = (house.clock_time(), Micros::from_secs(300));
    let keys = [secret.verifying_key()];
    standard::verify(&keys, &headers, body.as_bytes(), now, tolerance).unwrap();
    standard::verify(&keys, &headers, b"{}", now, tolerance).unwrap_err();
    for _ in 0..2 {
        let again = send(&house, message("order 7", body)).unwrap();
        assert_eq!(again, Accepted { is_prior: true, ..first });
        let other = send(&house, message("order 7", "{}"));
        assert!(matches!(other, Err(DeliveryError::Mismatch)), "{other:?}");
        house.crash();
    }
    rest(&house);
    assert_eq!(wire.count(), 2, "nothing was sent again");
    assert_sound(&house);
}

/// C-52, C-58, O-1: what the end of an attempt comes to, by class.
#[test]
fn ends_of_attempts() {
    const FAST: &str = r#""schedule":{"steps_seconds":[1,2]}"#;
    let cases: &[(&str, bool, Option<DeadReason>, usize)] = &[
        ("200", true, None, 1),
        ("204", false, None, 1),
        ("500,200", true, None, 2),
        ("500,200", false, Some(DeadReason::Unknown), 1),
        ("302", true, Some(DeadReason::Exhausted), 3),
        ("404,429,200", false, None, 3),
        ("404", false, Some(DeadReason::Exhausted), 3),
        ("unsent,200", false, None, 2),
        ("unknown,200", true, None, 2),
        ("unknown,200", false, Some(DeadReason::Unknown), 1),
        ("late,late,200", true, None, 3),
        ("refused", true, Some(DeadReason::Refused), 1),
        ("410", true, Some(DeadReason::EndpointGone), 1),
    ];
    for (path, idem, reason, attempts) in cases {
        let (mut house, wire) = house(by_hand(KEEP));
        put(&house, endpoint("e", path, &format!(r#""idem":{idem},{FAST}"#)));
        let accepted = send(&house, message("k", "{}")).unwrap();
        through(&house);
        for restarted in [false, true] {
            let delivery = delivery(&house, accepted, "e");
            let case = format!("{path}, idem {idem}, restarted {restarted}: {delivery:?}");
            assert_eq!(dead(&delivery), *reason, "{case}");
            assert_eq!(is_delivered(&delivery), reason.is_none(), "{case}");
            assert_eq!(
                (delivery.attempts as usize, wire.count()),
                (*attempts, *attempts),
                "{case}"
            );
            let may = delivery.failures.iter().any(|failure| {
                matches!(
                    failure.code.to_string().as_str(),
                    "STATUS_500" | "STATUS_302" | "NO_ANSWER" | "DELIVERY_TIMEOUT"
                )
            });
            assert_eq!(delivery.may_have_arrived, may, "{case}");
            house.crash();
            through(&house);
        }
        let view = house.wait(house.engine().endpoint(&namespace(), &name("e"))).unwrap();
        let is_gone = matches!(view.endpoint.state, EndpointState::Disabled { .. });
        assert_eq!(is_gone, *path == "410");
        let dead = house.wait(house.engine().dead_letters(&namespace(), None, 10)).unwrap();
        assert_eq!(dead.messages.len(), usize::from(reason.is_some()));
        assert_sound(&house);
    }
}

/// O-61, D2, C-52: the process dies after every single commit, before what has left is heard of. An
/// endpoint that tells repetitions gets every message; one that does not is never sent a message again
/// that may have arrived: it is a dead letter that says so.
#[test]
fn a_death_after_every_commit() {
    for pace in [Pace::Ahead, Pace::Lockstep] {
        for commits in 0.. {
            let (mut house, wire) = house(Options { pace, ..by_hand(KEEP) });
            house.disk.dies_after(commits);
            let mut died = false;
            let mut step = 0;
            let mut accepted = Vec::new();
            while step < 6 {
                let again = r#""schedule":{"steps_seconds":[1,1,1,1,1]}"#;
                let done = match step {
                    0 => house
                        .wait(house.engine().put_endpoint(
                            &namespace(),
                            endpoint("idem", "500,200", again),
                            None,
                        ))
                        .map(drop),
                    1 => house
                        .wait(house.engine().put_endpoint(
                            &namespace(),
                            endpoint("once", "unsent,200", &format!(r#""idem":false,{again}"#)),
                            None,
                        ))
                        .map(drop),
                    key => {
                        let mut new = message(&format!("k{key}"), "{}");
                        new.lane = (key > 3).then(|| LaneKey::new("lane").unwrap());
                        send(&house, new).map(|one| {
                            accepted.retain(|known: &Accepted| known.id != one.id);
                            accepted.push(one);
                        })
                    }
                };
                match done {
                    Ok(()) => step += 1,
                    Err(error) => {
                        assert!(house.disk.is_dead(), "{error}");
                        died = true;
                        wire.cut();
                        house.crash();
                    }
                }
            }
            through(&house);
            if house.disk.is_dead() {
                died = true;
                wire.cut();
                house.crash();
                through(&house);
            }
            assert_eq!(accepted.len(), 4);
            for one in &accepted {
                assert!(is_delivered(&delivery(&house, *one, "idem")), "after {commits} commits");
                let once = delivery(&house, *one, "once");
                match once.state {
                    State::Delivered { .. } => {}
                    State::Dead { reason: DeadReason::Unknown, .. } => assert!(died),
                    // A dead letter blocks its lane.
                    State::Queued => assert!(died && once.attempts == 0),
                    state => panic!("after {commits} commits: {state:?}"),
                }
                let left = wire.sent().into_iter().filter(|attempt| {
                    !attempt.idem && attempt.idempotency_key == one.id.to_string()
                });
                assert!(left.count() <= 2, "what was not sent, and once more");
            }
            assert_sound(&house);
            if !died {
                break;
            }
        }
    }
}

/// Messages of one lane are sent one at a time, in their order; others do not wait for them. A dead
/// letter blocks its lane until it is decided, or is overtaken.
#[test]
fn lanes() {
    let (mut house, wire) = house(by_hand(KEEP));
    put(&house, endpoint("e", "open", r#""idem":false"#));
    let in_lane = |key: &str, lane: &str| NewMessage {
        lane: Some(LaneKey::new(lane).unwrap()),
        ..message(key, key)
    };
    let all: Vec<_> = [("1", "a"), ("2", "a"), ("3", "b"), ("4", "a")]
        .map(|(key, lane)| send(&house, in_lane(key, lane)).unwrap())
        .into();
    rest(&house);
    let bodies = |wire: &Wire| -> Vec<String> {
        wire.sent().iter().map(|attempt| text(&attempt.request.body)).collect()
    };
    assert_eq!(bodies(&wire), ["1", "3"]);
    wire.end(answered(200));
    rest(&house);
    assert_eq!(bodies(&wire), ["1", "3", "2"]);
    // 2 may have arrived: it is dead, and blocks 4; through a restart, too (3 is lost by it).
    assert!(wire.end(answered(200)), "that is 3");
    rest(&house);
    wire.end(unknown());
    rest(&house);
    for _ in 0..2 {
        assert_eq!(dead(&delivery(&house, all[1], "e")), Some(DeadReason::Unknown));
        assert_eq!(delivery(&house, all[3], "e").attempts, 0);
        house.crash();
        rest(&house);
    }
    let blindly = decide(&house, all[1], "e", DeadDecision::Redeliver { did_not_arrive: false });
    assert!(matches!(blindly, Err(DeliveryError::MayHaveArrived)), "{blindly:?}");
    decide(&house, all[1], "e", DeadDecision::Redeliver { did_not_arrive: true }).unwrap();
    rest(&house);
    assert_eq!(bodies(&wire), ["1", "3", "2", "2"], "the same message, before 4");
    wire.end(unknown());
    rest(&house);
    decide(&house, all[1], "e", DeadDecision::Abandon).unwrap();
    rest(&house);
    assert_eq!(bodies(&wire), ["1", "3", "2", "2", "4"]);
    let twice = decide(&house, all[1], "e", DeadDecision::Abandon);
    assert!(matches!(twice, Err(DeliveryError::NotDead)), "{twice:?}");
    assert_sound(&house);
    // Where dead letters are overtaken, the next one goes on at once.
    put(&house, endpoint("e", "open", r#""idem":false,"on_dead_letter":"skip""#));
    let last = send(&house, in_lane("5", "a")).unwrap();
    wire.end(unknown());
    rest(&house);
    assert_eq!(bodies(&wire).last().unwrap(), "5");
    assert_eq!(delivery(&house, last, "e").attempts, 1);
    assert_sound(&house);
}

/// An open breaker delays, and uses up no attempts; it is still open after a restart, and one trial
/// decides.
#[test]
fn a_breaker_delays() {
    let (mut house, wire) = house(by_hand(KEEP));
    let more = r#""in_flight_max":1,"schedule":{"steps_seconds":[3600]},
        "breaker":{"failures_percent":50,"attempts_min":2,"window_seconds":60,"open_seconds":30}"#;
    put(&house, endpoint("e", "open", more));
    let all: Vec<_> =
        (0..6).map(|n| send(&house, message(&n.to_string(), "{}")).unwrap()).collect();
    rest(&house);
    for _ in 0..2 {
        assert_eq!(wire.open(), 1, "one at a time");
        wire.end(answered(500));
        rest(&house);
    }
    for _ in 0..2 {
        assert_eq!((wire.open(), wire.count()), (0, 2), "the breaker is open");
        assert_eq!(delivery(&house, all[2], "e").attempts, 0);
        let view = house.wait(house.engine().endpoint(&namespace(), &name("e"))).unwrap();
        assert!(view.paused_until.is_some());
        assert_eq!(view.queued, 4);
        house.crash();
        rest(&house);
    }
    house.pass(Micros::from_secs(31));
    rest(&house);
    assert_eq!(wire.open(), 1, "a trial");
    wire.end(answered(500));
    rest(&house);
    assert_eq!(wire.open(), 0, "it failed");
    house.pass(Micros::from_secs(31));
    rest(&house);
    for _ in 0..3 {
        assert_eq!(wire.open(), 1);
        wire.end(answered(200));
        rest(&house);
    }
    assert_eq!(wire.open(), 0);
    let delivered = all.iter().filter(|one| is_delivered(&delivery(&house, **one, "e"))).count();
    assert_eq!(delivered, 3);
    assert_sound(&house);
}

/// A rate spreads attempts; an endpoint that is disabled takes none until it is enabled again.
#[test]
fn a_rate_and_a_switch() {
    let (house, wire) = house(by_hand(KEEP));
    put(&house, endpoint("e", "200", r#""rate_per_second":2"#));
    for n in 0..10 {
        send(&house, message(&n.to_string(), "{}")).unwrap();
    }
    rest(&house);
    let burst = wire.count();
    assert!((1..=3).contains(&burst), "{burst}");
    house.work_until(house.clock_time().saturating_add(Micros::from_secs(2)));
    rest(&house);
    assert!((burst + 3..=burst + 5).contains(&wire.count()), "{}", wire.count());
    let switch = |on| {
        let asked = Attribution::default();
        house.wait(house.engine().enable_endpoint(&namespace(), &name("e"), on, asked)).unwrap()
    };
    switch(false);
    let before = wire.count();
    house.work_until(house.clock_time().saturating_add(Micros::from_secs(60)));
    rest(&house);
    assert_eq!(wire.count(), before);
    switch(true);
    house.work_until(house.clock_time().saturating_add(Micros::from_secs(60)));
    rest(&house);
    assert_eq!(wire.count(), 10);
    assert_sound(&house);
}

/// What waits for an endpoint that is deleted becomes dead letters, which can be given up and not sent;
/// another endpoint of its name gets later messages alone. Changes are in the audit record.
#[test]
fn a_deleted_endpoint() {
    let (mut house, wire) = house(by_hand(KEEP));
    put(&house, endpoint("e", "open", r#""in_flight_max":1"#));
    let all: Vec<_> =
        (0..3).map(|n| send(&house, message(&n.to_string(), "{}")).unwrap()).collect();
    rest(&house);
    let asked = Attribution {
        actor: Some(Actor::new("ada")),
        reason: "closed".to_owned(),
        ..Attribution::default()
    };
    house.wait(house.engine().delete_endpoint(&namespace(), &name("e"), asked)).unwrap();
    wire.end(answered(200));
    rest(&house);
    house.crash();
    house.pass(Micros::from_secs(1));
    rest(&house);
    assert!(is_delivered(&delivery(&house, all[0], "e")));
    for one in &all[1..] {
        assert_eq!(dead(&delivery(&house, *one, "e")), Some(DeadReason::EndpointGone));
        let again = decide(&house, *one, "e", DeadDecision::Redeliver { did_not_arrive: true });
        assert!(matches!(again, Err(DeliveryError::NoEndpoint)), "{again:?}");
        decide(&house, *one, "e", DeadDecision::Abandon).unwrap();
    }
    put(&house, endpoint("e", "200", ""));
    let last = send(&house, message("last", "{}")).unwrap();
    rest(&house);
    assert!(is_delivered(&delivery(&house, last, "e")));
    assert_eq!(wire.count(), 2);
    let entries = audit::before(house.engine().store(), indelible_journal::Timestamp::MAX, 100)
        .unwrap()
        .value;
    let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions.iter().filter(|action| **action == "create endpoint").count(), 2);
    assert_eq!(actions.iter().filter(|action| action.starts_with("abandon message")).count(), 2);
    let deleted = entries.iter().find(|entry| entry.action == "delete endpoint").unwrap();
    assert_eq!(deleted.reason, "closed");
    assert_sound(&house);
}

/// O-31, C-3: what is over goes after the window of idempotency keys; a dead letter stays until it is
/// decided.
#[test]
fn retention() {
    let (house, _wire) = house(by_hand(KEEP));
    put(&house, endpoint("e", "200", ""));
    let first = send(&house, message("first", "{}")).unwrap();
    rest(&house);
    put(&house, endpoint("e", "410", ""));
    let dead_one = send(&house, message("dead", "{}")).unwrap();
    rest(&house);
    let window = house.options.operation_window;
    for _ in 0..window.get() / DAY.get() + 4 {
        house.move_clock(DAY);
        // The clock of retention advances whenever it is read.
        house.engine().readings();
        house.work();
        house.settle();
    }
    rest(&house);
    let gone = house.wait(house.engine().message(&namespace(), first.id));
    assert!(matches!(gone, Err(DeliveryError::NoMessage)), "{gone:?}");
    assert!(dead(&delivery(&house, dead_one, "e")).is_some());
    decide(&house, dead_one, "e", DeadDecision::Abandon).unwrap();
    let gone = house.wait(house.engine().message(&namespace(), dead_one.id));
    assert!(matches!(gone, Err(DeliveryError::NoMessage)), "{gone:?}");
    assert_sound(&house);
}

/// A lane that a dead letter blocks goes on when the endpoint is told to let it be overtaken, and when
/// the endpoint is deleted. An endpoint that is made twice at once has the secret that was shown.
#[test]
fn settings_that_change() {
    let (house, wire) = house(by_hand(KEEP));
    let whose = namespace();
    let mut made = Vec::new();
    house.wait(async {
        let make = || {
            let new = endpoint("e", "404", r#""schedule":{"steps_seconds":[]}"#);
            Box::pin(house.engine().put_endpoint(&whose, new, None))
        };
        // Both are asked before either is answered.
        let mut both = [make(), make()];
        std::future::poll_fn(|context| {
            for one in &mut both {
                if made.len() < 2
                    && let std::task::Poll::Ready(answer) = one.as_mut().poll(context)
                {
                    let (_, secret, is_new) = answer.unwrap();
                    made.push((secret.is_some(), is_new));
                    *one = make();
                }
            }
            if made.len() < 2 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        })
        .await;
    });
    assert!(made.contains(&(true, true)), "{made:?}");
    assert!(made.contains(&(false, false)), "{made:?}");
    let in_lane =
        |key: &str| NewMessage { lane: Some(LaneKey::new("lane").unwrap()), ..message(key, "{}") };
    let all = ["1", "2", "3"].map(|key| send(&house, in_lane(key)).unwrap());
    rest(&house);
    assert_eq!(dead(&delivery(&house, all[0], "e")), Some(DeadReason::Exhausted));
    assert_eq!((delivery(&house, all[1], "e").attempts, wire.count()), (0, 1));
    put(&house, endpoint("e", "open", r#""on_dead_letter":"skip""#));
    rest(&house);
    assert_eq!(delivery(&house, all[1], "e").attempts, 1);
    put(&house, endpoint("e", "open", r#""schedule":{"steps_seconds":[]}"#));
    wire.end(answered(404));
    rest(&house);
    assert_eq!(dead(&delivery(&house, all[1], "e")), Some(DeadReason::Exhausted));
    assert_eq!(delivery(&house, all[2], "e").attempts, 0, "it is blocked");
    let asked = Attribution::default();
    house.wait(house.engine().delete_endpoint(&namespace(), &name("e"), asked)).unwrap();
    rest(&house);
    assert_eq!(dead(&delivery(&house, all[2], "e")), Some(DeadReason::EndpointGone));
    assert_sound(&house);
}
