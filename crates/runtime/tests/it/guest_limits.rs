//! Guests that want too much: time, memory, stack, lines of log. Each ends alone, with a message
//! that names the limit.

use indelible_journal::{Codec, ErrorKind, Limits, Payload};
use indelible_runtime::guest::{Refusal, StartError, Stop};

use crate::guest_kit::{
    Script, Source, deploy, finish, guests, options, run, run_with, start, ticking, trap_message,
    try_start,
};

fn check_timeout(stop: &Stop) {
    match stop {
        Stop::Trapped(failure) => {
            assert_eq!(failure.kind, ErrorKind::Timeout, "{failure}");
            assert!(failure.message.starts_with("ran for more than 10ms"), "{failure}");
        }
        other => panic!("it did not run out of time: {other:?}"),
    }
}

fn run_ticking(source: &Source, script: &Script) -> Stop {
    let guests = guests(options());
    let program = deploy(&guests, source);
    let mut guest = start(&guests, &program, script);
    ticking(&guests, || finish(&mut guest))
}

/// D8: fairness, and a budget.
#[test]
fn an_endless_loop_lets_others_run_and_then_ends() {
    let guests = guests(options());
    let endless = deploy(&guests, &Source::endless());
    let echo = deploy(&guests, &Source::echo());
    let mut guest = start(&guests, &endless, &Script::new());
    ticking(&guests, || {
        // Ten slices of one tick are its budget.
        for _ in 0..10 {
            assert_eq!(guest.resume(), Stop::Yielded);
            let mut other = start(&guests, &echo, &Script::new());
            assert_eq!(finish(&mut other), Stop::Returned(Ok(Payload::empty())));
        }
        check_timeout(&guest.resume());
    });
    assert_eq!(guests.readings().guests_live, 0);
}

#[test]
fn a_guest_may_be_dropped_in_the_middle_of_its_work() {
    let guests = guests(options());
    let endless = deploy(&guests, &Source::endless());
    let script = Script::new();
    let mut guest = start(&guests, &endless, &script);
    assert_eq!(ticking(&guests, || guest.resume()), Stop::Yielded);
    drop(guest);
    assert_eq!((guests.readings().guests_live, script.hosts()), (0, 0));
}

/// D8: replayed stretches are not counted.
#[test]
fn replay_is_not_counted_against_the_budget() {
    let guests = guests(options());
    let endless = deploy(&guests, &Source::endless());
    let script = Script::new();
    script.replaying(true);
    let mut guest = start(&guests, &endless, &script);
    ticking(&guests, || {
        for _ in 0..100 {
            assert_eq!(guest.resume(), Stop::Yielded);
        }
        script.replaying(false);
        check_timeout(&finish(&mut guest));
    });
}

#[test]
fn a_journaled_call_renews_the_budget_and_others_do_not() {
    // So many calls that they take far more than ten slices.
    let journaled = Source::new("(loop $again (drop (call $now)) (br $again)) unreachable");
    let script = Script::new().refuse(200_000, Refusal::Stop);
    assert_eq!(run_ticking(&journaled, &script), Stop::Stopped);

    let idle = Source::new("(loop $again (call $context (i32.const 512)) (br $again)) unreachable");
    check_timeout(&run_ticking(&idle, &Script::new()));
}

#[test]
fn a_parked_guest_has_a_whole_slice_when_it_goes_on() {
    let guests = guests(options());
    let program = deploy(&guests, &Source::waits());
    let mut guest = start(&guests, &program, &Script::new().pending(1));
    // However long it lay about before and after its first wait.
    for _ in 0..1_000 {
        guests.tick();
    }
    assert_eq!(guest.resume(), Stop::Waiting);
    for _ in 0..1_000 {
        guests.tick();
    }
    assert_eq!(guest.resume(), Stop::Returned(Ok(Payload::empty())));
}

/// Grows its memory by as many pages as the input's length says, and returns what it got.
fn grows() -> Source {
    Source::new("(call $ok_u32 (memory.grow (local.get $len)))")
}

fn grow_by(source: &Source, limits: &Limits, pages: usize) -> Stop {
    let guests = guests(options());
    let program = deploy(&guests, source);
    let input = Payload::json(vec![0; pages]);
    let mut guest =
        try_start(&guests, &program, limits, input, &Script::new()).expect("there is a place");
    finish(&mut guest)
}

/// D6: a guest never sees that it cannot have more memory.
#[test]
fn memory_beyond_the_pinned_limit_traps() {
    const PAGE: u64 = 65_536;
    let limits = Limits { memory_bytes_max: 10 * PAGE, ..options().limits };
    let before = |stop| match stop {
        Stop::Returned(Ok(payload)) => i32::from_le_bytes(payload.bytes[..].try_into().unwrap()),
        other => panic!("it did not return: {other:?}"),
    };
    // It has four, and may have ten.
    assert_eq!(before(grow_by(&grows(), &limits, 6)), 4);
    let message = trap_message(grow_by(&grows(), &limits, 7));
    assert!(message.starts_with("wanted 720896 bytes of memory; its limit is 655360"), "{message}");
    let message = trap_message(grow_by(&grows(), &limits, 65_536));
    assert!(message.contains("its limit is 655360"), "{message}");

    // What the guest itself declared is part of it, and the same in every run.
    assert_eq!(before(grow_by(&grows().memory("4 5"), &limits, 1)), 4);
    assert_eq!(before(grow_by(&grows().memory("4 5"), &limits, 2)), -1);

    // A larger limit than that of new executions is honoured as well.
    let limits = Limits { memory_bytes_max: 256 << 20, ..options().limits };
    assert_eq!(before(grow_by(&grows(), &limits, 2_000)), 4);
}

#[test]
fn memory_that_a_guest_begins_with_counts() {
    let guests = guests(options());
    let program = deploy(&guests, &Source::echo());
    let limits = Limits { memory_bytes_max: 65_536, ..options().limits };
    let mut guest = try_start(&guests, &program, &limits, Payload::empty(), &Script::new())
        .expect("there is a place");
    let message = trap_message(guest.resume());
    assert!(message.contains("wanted 262144 bytes of memory; its limit is 65536"), "{message}");
    assert_eq!(guest.resume(), Stop::Stopped);
    assert_eq!(guests.readings().guests_live, 0);
}

#[test]
fn a_memory_hog_ends_at_its_limit() {
    let source =
        Source::new("(loop $again (drop (memory.grow (i32.const 16))) (br $again)) unreachable");
    let message = trap_message(run(&source, &Script::new()));
    assert!(message.contains("its limit is 67108864"), "{message}");
}

#[test]
fn tables_beyond_the_pinned_limit_trap() {
    let source = Source::new("(call $ok_u32 (table.grow $t (ref.null func) (local.get $len)))")
        .items("(table $t 10 funcref)");
    let grow =
        |elements| run_with(options(), &source, Payload::json(vec![0; elements]), &Script::new());
    // The adapter's own table counts too; it is small.
    assert!(matches!(grow(9_900), Stop::Returned(Ok(_))));
    let message = trap_message(grow(10_000));
    assert!(message.contains("elements in its tables; its limit is 10000"), "{message}");
}

#[test]
fn an_exhausted_stack_traps() {
    // Not a tail call: it adds something afterwards.
    let deep = "(func $deep (param $n i32) (result i32)
        (if (result i32) (local.get $n)
          (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get $n) (i32.const 1)))))
          (else (i32.const 0))))";
    let source = |depth| {
        Source::new(&format!("(call $ok_u32 (call $deep (i32.const {depth})))")).items(deep)
    };
    let message = trap_message(run(&source(100_000_000), &Script::new()));
    assert!(message.starts_with("trapped: its stack is exhausted\n  in deep\n"), "{message}");
    assert!(message.contains("more"), "{message}");
    assert!(message.len() < 1_000, "{message}");

    // Deep, but not too deep.
    assert!(matches!(run(&source(5_000), &Script::new()), Stop::Returned(Ok(_))));
}

#[test]
fn an_execution_that_cannot_be_given_its_limits_is_refused() {
    let guests = guests(options());
    let program = deploy(&guests, &Source::echo());
    let own = options().limits;
    let try_with = |limits| {
        try_start(&guests, &program, &limits, Payload::empty(), &Script::new())
            .expect_err("it is refused")
    };
    let error = try_with(Limits { stack_bytes_max: 1 << 20, ..own });
    assert!(matches!(error, StartError::Stack { pinned: 1_048_576, own: 524_288 }), "{error}");
    let error = try_with(Limits { table_elements_max: 10_001, ..own });
    assert!(matches!(error, StartError::Limit { pinned: 10_001, own: 10_000, .. }), "{error}");
    let error = try_with(Limits { memory_bytes_max: (4 << 30) + 1, ..own });
    assert!(matches!(error, StartError::Limit { what: "bytes of memory", .. }), "{error}");
}

#[test]
fn a_flood_of_log_lines_traps() {
    let flood = |length: u32| {
        Source::new(&format!(
            "(loop $again
               (call $log (i32.const 2) (i32.const 8192) (i32.const {length})
                 (i32.const 0) (i32.const 0))
               (br $again))
             unreachable"
        ))
    };
    let script = Script::new();
    let message = trap_message(run(&flood(1), &script));
    assert!(message.starts_with("logged more than 10000 lines between two awaits"), "{message}");
    assert_eq!(script.asked().len(), 10_000);

    let script = Script::new();
    let message = trap_message(run(&flood(20_000), &script));
    assert!(message.starts_with("logged more than 1048576 bytes"), "{message}");
    // What is long is cut before anybody keeps it.
    assert_eq!(script.asked().len(), 52);
    assert!(script.asked().iter().all(|line| line.len() < 17_000));
}

#[test]
fn an_await_renews_what_may_be_logged() {
    let source = Source::new(
        "(local $i i32)
         (loop $again
           (call $log (i32.const 2) (i32.const 8192) (i32.const 4) (i32.const 0) (i32.const 0))
           (call $await_one (i32.const 7) (i32.const 512))
           (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br_if $again (i32.lt_u (local.get $i) (i32.const 20000))))
         (call $ok (i32.const 0) (i32.const 0) (i32.const 0))",
    );
    assert_eq!(run(&source, &Script::new()), Stop::Returned(Ok(Payload::empty())));
}

#[test]
fn what_is_handed_over_is_bounded() {
    let check = |body: &str, expected: &str| {
        let source = Source::new(&format!("{body} unreachable")).memory("400");
        let message = trap_message(run(&source, &Script::new()));
        assert!(message.contains(expected), "{message}");
    };
    check("(call $random (i32.const 65537) (i32.const 512))", "65537 random bytes; at most 65536");
    check(
        "(call $call (i32.const 8192) (i32.const 256) (i32.const 0) (i32.const 0) (i32.const 0)
           (i32.const 512))",
        "the name of a function has 256 bytes; at most 255",
    );
    check(
        "(call $await_signal (i32.const 8192) (i32.const 256) (i32.const 512))",
        "the name of a signal has 256 bytes",
    );
    check(
        "(call $await_all (i32.const 8192) (i32.const 10001) (i32.const 512))",
        "awaits 10001 promises at once; at most 10000",
    );
    check(
        "(call $call (i32.const 8192) (i32.const 1) (i32.const 0) (i32.const 0)
           (i32.const 20000000) (i32.const 512))",
        "passed more bytes to the host in one call than",
    );
    // One string, many times: little in the guest's memory, much in the host's.
    let alias = "(local $i i32)
        (loop $again
          (i32.store (i32.add (i32.const 1048576) (i32.shl (local.get $i) (i32.const 2)))
            (i32.const 65536))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if $again (i32.lt_u (local.get $i) (i32.const 40000))))
        (call $log (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 1048576) (i32.const 10000))";
    check(alias, "passed more bytes to the host in one call than");
}

#[test]
fn an_input_that_the_host_must_refuse_reaches_it() {
    let source = Source::new(
        "(call $call (i32.const 8192) (i32.const 1) (i32.const 0) (i32.const 65536)
           (i32.const 5000000) (i32.const 512))
         (call $ok (i32.const 0) (i32.const 0) (i32.const 0))",
    )
    .items(r#"(data (i32.const 8192) "g")"#)
    .memory("400");
    let script = Script::new();
    assert_eq!(run(&source, &script), Stop::Returned(Ok(Payload::empty())));
    assert_eq!(*script.asked(), ["call g 5000000"]);
}

/// D8: arithmetic is the same everywhere.
#[test]
fn a_nan_has_one_form() {
    let operations = [
        "(f32.add (f32.const nan:0x200001) (f32.const 1))",
        "(f32.div (f32.const 0) (f32.const -0))",
        "(f32.sqrt (f32.const -1))",
        "(f32.mul (f32.const -nan:0x7) (f32.const 2))",
    ];
    for operation in operations {
        let source = Source::new(&format!("(call $ok_u32 (i32.reinterpret_f32 {operation}))"));
        let expected = Payload::new(Codec::RAW, 0x7FC0_0000_u32.to_le_bytes().to_vec());
        assert_eq!(run(&source, &Script::new()), Stop::Returned(Ok(expected)), "{operation}");
    }
}

#[test]
fn a_panic_is_told_with_its_place() {
    let source = Source::new(
        "(call $report_panic (i32.const 8192) (i32.const 9) (i32.const 8201) (i32.const 12))
         unreachable",
    )
    .items(r#"(data (i32.const 8192) "no stock!src/lib.rs:3")"#);
    let message = trap_message(run(&source, &Script::new()));
    assert_eq!(message, "panicked at src/lib.rs:3: no stock!");
}

#[test]
fn a_trap_is_told_with_its_kind_and_place() {
    let check = |body: &str, expected: &str| {
        let source = Source::new("(call $outer) unreachable").items(&format!(
            "(func $outer (call $_ZN4shop5order17h0123456789abcdefE))
             (func $_ZN4shop5order17h0123456789abcdefE {body})"
        ));
        let message = trap_message(run(&source, &Script::new()));
        assert_eq!(message, format!("{expected}\n  in shop::order\n  in outer\n  in run"));
    };
    check("unreachable", "trapped: it reached `unreachable`");
    check(
        "(drop (i32.load (i32.const -4)))",
        "trapped: memory access out of bounds (a stack overflow can look like this, too)",
    );
    check("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "trapped: integer divide by zero");
}
