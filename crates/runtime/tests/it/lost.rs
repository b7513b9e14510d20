//! The store stops: what was not durable is lost, and no caller was told of it. The engine says so,
//! answers all callers, and accepts no more requests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use indelible_journal::{Ending, ExecutionId, Namespace, OperationId, Payload, SignalName};
use indelible_records::TABLES;
use indelible_records::labels::Labels;
use indelible_runtime::{
    Attribution, ControlError, Engine, EngineError, Options, Start, StartRefused, World,
};
use indelible_store::{Bounds, Store};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::disk::Disk;
use crate::support::{House, KEEP, Told, by_hand, guests};

fn open(disk: &Arc<Disk>, told: &Arc<Told>) -> Engine {
    let disk: Arc<dyn indelible_store::backend::Backend> = disk.clone();
    let store = Store::start(disk, &TABLES, Bounds::DEFAULT).unwrap();
    let world = World { observer: told.clone(), ..World::system(guests::shared()) };
    Engine::open(store, Options { workers: 2, ..Options::default() }, world).unwrap()
}

fn request(id: &str, program: &serde_json::Value) -> Start {
    Start {
        namespace: Namespace::new("tests").unwrap(),
        operation_id: Some(OperationId::new(id).unwrap()),
        idempotency_key: None,
        component: "script".to_owned(),
        function: "main".to_owned(),
        input: Payload::json(program.to_string()),
        trace_parent: None,
        actor: None,
        labels: Labels::default(),
    }
}

/// What a client was told before everything stopped.
#[derive(Default)]
struct Shown {
    started: Vec<(String, ExecutionId)>,
    signalled: Vec<(ExecutionId, u64)>,
    ended: Vec<(ExecutionId, Ending)>,
    /// It waits for something that does not come before the end.
    waited: bool,
}

/// Starts, signals and waits until the engine has stopped.
async fn client(engine: Arc<Engine>, number: u64) -> Shown {
    let mut shown = Shown::default();
    let name = SignalName::new("go").unwrap();
    for round in 0..1_000_000 {
        let id = format!("c{number}-{round}");
        let program = json!([
            { "call": ["c", "main", [{ "return": round }]] },
            { "await": "c" }, { "signal": "go" }, { "return": id }
        ]);
        let Ok(started) = engine.start(request(&id, &program)).await else { break };
        let execution = started.execution_id;
        shown.started.push((id, execution.clone()));
        if number % 5 == 4 {
            // The test never sends its signal: the caller that waits for its end is told of the
            // stop.
            let outcome = engine.outcome(&execution).await;
            assert!(matches!(outcome, Err(EngineError::Lost(_))), "{outcome:?}");
            shown.waited = true;
            break;
        }
        let value = Payload::json(round.to_string());
        if engine.signal(&execution, &name, value, Attribution::default()).await.is_err() {
            break;
        }
        shown.signalled.push((execution.clone(), round));
        match engine.outcome(&execution).await {
            Ok(ending) => shown.ended.push((execution, ending.unwrap())),
            Err(_) => break,
        }
    }
    shown
}

/// D2, D3, V-21, V-39: whatever anybody was told, an outcome above all, is there after the disk has
/// failed, at any commit.
#[test]
fn nothing_that_was_shown_is_lost_when_the_disk_fails() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for commits in [1, 2, 7, 40, 150] {
        let (disk, told) = (Arc::new(Disk::new()), Arc::new(Told::default()));
        let shown = runtime.block_on(async {
            let engine = Arc::new(open(&disk, &told));
            engine
                .deploy("script", &guests::bytes("script"), Attribution::default())
                .await
                .unwrap();
            disk.dies_after(commits);
            let mut clients = JoinSet::new();
            for number in 0..20 {
                clients.spawn(client(engine.clone(), number));
            }
            let shown = clients.join_all().await;
            engine.stopped().await;
            let again = engine.start(request("again", &json!([]))).await;
            let Err(StartRefused::Engine(EngineError::Lost(_))) = again else {
                panic!("{again:?}");
            };
            let readings = engine.readings();
            assert_eq!((readings.trees, readings.runnable, readings.parked), (0, 0, 0));
            shown
        });
        {
            let trouble = told.trouble.lock().unwrap();
            assert_eq!(trouble.len(), 1, "{trouble:?}");
            assert!(trouble[0].contains("store and engine have stopped"), "{trouble:?}");
            assert!(told.stuck.lock().unwrap().is_empty());
        }
        if commits == 150 {
            assert!(shown.iter().any(|shown| shown.waited));
            assert!(shown.iter().any(|shown| !shown.ended.is_empty()));
        }
        disk.revive();
        still_there(&disk, &shown);
    }
}

fn still_there(disk: &Arc<Disk>, shown: &[Shown]) {
    let house = House::on(disk.clone(), by_hand(KEEP));
    house.work();
    for shown in shown {
        for (operation, execution) in &shown.started {
            let row = house.row(execution);
            let record = house.events_of(&row.key).swap_remove(0);
            let indelible_journal::Event::ExecutionStarted(started) = record.event else {
                panic!("{execution:#} does not begin with its start");
            };
            let key = started.idempotency_key.clone().unwrap();
            assert_eq!(key.operation_id.as_str(), operation);
        }
        for (execution, value) in &shown.signalled {
            let payload = Payload::json(value.to_string());
            let delivered = house.events(execution).into_iter().filter(|record| {
                matches!(&record.event, indelible_journal::Event::SignalDelivered { payload: found, .. } if *found == payload)
            });
            assert_eq!(delivered.count(), 1, "{execution:#}");
        }
        for (execution, ending) in &shown.ended {
            assert_eq!(house.ending(execution), *ending);
        }
    }
}

/// Without workers it is the same: the engine does nothing more, and all callers are answered.
#[test]
fn an_engine_that_is_driven_by_hand_stops_too() {
    let mut house = House::new(by_hand(KEEP));
    house.deploy("script");
    let waits = json!([{ "signal": "go" }, { "return": 1 }]).to_string();
    let id = house.start("one", "script/main", &waits);
    house.work();
    house.disk.die_now();
    let name = SignalName::new("go").unwrap();
    let sent =
        house.wait(house.engine().signal(&id, &name, Payload::json("1"), Attribution::default()));
    assert!(matches!(sent, Err(ControlError::Engine(EngineError::Lost(_)))), "{sent:?}");
    assert!(!house.engine().step());
    let readings = house.engine().readings();
    assert_eq!((readings.trees, readings.parked), (0, 0), "what may be ahead of the disk is gone");
    let refused = house.wait(house.engine().cancel(&id, Attribution::because("enough")));
    assert!(matches!(refused, Err(ControlError::Engine(_))), "{refused:?}");
    assert_eq!(house.told.trouble.lock().unwrap().len(), 1);
    house.disk.revive();
    house.reopen();
    house.work();
    assert_eq!(house.events(&id).len(), 2, "the signal was not durable, and nobody was told so");
    house.signal(&id, "go", "2");
    house.work();
    assert_eq!(crate::support::returned(&house.ending(&id)), "1");
}

/// An idle engine notices it, too, though it commits nothing.
#[test]
fn an_idle_engine_notices() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (disk, told) = (Arc::new(Disk::new()), Arc::new(Told::default()));
    runtime.block_on(async {
        let engine = Arc::new(open(&disk, &told));
        engine.deploy("script", &guests::bytes("script"), Attribution::default()).await.unwrap();
        let waits = json!([{ "signal": "go" }]);
        let id = engine.start(request("one", &waits)).await.unwrap().execution_id;
        let waiting = tokio::spawn({
            let engine = engine.clone();
            async move { engine.outcome(&id).await }
        });
        disk.die_now();
        // Something else that writes into the same store finds out.
        let mut batch = indelible_store::Batch::new();
        batch.put(indelible_records::SETTINGS, "x", "y");
        engine.store().submit(batch).await.unwrap();
        let outcome = waiting.await.expect("whoever waits is told");
        assert!(matches!(outcome, Err(EngineError::Lost(_))), "{outcome:?}");
    });
}
