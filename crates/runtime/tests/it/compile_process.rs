//! Components that are compiled in a process of their own: what comes of it is the same, and what
//! takes too much time or memory there is refused. That process is the example `engine`: what it
//! writes is the artifact, which a test harness would add its own lines to.

use std::sync::Arc;

use indelible_journal::Payload;
use indelible_runtime::guest::{CompileLimits, Compiler, DeployError, GuestOptions, Guests, Stop};
use indelible_test_support::example;

use crate::guest_kit::{Script, Source, guests, options, start};

/// Guests whose components are compiled by another program, within these limits.
fn elsewhere(compile_limits: CompileLimits) -> Arc<Guests> {
    let compiler = Compiler::Process {
        program: example("engine"),
        arguments: vec!["compile".into()],
        environment: Vec::new(),
    };
    guests(GuestOptions { compiler, compile_limits, ..options() })
}

#[test]
fn what_is_compiled_there_runs_here() {
    let guests = elsewhere(CompileLimits::default());
    let deployed = guests.deploy_check(&Source::echo().component()).expect("it is a guest");
    let mut guest = start(&guests, &deployed.program, &Script::new());
    assert_eq!(guest.resume(), Stop::Returned(Ok(Payload::empty())));
    assert_eq!(guests.readings().compiled, 1);
}

/// Code is not looked at before it is compiled: that it is not valid comes from the other process.
#[test]
fn what_is_invalid_is_told() {
    let text = r#"(component
        (core module $m (func (export "f") (result i32) (i64.const 0)))
        (core instance $i (instantiate $m))
        (func $f (result u32) (canon lift (core func $i "f")))
        (export "describe" (func $f)) (export "run" (func $f)))"#;
    let bytes = wat::parse_str(text).expect("it is well formed");
    let told = |guests: &Guests| guests.deploy_check(&bytes).expect_err("invalid").to_string();
    let here = told(&guests(options()));
    assert!(
        here.contains("the component is not valid") && here.contains("type mismatch"),
        "{here}"
    );
    assert_eq!(told(&elsewhere(CompileLimits::default())), here);
}

fn refused(limits: CompileLimits, function: &str) -> (DeployError, Arc<Guests>) {
    let guests = elsewhere(limits);
    let bomb = Source::echo().items(function).component();
    let error = guests.deploy_check(&bomb).expect_err("it is refused");
    assert!(error.hint().is_some_and(|hint| hint.contains("split")), "{error}");
    let readings = guests.readings();
    assert_eq!((readings.guests_live, readings.programs_loaded), (0, 0), "nothing stays");
    (error, guests)
}

/// A function of 100 KB that takes more than half a minute.
#[test]
fn too_much_time_is_refused() {
    let limits = CompileLimits { seconds: 1, seconds_per_mib: 0, ..CompileLimits::default() };
    let (error, guests) = refused(limits, &format!("(func {})", "loop end ".repeat(33_000)));
    assert_eq!(
        error.to_string(),
        "the compilation of the component was stopped: \
         it took more than 1 seconds of processor time"
    );
    // Nothing has to recover from that.
    guests.deploy_check(&Source::echo().component()).expect("it is a guest");
}

/// A function of 200 KB that takes the better part of a gigabyte.
#[test]
fn too_much_memory_is_refused() {
    let limits =
        CompileLimits { memory_mib: 300, memory_mib_per_mib: 0, ..CompileLimits::default() };
    let function =
        format!("(func (param f32) (result f32) local.get 0 {})", "f32.sqrt ".repeat(200_000));
    let (error, _) = refused(limits, &function);
    let expected = "it took more than 300 MiB of memory, or crashed the compiler";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn a_compiler_that_is_none_is_told() {
    let compiler = Compiler::Process {
        program: "/no/such/program".into(),
        arguments: Vec::new(),
        environment: Vec::new(),
    };
    let guests = guests(GuestOptions { compiler, ..options() });
    let error =
        guests.deploy_check(&Source::echo().component()).expect_err("it cannot be compiled");
    assert!(matches!(error, DeployError::Compiler(_)), "{error:?}");
}
