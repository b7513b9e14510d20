//! The engine with threads of its own, over a store on disk: many trees at once, timers and
//! signals in real time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::path::Path;

use indelible_journal::{Ending, ErrorKind, ExecutionId, Namespace, Payload, SignalName};
use indelible_records::TABLES;
use indelible_records::check;
use indelible_records::labels::Labels;
use indelible_runtime::{Attribution, Engine, Options, Parking, ParkingBounds, Start, World};
use indelible_store::embedded;
use indelible_test_store::folder::reopen;
use serde_json::{Value, json};

use crate::support::guests;

fn open(folder: &Path, parking: Parking) -> Engine {
    let store = reopen(|| embedded::open(folder, &TABLES, &embedded::Options::default())).unwrap();
    let options = Options { workers: 4, parking, ..Options::default() };
    Engine::open(store, options, World::system(guests::shared())).unwrap()
}

fn request(id: &str, program: &Value) -> Start {
    Start {
        namespace: Namespace::new("tests").unwrap(),
        operation_id: Some(indelible_journal::OperationId::new(id).unwrap()),
        idempotency_key: None,
        component: "script".to_owned(),
        function: "main".to_owned(),
        input: Payload::json(program.to_string()),
        trace_parent: None,
        actor: None,
        labels: Labels::default(),
    }
}

/// Calls in parallel that sleep a little, a signal from outside, and a join set.
fn program(number: u64) -> Value {
    let nap = |ms: u64| json!([{ "timer": ["t", ms] }, { "await": "t" }, { "return": ms }]);
    let mut steps = vec![json!({ "set": "s" })];
    for child in 0..8 {
        let slot = format!("c{child}");
        steps.push(json!({ "call": [slot, "main", nap((number + child) % 5)] }));
        steps.push(json!({ "submit": ["s", slot] }));
    }
    steps.extend((0..8).map(|_| json!({ "next": "s" })));
    steps.extend([json!({ "signal": "go" }), json!({ "return": number })]);
    Value::Array(steps)
}

async fn one(engine: &Engine, number: u64) -> ExecutionId {
    let started = engine.start(request(&format!("op-{number}"), &program(number))).await.unwrap();
    let id = started.execution_id;
    let name = SignalName::new("go").unwrap();
    engine.signal(&id, &name, Payload::json("1"), Attribution::default()).await.unwrap();
    let ending = engine.outcome(&id).await.unwrap().unwrap();
    assert_eq!(ending, Ending::Completed(Payload::json(number.to_string())), "{id:#}");
    id
}

fn check_many(parking: Parking) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let ids = runtime.block_on(async {
        let engine = std::sync::Arc::new(open(folder.path(), parking));
        engine.deploy("script", &guests::bytes("script"), Attribution::default()).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..60 {
            let engine = engine.clone();
            tasks.spawn(async move { one(&engine, number).await });
        }
        tasks.join_all().await
    });
    // Everything is over, and the store says so after it was opened again.
    let engine = open(folder.path(), parking);
    let findings = check::check(engine.store(), &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    runtime.block_on(async {
        for id in ids {
            assert!(matches!(engine.outcome(&id).await.unwrap(), Some(Ending::Completed(_))));
        }
    });
    let readings = engine.readings();
    assert_eq!((readings.trees, readings.runnable, readings.parked), (0, 0, 0));
}

#[test]
fn many_trees_at_once() {
    check_many(Parking::Keep(ParkingBounds::for_guests(300)));
}

#[test]
fn many_trees_with_few_places_to_park() {
    check_many(Parking::Keep(ParkingBounds::for_guests(10)));
}

/// What was left in the middle goes on by itself when the engine is opened again.
#[test]
fn what_was_left_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let engine = open(folder.path(), crate::support::KEEP);
    let ids = runtime.block_on(async {
        engine.deploy("script", &guests::bytes("script"), Attribution::default()).await.unwrap();
        let mut ids = Vec::new();
        for number in 0..20 {
            let request = request(&format!("op-{number}"), &program(number));
            ids.push(engine.start(request).await.unwrap().execution_id);
        }
        ids
    });
    engine.close();
    let engine = open(folder.path(), crate::support::KEEP);
    runtime.block_on(async {
        let name = SignalName::new("go").unwrap();
        for (number, id) in ids.iter().enumerate() {
            engine.signal(id, &name, Payload::json("1"), Attribution::default()).await.unwrap();
            let ending = engine.outcome(id).await.unwrap().unwrap();
            assert_eq!(ending, Ending::Completed(Payload::json(number.to_string())));
        }
    });
}

/// Guests that compute without end, more of them than workers, do not keep small calls waiting:
/// those are all over before the first of the others has used up its time.
#[test]
fn busy_loops_do_not_keep_others_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = embedded::open(folder.path(), &TABLES, &embedded::Options::default()).unwrap();
        let options = Options { workers: 2, ..Options::default() };
        let engine = Engine::open(store, options, World::system(guests::patient())).unwrap();
        let engine = std::sync::Arc::new(engine);
        engine.deploy("script", &guests::bytes("script"), Attribution::default()).await.unwrap();
        let mut busy = tokio::task::JoinSet::new();
        for number in 0..8 {
            let engine = engine.clone();
            let spins = json!([{ "spin": 0 }]);
            let request = request(&format!("busy-{number}"), &spins);
            busy.spawn(async move { engine.call(request).await.unwrap().1 });
        }
        for number in 0..20 {
            // They wait, too: going on after a wait is as little delayed as starting.
            let program = json!([{ "timer": ["t", 1] }, { "await": "t" }, { "return": number }]);
            let called = engine.call(request(&format!("small-{number}"), &program)).await;
            let ending = called.unwrap().1;
            assert_eq!(ending, Ending::Completed(Payload::json(number.to_string())));
            assert!(busy.try_join_next().is_none(), "a busy one was over first");
        }
        let over = busy.join_all().await;
        let timed_out = |ending: &Ending| matches!(ending, Ending::Failed(failure) if failure.kind == ErrorKind::Timeout);
        assert!(over.iter().all(timed_out), "{over:?}");
    });
}

/// A guest that computes without end does not keep the engine from stopping.
#[test]
fn an_engine_stops_though_a_guest_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = embedded::open(folder.path(), &TABLES, &embedded::Options::default()).unwrap();
    // These guests are not shared: only this engine makes their time pass.
    let options = Options { workers: 2, ..Options::default() };
    let engine = Engine::open(store, options, World::system(guests::patient())).unwrap();
    runtime.block_on(async {
        engine.deploy("script", &guests::bytes("script"), Attribution::default()).await.unwrap();
        for number in 0..4 {
            let endless = json!([{ "timer": ["t", 0] }, { "await": "t" }, { "spin": 0 }]);
            engine.start(request(&format!("endless-{number}"), &endless)).await.unwrap();
        }
    });
    let (closed, is_closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        engine.close();
        closed.send(()).unwrap();
    });
    is_closed.recv_timeout(std::time::Duration::from_secs(60)).expect("it stops");
}

/// Several who start the same at once find the same execution, though its root waits without a
/// guest and is not in memory; and none of its timers is forgotten.
#[test]
fn the_same_start_from_many_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let engine = std::sync::Arc::new(open(folder.path(), Parking::Drop));
        engine.deploy("script", &guests::bytes("script"), Attribution::default()).await.unwrap();
        let nap = json!([{ "timer": ["t", 1] }, { "await": "t" }, { "return": 1 }]);
        let program = json!([
            { "call": ["c", "main", nap] }, { "timer": ["u", 1] }, { "await": "u" },
            { "await": "c" }, { "return": "done" }
        ]);
        for number in 0..200 {
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..8 {
                let (engine, program) = (engine.clone(), program.clone());
                tasks.spawn(async move {
                    engine.call(request(&format!("same-{number}"), &program)).await.unwrap()
                });
            }
            let all = tasks.join_all().await;
            let begun = all.iter().filter(|(started, _)| !started.attached()).count();
            assert_eq!(begun, 1);
            for (started, ending) in &all {
                assert_eq!(started.execution_id, all[0].0.execution_id);
                assert_eq!(*ending, Ending::Completed(Payload::json("\"done\"")));
            }
        }
        assert_eq!(engine.readings().timers_told, 0);
    });
}
