//! What guests cost, without an engine around them: to start, run and drop one, to call the host,
//! to wait and be resumed. It leaves out journal, store and scheduling.
//!
//! `cargo run --release -p indelible-runtime --example guest_cost [COMPONENT FUNCTION]`: with a
//! component, that one's function is started and run with `{}`, beside guests written by hand.

#![expect(clippy::disallowed_methods, reason = "a measurement looks at the clock")]
#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use indelible_http::Request;
use indelible_journal::{Failure, Micros, Outcome, Payload, RetryPolicy, Timestamp};
use indelible_records::labels::Label;
use indelible_runtime::guest::{
    Artifacts, Context, GuestOptions, Guests, Host, Level, Program, Refusal, Settled, Stop,
    WaitRequest, WaitResult,
};
use indelible_test_guests::Source;

/// How long each measurement is repeated at least, in seconds. The best of the runs counts: others
/// use this machine, too.
const SECONDS: f64 = 0.5;
const RUNS: u32 = 5;

/// Answers at once, with nothing; every wait is pending once if it is `slow`.
struct Bare {
    slow: bool,
    asked: bool,
}

impl Bare {
    fn new(slow: bool) -> Box<Self> {
        Box::new(Self { slow, asked: false })
    }
}

impl Host for Bare {
    fn call(&mut self, _: &str, _: Payload) -> Result<Result<u32, Failure>, Refusal> {
        Ok(Ok(7))
    }

    fn http(&mut self, _: Request, _: Result<RetryPolicy, String>) -> Result<u32, Refusal> {
        Ok(7)
    }

    fn start_timer(&mut self, _: Micros) -> Result<u32, Refusal> {
        Ok(7)
    }

    fn wait(&mut self, _: &WaitRequest) -> Result<Poll<WaitResult>, Refusal> {
        if self.slow {
            self.asked = !self.asked;
            if self.asked {
                return Ok(Poll::Pending);
            }
        }
        let settled = Settled { promise: 7, outcome: Outcome::Ok(Payload::json("{}")) };
        Ok(Poll::Ready(WaitResult::Settled(settled)))
    }

    fn create_join_set(&mut self) -> Result<u32, Refusal> {
        Ok(1)
    }

    fn submit(&mut self, _: u32, _: u32) -> Result<(), Refusal> {
        Ok(())
    }

    fn now(&mut self) -> Result<Timestamp, Refusal> {
        Ok(Timestamp::EPOCH)
    }

    fn random(&mut self, _: u32) -> Result<Bytes, Refusal> {
        Ok(Bytes::new())
    }

    fn context(&mut self) -> Context {
        Context {
            execution_id: String::new(),
            attempt: 1,
            parent_id: None,
            function: String::new(),
        }
    }

    fn label(&mut self, _: Label) -> Result<(), Refusal> {
        Ok(())
    }

    fn log(&mut self, _: Level, _: String, _: Vec<(String, String)>) -> Result<(), Refusal> {
        Ok(())
    }

    fn is_live(&mut self) -> bool {
        true
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let given = arguments.next().map(|path| std::fs::read(path).expect("the component is there"));
    let function = arguments.next().unwrap_or_else(|| "f".into());

    let guests = guests(GuestOptions::default());
    let echo = deploy(&guests, &Source::echo().component());
    report("start + run + drop, by hand", once(&guests, &echo, "f"));
    if let Some(given) = &given {
        let program = deploy(&guests, given);
        report("start + run + drop, given", once(&guests, &program, &function));
        report("the same, two threads, each", two_threads(&guests, &program, &function));
    }
    report("the same, two threads, each, by hand", two_threads(&guests, &echo, "f"));
    report("start + drop, never run", measure(1, || drop(started(&guests, &echo, "f", false))));

    // A number of calls within one run; what the run itself costs is lost in it.
    const CALLS: u32 = 10_000;
    let again = |body: &str| {
        Source::new(&format!(
            "(local $i i32)
             (loop $again {body}
               (local.set $i (i32.add (local.get $i) (i32.const 1)))
               (br_if $again (i32.lt_u (local.get $i) (i32.const {CALLS}))))
             (call $ok (i32.const 0) (i32.const 0) (i32.const 0))"
        ))
    };
    // The heap is reset: this measures calls, not the growth of memory.
    let reset = "(global.set $heap (i32.const 65536))";
    let calls = |body: &str, slow: bool| {
        let program = deploy(&guests, &again(&format!("{reset} {body}")).component());
        measure(CALLS, || {
            let mut guest = started(&guests, &program, "f", slow);
            while guest.resume() == Stop::Waiting {}
        })
    };
    report("host call: now", calls("(drop (call $now))", false));
    report(
        "host call: call, with 2 bytes",
        calls(
            "(call $call (i32.const 0) (i32.const 1) (i32.const 1) (i32.const 0) (i32.const 2)
               (i32.const 512))",
            false,
        ),
    );
    let wait = "(call $await_one (i32.const 7) (i32.const 512))";
    report("await that is over", calls(wait, false));
    report("await, suspended and resumed", calls(wait, true));

    println!();
    parked(&Source::waits().component(), "f", "by hand");
    if let Some(given) = &given {
        // Started but not run: most functions would return instead of waiting.
        parked(given, &function, "given, not yet run");
    }

    println!();
    for keep in [0, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let options = GuestOptions { memory_keep_bytes: keep, ..GuestOptions::default() };
        let guests = self::guests(options);
        let (what, program, function) = match &given {
            Some(given) => ("given", deploy(&guests, given), &*function),
            None => ("by hand", deploy(&guests, &Source::echo().component()), "f"),
        };
        let what = format!("start + run + drop, {what}, keeping {} KiB", keep >> 10);
        report(&what, once(&guests, &program, function));
    }
}

fn guests(options: GuestOptions) -> Arc<Guests> {
    Guests::new(options, Artifacts::memory()).expect("the options are sound")
}

fn deploy(guests: &Guests, component: &[u8]) -> Arc<Program> {
    guests.deploy_check(component).expect("it is a guest").program
}

fn started(
    guests: &Guests,
    program: &Arc<Program>,
    function: &str,
    slow: bool,
) -> indelible_runtime::guest::Guest {
    let limits = guests.options().limits;
    guests
        .start(program, &limits, function, Payload::json("{}"), Bare::new(slow))
        .expect("there is a place")
}

fn once(guests: &Guests, program: &Arc<Program>, function: &str) -> f64 {
    measure(1, || {
        let stop = started(guests, program, function, false).resume();
        assert!(matches!(stop, Stop::Returned(Ok(_))), "{stop:?}");
    })
}

fn two_threads(guests: &Guests, program: &Arc<Program>, function: &str) -> f64 {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| once(guests, program, function));
        once(guests, program, function).max(other.join().expect("it measures"))
    })
}

/// What many guests that wait take.
fn parked(component: &[u8], function: &str, what: &str) {
    const GUESTS: u32 = 4_000;
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let maps = || read("/proc/self/maps").lines().count();
    let resident_kib = || {
        let status = read("/proc/self/status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0)
    };
    // Places that were never used.
    let guests = guests(GuestOptions::default());
    let program = deploy(&guests, component);
    let (maps_before, kib_before) = (maps(), resident_kib());
    let mut parked: Vec<_> =
        (0..GUESTS).map(|_| started(&guests, &program, function, true)).collect();
    if what == "by hand" {
        assert!(parked.iter_mut().all(|guest| guest.resume() == Stop::Waiting));
    }
    let kib = (resident_kib() - kib_before) / f64::from(GUESTS);
    let maps = (maps() - maps_before) as f64 / f64::from(GUESTS);
    println!("a parked guest, {what}: {kib:.1} KiB resident, {maps:.1} maps of the kernel's");
}

/// Nanoseconds for each of `parts` that `work` does.
fn measure(parts: u32, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let begin = Instant::now();
        let mut count = 0.0;
        while begin.elapsed().as_secs_f64() < SECONDS / f64::from(RUNS) {
            work();
            count += f64::from(parts);
        }
        best = best.min(begin.elapsed().as_secs_f64() * 1e9 / count);
    }
    best
}

fn report(what: &str, nanoseconds: f64) {
    println!("{what:48} {nanoseconds:10.0} ns");
}
