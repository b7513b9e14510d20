//! What tests of guests share: components out of text, and a host that follows a script.

#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

pub mod host;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indelible_journal::{Limits, Micros, Payload};
use indelible_runtime::guest::{Artifacts, Guest, GuestOptions, Guests, Program, StartError, Stop};

pub use host::Script;
pub use indelible_test_guests::Source;

/// Options for a test: few places, and times that are numbers of ticks.
pub fn options() -> GuestOptions {
    GuestOptions {
        guests_max: 16,
        tick: Micros::from_millis(1),
        slice: Micros::from_millis(1),
        cpu_budget: Micros::from_millis(10),
        describe_budget: Micros::from_millis(10),
        ..GuestOptions::default()
    }
}

/// Guests that keep nothing.
pub fn guests(options: GuestOptions) -> Arc<Guests> {
    Guests::new(options, Artifacts::memory()).expect("the options are sound")
}

/// Deploys what a test wrote.
pub fn deploy(guests: &Guests, source: &Source) -> Arc<Program> {
    guests.deploy_check(&source.component()).expect("the source is a guest").program
}

/// Starts `f` of a program with no input.
pub fn start(guests: &Guests, program: &Arc<Program>, script: &Script) -> Guest {
    try_start(guests, program, &guests.options().limits, Payload::empty(), script)
        .expect("there is a place")
}

/// Starts `f` of a program.
pub fn try_start(
    guests: &Guests,
    program: &Arc<Program>,
    limits: &Limits,
    input: Payload,
    script: &Script,
) -> Result<Guest, StartError> {
    guests.start(program, limits, "f", input, Box::new(script.host()))
}

/// What a source comes to when it runs alone, while no time passes.
pub fn run(source: &Source, script: &Script) -> Stop {
    run_with(options(), source, Payload::empty(), script)
}

/// The same, with these options and this input.
pub fn run_with(options: GuestOptions, source: &Source, input: Payload, script: &Script) -> Stop {
    let guests = guests(options);
    let program = deploy(&guests, source);
    let limits = guests.options().limits;
    let mut guest = try_start(&guests, &program, &limits, input, script).expect("a place");
    finish(&mut guest)
}

/// Resumes until it neither waits nor yields.
pub fn finish(guest: &mut Guest) -> Stop {
    loop {
        match guest.resume() {
            Stop::Waiting | Stop::Yielded => {}
            stop => return stop,
        }
    }
}

/// Does something while another thread ticks as fast as it can: no test looks at a clock.
pub fn ticking<T>(guests: &Guests, work: impl FnOnce() -> T) -> T {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                guests.tick();
                std::thread::yield_now();
            }
        });
        // Also when the work panics, or the scope would never end.
        let _over = Over(&over);
        work()
    })
}

/// The message of a guest that trapped.
pub fn trap_message(stop: Stop) -> String {
    match stop {
        Stop::Trapped(failure) => {
            assert_eq!(failure.kind, indelible_journal::ErrorKind::Trap, "{failure}");
            failure.message
        }
        other => panic!("it did not trap: {other:?}"),
    }
}
