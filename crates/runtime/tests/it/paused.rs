//! The store is paused: its backend cannot be reached for a while. Nothing leaves the engine, callers
//! are told that it is unknown what becomes of their requests, and everything goes on afterwards.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;
use std::time::Duration;

use indelible_journal::{Namespace, OperationId, Payload};
use indelible_records::TABLES;
use indelible_records::labels::Labels;
use indelible_runtime::{
    Attribution, Engine, EngineError, Options, Pace, Start, StartRefused, StartedExecution, World,
};
use indelible_store::backend::Backend;
use indelible_store::{Bounds, Lost, Store};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::disk::Disk;
use crate::support::wire::Wire;
use crate::support::{House, KEEP, Told, by_hand, guests, returned};

/// Callers are told of a pause at its first failed try.
const AT_ONCE: Bounds = Bounds { pause_told_after: Duration::ZERO, ..Bounds::DEFAULT };

fn is_paused<T>(result: &Result<T, StartRefused>) -> bool {
    matches!(result, Err(StartRefused::Engine(EngineError::Lost(Lost::Paused(_)))))
}

/// Waits until everything that was accepted is durable.
fn settle(engine: &Engine) {
    let store = engine.store();
    store.durable(store.accepted()).through_pauses().wait().unwrap();
}

/// D2, D10: in a pause no request leaves and no caller is answered. The engine does not stop: when the
/// backend is back, the effect is sent once, and the caller that asks again under its id finds the
/// execution that it had asked for.
#[test]
fn effects_and_answers_wait_for_the_end_of_a_pause() {
    for pace in [Pace::Ahead, Pace::Lockstep] {
        let (mut house, wire) = (House::new(Options { pace, ..by_hand(KEEP) }), Wire::new());
        house.http = wire.clone();
        house.bounds = AT_ONCE;
        house.reopen();
        house.deploy("behaviours");
        let input = r#"{"method":"POST","url":"http://peer/200","backoff_ms":10}"#;
        let request = || house.request("one", "sends", input);
        house.disk.set_away(true);
        if pace == Pace::Ahead {
            let refused = house.wait(house.engine().start(request()));
            assert!(is_paused(&refused), "{refused:?}");
            house.work();
            assert!(house.engine().readings().trees > 0, "it is still at work");
            assert!(house.engine().readings().store.paused);
            assert!(is_paused(&house.wait(house.engine().start(request()))), "asked again");
            assert_eq!(wire.count(), 0, "nothing leaves before its start is durable");
            house.disk.set_away(false);
        } else {
            // The turn itself waits for the disk, on this thread.
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while house.engine().store().pause().is_none() {
                        std::thread::yield_now();
                    }
                    assert_eq!(wire.count(), 0, "nothing leaves before its start is durable");
                    house.disk.set_away(false);
                });
                let _ = house.wait(house.engine().start(request()));
            });
        }
        settle(house.engine());
        let id = house.wait(house.engine().start(request())).unwrap().execution_id;
        house.work();
        let ending = house.ending(&id);
        assert!(returned(&ending).contains("200"), "{ending:?}");
        assert_eq!(wire.count(), 1);
        assert!(house.told.trouble.lock().unwrap().is_empty());
        assert!(!house.engine().readings().store.paused);
    }
}

fn request(number: usize) -> Start {
    let program = json!([
        { "call": ["c", "main", [{ "return": number }]] }, { "await": "c" }, { "return": number }
    ]);
    Start {
        namespace: Namespace::new("tests").unwrap(),
        operation_id: Some(OperationId::new(&format!("op-{number}")).unwrap()),
        idempotency_key: None,
        component: "script".to_owned(),
        function: "main".to_owned(),
        input: Payload::json(program.to_string()),
        trace_parent: None,
        actor: None,
        labels: Labels::default(),
    }
}

async fn start_all(engine: &Arc<Engine>) -> Vec<Result<StartedExecution, StartRefused>> {
    let mut starts = JoinSet::new();
    for number in 0..40 {
        let engine = Arc::clone(engine);
        starts.spawn(async move { (number, engine.start(request(number)).await) });
    }
    let mut all = starts.join_all().await;
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, started)| started).collect()
}

/// Also where workers wait for room in the store, each caller is told; what was accepted goes on by
/// itself, and each operation has one execution (D2, D10).
#[test]
fn callers_are_told_also_when_workers_wait_for_room() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (disk, told) = (Arc::new(Disk::new()), Arc::new(Told::default()));
    runtime.block_on(async {
        let backend: Arc<dyn Backend> = disk.clone();
        let bounds = Bounds { waiting_batches_max: 1, ..AT_ONCE };
        let store = Store::start(backend, &TABLES, bounds).unwrap();
        let world = World { observer: told.clone(), ..World::system(guests::shared()) };
        let options = Options { workers: 2, ..Options::default() };
        let engine = Arc::new(Engine::open(store, options, world).unwrap());
        engine.deploy("script", &guests::bytes("script"), Attribution::default()).await.unwrap();
        disk.set_away(true);
        let refused = start_all(&engine).await;
        assert!(refused.iter().all(is_paused), "{refused:?}");
        disk.set_away(false);
        let store = engine.store().clone();
        while store.pause().is_some() {
            store.durable(store.accepted()).through_pauses().await.unwrap();
        }
        for (number, started) in start_all(&engine).await.into_iter().enumerate() {
            let ending = engine.outcome(&started.unwrap().execution_id).await.unwrap().unwrap();
            assert_eq!(returned(&ending), number.to_string());
        }
        // The second request met the first one's execution, or was the first to be accepted.
        let again = start_all(&engine).await;
        assert!(again.iter().all(Result::is_ok), "{again:?}");
    });
    assert!(told.trouble.lock().unwrap().is_empty(), "{:?}", told.trouble);
}
