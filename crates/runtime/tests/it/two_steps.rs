//! Requests under keys whose slot is not that of what they change (C-80): one commit where one node
//! owns both slots, two steps where it does not. Every answer is the same either way, whatever is
//! repeated and whenever the process dies.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::pin::pin;
use std::task::{Context, Waker};

use indelible_idempotency::{ConsumerNamespace, IdempotencyKey, parse_key};
use indelible_journal::{DeliveryId, ExecutionId, Payload, SignalName};
use indelible_records::{
    ANSWERS, EXPIRIES, IDEMPOTENCY_KEYS, OPERATIONS, SETTINGS, check, windows,
};
use indelible_runtime::world::Clock as _;
use indelible_runtime::{
    Actor, Attribution, ControlError, Ownership, PersonDecision, Start, StartRefused,
};
use indelible_store::{Batch, Bounds, Scan};

use crate::support::{House, KEEP, by_hand, guests};

fn key(value: &str) -> IdempotencyKey {
    parse_key(&ConsumerNamespace::new("tests").unwrap(), Some(value)).unwrap().unwrap()
}

fn asked(value: &str) -> Attribution {
    let actor = Some(Actor::new("anna"));
    Attribution { key: Some(key(value)), actor, ..Attribution::because("so it is") }
}

fn decided(value: &str) -> PersonDecision {
    PersonDecision { key: Some(key(value)), ..PersonDecision::by(Actor::new("anna"), "so it is") }
}

/// A request, by what it asks for and the name of its key.
#[derive(Debug, Clone, Copy)]
enum Request {
    Signal(&'static str, &'static str),
    /// To an execution that is not there.
    Lost(&'static str),
    Cancel(&'static str),
    Release(&'static str),
    Deploy(&'static str),
    ConfirmClock(&'static str),
    /// By a clock that is an hour off.
    ConfirmWrongClock(&'static str),
    Start(&'static str),
}

use Request::*;

/// What is asked, in order: each request of its kind, repeated, and then something else under its
/// key; and what is refused, after which its key is free for something else.
const REQUESTS: &[Request] = &[
    Signal("s1", "1"),
    Signal("s1", "1"),
    Signal("s1", "2"),
    Cancel("s1"),
    Start("s1"),
    Signal("s2", "2"),
    Lost("l1"),
    Lost("l1"),
    Signal("l1", "3"),
    Signal("l1", "3"),
    Release("r1"),
    Deploy("r1"),
    Deploy("r1"),
    Deploy("s2"),
    ConfirmWrongClock("t1"),
    ConfirmClock("t1"),
    ConfirmClock("t1"),
    Start("k1"),
    Signal("k1", "4"),
    Cancel("c1"),
    Cancel("c2"),
    Cancel("c1"),
    Signal("s1", "1"),
    Signal("c1", "1"),
    Deploy("r1"),
];

fn start(house: &House, value: &str) -> Start {
    let idempotency_key = Some(key(value));
    let request = house.request("x", "script/main", "[{\"return\":1}]");
    Start { operation_id: None, idempotency_key, ..request }
}

/// The answer in words. None: the process died, and the caller does not know.
fn ask(house: &House, execution: &ExecutionId, request: Request) -> Option<String> {
    let engine = house.engine();
    let go = SignalName::new("go").unwrap();
    let answer = match request {
        Signal(key, payload) => {
            let payload = Payload::json(payload);
            let sent = house.wait(engine.signal(execution, &go, payload, asked(key)));
            sent.map(|done| format!("signal {}", done.value))
        }
        Lost(key) => {
            let nothing = "ab".repeat(32).parse().map(ExecutionId::root_of).unwrap();
            let sent = house.wait(engine.signal(&nothing, &go, Payload::json("1"), asked(key)));
            sent.map(|done| format!("signal {}", done.value))
        }
        Cancel(key) => {
            let cancelled = house.wait(engine.cancel(execution, asked(key)));
            cancelled.map(|done| format!("{:?}", done.value))
        }
        Release(key) => {
            let released = house.wait(engine.release(execution, decided(key)));
            released.map(|_| "released".to_owned())
        }
        Deploy(key) => {
            let deployed = house.wait(engine.deploy("other", &guests::bytes("script"), asked(key)));
            match deployed {
                Ok(done) => Ok(format!("deployed {} {}", done.value.digest, done.value.known)),
                Err(indelible_runtime::DeployRefused::Mismatch) => Err(ControlError::Mismatch),
                Err(indelible_runtime::DeployRefused::Engine(error)) => Err(error.into()),
                Err(other) => panic!("{other}"),
            }
        }
        ConfirmClock(key) | ConfirmWrongClock(key) => {
            let off = if let ConfirmClock(_) = request { 0 } else { 3_600_000_000 };
            let time = house.clock.now().as_micros() + off;
            let time = indelible_journal::Timestamp::from_micros(time).unwrap();
            house.wait(engine.confirm_clock(time, decided(key))).map(|_| "confirmed".to_owned())
        }
        Start(key) => match house.wait(engine.start(start(house, key))) {
            // The id is random.
            Ok(_) => Ok("started".to_owned()),
            Err(StartRefused::Mismatch) => Err(ControlError::Mismatch),
            Err(StartRefused::Engine(error)) => Err(error.into()),
            Err(other) => panic!("{other}"),
        },
    };
    match answer {
        Ok(answer) => Some(answer),
        Err(ControlError::Engine(error)) => {
            assert!(house.disk.is_dead(), "{error}");
            None
        }
        Err(refused) => Some(refused.to_string()),
    }
}

/// Asks everything, and everything once more whose answer was lost. What was answered, and what the
/// execution has seen.
fn story(ownership: Ownership, dies_after: Option<u64>) -> (Vec<String>, Vec<&'static str>, u64) {
    let mut house = House::new(indelible_runtime::Options { ownership, ..by_hand(KEEP) });
    house.deploy("script");
    let waits = "[{\"signal\":\"go\"},{\"signal\":\"go\"},{\"signal\":\"go\"},{\"signal\":\"no\"}]";
    let execution = house.start("waits", "script/main", waits);
    house.work();
    house.settle();
    let before = house.disk.taken();
    if let Some(commits) = dies_after {
        house.disk.dies_after(commits);
    }
    let mut answers = Vec::new();
    for request in REQUESTS {
        let answer = ask(&house, &execution, *request).unwrap_or_else(|| {
            house.crash();
            ask(&house, &execution, *request).unwrap()
        });
        answers.push(format!("{request:?}: {answer}"));
    }
    house.work();
    house.settle();
    let commits = house.disk.taken() - before;
    house.crash();
    // What was answered is answered again.
    for (request, answer) in REQUESTS.iter().zip(&answers) {
        let is_refusal = matches!(request, Lost(_) | Release(_) | ConfirmWrongClock(_));
        if !is_refusal {
            let again = ask(&house, &execution, *request).unwrap();
            assert_eq!(format!("{request:?}: {again}"), *answer, "{ownership:?} {dies_after:?}");
        }
    }
    let store = house.engine().store();
    assert_eq!(check::check(store, &mut |_| {}).unwrap().problems, []);
    let answered_apart = !store.scan(&Scan::all(ANSWERS, 1)).unwrap().value.rows.is_empty();
    assert_eq!(answered_apart, ownership == Ownership::Apart);
    (answers, house.names(&execution), commits)
}

/// C-80, C-31, I-11, I-12: with the process dying after every single commit, both ways give the same
/// answers, and each change is made once.
#[test]
fn both_ways_answer_the_same() {
    let (answers, events, commits) = story(Ownership::All, None);
    assert_eq!(events.iter().filter(|name| **name == "SignalDelivered").count(), 3, "{events:?}");
    for ownership in [Ownership::All, Ownership::Apart] {
        let (_, _, most) = story(ownership, None);
        assert!(most >= commits);
        for dies_after in (0..most).map(Some).chain([None]) {
            let (told, seen, _) = story(ownership, dies_after);
            assert_eq!(told, answers, "{ownership:?} {dies_after:?}");
            assert_eq!(seen, events, "{ownership:?} {dies_after:?}");
        }
    }
}

/// An execution that waits for signals, where each slot has a node of its own.
fn waiting_apart() -> (House, ExecutionId) {
    let options = indelible_runtime::Options { ownership: Ownership::Apart, ..by_hand(KEEP) };
    let house = House::new(options);
    house.deploy("script");
    let waits = "[{\"signal\":\"go\"},{\"signal\":\"go\"},{\"signal\":\"no\"}]";
    let execution = house.start("waits", "script/main", waits);
    (house, execution)
}

/// C-80, C-3: a note and its answer go after their window, the note first, and the key is free.
#[test]
fn notes_and_answers_go() {
    let (mut house, execution) = waiting_apart();
    assert_eq!(ask(&house, &execution, Signal("s", "1")).unwrap(), "signal 1");
    let count = |house: &House, table| {
        house.engine().store().scan(&Scan::all(table, 10)).unwrap().value.rows.len()
    };
    let counts = |house: &House| {
        [IDEMPOTENCY_KEYS, ANSWERS, EXPIRIES, OPERATIONS].map(|table| count(house, table))
    };
    assert_eq!(counts(&house), [1, 1, 2, 1]);
    let entries = house.engine().store().scan(&Scan::all(EXPIRIES, 10)).unwrap().value.rows;
    assert_eq!(entries.iter().map(|(key, _)| key[8]).collect::<Vec<_>>(), [2, 3]);
    assert!(entries[0].0[..8] < entries[1].0[..8], "the answer is there as long as the note is");
    house.move_clock(indelible_journal::Micros::from_secs(9 * 86_400));
    house.retain_once(indelible_runtime::Retention::default());
    assert_eq!(counts(&house), [0, 0, 0, 1]);
    assert_eq!(ask(&house, &execution, Signal("s", "2")).unwrap(), "signal 2");
}

/// C-80: the answer of a request whose note has gone, and which has not gone itself yet, is not the
/// answer to a new request under the same key: that is made, once, whenever the process dies.
#[test]
fn an_answer_that_outlives_its_note() {
    for dies_after in 0.. {
        let (mut house, execution) = waiting_apart();
        house.work();
        assert_eq!(ask(&house, &execution, Signal("s", "1")).unwrap(), "signal 1");
        house.move_clock(indelible_journal::Micros::from_secs(9 * 86_400));
        let now = house.clock.now();
        let purged = house.wait(windows::purge(house.engine().store(), now, 1)).unwrap();
        assert_eq!(purged.records, 1, "the note");
        house.settle();
        house.disk.dies_after(dies_after);
        let answer = ask(&house, &execution, Signal("s", "1"));
        let died = answer.is_none();
        let answer = answer.unwrap_or_else(|| {
            house.crash();
            ask(&house, &execution, Signal("s", "1")).unwrap()
        });
        assert_eq!(answer, "signal 2", "{dies_after}");
        house.crash();
        assert_eq!(ask(&house, &execution, Signal("s", "1")).unwrap(), "signal 2", "{dies_after}");
        assert_eq!(check::check(house.engine().store(), &mut |_| {}).unwrap().problems, []);
        if !died {
            break;
        }
    }
}

/// C-80, C-3: a request that was interrupted behind its note and is made days later is known for a whole
/// window from then on, as with one commit.
#[test]
fn a_note_is_renewed_with_its_request() {
    const DAYS: u64 = 86_400;
    let (mut house, execution) = waiting_apart();
    house.work();
    house.disk.dies_after(1);
    assert_eq!(ask(&house, &execution, Signal("s", "1")), None, "it dies behind the note");
    house.crash();
    house.move_clock(indelible_journal::Micros::from_secs(6 * DAYS));
    for (days, purged) in [(4, 0), (9, 2)] {
        assert_eq!(ask(&house, &execution, Signal("s", "1")).unwrap(), "signal 1", "{days}");
        house.move_clock(indelible_journal::Micros::from_secs(days * DAYS));
        let (store, now) = (house.engine().store(), house.clock.now());
        assert_eq!(house.wait(windows::purge(store, now, 10)).unwrap().records, purged, "{days}");
        house.settle();
    }
}

/// C-80: room in the store that was given to a batch and is not used yet comes back without a commit.
/// A request that waits for it leaves its thread to others: that batch may be theirs.
#[test]
fn a_request_without_room_leaves_its_thread_to_others() {
    let options = indelible_runtime::Options { ownership: Ownership::Apart, ..by_hand(KEEP) };
    let mut house = House::new(options);
    house.deploy("script");
    let execution = house.start("waits", "script/main", "[{\"signal\":\"go\"}]");
    house.bounds = Bounds { waiting_batches_max: 1, ..Bounds::DEFAULT };
    house.reopen();
    let store = house.engine().store().clone();
    let batch = || {
        let mut batch = Batch::new();
        batch.put(SETTINGS, "x", "1");
        batch
    };
    let mut context = Context::from_waker(Waker::noop());
    house.disk.set_away(true);
    store.submit_blocking(batch()).unwrap();
    let last = store.submit_blocking(batch()).unwrap();
    let mut queued = Box::pin(store.submit(batch()));
    assert!(queued.as_mut().poll(&mut context).is_pending());
    house.disk.set_away(false);
    store.durable(last).through_pauses().wait().unwrap();

    let go = SignalName::new("go").unwrap();
    let mut sent = pin!(house.engine().signal(&execution, &go, Payload::json("1"), asked("s")));
    assert!(sent.as_mut().poll(&mut context).is_pending());
    drop(queued);
    assert_eq!(house.wait(sent).unwrap().value, DeliveryId::FIRST);
}
