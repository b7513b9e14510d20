//! What is told of executions whose tree retention has taken, and of operations that are forgotten
//! (C-3).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_http::End;
use indelible_idempotency::{ConsumerNamespace, parse_key};
use indelible_journal::{ErrorKind, ExecutionId, Micros, Payload, SignalName};
use indelible_operations::id;
use indelible_records::check;
use indelible_records::listing::Filter;
use indelible_records::windows;
use indelible_runtime::world::Clock as _;
use indelible_runtime::{
    Attribution, CommandRefusal, ControlError, OperationView, Retention, Start, StartRefused,
    Verdict,
};

use crate::support::wire::{Wire, answer};
use crate::support::{House, KEEP, by_hand, failed, guests, returned};

/// Everything that is over goes after an hour.
const HOUR: Micros = Micros::from_secs(3600);
const AFTER_AN_HOUR: Retention =
    Retention { completed: Some(HOUR), failed: Some(HOUR), cancelled: Some(HOUR) };

fn house() -> House {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    house
}

fn keyed(house: &House, value: &str, input: &str) -> Start {
    let namespace = ConsumerNamespace::new("tests").unwrap();
    let key = parse_key(&namespace, Some(value)).unwrap();
    let request = house.request("x", "script/main", input);
    Start { operation_id: None, idempotency_key: key, ..request }
}

/// Sweeps until there is nothing to do, in steps of so many rows. How many trees went.
fn sweep(house: &House, rows: usize) -> usize {
    let mut trees = 0;
    loop {
        let swept = house.wait(house.engine().sweep(&AFTER_AN_HOUR, rows)).unwrap();
        assert!(swept.unfinished.is_empty() && swept.unreadable.is_empty(), "{swept:?}");
        trees += swept.trees;
        if !swept.more {
            return trees;
        }
    }
}

fn purge(house: &House) -> usize {
    house.wait(windows::purge(house.engine().store(), house.clock.now(), 100)).unwrap().records
}

fn assert_sound(house: &House) {
    house.settle();
    let findings = check::check(house.engine().store(), &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
}

fn cancelled(house: &House, start: Start) -> ExecutionId {
    let id = house.engine_start(start);
    house.work();
    house.cancel(&id);
    house.work();
    id
}

/// V-31, C-3: the record of an operation outlives its tree, with the outcome: a caller that repeats
/// the request is told the same, by key and by id, after a crash and in another version; another
/// request under the name is refused as before. What was there of the execution itself is gone.
#[test]
fn a_repetition_is_told_what_came_of_it() {
    for rows in [1, 1000] {
        let mut house = house();
        let inputs = [
            "[{\"return\":{\"a\":[1.50,\"é\"]}}]",
            "[{\"fail\":\"no luck\"}]",
            "[{\"signal\":\"never\"}]",
            "[{\"call\":[\"a\",\"main\",[{\"return\":1}]]},{\"return\":2}]",
        ];
        let requests = |house: &House| -> Vec<Start> {
            let by_id = id::mint(house.clock.now(), &[7; 10], None);
            let by_id = house.request(by_id.as_str(), "script/main", inputs[3]);
            let named = inputs[..3].iter().map(|input| keyed(house, input, input));
            named.chain([by_id]).collect()
        };
        let requests = requests(&house);
        let ids: Vec<_> = requests
            .iter()
            .map(|request| match request.input.bytes.starts_with(b"[{\"signal") {
                true => cancelled(&house, request.clone()),
                false => house.engine_start(request.clone()),
            })
            .collect();
        house.work();
        let endings: Vec<_> = ids.iter().map(|id| house.ending(id)).collect();
        assert_eq!(returned(&endings[0]), "{\"a\":[1.5,\"é\"]}");
        assert_eq!(failed(&endings[1]).kind, ErrorKind::UserError);
        let going_on = house.start("waits", "script/main", "[{\"signal\":\"go\"}]");
        house.work();

        house.move_clock(Micros::new(HOUR.get() - 1));
        assert_eq!(sweep(&house, rows), 0);
        house.move_clock(Micros::from_secs(60));
        assert_eq!(sweep(&house, rows), 4);
        assert_sound(&house);
        let mut other_version = guests::bytes("script");
        other_version.extend([0, 6, 4, b'n', b'o', b't', b'e', 2]);
        house
            .wait(house.engine().deploy("script", &other_version, Attribution::default()))
            .unwrap();
        for crash in [false, true] {
            if crash {
                house.crash();
            }
            for (request, (execution, ending)) in requests.iter().zip(ids.iter().zip(&endings)) {
                let (started, told) = house.wait(house.engine().call(request.clone())).unwrap();
                assert_eq!((&started.execution_id, &told), (execution, ending));
                assert_eq!(started.verdict, Verdict::Prior);
                let started = house.wait(house.engine().start(request.clone())).unwrap();
                assert_eq!((&started.execution_id, started.verdict), (execution, Verdict::Prior));
                let other = Start { input: Payload::json("[{\"return\":9}]"), ..request.clone() };
                let refused = house.wait(house.engine().call(other));
                match &request.idempotency_key {
                    Some(_) => assert!(matches!(refused, Err(StartRefused::Mismatch))),
                    None => assert!(matches!(refused, Err(StartRefused::Conflict))),
                }
                let operation = &started.operation_id;
                let known = house.engine().operation(&request.namespace, operation);
                let known = house.wait(known).unwrap();
                assert!(
                    matches!(&known, OperationView::Known { in_progress: false, .. }),
                    "{known:?}"
                );
                let kept = house.engine().operation_outcome(&request.namespace, operation);
                assert_eq!(house.wait(kept).unwrap().as_ref(), Some(ending));
                assert_gone(&house, execution);
            }
        }
        let listed = house.wait(house.engine().list(&Filter::default(), None, 10)).unwrap();
        let listed: Vec<_> = listed.executions.iter().map(|row| row.key.execution_id()).collect();
        assert_eq!(listed, [&going_on]);
        house.signal(&going_on, "go", "1");
        house.work();
        assert_eq!(returned(&house.ending(&going_on)), "[{\"signal\":1}]");
        assert_sound(&house);
    }
}

/// Nothing is shown of it, and nothing can be done to it.
fn assert_gone(house: &House, execution: &ExecutionId) {
    let engine = house.engine();
    assert_eq!(house.wait(engine.outcome(execution)).unwrap(), None);
    assert_eq!(house.wait(engine.view(execution)).unwrap(), None);
    assert_eq!(house.wait(engine.execution(execution)).unwrap(), None);
    assert_eq!(house.wait(engine.namespace_of(execution)).unwrap(), None);
    let signal = SignalName::new("go").unwrap();
    let sent = engine.signal(execution, &signal, Payload::json("1"), Attribution::default());
    let sent = house.wait(sent);
    assert!(matches!(sent, Err(ControlError::CommandRefusal(CommandRefusal::Unknown))), "{sent:?}");
}

/// V-59, C-3: when the record goes too, the key is free, and an id that carries its time is refused.
#[test]
fn then_the_operation_is_forgotten() {
    let house = house();
    let by_key = keyed(&house, "k", "[{\"return\":1}]");
    let by_id = id::mint(house.clock.now(), &[7; 10], None);
    let by_id = house.request(by_id.as_str(), "script/main", "[{\"return\":2}]");
    let first = house.engine_start(by_key.clone());
    house.engine_start(by_id.clone());
    house.work();
    house.move_clock(HOUR);
    assert_eq!(sweep(&house, 1000), 2);
    house.move_clock(Micros::from_secs(7 * 86_400));
    assert_eq!(purge(&house), 3, "two operations and a key");
    let again = house.wait(house.engine().start(by_key)).unwrap();
    assert_eq!(again.verdict, Verdict::Fresh);
    assert_ne!(again.execution_id, first);
    let refused = house.wait(house.engine().start(by_id));
    assert!(matches!(refused, Err(StartRefused::Expired)), "{refused:?}");
    assert_sound(&house);
}

/// D1, C-3: a name that is forgotten begins anew only when nothing is left of its tree, which a sweep
/// takes in parts: no execution ever has events of another.
#[test]
fn nothing_begins_over_what_is_left() {
    let house = house();
    let call = |n: u32| format!(r#"{{"call":["a{n}","main",[]]}},{{"await":"a{n}"}}"#);
    let calls: Vec<_> = (0..20).map(call).collect();
    let request = house.request("x", "script/main", &format!("[{}]", calls.join(",")));
    let id = house.engine_start(request.clone());
    house.work();
    let ending = house.ending(&id);
    house.move_clock(Micros::from_secs(8 * 86_400));
    assert_eq!(purge(&house), 1);
    let mut steps = 0;
    while house.wait(house.engine().sweep(&AFTER_AN_HOUR, 10)).unwrap().trees == 0 {
        steps += 1;
        let refused = house.wait(house.engine().start(request.clone()));
        assert!(matches!(refused, Err(StartRefused::Engine(_))), "{steps}: {refused:?}");
        assert_sound(&house);
    }
    assert!(steps > 5, "{steps}");
    let again = house.wait(house.engine().start(request)).unwrap();
    assert_eq!((&again.execution_id, again.verdict), (&id, Verdict::Fresh));
    house.work();
    assert_eq!(house.ending(&id), ending);
    assert_eq!(sweep(&house, 10), 0, "its own time counts");
    assert_sound(&house);
}

/// A root that was tried again has one outcome, and that is kept: never the end of an attempt
/// before, however far a sweep has come when a caller asks.
#[test]
fn the_last_attempt_counts() {
    let house = House::new(by_hand(KEEP));
    house.deploy("behaviours");
    let request = house.request("x", "fickle", "3");
    let id = house.engine_start(request.clone());
    house.work_through();
    let ending = house.ending(&id);
    assert!(house.row(&id).key.attempts().own().get() > 1, "it was tried again");
    house.move_clock(HOUR);
    let mut swept = 0;
    while swept == 0 {
        let step = house.wait(house.engine().sweep(&AFTER_AN_HOUR, 1)).unwrap();
        swept += step.trees;
        let (_, told) = house.wait(house.engine().call(request.clone())).unwrap();
        assert_eq!(told, ending);
        if let Some(shown) = house.wait(house.engine().outcome(&id)).unwrap() {
            assert_eq!(shown, ending);
        }
    }
}

/// D5, C-3: a reconciler's answer that had not reached its execution is found when that asks again:
/// in its record when its tree is gone, in its tree when its record is; when both are, the
/// reconciler is asked again.
#[test]
fn an_answer_that_nobody_was_told_of() {
    for (sweeps, purges) in [(true, false), (false, true), (true, true)] {
        let mut house = House::new(by_hand(KEEP));
        let wire = Wire::new();
        house.http = wire.clone();
        house.reopen();
        house.deploy("behaviours");
        let spec = r#"{"method":"POST","url":"http://peer/unknown","settle_ms":60000}"#;
        let id = house.start("a", "sends", spec);
        work(&house);
        assert_eq!(wire.open(), 1, "the reconciler asks the peer");
        wire.end(processed());
        // The question is over, and durable; the process dies before the execution that asked is
        // told.
        while !is_answered(&house) {
            assert!(house.engine().step());
            house.settle();
        }
        house.crash();
        assert!(!house.row(&id).standing.is_terminal());
        house.move_clock(if purges { Micros::from_secs(8 * 86_400) } else { HOUR });
        if sweeps {
            assert_eq!(sweep(&house, 1000), 1);
        }
        if purges {
            assert_eq!(purge(&house), 1);
        }
        work(&house);
        assert_eq!(wire.open(), usize::from(sweeps && purges), "whether it is asked again");
        if wire.open() > 0 {
            wire.end(processed());
        }
        work(&house);
        let said: serde_json::Value = serde_json::from_str(&returned(&house.ending(&id))).unwrap();
        assert_eq!(said["status"], 200, "{said}");
        let posts = wire.sent().iter().filter(|sent| sent.request.method == "POST").count();
        assert_eq!(posts, 1, "it happened, and is not sent again");
    }
}

fn processed() -> End {
    let body = "{\"processed\":1}".into();
    End::Answered(indelible_http::Response { body, ..answer(200) })
}

/// Whether a question is over.
fn is_answered(house: &House) -> bool {
    let page = house.wait_for_disk(house.engine().list(&Filter::default(), None, 10)).unwrap();
    page.executions.iter().any(|row| row.standing.is_terminal())
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

/// C-3: in the background trees go after their window and records a day after theirs; what went is
/// counted.
#[test]
fn the_background_lets_go() {
    let mut house = house();
    house.engine_start(keyed(&house, "old", "[{\"return\":1}]"));
    house.work();
    let day = Micros::from_secs(86_400);
    // The record of a key goes a microsecond before that of its operation.
    house.move_clock(Micros::new(8 * day.get() - 2));
    house.engine_start(keyed(&house, "new", "[{\"return\":1}]"));
    house.work();
    house.settle();
    let gone = |house: &House| {
        let gone = house.engine().readings().gone;
        (gone.trees, gone.records)
    };
    for (passes, trees, records) in [(Micros::ZERO, 1, 0), (Micros::new(2), 1, 2)] {
        house.move_clock(passes);
        house.retain(AFTER_AN_HOUR);
        let mut looks = 0;
        while gone(&house) != (trees, records) {
            looks += 1;
            assert!(looks < 60_000, "never: {:?}", gone(&house));
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }
    assert!(house.engine().readings().gone.rows >= 3);
    house.retain(Retention::default());
    let (_, told) =
        house.wait(house.engine().call(keyed(&house, "new", "[{\"return\":1}]"))).unwrap();
    assert_eq!(returned(&told), "1");
    assert!(house.told.trouble.lock().unwrap().is_empty());
    assert_sound(&house);
}
