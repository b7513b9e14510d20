//! What others are shown: lists, executions and what they wait for, trees, events, operations, the
//! audit record; and who is told when that changes. Whatever is shown is durable (D2).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use indelible_journal::{
    AwaitKind, Ending, Event, ExecutionId, FunctionName, JournalKey, Micros, Namespace,
    OperationId, Payload, SignalName, Timestamp,
};
use indelible_operations::id;
use indelible_records::audit::AuditSubject;
use indelible_records::windows;
use indelible_runtime::world::Clock as _;
use indelible_runtime::{
    Actor, Attribution, Cursor, EngineError, Filter, Follow, Open, OperationView, Options, Parking,
    Stage, Standing, View,
};
use serde_json::json;

use crate::support::wire::{Wire, answered};
use crate::support::{House, KEEP, MORNING, by_hand, returned};

fn house(options: Options) -> (House, Arc<Wire>) {
    let mut house = House::new(options);
    let wire = Wire::new();
    house.http = wire.clone();
    house.reopen();
    house.deploy("script");
    house.deploy("behaviours");
    (house, wire)
}

/// Guests that wait are kept, or dropped: what is shown is the same.
fn parkings() -> [Options; 2] {
    [by_hand(KEEP), by_hand(Parking::Drop)]
}

/// Works until everything waits for the wire or a timer.
fn work(house: &House) {
    for _ in 0..5 {
        house.work();
        house.settle();
        std::thread::yield_now();
    }
    house.work();
}

fn namespace(name: &str) -> Namespace {
    Namespace::new(name).unwrap()
}

fn at(after: u64) -> Timestamp {
    Timestamp::from_micros(MORNING + after).unwrap()
}

#[track_caller]
fn view(house: &House, id: &ExecutionId) -> View {
    house.wait(house.engine().view(id)).unwrap().expect("there is such an execution")
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Whether something was committed since the last time.
#[track_caller]
fn was_told(follow: &mut Follow) -> bool {
    match poll(follow.changed()) {
        Poll::Ready(told) => {
            told.unwrap();
            true
        }
        Poll::Pending => false,
    }
}

/// Starts a function in a namespace.
fn start_in(house: &House, name: &str, id: &str, steps: &serde_json::Value) -> ExecutionId {
    let mut request = house.request(id, "script/main", &steps.to_string());
    request.namespace = namespace(name);
    house.engine_start(request)
}

/// Lists by namespace show its roots and no others, the newest first, in pages; what stays as it is
/// comes exactly once while others change how they stand, start and end between the pages.
#[test]
fn lists_go_by_namespace() {
    let (house, _) = house(by_hand(KEEP));
    let waits = json!([{ "call": ["a", "main", []] }, { "await": "a" }, { "signal": "go" }]);
    let mut own = Vec::new();
    for number in 0..10 {
        house.pass(Micros::new(1));
        own.push(start_in(&house, "shop", &format!("s{number}"), &waits));
        start_in(&house, "shop2", &format!("t{number}"), &waits);
    }
    house.work();
    let filter = Filter { whose: namespace("shop").into(), ..Filter::default() };
    let (mut seen, mut cursor): (Vec<ExecutionId>, Option<Cursor>) = (Vec::new(), None);
    for round in 0.. {
        let page = house.wait(house.engine().list(&filter, cursor.as_ref(), 3)).unwrap();
        assert!(page.executions.iter().all(|row| row.namespace == Some(namespace("shop"))));
        seen.extend(page.executions.iter().map(|row| row.key.execution_id().clone()));
        let Some(next) = page.next else { break };
        cursor = Some(next);
        // One that was shown ends, one that will be shown ends, and a new one comes.
        for ends in [&own[9 - round], &own[round]] {
            if house.row(ends).standing == Standing::Blocked {
                house.signal(ends, "go", "1");
            }
        }
        house.pass(Micros::new(1));
        start_in(&house, "shop", &format!("new{round}"), &json!([{ "return": 1 }]));
        house.work();
    }
    own.reverse();
    assert_eq!(seen, own, "each once, the newest first");
    let by = |standing, function: &str| {
        let function = Some(FunctionName::new(function).unwrap());
        let filter = Filter { standings: vec![standing], function, ..filter.clone() };
        house.wait(house.engine().list(&filter, None, 100)).unwrap().executions.len()
    };
    assert_eq!(by(Standing::Blocked, "main"), 4);
    assert_eq!(by(Standing::Completed, "main"), 9);
    assert_eq!(by(Standing::Completed, "idem"), 0);
    let begins = |id: &ExecutionId| {
        let id_prefix = Some(id.root().to_string()[..6].parse().unwrap());
        let filter = Filter { id_prefix, with_children: true, ..filter.clone() };
        let page = house.wait(house.engine().list(&filter, None, 100)).unwrap();
        page.executions.iter().map(|row| row.key.execution_id().clone()).collect::<Vec<_>>()
    };
    assert_eq!(begins(&own[3]), [own[3].clone()], "without what it called");
    let foreign = start_in(&house, "shop2", "foreign", &waits);
    house.work();
    assert_eq!(begins(&foreign), [], "it is another's");
    let none = Filter { whose: namespace("sho").into(), ..Filter::default() };
    assert!(house.wait(house.engine().list(&none, None, 100)).unwrap().executions.is_empty());
}

/// Every attempt is listed by itself, or each execution as its last attempt stands: one that failed
/// and is tried again has not failed, and is found by how it stands now.
#[test]
fn lists_of_last_attempts() {
    let (house, _) = house(by_hand(KEEP));
    let steps = json!([{ "below": [2, [{ "transient": "not yet" }]] }, { "signal": "go" }]);
    let id = house.start("one", "script/idem", &steps.to_string());
    let listed = |standing, latest_only| {
        let filter = Filter { standings: vec![standing], latest_only, ..Filter::default() };
        let page = house.wait(house.engine().list(&filter, None, 100)).unwrap();
        page.executions.iter().map(|row| row.key.attempts().own().get()).collect::<Vec<_>>()
    };
    house.work_through();
    assert_eq!(listed(Standing::Failed, false), [1]);
    assert!(listed(Standing::Failed, true).is_empty());
    assert_eq!(listed(Standing::Blocked, true), [2]);
    house.signal(&id, "go", "1");
    house.work();
    assert!(listed(Standing::Failed, true).is_empty());
    assert_eq!(listed(Standing::Completed, true), [2]);
}

/// A view has what an execution is, and everything that it waits for, with its times.
#[test]
fn a_view_says_what_is_waited_for() {
    for options in parkings() {
        let (house, _) = house(options);
        let request = json!({ "method": "PUT", "url": "http://peer/open", "idem": true });
        let again = json!({ "method": "PUT", "url": "http://peer/503,open", "idem": true,
            "retries": 3, "backoff": 1_000_000, "cap": 1_000_000 });
        let held = json!({ "method": "POST", "url": "http://peer/unknown", "hold": true });
        let steps = json!([
            { "http": ["a", request] },
            { "http": ["b", again] },
            { "http": ["c", held] },
            { "call": ["d", "main", [{ "signal": "never" }]] },
            { "call": ["e", "idem", [{ "transient": "not yet" }]] },
            { "timer": ["f", 3_600_000] },
            { "signal_or": ["go", ["a"]] },
        ]);
        let mut request = house.request("one", "script/main", &steps.to_string());
        request.trace_parent =
            Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap());
        let id = house.engine_start(request.clone());
        work(&house);
        let before = house.tree(&id);
        house.move_clock(Micros::new(10));
        let seen = view(&house, &id);
        assert_eq!(seen.execution, house.row(&id));
        assert_eq!(seen.namespace(), Some(&request.namespace));
        assert_eq!(seen.operation_id(), request.operation_id.as_ref());
        assert_eq!((&seen.input, &seen.trace_parent), (&request.input, &request.trace_parent));
        assert_eq!((&seen.parent, &seen.ending, seen.volatile), (&None, &None, false));
        assert_eq!(seen.execution.standing, Standing::Blocked);
        let guest = seen.waits.guest.as_ref().unwrap();
        assert_eq!(guest.since, at(0));
        let AwaitKind::SignalOr { name, .. } = &guest.kind else { panic!("{guest:?}") };
        assert_eq!((name.as_str(), guest.promises.as_slice()), ("go", &[id.child(0)][..]));
        assert_eq!((seen.waits.open.len(), seen.waits.open_count), (6, 6));
        let mut retry_at = None;
        for (number, open) in seen.waits.open.iter().enumerate() {
            let own = id.child(u32::try_from(number).unwrap());
            match (number, open) {
                (0, Open::Http { promise, label, stage: Stage::InFlight { attempt, since } }) => {
                    assert_eq!((promise, label.as_str()), (&own, "PUT http://peer/open"));
                    assert_eq!((attempt.get(), *since), (1, at(0)));
                }
                (1, Open::Http { promise, stage: Stage::Retrying { failed, retry_at }, .. }) => {
                    assert_eq!((promise, failed.get()), (&own, 1));
                    assert!(*retry_at > at(800_000_000), "{retry_at}");
                }
                (2, Open::Unresolved(effect)) => {
                    assert_eq!((&effect.promise, effect.is_held()), (&own, true));
                    assert_eq!(effect.why, "the connection was closed");
                }
                (
                    3,
                    Open::Call { promise, function, stage: Stage::InFlight { attempt, since } },
                ) => {
                    assert_eq!((promise, function.as_str()), (&own, "main"));
                    assert_eq!((attempt.get(), *since), (1, at(0)));
                }
                (4, Open::Call { promise, stage: Stage::Retrying { retry_at: at, .. }, .. }) => {
                    assert_eq!(promise, &own);
                    retry_at = Some(*at);
                }
                (5, Open::Timer { promise, since, due }) => {
                    assert_eq!((promise, *since), (&own, at(0)));
                    assert_eq!(*due, at(3_600_000_000));
                }
                _ => panic!("{number}: {open:?}"),
            }
        }
        // Those that it called have the operation of their root.
        let child = view(&house, &ExecutionId::new(id.child(3)).unwrap());
        assert_eq!(child.operation, seen.operation);
        assert_eq!((child.parent.as_ref(), child.execution.namespace), (Some(&id), None));
        let guest = child.waits.guest.unwrap();
        assert!(matches!(guest.kind, AwaitKind::Signal { name, .. } if name.as_str() == "never"));
        let resting = view(&house, &ExecutionId::new(id.child(4)).unwrap());
        assert_eq!(resting.resting.unwrap().until, retry_at);
        assert_eq!(resting.execution.key.attempts().own().get(), 2);
        assert_eq!(house.tree(&id), before, "looking changes nothing");

        // A join set, and the end.
        let set = json!([
            { "set": "s" }, { "call": ["a", "main", [{ "signal": "x" }]] },
            { "submit": ["s", "a"] }, { "next": "s" },
        ]);
        let waits = house.start("set", "script/main", &set.to_string());
        house.work();
        let guest = view(&house, &waits).waits.guest.unwrap();
        assert_eq!(guest.join_set.unwrap().place(), &waits.child(0));
        house.signal(&ExecutionId::new(waits.child(1)).unwrap(), "x", "7");
        house.work();
        let over = view(&house, &waits);
        assert_eq!(over.ending, Some(house.ending(&waits)));
        assert_eq!(over.execution.standing, Standing::Completed);
        assert_eq!((over.waits.open_count, over.waits.guest), (0, None));
        assert_eq!(over.input.bytes, set.to_string());
        let nobody = id.to_string().replace(|c: char| c.is_ascii_digit(), "a").parse().unwrap();
        assert_eq!(house.wait(house.engine().view(&nobody)).unwrap(), None);
        assert_eq!(house.wait(house.engine().namespace_of(&nobody)).unwrap(), None);
    }
}

/// What is stuck says why; a root that rests says until when.
#[test]
fn views_of_those_that_do_not_go_on() {
    let (mut house, _) = house(by_hand(KEEP));
    let id = house.start("one", "script/idem", "[{\"transient\":\"not yet\"}]");
    house.work();
    for _ in 0..2 {
        let seen = view(&house, &id);
        assert_eq!(seen.execution.key.attempts().own().get(), 2);
        assert_eq!(seen.resting.unwrap().until, house.engine().next_due());
        assert!(seen.resting.unwrap().until.is_some());
        house.crash();
        house.work();
    }
}

/// C-25: what is stuck is shown as held, and why.
#[test]
fn a_view_says_why_it_is_held() {
    let (first, _) = house(by_hand(KEEP));
    let id = first.start("one", "script/main", "[{\"signal\":\"go\"},{\"signal\":\"on\"}]");
    first.work();
    let mut tree = first.tree(&id);
    let Event::ExecutionStarted(started) = &mut tree[0].1[0].event else { panic!() };
    started.input = Payload::json("[{\"signal\":\"stop\"}]");
    // Its journal says what its program does not.
    let (mut house, _) = house(by_hand(KEEP));
    house.transplant(&tree);
    house.crash();
    house.signal(&id, "go", "1");
    house.work();
    for _ in 0..2 {
        let seen = view(&house, &id);
        assert_eq!((seen.execution.standing, seen.ending.as_ref()), (Standing::Stuck, None));
        let why = seen.execution.stuck.unwrap();
        assert!(why.contains("a received signal `go`"), "{why}");
        house.crash();
        house.work();
    }
}

/// C-39: one that is in memory alone is shown from memory: its row, its operation, what it waits for.
#[test]
fn a_volatile_one_is_shown_from_memory() {
    for options in parkings() {
        let (mut house, wire) = house(options);
        let input = r#"{"method":"POST","url":"http://peer/open","backoff_ms":10}"#;
        house.move_clock(Micros::new(7));
        let request = house.request("v", "glance", input);
        let id = house.engine_start(request.clone());
        work(&house);
        house.move_clock(Micros::new(7));
        assert_eq!(house.wait(house.engine().execution(&id)).unwrap(), None);
        let seen = view(&house, &id);
        assert!(seen.volatile);
        assert_eq!(seen.operation_id(), request.operation_id.as_ref());
        assert_eq!(seen.execution.namespace.as_ref(), Some(&request.namespace));
        assert_eq!(
            (seen.execution.standing, seen.execution.created_at),
            (Standing::Blocked, at(7))
        );
        assert!(matches!(&seen.waits.open[..], [Open::Http { .. }]), "{:?}", seen.waits);
        let known = house.wait(house.engine().namespace_of(&id)).unwrap();
        assert_eq!(known, Some((request.namespace.clone(), request.operation_id.clone().unwrap())));
        let mut follow = house.engine().follow(&id);
        wire.end(answered(200));
        work(&house);
        assert!(was_told(&mut follow));
        let over = view(&house, &id);
        assert_eq!((over.volatile, over.execution.standing), (false, Standing::Completed));
        assert_eq!(over.operation, seen.operation);
        let lost = house.engine_start(house.request("w", "glance", input));
        work(&house);
        house.crash();
        assert_eq!(house.wait(house.engine().view(&lost)).unwrap(), None);
        assert_eq!(house.wait(house.engine().namespace_of(&lost)).unwrap(), None);
    }
}

/// Trees and journals come in pages that show everything once, whatever their size.
#[test]
fn trees_and_events_come_in_pages() {
    let (house, _) = house(by_hand(KEEP));
    let steps = json!([
        { "repeat": [5, [{ "call": ["a", "main", [{ "random": 100 }]] }, { "await": "a" }]] },
        { "note": 1 },
    ]);
    let (id, ending) = house.run("script/main", &steps.to_string());
    returned(&ending);
    let whole: Vec<JournalKey> = house.tree(&id).into_iter().map(|(key, _)| key).collect();
    for limit in [1, 2, 6, 100] {
        let (mut keys, mut after): (Vec<JournalKey>, Option<JournalKey>) = (Vec::new(), None);
        loop {
            let page = house.wait(house.engine().tree(id.root(), after.as_ref(), limit)).unwrap();
            assert!(page.executions.len() <= limit);
            keys.extend(page.executions.into_iter().map(|row| row.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        keys.sort();
        assert_eq!(keys, whole, "{limit}");
    }
    let key = house.row(&id).key;
    let all = house.events_of(&key);
    for (events_max, bytes_max) in [(1, 9999), (3, 9999), (1000, 0), (1000, 300), (1000, 1 << 20)] {
        let (mut records, mut from) = (Vec::new(), 0);
        loop {
            let page = house.engine().events(&key, from, events_max, bytes_max);
            let page = house.wait(page).unwrap();
            assert!(!page.records.is_empty() && page.records.len() <= events_max);
            assert!(page.records.len() == 1 || page.records.len() * 64 <= bytes_max);
            assert_eq!(page.next, from + page.records.len() as u64);
            records.extend(page.records);
            from = page.next;
            if !page.more {
                break;
            }
        }
        assert_eq!(records, all, "{events_max} {bytes_max}");
        let behind = house.wait(house.engine().events(&key, from, 10, 1000)).unwrap();
        assert_eq!((behind.records.len(), behind.next, behind.more), (0, from, false));
    }
    let nobody = JournalKey::first(ExecutionId::new(id.child(77)).unwrap());
    assert!(house.wait(house.engine().events(&nobody, 0, 10, 1000)).unwrap().records.is_empty());
}

/// A follower is told of what grows, of another attempt and of the end; notices add up; a follower
/// that reads after each finds every event, once. Followers of other executions are not told.
#[test]
fn a_follower_hears_of_attempts_and_of_the_end() {
    let (house, _) = house(by_hand(KEEP));
    let steps = json!([
        { "signal": "try" },
        { "below": [2, [{ "transient": "not yet" }]] },
        { "signal": "go" },
    ]);
    let id = house.start("one", "script/idem", &steps.to_string());
    let other = house.start("two", "script/main", "[{\"signal\":\"go\"}]");
    house.work();
    let mut follow = house.engine().follow(&id);
    let mut others = house.engine().follow(&other);
    assert!(!was_told(&mut follow), "that was before");
    let mut read: Vec<(JournalKey, u64)> = Vec::new();
    let mut catch_up = |house: &House| {
        let tree = house.wait(house.engine().tree(id.root(), None, 100)).unwrap();
        for row in tree.executions {
            let from = read.iter().filter(|(key, _)| *key == row.key).count() as u64;
            let page = house.wait(house.engine().events(&row.key, from, 1000, 1 << 20)).unwrap();
            read.extend(page.records.iter().map(|r| (row.key.clone(), r.sequence.get())));
        }
        read.len()
    };
    let before = catch_up(&house);
    house.signal(&id, "try", "1");
    house.work();
    assert!(was_told(&mut follow), "the first attempt failed, the second rests");
    let first = catch_up(&house);
    assert!(first > before);
    assert!(!was_told(&mut follow), "several commits, or one: one word");
    house.work_through();
    assert!(was_told(&mut follow), "the second attempt has begun");
    let second = catch_up(&house);
    assert!(second > first);
    assert_eq!(view(&house, &id).execution.key.attempts().own().get(), 2);
    house.signal(&id, "go", "1");
    house.work();
    assert!(was_told(&mut follow));
    let third = catch_up(&house);
    assert!(third > second);
    assert!(view(&house, &id).execution.standing.is_terminal());
    let whole: usize = house.tree(&id).iter().map(|(_, records)| records.len()).sum();
    assert_eq!(third, whole);
    assert!(!was_told(&mut others), "that was somebody else's");
    assert!(!was_told(&mut follow));
}

/// A caller that follows before it reads misses nothing, with threads: in the end it has read the
/// end.
#[test]
fn a_follower_misses_nothing() {
    let options = Options { workers: 2, ..Options::default() };
    let (house, _) = house(options);
    for round in 0..50 {
        let steps = json!([{ "repeat": [20, [{ "timer": ["t", 0] }, { "await": "t" }]] }]);
        let request = house.request(&format!("r{round}"), "script/main", &steps.to_string());
        let ending = house.wait_for_disk(async {
            let id = house.engine().start(request).await.unwrap().execution_id;
            let mut follow = house.engine().follow(&id);
            loop {
                let seen = house.engine().view(&id).await.unwrap().unwrap();
                if let Some(ending) = seen.ending {
                    return ending;
                }
                follow.changed().await.unwrap();
            }
        });
        assert!(matches!(ending, Ending::Completed(_)));
    }
}

/// A follower learns that the engine has stopped: closed, or with its store.
#[test]
fn a_follower_is_not_left_waiting() {
    let (mut house, _) = house(by_hand(KEEP));
    let id = house.start("one", "script/main", "[{\"signal\":\"go\"}]");
    house.work();
    let mut follow = house.engine().follow(&id);
    assert!(!was_told(&mut follow));
    house.reopen();
    assert!(matches!(poll(follow.changed()), Poll::Ready(Err(EngineError::Stopped))));
    let mut follow = house.engine().follow(&id);
    house.settle();
    house.disk.die_now();
    let name = SignalName::new("go").unwrap();
    let payload = Payload::json("1");
    house.wait(house.engine().signal(&id, &name, payload, Attribution::default())).unwrap_err();
    house.wait(house.engine().stopped());
    let end = loop {
        if let Poll::Ready(Err(end)) = poll(follow.changed()) {
            break end;
        }
    };
    assert!(matches!(end, EngineError::Stopped), "{end:?}");
}

/// D2: nothing is shown that a crash could take back: while the disk takes nothing, readers wait;
/// when it goes on, they see what is durable by then.
#[test]
fn nothing_is_shown_that_is_not_durable() {
    let (house, _) = house(by_hand(KEEP));
    let id = house.start("one", "script/main", "[{\"signal\":\"go\"},{\"signal\":\"on\"}]");
    house.work();
    house.settle();
    let key = house.row(&id).key;
    let length = house.row(&id).length;
    house.disk.hold();
    let name = SignalName::new("go").unwrap();
    let payload = Payload::json("1");
    let engine = house.engine();
    let asked = Attribution { actor: Some(Actor::new("ada")), ..Attribution::default() };
    let mut sent = pin!(engine.signal(&id, &name, payload, asked));
    let mut polled = |house: &House| {
        for _ in 0..20 {
            let poll = sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll.is_pending(), "the disk has not taken it");
            house.engine().step();
        }
    };
    polled(&house);
    let filter = Filter { whose: namespace("tests").into(), ..Filter::default() };
    let operation = OperationId::new("one").unwrap();
    let own = namespace("tests");
    let mut list = pin!(engine.list(&filter, None, 10));
    let mut seen = pin!(engine.view(&id));
    let mut owner = pin!(engine.namespace_of(&id));
    let mut tree = pin!(engine.tree(id.root(), None, 10));
    let mut events = pin!(engine.events(&key, 0, 100, 1 << 20));
    let mut known = pin!(engine.operation(&own, &operation));
    let mut audit = pin!(engine.audit(Timestamp::MAX, 10));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..20 {
        assert!(list.as_mut().poll(&mut context).is_pending());
        assert!(seen.as_mut().poll(&mut context).is_pending());
        assert!(owner.as_mut().poll(&mut context).is_pending());
        assert!(tree.as_mut().poll(&mut context).is_pending());
        assert!(events.as_mut().poll(&mut context).is_pending());
        assert!(known.as_mut().poll(&mut context).is_pending());
        assert!(audit.as_mut().poll(&mut context).is_pending());
        house.engine().step();
    }
    house.disk.release();
    let page = house.wait(list).unwrap();
    assert!(page.executions[0].length > length, "it saw what is durable now");
    assert!(house.wait(seen).unwrap().unwrap().execution.length > length);
    assert!(house.wait(owner).unwrap().is_some());
    assert_eq!(house.wait(tree).unwrap().executions, page.executions);
    assert!(house.wait(events).unwrap().records.len() as u64 > length);
    assert!(matches!(house.wait(known).unwrap(), OperationView::Known { in_progress: true, .. }));
    assert_eq!(house.wait(audit).unwrap().len(), 1);
}

/// V-59, C-3: what is known of an operation: that it goes on, that it is over, nothing, that its
/// record has expired, that it is from the future.
#[test]
fn operations_are_looked_up() {
    let (house, _) = house(by_hand(KEEP));
    let made = |seconds: i64| {
        let micros = MORNING.checked_add_signed(seconds * 1_000_000).unwrap();
        id::mint(Timestamp::from_micros(micros).unwrap(), &[9; 10], None)
    };
    let own = namespace("tests");
    let look = |id: &OperationId| house.wait(house.engine().operation(&own, id)).unwrap();
    let id = made(0);
    assert_eq!(look(&id), OperationView::Unknown);
    let request = house.request(id.as_str(), "script/main", "[{\"signal\":\"go\"}]");
    let execution_id = house.engine_start(request);
    house.move_clock(Micros::from_secs(1));
    let accepted_at = at(0);
    let going_on =
        OperationView::Known { execution_id: execution_id.clone(), in_progress: true, accepted_at };
    assert_eq!(look(&id), going_on);
    house.signal(&execution_id, "go", "1");
    house.work();
    let over = OperationView::Known {
        execution_id: execution_id.clone(),
        in_progress: false,
        accepted_at,
    };
    assert_eq!(look(&id), over);
    let elsewhere = house.wait(house.engine().operation(&namespace("else"), &id)).unwrap();
    assert_eq!(elsewhere, OperationView::Unknown);
    house.move_clock(Micros::from_secs(8 * 24 * 3600));
    assert_eq!(look(&id), over, "its record is still there");
    house.wait(windows::purge(house.engine().store(), house.clock.now(), 100)).unwrap();
    assert_eq!(look(&id), OperationView::Expired);
    assert_eq!(look(&made(9 * 24 * 3600)), OperationView::FromTheFuture);
    assert_eq!(look(&OperationId::new("a name").unwrap()), OperationView::Unknown);
}

/// C-38: the audit record reads back, the newest first, in pages that lose nothing of one moment.
#[test]
fn the_audit_record_reads_back() {
    let (house, _) = house(by_hand(KEEP));
    let id = house.start("one", "script/main", "[{\"signal\":\"go\"},{\"signal\":\"on\"}]");
    house.work();
    let name = SignalName::new("x").unwrap();
    for number in 0..5 {
        let payload = Payload::json("1");
        let actor = Some(Actor::new(&format!("client:{number}")));
        house
            .wait(house.engine().signal(
                &id,
                &name,
                payload,
                Attribution { actor, ..Attribution::default() },
            ))
            .unwrap();
    }
    house.move_clock(Micros::new(1));
    let asked =
        Attribution { actor: Some(Actor::new("user:ada")), ..Attribution::because("enough") };
    house.wait(house.engine().cancel(&id, asked)).unwrap();
    let (mut all, mut before) = (Vec::new(), Timestamp::MAX.into());
    loop {
        let page = house.wait(house.engine().audit(before, 2)).unwrap();
        let Some(last) = page.last() else { break };
        before = last.place();
        all.extend(page);
    }
    let first = &all[0];
    assert_eq!((first.actor.as_str(), first.action.as_str()), ("user:ada", "cancel"));
    assert_eq!((first.reason.as_str(), first.at), ("enough", at(1)));
    let AuditSubject::Execution(execution) = &first.about else { panic!("{first:?}") };
    assert_eq!(execution.execution_id(), &id);
    let mut actors: Vec<_> = all[1..].iter().map(|entry| entry.actor.as_str()).collect();
    actors.sort_unstable();
    assert_eq!(actors, ["client:0", "client:1", "client:2", "client:3", "client:4"]);
    assert!(all[1..].iter().all(|entry| entry.at == at(0) && entry.action == "signal"));
    assert_eq!(house.wait(house.engine().audit(at(1), 10)).unwrap(), all[1..]);
}

/// The observer is told of each execution's end, once, and how it stands.
#[test]
fn the_observer_is_told_of_ends() {
    let (house, _) = house(by_hand(KEEP));
    let steps = json!([{ "call": ["a", "main", [{ "fail": "no" }]] }, { "await": "a" }]);
    let (id, _) = house.run("script/main", &steps.to_string());
    let retried = house.start("two", "script/idem", "[{\"below\":[2,[{\"transient\":\"no\"}]]}]");
    house.work_through();
    let cancelled = house.start("three", "script/main", "[{\"signal\":\"go\"}]");
    house.work();
    house.cancel(&cancelled);
    house.work();
    let child = ExecutionId::new(id.child(0)).unwrap();
    let expected = [
        (house.row(&child).key, Standing::Failed),
        (house.row(&id).key, Standing::Completed),
        (house.row(&retried).key, Standing::Completed),
        (house.row(&cancelled).key, Standing::Cancelled),
    ];
    assert_eq!(*house.told.ended.lock().unwrap(), expected);
}
