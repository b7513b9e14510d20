//! A volatile function whose callers have gone (V-13, V-18).

use std::sync::Arc;
use std::task::{Context, Waker};

use indelible_journal::Micros;
use indelible_records::TABLES;
use indelible_records::check;
use indelible_runtime::{
    Attribution, ControlError, Engine, Options, Start, StartRefused, Verdict, World,
};
use indelible_store::embedded;

use super::roots::request;
use super::{house, is_over, is_sound, rows, said, spec, ways, work};
use crate::support::wire::answered;
use crate::support::{House, guests, returned};

/// Its trees in memory and its requests in flight.
fn left(house: &House) -> (usize, usize) {
    let readings = house.engine().readings();
    (readings.trees, readings.parked)
}

#[track_caller]
fn is_indeterminate<T: std::fmt::Debug>(refused: &Result<T, StartRefused>) {
    assert!(matches!(refused, Err(StartRefused::Indeterminate)), "{refused:?}");
}

/// V-13, V-18, V-33, V-42: the last caller leaves an execution that is not `idem`: it goes no
/// further, and a caller that asks again is told Indeterminate, every time, also after a crash.
#[test]
fn one_that_is_not_idem() {
    for options in ways() {
        let (mut house, wire) = house(options);
        let request = house.request("a", "everything", &spec("POST", "open", ""));
        let submitted = house.wait(house.engine().submit(request.clone())).unwrap();
        assert_eq!(submitted.started().verdict, Verdict::Fresh);
        let id = submitted.started().execution_id.clone();
        house.wait(submitted.durable()).unwrap();
        work(&house);
        drop(submitted);
        work(&house);
        assert_eq!((left(&house), rows(&house)), ((0, 0), [0; 5]), "nothing stays in memory");
        assert_eq!(house.engine().next_due(), None, "no timer of it");
        is_indeterminate(&house.wait(house.engine().submit(request.clone())));
        is_indeterminate(&house.wait(house.engine().call(request.clone())));
        assert_eq!(house.wait(house.engine().outcome(&id)).unwrap(), None);
        let cancel = house.wait(house.engine().cancel(&id, Attribution::because("late")));
        assert!(matches!(cancel, Err(ControlError::CommandRefusal(_))), "{cancel:?}");
        // What it had in flight says nothing to anybody.
        while wire.end(answered(200)) {}
        house.work_through();
        is_over(&house);
        house.crash();
        is_indeterminate(&house.wait(house.engine().start(request)));
        house.work_through();
        is_over(&house);
    }
}

/// V-26, V-32: one that is `idem` runs again under the same id for a caller that asks again, and an
/// answer to a request of the first run is not taken for one of this run.
#[test]
fn one_that_is_idem() {
    for options in ways() {
        let (house, wire) = house(options);
        let request = house.request("a", "glance_idem", &spec("POST", "open", ""));
        let mut call = Box::pin(house.engine().call(request.clone()));
        let waker = Waker::noop();
        assert!(call.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        work(&house);
        drop(call);
        work(&house);
        assert_eq!((left(&house), wire.open()), ((0, 0), 1));
        let mut again = house.wait(house.engine().submit(request.clone())).unwrap();
        assert_eq!(again.started().verdict, Verdict::InFlight);
        work(&house);
        assert_eq!(wire.open(), 2, "it was sent again");
        assert!(wire.end(answered(418)), "the first run's");
        work(&house);
        {
            let mut outcome = std::pin::pin!(again.outcome());
            assert!(outcome.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        assert!(wire.end(answered(200)));
        assert_eq!(said(&house.wait(again.outcome()).unwrap()), "200");
        let (prior, ending) = house.wait(house.engine().call(request)).unwrap();
        assert_eq!((prior.verdict, said(&ending).as_str()), (Verdict::Prior, "200"));
        drop(again);
        house.work_through();
        is_over(&house);
    }
}

/// V-18: it goes on as long as a caller is interested: one that holds its start, or one that waits
/// for its outcome. When the last has gone, it is released.
#[test]
fn two_who_wait() {
    for options in ways() {
        let (house, wire) = house(options);
        let request = house.request("a", "glance", &spec("POST", "open", ""));
        let one = house.wait(house.engine().submit(request.clone())).unwrap();
        let two = house.wait(house.engine().submit(request.clone())).unwrap();
        let verdicts = [one.started().verdict, two.started().verdict];
        assert_eq!(verdicts, [Verdict::Fresh, Verdict::InFlight]);
        work(&house);
        let id = one.started().execution_id.clone();
        drop(one);
        work(&house);
        assert_eq!(left(&house).0, 1, "somebody has it");
        let mut outcome = Box::pin(house.engine().outcome(&id));
        let waker = Waker::noop();
        for _ in 0..3 {
            assert!(outcome.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            work(&house);
        }
        drop(two);
        work(&house);
        assert_eq!(left(&house).0, 1, "somebody waits for it");
        let again = house.wait(house.engine().submit(request.clone())).unwrap();
        assert_eq!(again.started().verdict, Verdict::InFlight);
        drop(again);
        drop(outcome);
        work(&house);
        assert_eq!(left(&house).0, 0, "nobody does");
        is_indeterminate(&house.wait(house.engine().submit(request)));
        assert_eq!(wire.count(), 1);
        wire.cut();
        house.work_through();
        is_over(&house);
    }
}

/// V-18: a start that does not wait is not released, whichever other callers come and go.
#[test]
fn one_that_nobody_waits_for() {
    for options in ways() {
        let (house, wire) = house(options);
        let started = house.request("started", "glance", &spec("POST", "open", ""));
        let detached = house.request("detached", "glance", &spec("POST", "open", ""));
        house.wait(house.engine().start(started.clone())).unwrap();
        let first = house.wait(house.engine().submit(detached.clone())).unwrap();
        let other = house.wait(house.engine().submit(detached.clone())).unwrap();
        // The last to go goes before it was heard that the first is not to count.
        first.detach();
        drop(other);
        drop(house.wait(house.engine().submit(started.clone())).unwrap());
        work(&house);
        assert_eq!((left(&house).0, wire.open()), (2, 2));
        while wire.end(answered(200)) {}
        for request in [started, detached] {
            let (_, ending) = house.wait(house.engine().call(request)).unwrap();
            assert_eq!(said(&ending), "200");
        }
        house.work_through();
        is_over(&house);
    }
}

/// V-18, D2: a caller who goes at any point of asking: what was never admitted is new, and what was
/// is released.
#[test]
fn a_caller_who_goes_at_any_point() {
    for options in ways() {
        for steps in 0..8 {
            let (house, wire) = house(options.clone());
            let request = house.request("a", "glance_idem", &spec("POST", "open,200", ""));
            let mut call = Box::pin(house.engine().call(request.clone()));
            for _ in 0..steps {
                assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                house.engine().step();
            }
            drop(call);
            work(&house);
            assert_eq!(left(&house), (0, 0), "after {steps} steps");
            let count = wire.count();
            wire.cut();
            work(&house);
            let mut again = house.wait(house.engine().submit(request)).unwrap();
            work(&house);
            if count == 0 {
                // What had not left did not leave.
                assert_eq!(wire.count(), 1);
                assert!(wire.end(answered(200)));
            }
            assert_eq!(said(&house.wait(again.outcome()).unwrap()), "200");
            house.work_through();
            is_over(&house);
        }
    }
}

/// V-26, V-32: one that rests between two attempts is released, too, and goes on at the attempt that
/// it was at; the time of the first means nothing to it.
#[test]
fn one_that_rests() {
    for options in ways() {
        let (house, wire) = house(options);
        let request = house.request("a", "breaks_after_idem", &spec("POST", "200", ""));
        let one = house.wait(house.engine().submit(request.clone())).unwrap();
        work(&house);
        assert!(house.engine().next_due().is_some(), "it rests");
        drop(one);
        work(&house);
        assert_eq!((left(&house), house.engine().next_due()), ((0, 0), None));
        house.pass(Micros::from_secs(60));
        assert_eq!(wire.count(), 1, "nobody has asked");
        let (again, ending) = house.wait(house.engine().call(request)).unwrap();
        assert_eq!((again.verdict, said(&ending).as_str()), (Verdict::InFlight, "200"));
        assert_eq!(house.row(&again.execution_id).key.attempts().own().get(), 2);
        house.work_through();
        is_over(&house);
    }
}

/// V-13, V-26: with threads: callers lose patience at any time, and come again. A caller of an
/// `idem` function that stays gets the outcome.
#[test]
fn with_threads() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let store = embedded::open(folder.path(), &TABLES, &embedded::Options::default()).unwrap();
    let options = Options { workers: 2, ..Options::default() };
    let engine = Engine::open(store, options, World::system(guests::shared())).unwrap();
    let engine = Arc::new(engine);
    runtime.block_on(async {
        let bytes = guests::bytes("behaviours");
        engine.deploy("behaviours", &bytes, Attribution::default()).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..64 {
            let engine = Arc::clone(&engine);
            let start: Start = request(&format!("op-{}", number / 4), "glance_idem", &nowhere());
            tasks.spawn(async move {
                for patience in 0..(number % 4) * 3 {
                    let mut call = Box::pin(engine.call(start.clone()));
                    for _ in 0..patience {
                        tokio::select! {
                            biased;
                            ended = &mut call => { ended.unwrap(); break }
                            () = tokio::task::yield_now() => {}
                        }
                    }
                }
                let (_, ending) = engine.call(start).await.unwrap();
                said(&ending)
            });
        }
        let said = tasks.join_all().await;
        assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    });
    let findings = check::check(engine.store(), &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
}

/// A request that is refused at once: no HTTP is sent here.
fn nowhere() -> String {
    spec("POST", "200", "\"retries\":0")
}

/// V-19, C-24: nothing of this is so for a persist function that calls a volatile one.
#[test]
fn a_volatile_call_is_its_callers() {
    for options in ways() {
        let (house, _) = house(options);
        let request = house.request("a", "calls_volatile", "[\"naps\",3]");
        let submitted = house.wait(house.engine().submit(request.clone())).unwrap();
        let id = submitted.started().execution_id.clone();
        house.work();
        {
            // A caller waits for the call itself, and goes.
            let child = id.child(0);
            let child = indelible_journal::ExecutionId::new(child).unwrap();
            let mut outcome = Box::pin(house.engine().outcome(&child));
            for _ in 0..3 {
                let poll = outcome.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(poll.is_pending());
                house.work();
                house.settle();
            }
        }
        drop(submitted);
        is_sound(&house);
        house.work_through();
        let (again, ending) = house.wait(house.engine().call(request)).unwrap();
        assert_eq!(again.verdict, Verdict::Prior);
        assert!(returned(&ending).parse::<u64>().unwrap() >= 3);
        is_over(&house);
    }
}
