//! What may be deployed and what may not, with the words that say why.

use indelible_journal::{Micros, RetryBound, RetryClass};
use indelible_runtime::guest::{DeployError, GuestOptions, Manifest};
use indelible_test_guests::{Function, WIT, component};

use crate::guest_kit::{Source, guests, options, ticking};

/// Deploys, and says why not.
fn refused(bytes: &[u8]) -> (DeployError, String) {
    let guests = guests(options());
    let error = guests.deploy_check(bytes).expect_err("it is refused");
    let readings = guests.readings();
    assert_eq!((readings.guests_live, readings.programs_loaded), (0, 0), "nothing stays");
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    if let Some(hint) = error.hint() {
        text = format!("{text}\nhint: {hint}");
    }
    (error, text)
}

fn check(bytes: &[u8], expected: &[&str]) {
    let (_, text) = refused(bytes);
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("it is well formed")
}

#[test]
fn a_guest_is_deployed_with_what_it_offers() {
    let order = Function {
        description: "Takes an order.".into(),
        idem: true,
        retries_max: None,
        backoff_base: 5,
        backoff_cap: 50,
        deadline: Some(500),
        input_schema: Some(r#"{"type": "object"}"#.into()),
        ..Function::new("order.v2_take-it")
    };
    let source = Source::echo().functions(&[order, Function::new("charge")]);
    let bytes = source.component();
    let guests = guests(options());
    let deployed = guests.deploy_check(&bytes).expect("it is a guest");
    assert_eq!(deployed.digest, indelible_journal::ComponentDigest::of(&bytes));
    assert_eq!(deployed.program.digest(), deployed.digest);

    let manifest = &deployed.manifest;
    let names: Vec<_> = manifest.functions().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["charge", "order.v2_take-it"]);
    let order = manifest.function("order.v2_take-it").expect("it has it");
    assert_eq!(order.description, "Takes an order.");
    assert_eq!(order.input_schema.as_deref(), Some(r#"{"type": "object"}"#));
    assert_eq!(order.output_schema, None);
    let policy = &order.retry_policy;
    assert_eq!((policy.class, policy.bound), (RetryClass::PERSIST_IDEM, RetryBound::Unbounded));
    assert_eq!((policy.backoff.base, policy.backoff.cap), (Micros::new(5), Micros::new(50)));
    assert_eq!(policy.deadline, Some(Micros::new(500)));
    let charge = &manifest.function("charge").expect("it has it").retry_policy;
    assert_eq!((charge.class, charge.bound), (RetryClass::PERSIST, RetryBound::Bounded(3)));
    assert_eq!(manifest.function("refund"), None);

    assert_eq!(Manifest::from_json(manifest.to_json().as_bytes()).as_ref(), Ok(manifest));

    // Again, while it is loaded: nothing is compiled.
    assert_eq!(guests.deploy_check(&bytes).expect("it still is").manifest, *manifest);
    assert_eq!(guests.readings().compiled, 1);
}

/// The tests' guests import all that the contract has, so that each shows that all of it links.
#[test]
fn the_whole_contract_is_linked() {
    let mut resolve = wit_parser::Resolve::default();
    resolve.push_source("guest.wit", WIT).expect("it is well formed");
    let host = resolve.interfaces.iter().find(|(_, i)| i.name.as_deref() == Some("host"));
    let core = Source::echo().core();
    for name in host.expect("there is one").1.functions.keys() {
        assert!(core.contains(&format!("\"{name}\"")), "{name} is not imported");
    }
    guests(options()).deploy_check(&Source::echo().component()).expect("all of it links");
}

#[test]
fn what_is_not_a_component_is_refused() {
    check(b"", &["not a WebAssembly component", "hint: deploy the .wasm file"]);
    check(b"#!/bin/sh", &["not a WebAssembly component"]);
    check(b"(component)", &["not a WebAssembly component"]);
    check(
        &wat("(module)"),
        &["a core WebAssembly module", "hint: build with", "wasm-component-ld"],
    );
    check(&wat(&Source::echo().core()), &["a core WebAssembly module"]);
}

#[test]
fn damaged_components_are_refused() {
    let bytes = Source::echo().component();
    for keep in [8, 9, 100, bytes.len() / 2, bytes.len() - 1] {
        check(&bytes[..keep], &["component is not"]);
    }
    let mut garbage = bytes[..8].to_vec();
    garbage.extend([0xFF; 1000]);
    check(&garbage, &["the component is not valid"]);
}

#[test]
fn what_is_too_large_is_refused_before_anybody_looks() {
    let guests = guests(GuestOptions { component_bytes_max: 100, ..options() });
    let error = guests.deploy_check(&[0xFF; 101]).expect_err("it is refused");
    assert_eq!(error.to_string(), "the component has 101 bytes; at most 100 are allowed");
    assert_eq!(guests.readings().compiled, 0);
}

#[test]
fn foreign_imports_are_named() {
    let text = r#"(component
        (import "wasi:clocks/monotonic-clock@0.2.0" (instance (export "now" (func (result u64)))))
        (import "wasi:cli/environment@0.2.0" (instance))
        (import "acme:db/query" (instance (export "run" (func))))
        (import "indelible:guest/host@0.2.0" (instance (export "now" (func (result u64)))))
        (import "fetch" (func)))"#;
    check(
        &wat(text),
        &[
            "the component imports what guests do not have",
            "`wasi:clocks/monotonic-clock@0.2.0` is part of WASI",
            "`wasi:cli/environment@0.2.0` is part of WASI",
            "`acme:db/query` is not available to guests",
            "`indelible:guest/host@0.2.0` belongs to another version of the contract",
            "`fetch` is not available to guests",
            "hint: build for wasm32-unknown-unknown",
        ],
    );
}

#[test]
fn functions_that_the_host_does_not_have_are_named() {
    let text = r#"(component
        (import "indelible:guest/host@0.1.7" (instance
          (export "now" (func (result u64)))
          (export "sleep" (func (param "duration" u64)))
          (export "file" (type (sub resource))))))"#;
    check(
        &wat(text),
        &["`indelible:guest/host@0.1.7#sleep` is not known", "host@0.1.7#file` is not known"],
    );
}

#[test]
fn functions_of_another_type_are_refused() {
    // The contract, but for one type.
    let wit = WIT.replace("now: func() -> u64;", "now: func() -> u32;");
    let core = Source::echo()
        .items("(func (export \"unused\") (drop (call $now)))")
        .core()
        .replace("$now (result i64)", "$now (result i32)");
    check(&component(&core, &wit), &["the component is not valid", "now"]);
}

/// A guest of another contract is told which, and which this server knows, and nothing else.
#[test]
fn another_version_of_the_contract_is_told_apart() {
    let wit = WIT.replace("package indelible:guest@0.1.0;", "package indelible:guest@0.2.0;");
    let core = Source::waits().core().replace("host@0.1.0", "host@0.2.0");
    let (error, text) = refused(&component(&core, &wit));
    assert!(matches!(error, DeployError::Version { .. }), "{error:?}");
    assert!(text.contains("version 0.2.0 of the SDK's contract"), "{text}");
    assert!(text.contains("this server supports 0.1: give its project the SDK of this version with `indelible sdk`"), "{text}");
    // With anything else that is wrong, all of it is named.
    let mixed = r#"(component
        (import "indelible:guest/host@0.2.0" (instance (export "now" (func (result u64)))))
        (import "fetch" (func)))"#;
    check(
        &wat(mixed),
        &["`indelible:guest/host@0.2.0` belongs to another version", "`fetch` is not available"],
    );
}

/// A guest of a later 0.1 runs here as long as it uses what is here.
#[test]
fn a_later_version_of_the_contract_is_linked() {
    let wit = WIT.replace("package indelible:guest@0.1.0;", "package indelible:guest@0.1.9;");
    let core = Source::waits().core().replace("host@0.1.0", "host@0.1.9");
    let guests = guests(options());
    guests.deploy_check(&component(&core, &wit)).expect("it is a guest");
}

#[test]
fn missing_or_other_exports_are_named() {
    check(
        &wat("(component)"),
        &[
            "not a guest of Indelible",
            "`describe` is not exported",
            "`run` is not exported",
            "hint: build against the WIT",
        ],
    );
    let text = r#"(component
        (core module $m (func (export "f") (result i32) (i32.const 0)))
        (core instance $i (instantiate $m))
        (func (export "describe") (result u32) (canon lift (core func $i "f")))
        RUN)"#;
    let check_run = |run, expected: &str| check(&wat(&text.replace("RUN", run)), &[expected]);
    check_run("(instance (export \"run\"))", "`run` is exported, but is not a function");
    // What has the right names is compiled, and its types are looked at.
    let run = r#"(func (export "run") (result u32) (canon lift (core func $i "f")))"#;
    check_run(run, "`describe` has another type: ");
    check_run(run, "`run` has another type: ");
}

#[test]
fn a_description_that_fails_is_refused() {
    let check = |describe: &str, expected: &str| {
        let source = Source::echo().describe(describe);
        self::check(&source.component(), &["cannot describe itself: ", expected]);
    };
    check("unreachable", "trapped: it reached `unreachable`\n  in function");
    check("(drop (call $now)) unreachable", "`describe` must not use the host, but called `now`");
    check(
        "(call $await_one (i32.const 1) (i32.const 512)) unreachable",
        "must not use the host, but called `await-one`",
    );
    check("(loop $again (drop (memory.grow (i32.const 16))) (br $again)) unreachable", "memory");
    check("(i32.const -8)", "trapped: ");
    check("(i32.const 3)", "trapped: ");
    // A list as long as memory.
    check(
        "(i32.store (i32.const 16) (i32.const 0)) (i32.store (i32.const 20) (i32.const 100000000))
         (i32.const 16)",
        "trapped: ",
    );
}

#[test]
fn a_description_that_takes_too_long_is_refused() {
    let guests = guests(options());
    let endless = Source::echo().describe("(loop $again (br $again)) unreachable").component();
    let error = ticking(&guests, || guests.deploy_check(&endless)).expect_err("it is refused");
    assert!(error.to_string().contains("ran for more than 10ms"), "{error}");
}

#[test]
fn a_description_that_makes_no_sense_is_refused() {
    let check = |functions: &[Function], expected: &str| {
        let source = Source::echo().functions(functions).memory("100");
        self::check(
            &source.component(),
            &["the component's description of itself is invalid: ", expected],
        );
    };
    let f = || Function::new("f");
    let many: Vec<_> = (0..1_001).map(|n| Function::new(&format!("f{n}"))).collect();
    check(&[], "it has no functions");
    check(&many, "it has 1001 functions; at most 1000 are allowed");
    check(&[f(), Function::new("g"), f()], "two of its functions are named `f`");
    check(&[Function::new("")], "`` cannot be the name of a function: the name is blank");
    check(&[Function::new("a b")], "`a b` cannot be the name of a function: it has ' '");
    check(&[Function::new("a/b")], "it has '/'");
    check(&[Function::new("\u{1b}[2J")], r"`\u{1b}[2J` cannot be");
    check(&[Function::new(&"x".repeat(129))], "it has 129 bytes; at most 128");
    check(
        &[Function { backoff_base: 2_000_000, backoff_cap: 1_000_000, ..f() }],
        "function `f`: its backoff grows from 2s to 1s: the cap is below the base",
    );
    check(
        &[Function { backoff_base: 0, retries_max: None, ..f() }],
        "its retries have neither a limit nor a delay",
    );
    check(&[Function { deadline: Some(0), ..f() }], "its deadline must be above zero");
    check(&[Function { deadline: Some(u64::MAX), ..f() }], "times are in microseconds");
    check(&[Function { input_schema: Some("{".into()), ..f() }], "its input schema is not JSON");
    check(
        &[Function { output_schema: Some("{}{}".into()), ..f() }],
        "its output schema is not JSON",
    );
    let long = |bytes| Some(format!("\"{}\"", "x".repeat(bytes)));
    check(&[Function { input_schema: long(262_143), ..f() }], "input schema has 262145 bytes");
    check(&[Function { description: "x".repeat(4_097), ..f() }], "its description has 4097 bytes");
}
