//! A volatile function that another calls.

use indelible_http::End;
use indelible_journal::{ErrorKind, JournalKey, Micros, SignalName};
use indelible_records::executions;
use indelible_runtime::{Attribution, CommandRefusal, ControlError, Options, Pace};

use super::{
    call_events, house, is_over, is_sound, rows, said, shown, spec, until_dead, ways, work,
};
use crate::support::wire::{answer, answered, timed_out};
use crate::support::{KEEP, by_hand, failed, returned};

fn calls(function: &str, input: &str) -> String {
    format!(r#"["{function}",{input}]"#)
}

/// C-39, C-32: while a volatile call runs, sleeps and waits for its answer, the store has its
/// caller and nothing of its own; when it is over, its caller has its outcome. Parked and dropped
/// come to the same.
#[test]
fn nothing_of_a_volatile_call_is_stored() {
    let mut results = Vec::new();
    for options in ways() {
        let (house, wire) = house(options);
        let input = calls("everything", &spec("POST", "open", ""));
        let id = house.start("a", "calls_volatile", &input);
        work(&house);
        let [executions, _, queued, timers, _] = rows(&house);
        assert_eq!((executions, queued, timers), (1, 1, 0), "its caller is queued, it sleeps");
        assert!(house.engine().next_due().is_some(), "in memory");
        assert_eq!(wire.count(), 0);
        is_sound(&house);
        house.pass(Micros::from_millis(5));
        work(&house);
        assert_eq!((wire.open(), &rows(&house)[2..]), (1, &[1, 0, 0][..]));
        is_sound(&house);
        wire.end(answered(200));
        house.work_through();
        let ending = house.ending(&id);
        let json: serde_json::Value = serde_json::from_str(&returned(&ending)).unwrap();
        assert_eq!((json[0].as_u64(), shown(&json[2])), (Some(5), "200".to_owned()), "{json}");
        results.push(ending);
        assert_eq!(rows(&house)[0], 1, "its caller alone");
        assert_eq!(call_events(&house, &id), ["scheduled", "started 1", "ok"]);
        assert_eq!(*house.told.lines.lock().unwrap(), ["slept"], "what is replayed is not logged");
        is_over(&house);
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
}

/// C-39: it may not call, use join sets or wait for signals, which traps with what is wrong; and no
/// client can send it a signal.
#[test]
fn what_a_volatile_function_may_not_do() {
    for options in ways() {
        let (house, _) = house(options);
        for (what, why) in [
            ("call", "call functions"),
            ("set", "use join sets"),
            ("signal", "wait for signals"),
            ("race", "wait for signals"),
        ] {
            let (_, ending) =
                house.run("calls_volatile", &calls("oversteps", &format!("{what:?}")));
            assert_eq!(said(&ending), "Trap", "{what}");
            let (_, ending) = house.run("oversteps", &format!("{what:?}"));
            let failure = failed(&ending);
            assert_eq!(failure.kind, ErrorKind::Trap);
            let expected = format!("a volatile function may not {why}");
            assert!(failure.message.contains(&expected), "{failure}");
        }
        let id = house.start("sleeper", "naps", "3");
        let go = SignalName::new("go").unwrap();
        let payload = indelible_journal::Payload::json("1");
        let sent = house.wait(house.engine().signal(&id, &go, payload, Attribution::default()));
        assert!(
            matches!(sent, Err(ControlError::CommandRefusal(CommandRefusal::Volatile))),
            "{sent:?}"
        );
        house.work_through();
        assert_eq!(returned(&house.ending(&id)), "6");
        is_over(&house);
    }
}

/// C-39, D2: what it sends waits until its caller's InvokeStarted is durable; for a root, its
/// operation's record.
#[test]
fn nothing_leaves_before_its_caller_is_durable() {
    let post = spec("POST", "200", "");
    for (function, input) in [("calls_volatile", calls("glance", &post)), ("glance", post)] {
        let (house, wire) = house(by_hand(KEEP));
        house.disk.hold();
        let start = house.engine().start(house.request("a", function, &input));
        let mut start = std::pin::pin!(start);
        let waker = std::task::Waker::noop();
        for _ in 0..50 {
            let poll = start.as_mut().poll(&mut std::task::Context::from_waker(waker));
            assert!(poll.is_pending(), "the disk has not taken it");
            house.engine().step();
        }
        assert_eq!((wire.count(), house.engine().readings().effects_leaving), (0, 1), "{function}");
        house.disk.release();
        let id = house.wait(start).unwrap().execution_id;
        house.work_through();
        assert_eq!((wire.count(), said(&house.ending(&id)).as_str()), (1, "200"));
        is_over(&house);
    }
}

/// C-41, V-48, V-24: a crash while it is in flight is unknown to its caller. `idem`: another
/// attempt, because the engine was lost. Not `idem`: Indeterminate, and nothing is done twice.
#[test]
fn a_crash_in_flight_is_unknown() {
    for options in ways() {
        let (mut house, wire) = house(options);
        let open = spec("POST", "open,200", "");
        let idem = house.start("idem", "calls_volatile", &calls("glance_idem", &open));
        let not_idem = house.start("not", "calls_volatile", &calls("glance", &open));
        let left = house.start("left", "calls_and_leaves", &calls("glance", &open));
        let asleep = house.start("asleep", "calls_volatile", &calls("naps", "9"));
        work(&house);
        assert_eq!(wire.open(), 3);
        house.crash();
        wire.cut();
        house.work_through();
        assert_eq!(said(&house.ending(&idem)), "200");
        assert_eq!(said(&house.ending(&not_idem)), "Indeterminate");
        assert_eq!(said(&house.ending(&left)), "left");
        assert_eq!(said(&house.ending(&asleep)), "Indeterminate");
        assert_eq!(wire.count(), 4, "of three, only the one that is idem was sent again");
        let expected = ["scheduled", "started 1", "again EngineLost Transient", "started 2", "ok"];
        assert_eq!(call_events(&house, &idem), expected);
        for id in [not_idem, left, asleep] {
            assert_eq!(call_events(&house, &id), ["scheduled", "started 1", "Indeterminate"]);
        }
        let keys: Vec<_> = wire.sent().into_iter().map(|sent| sent.idempotency_key).collect();
        assert_eq!(keys.iter().filter(|key| **key == keys[3]).count(), 2, "one key for an effect");
        is_over(&house);
    }
}

/// C-41, C-29: a crash after any commit, however often: an `idem` call comes to its end; any other
/// sends each request once at most, and where the outcome is unknown, its caller is told.
#[test]
fn a_crash_at_any_commit() {
    let input = |function| {
        let one = spec("POST", "200", "");
        format!(r#"["{function}",{one},{one}]"#)
    };
    for options in ways() {
        let mut unknown = 0;
        for (function, idem) in [("glance", false), ("glance_idem", true)] {
            for crash_at in 0.. {
                let (mut house, wire) = house(options.clone());
                house.disk.dies_after(crash_at);
                let request = house.request("a", "calls_two", &input(function));
                until_dead(&house, house.engine().start(request.clone()));
                let died = house.disk.is_dead();
                house.crash();
                house.told.trouble.lock().unwrap().clear();
                wire.cut();
                let id = house.engine_start(request);
                house.work_through();
                let json = returned(&house.ending(&id));
                let all: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
                let all: Vec<_> = all.iter().map(shown).collect();
                let answered = all.iter().filter(|one| *one == "200").count();
                let lost = all.iter().filter(|one| *one == "Indeterminate").count();
                assert_eq!(answered + lost, 4, "{crash_at}: {all:?}");
                if idem {
                    assert_eq!(lost, 0, "{crash_at}: {all:?}");
                } else {
                    let sent = wire.count();
                    let possible = answered..=answered + lost;
                    assert!(possible.contains(&sent), "{crash_at}: {sent} {all:?}");
                    unknown += lost;
                }
                is_over(&house);
                if !died {
                    assert!(crash_at > 3, "it never died");
                    break;
                }
            }
        }
        assert!(unknown > 0, "no crash was in flight");
    }
}

/// C-32, C-28: an attempt that traps or fails as if it might pass is followed by another if it is
/// `idem` or had sent nothing, as for persist functions; all attempts share the effect's key.
#[test]
fn attempts_that_fail_are_tried_again() {
    for options in ways() {
        let (house, wire) = house(options);
        let (id, ending) = house.run("calls_volatile", &calls("fickle", "3"));
        assert_eq!(said(&ending), "3");
        let expected = ["scheduled", "started 1", "again Failed Transient", "started 2"];
        assert_eq!(call_events(&house, &id)[..4], expected);
        let (_, ending) = house.run("calls_volatile", &calls("fickle", "9"));
        assert_eq!(said(&ending), "Transient", "its attempts are used up");
        let once = spec("POST", "200", "");
        let (_, ending) = house.run("calls_volatile", &calls("breaks_after", &once));
        assert_eq!((said(&ending).as_str(), wire.count()), ("Trap", 1), "it had sent something");
        let (_, ending) = house.run("calls_volatile", &calls("breaks_after_idem", &once));
        assert_eq!((said(&ending).as_str(), wire.count()), ("200", 3));
        let keys: Vec<_> = wire.sent().into_iter().map(|sent| sent.idempotency_key).collect();
        assert_eq!(keys[1], keys[2]);
        assert_eq!(rows(&house)[0], 4, "callers alone");
        is_over(&house);
    }
}

/// C-85: a volatile call that is lost with one process after another is not begun for ever: each of
/// its attempts is new, and one may be what kills them.
#[test]
fn a_call_that_is_always_lost_ends() {
    let (mut house, wire) = house(by_hand(KEEP));
    let open = spec("POST", "open", "");
    let id = house.start("a", "calls_volatile", &calls("glance_idem", &open));
    for _ in 0..10 {
        house.pass(Micros::from_secs(2));
        work(&house);
        assert_eq!(wire.open(), 1);
        house.crash();
        wire.cut();
        house.work();
    }
    house.work_through();
    assert_eq!((said(&house.ending(&id)).as_str(), wire.count()), ("Transient", 10));
    is_over(&house);
}

/// C-41: a call whose next attempt is due is not unknown: a crash before that changes nothing.
#[test]
fn a_crash_between_attempts_is_not_unknown() {
    for options in ways() {
        let (mut house, _) = house(options);
        let id = house.start("a", "calls_volatile", &calls("fickle", "2"));
        work(&house);
        assert_eq!(rows(&house)[3], 1, "the time of the next attempt is the caller's, and stored");
        house.crash();
        house.work_through();
        assert_eq!(said(&house.ending(&id)), "2");
        let expected = ["scheduled", "started 1", "again Failed Transient", "started 2", "ok"];
        assert_eq!(call_events(&house, &id), expected);
        is_over(&house);
    }
}

/// D5, C-29: what is unknown within the living process follows the effect's class. Nothing is held
/// for a person, who would not find it; a reconciler is asked.
#[test]
fn an_unknown_effect_of_a_volatile_function() {
    for options in ways() {
        let (house, wire) = house(options);
        let hold = spec("POST", "unknown,200", r#""hold":true"#);
        let (_, ending) = house.run("calls_volatile", &calls("glance", &hold));
        assert_eq!((said(&ending).as_str(), wire.count()), ("Indeterminate", 1));
        assert_eq!(house.told.unresolved.lock().unwrap().len(), 1, "told, and not held");
        let again = spec("PUT", "unknown,200", "");
        let (_, ending) = house.run("calls_volatile", &calls("glance", &again));
        assert_eq!((said(&ending).as_str(), wire.count()), ("200", 3));
        let late =
            house.start("late", "calls_volatile", &calls("glance", &spec("POST", "open", "")));
        work(&house);
        let mut report = wire.end_and_keep(timed_out());
        house.work_through();
        assert_eq!(said(&house.ending(&late)), "Indeterminate");
        report(answered(200));
        work(&house);
        is_over(&house);
        let asked = spec("POST", "unknown", r#""settle_ms":60000"#);
        let id = house.start("asked", "calls_volatile", &calls("glance", &asked));
        work(&house);
        work(&house);
        assert_eq!((wire.open(), rows(&house)[4]), (1, 0), "the reconciler asks the peer");
        is_sound(&house);
        let body = "{\"processed\":1}".into();
        wire.end(End::Answered(indelible_http::Response { body, ..answer(200) }));
        house.work_through();
        assert_eq!(said(&house.ending(&id)), "200");
        is_over(&house);
    }
}

/// C-22, C-40: a cancel reaches a volatile call, and a caller that ends waits for it: its request is
/// not called back.
#[test]
fn a_cancel_reaches_a_volatile_call() {
    for options in ways() {
        let (house, wire) = house(options);
        let asleep = house.start("asleep", "calls_volatile", &calls("naps", "9"));
        let sent =
            house.start("sent", "calls_volatile", &calls("glance", &spec("POST", "open", "")));
        let left = house.start("left", "calls_and_leaves", &calls("naps", "99"));
        let resting = house.start("resting", "calls_volatile", &calls("fickle", "2"));
        work(&house);
        for id in [&asleep, &sent, &resting] {
            house.cancel(id);
        }
        work(&house);
        for id in [&asleep, &resting] {
            assert_eq!(call_events(&house, id).last().unwrap(), "Cancelled");
        }
        assert_eq!(wire.open(), 1, "what was sent is awaited");
        wire.end(answered(200));
        house.work_through();
        for id in [&asleep, &sent, &resting] {
            assert!(matches!(house.ending(id), indelible_journal::Ending::Cancelled(_)));
        }
        assert_eq!(said(&house.ending(&left)), "left");
        assert_eq!(call_events(&house, &left), ["scheduled", "started 1", "Cancelled"]);
        is_over(&house);
    }
}

/// D4, C-39: a volatile guest that waits may be dropped: it runs again over its journal in memory,
/// and nothing is made or sent twice.
#[test]
fn an_evicted_guest_goes_on() {
    for pace in [Pace::Ahead, Pace::Lockstep] {
        let (house, wire) = house(Options { pace, ..by_hand(KEEP) });
        let input = calls("everything", &spec("POST", "open", ""));
        let id = house.start("a", "calls_volatile", &input);
        work(&house);
        let root = house.start("b", "everything", &spec("POST", "open", ""));
        work(&house);
        assert_eq!(house.engine().evict(9), 3);
        work(&house);
        assert_eq!(house.engine().readings().parked, 0);
        house.pass(Micros::from_millis(5));
        work(&house);
        assert_eq!(wire.open(), 2);
        assert_eq!(house.engine().evict(9), 2, "the caller waits in the store");
        house.engine().nudge(&root);
        work(&house);
        while wire.end(answered(200)) {}
        house.work_through();
        for id in [&id, &root] {
            let json: serde_json::Value =
                serde_json::from_str(&returned(&house.ending(id))).unwrap();
            assert_eq!((json[0].as_u64(), shown(&json[2])), (Some(5), "200".to_owned()), "{json}");
        }
        assert_eq!((wire.count(), house.told.lines.lock().unwrap().len()), (2, 2));
        is_over(&house);
    }
}

/// C-39: a volatile call of another component runs there, and has no row either.
#[test]
fn a_volatile_call_of_another_component() {
    let (house, wire) = house(by_hand(KEEP));
    let input = calls("behaviours/glance", &spec("POST", "200", ""));
    let (id, ending) = house.run("calls_volatile", &input);
    assert_eq!((said(&ending).as_str(), wire.count()), ("200", 1));
    let child = indelible_journal::ExecutionId::new(id.child(0)).unwrap();
    let found = executions::latest(house.engine().store(), &child).unwrap().value;
    assert_eq!(found, None);
    assert_eq!(house.wait(house.engine().outcome(&child)).unwrap(), None);
    assert_eq!(house.row(&id).key, JournalKey::first(id));
    is_over(&house);
}
