//! Guests that run: what they ask, what they get, and how they end.

use indelible_journal::{Codec, ErrorKind, Failure, Outcome, Payload};
use indelible_runtime::guest::{GuestOptions, Refusal, Settled, StartError, Stop, WaitResult};

use crate::guest_kit::{
    Script, Source, deploy, finish, guests, options, run, run_with, start, try_start,
};

fn returned(stop: Stop) -> Payload {
    match stop {
        Stop::Returned(Ok(payload)) => payload,
        other => panic!("it returned no value: {other:?}"),
    }
}

fn failed(stop: Stop) -> Failure {
    match stop {
        Stop::Returned(Err(failure)) => failure,
        other => panic!("it returned no error: {other:?}"),
    }
}

#[test]
fn what_a_function_returns_is_what_it_wrote() {
    for bytes in [0, 1, 100_000, 4 << 20] {
        let input = Payload::new(Codec::CBOR, vec![0x5A; bytes]);
        let stop = run_with(options(), &Source::echo(), input.clone(), &Script::new());
        assert_eq!(returned(stop), input);
    }
}

#[test]
fn a_value_that_is_too_large_is_an_error_of_the_function() {
    let input = Payload::json(vec![0x5A; (4 << 20) + 1]);
    let failure = failed(run_with(options(), &Source::echo(), input, &Script::new()));
    assert_eq!(failure.kind, ErrorKind::UserError);
    assert!(failure.message.contains("4194305 bytes; at most 4194304"), "{failure}");
}

/// D8: what only the engine can know, a guest cannot claim.
#[test]
fn a_guest_cannot_claim_that_it_trapped_or_diverged() {
    let kinds = [
        (0, ErrorKind::UserError),
        (1, ErrorKind::Transient),
        (2, ErrorKind::UserError),
        (4, ErrorKind::Cancelled),
        (5, ErrorKind::UserError),
        (8, ErrorKind::Uncategorized),
    ];
    for (number, kind) in kinds {
        let body = format!("(call $err (i32.const {number}) (i32.const 1024) (i32.const 2))");
        let source = Source::new(&body).items(r#"(data (i32.const 1024) "no")"#);
        assert_eq!(failed(run(&source, &Script::new())), Failure::new(kind, "no"));
    }
}

#[test]
fn a_guest_asks_for_everything_and_gets_it() {
    let source = Source::new(
        r#"
        (call $call (i32.const 1024) (i32.const 1) (i32.const 1) (i32.const 1024) (i32.const 3)
          (i32.const 512))
        (if (i32.load8_u (i32.const 512)) (then unreachable))
        (if (i32.ne (i32.load (i32.const 516)) (i32.const 7)) (then unreachable))
        (drop (call $start_timer (i64.const 1500)))
        (drop (call $create_join_set))
        (call $submit (i32.const 1) (i32.const 7))
        (if (i64.ne (call $now) (i64.const 0)) (then unreachable))
        (call $random (i32.const 3) (i32.const 512))
        (if (i32.ne (i32.load (i32.const 516)) (i32.const 3)) (then unreachable))
        (call $context (i32.const 512))
        (if (i32.ne (i32.load (i32.const 520)) (i32.const 2)) (then unreachable))
        (call $log (i32.const 3) (i32.const 1024) (i32.const 2) (i32.const 1040) (i32.const 1))
        (call $next (i32.const 1) (i32.const 512))
        (call $ok (i32.const 0) (i32.const 1024) (i32.const 3))"#,
    )
    .items(
        r#"(data (i32.const 1024) "abc")
           (data (i32.const 1040) "\00\04\00\00\01\00\00\00\01\04\00\00\02\00\00\00")"#,
    );
    let script = Script::new();
    assert_eq!(returned(run(&source, &script)), Payload::new(Codec::RAW, "abc"));
    let expected = [
        "call a 3",
        "start-timer 1.5ms",
        "create-join-set",
        "submit 1 7",
        "now",
        "random 3",
        r#"log Warn ab [("a", "bc")]"#,
        "wait Next(1)",
    ];
    assert_eq!(*script.asked(), expected);
}

/// D4: a suspended guest goes on where it was.
#[test]
fn a_parked_guest_is_resumed_a_thousand_times() {
    let guests = guests(options());
    let program = deploy(&guests, &Source::waits());
    let script = Script::new().pending(1_000);
    let mut guest = start(&guests, &program, &script);
    for _ in 0..1_000 {
        assert_eq!(guest.resume(), Stop::Waiting);
    }
    assert_eq!(returned(guest.resume()), Payload::empty());
    assert_eq!(*script.asked(), ["wait One(7)"]);
    assert_eq!(guest.resume(), Stop::Stopped, "it has ended");
}

#[test]
fn a_guest_may_be_resumed_by_any_thread() {
    let guests = guests(options());
    let program = deploy(&guests, &Source::waits());
    let mut guest = start(&guests, &program, &Script::new().pending(8));
    for _ in 0..8 {
        std::thread::scope(|scope| {
            let resumed = scope.spawn(|| guest.resume()).join();
            assert_eq!(resumed.expect("nothing panics"), Stop::Waiting);
        });
    }
    assert_eq!(returned(guest.resume()), Payload::empty());
}

#[test]
fn a_cancelled_await_says_why() {
    let source = Source::new(
        "(call $await_one (i32.const 7) (i32.const 512))
         (if (i32.ne (i32.load8_u (i32.const 512)) (i32.const 1)) (then unreachable))
         (call $err (i32.const 4) (i32.load (i32.const 516)) (i32.load (i32.const 520)))",
    );
    let script = Script::new().got(WaitResult::Cancelled("too late".into()));
    assert_eq!(failed(run(&source, &script)), Failure::new(ErrorKind::Cancelled, "too late"));
}

#[test]
fn awaited_outcomes_arrive_in_order() {
    // The outcomes' first bytes: 36 bytes for each, a value's address at 8.
    let source = Source::new(
        "(call $await_all (i32.const 1024) (i32.const 2) (i32.const 512))
         (i32.store (i32.const 2048) (i32.load (i32.load (i32.add
            (i32.load (i32.const 516)) (i32.const 8)))))
         (i32.store8 (i32.const 2049) (i32.load8_u (i32.load (i32.add
            (i32.load (i32.const 516)) (i32.const 40)))))
         (call $ok (i32.const 0) (i32.const 2048) (i32.const 2))",
    )
    .items(r#"(data (i32.const 1024) "\01\00\00\00\02\00\00\00")"#);
    let settled =
        |promise, byte| Settled { promise, outcome: Outcome::Ok(Payload::json(vec![byte])) };
    let script = Script::new().got(WaitResult::All(vec![settled(1, b'a'), settled(2, b'b')]));
    assert_eq!(returned(run(&source, &script)), Payload::new(Codec::RAW, "ab"));
    assert_eq!(*script.asked(), ["wait All([1, 2])"]);
}

#[test]
fn a_host_that_refuses_traps_or_stops_the_guest() {
    let source = Source::new("(drop (call $now)) unreachable");
    let trap = Script::new().refuse(0, Refusal::Trap("no such promise".into()));
    let message = crate::guest_kit::trap_message(run(&source, &trap));
    assert!(message.starts_with("no such promise\n  in "), "{message}");

    let stop = Script::new().refuse(0, Refusal::Stop);
    assert_eq!(run(&source, &stop), Stop::Stopped);
    let stop = Script::new().refuse(0, Refusal::Stop);
    assert_eq!(run(&Source::waits(), &stop), Stop::Stopped);
}

#[test]
fn an_answer_of_the_wrong_kind_ends_one_guest() {
    let message = crate::guest_kit::trap_message(run(
        &Source::waits(),
        &Script::new().got(WaitResult::Exhausted),
    ));
    assert!(message.contains("a defect of Indelible"), "{message}");
}

#[test]
fn a_host_that_panics_takes_down_its_guest_only() {
    let guests = guests(options());
    let program = deploy(&guests, &Source::new("(drop (call $now)) unreachable"));
    let waits = deploy(&guests, &Source::waits());
    let script = Script::new().panics();
    let mut bystander = start(&guests, &waits, &Script::new().pending(1));
    assert_eq!(bystander.resume(), Stop::Waiting);

    let mut guest = start(&guests, &program, &script);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| guest.resume()));
    assert!(panicked.is_err());
    assert_eq!(guest.resume(), Stop::Stopped);
    assert_eq!((script.hosts(), guests.readings().guests_live), (0, 1));
    assert_eq!(returned(bystander.resume()), Payload::empty());
}

#[test]
fn places_are_counted_and_come_back() {
    let guests = guests(options());
    let program = deploy(&guests, &Source::waits());
    let script = Script::new().pending(u32::MAX);
    let limits = guests.options().limits;
    let mut parked: Vec<_> = (0..16).map(|_| start(&guests, &program, &script)).collect();
    for guest in &mut parked {
        assert_eq!(guest.resume(), Stop::Waiting);
    }
    let full = try_start(&guests, &program, &limits, Payload::empty(), &script);
    assert!(matches!(full, Err(StartError::Full { guests_max: 16 })), "{full:?}");
    assert_eq!((guests.readings().guests_live, script.hosts()), (16, 16));

    // One that is dropped, started or not, makes room for another.
    parked.pop();
    drop(start(&guests, &program, &script));
    parked.push(start(&guests, &program, &script));
    drop(parked);
    assert_eq!((guests.readings().guests_live, script.hosts()), (0, 0));
}

#[test]
fn a_component_is_deployed_while_all_places_are_taken() {
    let guests = guests(options());
    let program = deploy(&guests, &Source::waits());
    let script = Script::new().pending(u32::MAX);
    let parked: Vec<_> = (0..16).map(|_| start(&guests, &program, &script)).collect();
    deploy(&guests, &Source::echo());
    drop(parked);
}

#[test]
fn threads_that_compete_for_places_lose_none() {
    let guests = guests(GuestOptions { guests_max: 3, ..options() });
    let program = deploy(&guests, &Source::waits());
    let limits = guests.options().limits;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut returned = 0;
                while returned < 200 {
                    let script = Script::new().pending(1);
                    match try_start(&guests, &program, &limits, Payload::empty(), &script) {
                        Ok(mut guest) => {
                            assert_eq!(guest.resume(), Stop::Waiting);
                            assert_eq!(guest.resume(), Stop::Returned(Ok(Payload::empty())));
                            returned += 1;
                        }
                        Err(StartError::Full { .. }) => std::thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(guests.readings().guests_live, 0);
}

/// D4: thousands wait at once.
#[test]
fn five_thousand_guests_are_parked_and_dropped() {
    let guests = guests(GuestOptions { guests_max: 5_000, ..options() });
    let program = deploy(&guests, &Source::waits());
    for round in 0..2 {
        let script = Script::new().pending(5_000);
        let mut parked: Vec<_> = (0..5_000).map(|_| start(&guests, &program, &script)).collect();
        assert!(parked.iter_mut().all(|guest| guest.resume() == Stop::Waiting));
        assert_eq!(guests.readings().guests_live, 5_000);
        if round == 1 {
            assert!(
                parked
                    .iter_mut()
                    .all(|guest| finish(guest) == Stop::Returned(Ok(Payload::empty())))
            );
        }
        drop(parked);
        assert_eq!((guests.readings().guests_live, script.hosts()), (0, 0));
    }
}

#[test]
fn a_guest_that_traps_while_it_is_instantiated_has_an_outcome() {
    // Wrapped by hand: a start function runs before any export is called.
    let source = Source::echo().items("(func $boom unreachable) (start $boom)");
    let guests = guests(options());
    let error = guests.deploy_check(&source.component()).expect_err("it cannot describe itself");
    assert!(error.to_string().contains("`unreachable`"), "{error}");
}
