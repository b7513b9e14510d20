//! A volatile function that a client starts.

use std::sync::Arc;

use indelible_idempotency::{ConsumerNamespace, parse_key};
use indelible_journal::{Ending, ErrorKind, Micros, Namespace, OperationId, Payload};
use indelible_records::check;
use indelible_records::labels::Labels;
use indelible_records::{EXECUTIONS, TABLES, windows};
use indelible_runtime::{
    Attribution, CommandRefusal, ControlError, Engine, Options, Start, StartRefused, World,
};
use indelible_store::embedded;
use indelible_test_store::folder::reopen;

use super::{house, is_over, is_sound, rows, said, spec, until_dead, ways, work};
use crate::support::wire::answered;
use crate::support::{House, KEEP, by_hand, failed, guests, returned};

#[track_caller]
fn is_refused(house: &House, request: &Start) {
    let refused = house.wait(house.engine().start(request.clone()));
    assert!(matches!(refused, Err(StartRefused::Indeterminate)), "{refused:?}");
    let refused = house.wait(house.engine().call(request.clone()));
    assert!(matches!(refused, Err(StartRefused::Indeterminate)), "{refused:?}");
}

/// V-31, V-37, V-14, C-39: while it goes on there is a record and nothing else; its outcome, good
/// or bad, is told again to every caller that asks, also after a crash. What remains are two
/// events.
#[test]
fn an_outcome_is_told_again() {
    for options in ways() {
        let (mut house, wire) = house(options);
        let good = house.request("good", "glance", &spec("POST", "open", ""));
        let bad = house.request("bad", "oversteps", "\"call\"");
        let one = house.wait(house.engine().start(good.clone())).unwrap();
        work(&house);
        assert_eq!(rows(&house), [0; 5], "nothing of it is stored");
        assert_eq!(house.wait(house.engine().execution(&one.execution_id)).unwrap(), None);
        is_sound(&house);
        wire.end(answered(200));
        let ending = house.wait(house.engine().outcome(&one.execution_id)).unwrap().unwrap();
        assert_eq!(said(&ending), "200");
        let (two, failure) = house.wait(house.engine().call(bad.clone())).unwrap();
        house.work_through();
        is_over(&house);
        house.crash();
        for (request, id, expected) in [(good, one, ending), (bad, two, failure)] {
            let (again, told) = house.wait(house.engine().call(request)).unwrap();
            assert!(again.attached());
            assert_eq!((&again.execution_id, &told), (&id.execution_id, &expected));
            let names = house.names(&id.execution_id);
            assert_eq!((names.len(), names[0]), (2, "ExecutionStarted"));
            let cancel =
                house.wait(house.engine().cancel(&id.execution_id, Attribution::because("late")));
            assert!(
                matches!(cancel, Err(ControlError::CommandRefusal(CommandRefusal::Over(_)))),
                "{cancel:?}"
            );
        }
        assert_eq!((wire.count(), rows(&house)[0]), (1, 2));
        house.work_through();
        is_over(&house);
    }
}

/// V-30, V-11: a duplicate of a live one attaches, whatever attempt it is at; another request under
/// the id is a conflict. C-31: so it is under a caller's key, however the request is written.
#[test]
fn a_duplicate_of_a_live_one_attaches() {
    for options in ways() {
        let (house, wire) = house(options);
        let input = spec("POST", "open", "");
        let by_id = |input: &str| house.request("a", "glance", input);
        let namespace = ConsumerNamespace::new("tests").unwrap();
        let key = parse_key(&namespace, Some("k")).unwrap();
        let by_key = |input: &str| Start {
            operation_id: None,
            idempotency_key: key.clone(),
            ..by_id(input)
        };
        let start = |request: Start| house.wait(house.engine().start(request));
        for (first, again) in
            [(by_id(&input), by_id(&input)), (by_key(&input), by_key(&format!(" {input} ")))]
        {
            let first = start(first).unwrap();
            work(&house);
            let second = start(again).unwrap();
            assert!(!first.attached() && second.attached());
            assert_eq!(first.execution_id, second.execution_id);
        }
        let other = spec("POST", "200", "");
        assert!(matches!(start(by_id(&other)), Err(StartRefused::Conflict)));
        assert!(matches!(start(by_key(&other)), Err(StartRefused::Mismatch)));
        work(&house);
        assert_eq!(wire.count(), 2, "each was sent once");
        while wire.end(answered(200)) {}
        house.work_through();
        is_over(&house);

        let resting = house.request("resting", "fickle", "3");
        let first = house.wait(house.engine().start(resting.clone())).unwrap();
        work(&house);
        let (second, ending) = house
            .wait(async {
                let call = house.engine().call(resting.clone());
                let mut call = std::pin::pin!(call);
                std::future::poll_fn(|context| {
                    house.work_through();
                    call.as_mut().poll(context)
                })
                .await
            })
            .unwrap();
        assert!(second.attached());
        assert_eq!((first.execution_id, returned(&ending).as_str()), (second.execution_id, "3"));
        is_over(&house);
    }
}

/// V-35, V-25, V-48: lost with its process and not `idem`: a caller that asks again is told
/// Indeterminate, every time; it never runs again.
#[test]
fn a_lost_one_that_is_not_idem_is_refused() {
    for options in ways() {
        let (mut house, wire) = house(options);
        let request = house.request("a", "glance", &spec("POST", "open,200", ""));
        let namespace = ConsumerNamespace::new("tests").unwrap();
        let idempotency_key = parse_key(&namespace, Some("k")).unwrap();
        let keyed = Start { operation_id: None, idempotency_key, ..request.clone() };
        let id = house.wait(house.engine().start(request.clone())).unwrap().execution_id;
        house.wait(house.engine().start(keyed.clone())).unwrap();
        work(&house);
        assert_eq!(wire.open(), 2);
        for _ in 0..2 {
            house.crash();
            wire.cut();
            house.work_through();
            is_refused(&house, &request);
            is_refused(&house, &keyed);
            assert_eq!(house.wait(house.engine().outcome(&id)).unwrap(), None);
            let other = house.request("a", "glance", "1");
            let refused = house.wait(house.engine().start(other));
            assert!(matches!(refused, Err(StartRefused::Conflict)), "{refused:?}");
        }
        house.work_through();
        assert_eq!((wire.count(), rows(&house)), (2, [0; 5]));
        is_over(&house);
    }
}

/// V-34, V-26, V-76: lost with its process and `idem`: a caller that asks again has it run again,
/// under the same id and in the version that it began in, once for all callers.
#[test]
fn a_lost_one_that_is_idem_runs_again() {
    for options in ways() {
        let (mut house, wire) = house(options);
        let request = house.request("a", "glance_idem", &spec("POST", "open,open,200", ""));
        let id = house.wait(house.engine().start(request.clone())).unwrap().execution_id;
        work(&house);
        let old = house.wait(house.engine().components()).unwrap()[0].1;
        let mut other_version = guests::bytes("behaviours");
        other_version.extend([0, 6, 4, b'n', b'o', b't', b'e', 2]);
        house
            .wait(house.engine().deploy("behaviours", &other_version, Attribution::default()))
            .unwrap();
        for sent in [2, 3] {
            house.crash();
            wire.cut();
            house.work_through();
            assert_eq!(wire.count(), sent - 1, "nobody has asked");
            for _ in 0..2 {
                let again = house.wait(house.engine().start(request.clone())).unwrap();
                assert!(again.attached() && again.execution_id == id);
            }
            work(&house);
            assert_eq!(wire.count(), sent);
        }
        house.work_through();
        assert_eq!(said(&house.ending(&id)), "200");
        assert_eq!(house.row(&id).component, old);
        let (again, ending) = house.wait(house.engine().call(request)).unwrap();
        assert!(again.attached());
        assert_eq!((said(&ending).as_str(), wire.count()), ("200", 3), "sealed is sealed");
        let keys: Vec<_> = wire.sent().into_iter().map(|sent| sent.idempotency_key).collect();
        assert!(keys.iter().all(|key| *key == keys[0]));
        is_over(&house);
    }
}

/// V-13, V-18, V-32, V-33: an engine that stops gives up what is volatile, and keeps nothing of it
/// but the record: asked again, what is `idem` runs afresh, and the rest fails closed.
#[test]
fn an_engine_that_stops_releases_it() {
    for options in ways() {
        let (mut house, wire) = house(options);
        let naps = house.request("naps", "naps", "3");
        let glance = house.request("glance", "glance_idem", &spec("POST", "open,200", ""));
        let caller = house.request("caller", "calls_volatile", "[\"naps\",3]");
        for request in [&naps, &glance, &caller] {
            house.wait(house.engine().start(request.clone())).unwrap();
        }
        work(&house);
        house.reopen();
        wire.cut();
        house.work_through();
        assert_eq!((rows(&house)[0], wire.count()), (1, 1), "the persist caller alone goes on");
        is_refused(&house, &naps);
        let (again, ending) = house.wait(house.engine().call(glance)).unwrap();
        assert!(again.attached());
        assert_eq!((said(&ending).as_str(), wire.count()), ("200", 2));
        let (_, ending) = house.wait(house.engine().call(caller)).unwrap();
        assert_eq!(said(&ending), "Indeterminate", "it was told that nobody knows");
        house.work_through();
        is_over(&house);
    }
}

/// V-29, V-35, V-36, C-39: a crash after any commit. Nothing durable: it was never admitted, and is
/// new. A record: `idem` runs again, the rest is refused. An outcome: that is it, for ever.
#[test]
fn a_crash_at_any_commit() {
    for options in ways() {
        for (function, idem) in [("glance", false), ("glance_idem", true)] {
            let mut seen = [0; 3];
            for crash_at in 0.. {
                let (mut house, wire) = house(options.clone());
                let request = house.request("a", function, &spec("POST", "200", ""));
                house.disk.dies_after(crash_at);
                until_dead(&house, house.engine().start(request.clone()));
                let died = house.disk.is_dead();
                let sent = wire.count();
                house.crash();
                house.told.trouble.lock().unwrap().clear();
                match house.wait(house.engine().call(request.clone())) {
                    Ok((started, ending)) => {
                        assert_eq!(said(&ending), "200");
                        let again = wire.count() - sent;
                        assert!(idem || sent + again == 1, "{crash_at}: {sent} and {again}");
                        seen[usize::from(started.attached())] += 1;
                    }
                    Err(StartRefused::Indeterminate) => {
                        assert!(!idem && wire.count() <= 1, "{crash_at}");
                        seen[2] += 1;
                    }
                    Err(error) => panic!("{crash_at}: {error}"),
                }
                house.work_through();
                is_over(&house);
                if !died {
                    break;
                }
            }
            assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
            assert_eq!(seen[2] > 0, !idem, "{seen:?}");
        }
    }
}

/// C-32, C-28: a root that fails as if it might pass is tried again, in memory; what remains is its
/// last attempt.
#[test]
fn a_root_is_tried_again() {
    for options in ways() {
        let (mut house, wire) = house(options);
        let id = house.start("a", "fickle", "3");
        work(&house);
        assert_eq!(rows(&house), [0; 5], "its next attempt rests in memory");
        house.work_through();
        assert_eq!(returned(&house.ending(&id)), "3");
        assert_eq!(house.row(&id).key.attempts().own().get(), 3);
        let (_, ending) = house.run("fickle", "9");
        assert_eq!(failed(&ending).kind, ErrorKind::Transient);
        let once = spec("POST", "200", "");
        let (_, ending) = house.run("breaks_after", &once);
        assert_eq!((failed(&ending).kind, wire.count()), (ErrorKind::Trap, 1));
        let (_, ending) = house.run("breaks_after_idem", &once);
        assert_eq!((said(&ending).as_str(), wire.count()), ("200", 3));
        is_over(&house);
        // Lost between two attempts.
        let request = house.request("b", "fickle", "2");
        house.wait(house.engine().start(request.clone())).unwrap();
        work(&house);
        house.crash();
        house.work_through();
        is_refused(&house, &request);
        is_over(&house);
    }
}

/// V-40, V-44, V-38: a cancel ends it, and a caller that asks again is told so; a cancel that comes
/// after its end changes nothing. An execution that rests between attempts does not begin the next.
#[test]
fn a_cancel_and_an_end_race() {
    for options in ways() {
        let (mut house, wire) = house(options);
        let asleep = house.request("asleep", "naps", "9");
        let resting = house.request("resting", "fickle", "2");
        let sent = house.request("sent", "glance", &spec("POST", "open", ""));
        let mut ids = Vec::new();
        for request in [&asleep, &resting, &sent] {
            let started = house.wait(house.engine().start(request.clone())).unwrap();
            work(&house);
            ids.push(started.execution_id);
        }
        for id in &ids {
            house.cancel(id);
        }
        work(&house);
        wire.end(answered(200));
        house.work_through();
        is_over(&house);
        house.crash();
        for (request, id) in [asleep, resting, sent].into_iter().zip(&ids) {
            let (again, ending) = house.wait(house.engine().call(request)).unwrap();
            assert!(again.attached());
            assert!(
                matches!(&ending, Ending::Cancelled(why) if why.contains("enough")),
                "{ending:?}"
            );
            let names = house.names(id);
            assert_eq!(names, ["ExecutionStarted", "CancelRequested", "ExecutionCancelled"]);
        }
        assert_eq!(wire.count(), 1);
        house.work_through();
        is_over(&house);
    }
}

/// V-42: a caller that waits may go. If another started it without waiting, it goes on, and its
/// outcome is there for a later caller.
#[test]
fn whoever_waits_may_go() {
    let (house, _) = house(by_hand(KEEP));
    let request = house.request("a", "naps", "3");
    house.wait(house.engine().start(request.clone())).unwrap();
    {
        let call = house.engine().call(request.clone());
        let mut call = std::pin::pin!(call);
        let waker = std::task::Waker::noop();
        for _ in 0..9 {
            let poll = call.as_mut().poll(&mut std::task::Context::from_waker(waker));
            assert!(poll.is_pending());
            work(&house);
        }
    }
    house.work_through();
    let (again, ending) = house.wait(house.engine().call(request)).unwrap();
    assert!(again.attached());
    assert_eq!(returned(&ending), "6");
    is_over(&house);
}

/// C-3: its record and what remains of it go when their time is over, like those of others.
#[test]
fn what_remains_goes_in_time() {
    let (house, _) = house(by_hand(KEEP));
    let request = house.request("a", "naps", "1");
    let first = house.wait(house.engine().start(request.clone())).unwrap();
    house.work_through();
    house.move_clock(Micros::from_secs(8 * 24 * 3600));
    let now = indelible_runtime::world::Clock::now(&*house.clock);
    let store = house.engine().store();
    let purged = house.wait(windows::purge(store, now, 10)).unwrap();
    assert_eq!(purged.records, 1);
    let all = Some(Micros::from_secs(3600));
    let retention =
        indelible_records::retention::Retention { completed: all, ..Default::default() };
    let swept =
        house.wait(indelible_records::retention::sweep(store, now, &retention, 100)).unwrap();
    assert_eq!((swept.trees, rows(&house)), (1, [0; 5]));
    assert_eq!(house.wait(house.engine().outcome(&first.execution_id)).unwrap(), None);
    is_over(&house);
}

/// C-39: with threads, over a store on disk and in real time: sleeps and attempts that wait in memory
/// end, and nothing of them is stored before.
#[test]
fn with_threads_and_in_real_time() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let open = || {
        let store =
            reopen(|| embedded::open(folder.path(), &TABLES, &embedded::Options::default()))
                .unwrap();
        let options = Options { workers: 2, ..Options::default() };
        Engine::open(store, options, World::system(guests::shared())).unwrap()
    };
    runtime.block_on(async {
        let engine = Arc::new(open());
        engine
            .deploy("behaviours", &guests::bytes("behaviours"), Attribution::default())
            .await
            .unwrap();
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..40 {
            let engine = engine.clone();
            let (function, input) = match number % 4 {
                0 => ("naps", "3"),
                1 => ("fickle", "3"),
                2 => ("calls_volatile", "[\"naps\",3]"),
                _ => ("calls_volatile", "[\"fickle\",3]"),
            };
            calls.spawn(async move {
                let request = request(&format!("op-{number}"), function, input);
                let (_, ending) = engine.call(request).await.unwrap();
                let number: u64 = returned(&ending).parse().unwrap();
                assert!(number >= 3, "{number}");
            });
        }
        calls.join_all().await;
        assert_eq!(engine.next_due(), None);
    });
    let engine = open();
    let findings = check::check(engine.store(), &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    let executions = findings.tables.iter().find(|table| table.table == EXECUTIONS.name());
    assert_eq!(executions.map(|table| table.rows), Some(40));
}

pub(super) fn request(id: &str, function: &str, input: &str) -> Start {
    Start {
        namespace: Namespace::new("tests").unwrap(),
        operation_id: Some(OperationId::new(id).unwrap()),
        idempotency_key: None,
        component: "behaviours".to_owned(),
        function: function.to_owned(),
        input: Payload::json(input.to_owned()),
        trace_parent: None,
        actor: None,
        labels: Labels::default(),
    }
}
