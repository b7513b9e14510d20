//! Components that would take the compiler minutes or gigabytes, and are refused before it sees
//! them.

use std::fmt::Write as _;

use crate::guest_kit::{Source, guests, options};

/// Deploys what must be refused without being compiled, and for this.
fn check(bytes: &[u8], expected: &str) {
    let guests = guests(options());
    let error = guests.deploy_check(bytes).expect_err("it is refused");
    assert!(error.to_string().contains(expected), "{expected:?} is not in \"{error}\"");
    assert_eq!(guests.readings().compiled, 0, "it was compiled: {error}");
}

fn check_text(text: &str, expected: &str) {
    check(&wat::parse_str(text).expect("it is well formed"), expected);
}

/// `count` times a text, with its number in the place of `#`.
fn repeat(text: &str, count: usize) -> String {
    (0..count).map(|number| text.replace('#', &number.to_string())).collect()
}

/// A core module of this, in a component.
fn check_module(items: &str, expected: &str) {
    check_text(&format!("(component (core module {items}))"), expected);
}

#[test]
fn components_that_multiply_are_refused() {
    // Each level instantiates the one within it twice: a million instances, in some hundred bytes.
    let twice = "(instance (instantiate $c)) (instance (instantiate $c))";
    let doubling = (0..20)
        .fold("(component $c)".to_owned(), |inner, _| format!("(component $c {inner} {twice})"));
    check_text(
        &doubling,
        "it has 5 or more levels of components within each other; at most 4 are allowed",
    );
    // Few levels, and many instances on each.
    let many = repeat("(instance (instantiate $c))", 30);
    let wide = (0..3)
        .fold("(component $c)".to_owned(), |inner, _| format!("(component $c {inner} {many})"));
    check_text(&wide, "instances of components; at most 100 are allowed");
    // No levels at all: each names the one before it.
    let chain = (1..20).fold("(component $c0)".to_owned(), |chain, level| {
        let alias = format!("(alias outer 1 {} (component $c))", level - 1);
        format!("{chain} (component {alias} {twice})")
    });
    let passed = "components or core modules that it imports, exports or aliases; at most 0";
    check_text(&format!("(component {chain})"), passed);
    check_text(r#"(component (component (import "c" (component))))"#, passed);
    check_text(r#"(component (component (component $c) (export "c" (component $c))))"#, passed);
    check_text(
        r#"(component (component $a) (component $b (import "x" (instance)))
            (instance $i (export "c" (component $a)))
            (instance (instantiate $b (with "x" (instance $i)))))"#,
        passed,
    );
    check_text("(component (core module $m) (component (alias outer 1 $m (core module))))", passed);
    check_text(
        &format!("(component {})", repeat("(component)", 50)),
        "it has 51 or more components within it",
    );
}

#[test]
fn types_that_multiply_are_refused() {
    let types = "parts of types; at most 50000 are allowed";
    let tuples = (1..20).fold("(type $t0 (tuple string string))".to_owned(), |types, level| {
        format!("{types} (type $t{level} (tuple $t{0} $t{0}))", level - 1)
    });
    check_text(&format!("(component {tuples})"), types);
    let instances = (1..20).fold("(type $t0 (instance))".to_owned(), |types, level| {
        format!(
            r#"{types} (type $t{level} (instance (alias outer 1 $t{} (type $t))
                (export "a" (instance (type $t))) (export "b" (instance (type $t)))))"#,
            level - 1
        )
    });
    check_text(&format!("(component {instances})"), types);
    // Small, but named again and again through what an instance exports.
    let aliases = repeat(r#"(alias export $i "t" (type))"#, 60);
    let aliased = format!(
        r#"(component (type $t (tuple {}))
            (import "i" (instance $i (alias outer 1 $t (type)) (export "t" (type (eq 0)))))
            {aliases})"#,
        "u8 ".repeat(1_000),
    );
    check_text(&aliased, types);
}

/// Reading types is recursive: a stack that overflows would take the process with it.
#[test]
fn types_within_types_are_not_even_read() {
    const LEVELS: usize = 200_000;
    // An instance type with one declaration: a type, which is an instance type…
    let mut section = vec![1];
    section.extend([0x42, 1, 1].repeat(LEVELS));
    section.extend([0x42, 0]);
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    bytes.push(7);
    let mut length = section.len();
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    bytes.extend(section);
    check(&bytes, "or more types within types; at most 100 are allowed");
}

#[test]
fn what_instances_take_of_the_pool_is_bounded() {
    check_module("(table 10001 funcref)", "it has 10001 or more elements in a table");
    check_module(&"(memory 1)".repeat(9), "it has 9 or more memories; at most 8 are allowed");
    check_module(&"(table 1 funcref)".repeat(17), "it has 17 or more tables; at most 16");
    // One that is instantiated again has it again.
    let instances = |module: &str, count| {
        let again = "(core instance (instantiate $m))".repeat(count);
        format!("(component (core module $m {module}) {again})")
    };
    check_text(&instances("(memory 1)", 9), "it has 9 or more memories; at most 8 are allowed");
    check_text(&instances("", 65), "it has 65 or more instances of core modules; at most 64");
    check_text(&format!("(component {})", "(core module)".repeat(65)), "or more core modules");
}

#[test]
fn counts_and_sizes_are_bounded() {
    check_module(&"(func)".repeat(100_001), "it has 100001 or more core functions");
    let long = "nop ".repeat(2 << 20);
    check_module(&format!("(func {long})"), "or more bytes in one core function; at most 2097152");
    let params = "i32 ".repeat(129);
    check_module(
        &format!("(type (func (param {params})))"),
        "it has 129 or more parameters and results of one core function; at most 128 are allowed",
    );
    check_module(
        &"(global i32 (i32.const 0))".repeat(200_001),
        "imports, exports, types, globals and elements of core modules; at most 200000",
    );
    let names = |count| repeat(&format!("(export \"#{}\" (func 0))", "x".repeat(90_000)), count);
    check_module(&format!("(func) {}", names(24)), "bytes of core modules beside code and data");

    let lower = "(core func (canon lower (func $f)))".repeat(1_001);
    check_text(
        &format!(r#"(component (import "f" (func $f)) {lower})"#),
        "it has 1001 or more lifted and lowered functions; at most 1000 are allowed",
    );
    let mut imports = String::new();
    for number in 0..12 {
        write!(imports, "(import \"i{number}-{}\" (func))", "x".repeat(90_000)).unwrap();
    }
    check_text(&format!("(component {imports})"), "bytes of types, imports, exports, aliases");
    check_text(
        &format!(
            r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
                {})"#,
            r#"(alias core export $i "f" (core func))"#.repeat(20_001)
        ),
        "imports, exports, aliases and arguments of instances; at most 20000 are allowed",
    );
}

/// What is known from names is said before anything is compiled.
#[test]
fn a_component_that_is_no_guest_is_not_compiled() {
    check_text(r#"(component (core module (func)))"#, "`describe` is not exported");
    check_text(r#"(component (import "fetch" (func)))"#, "`fetch` is not available to guests");
}

/// A component that takes long to compile does not keep others from being deployed.
#[test]
fn others_are_deployed_while_one_is_compiled() {
    let guests = guests(options());
    let large = Source::echo().items(&format!("(data \"{}\")", "x".repeat(5 << 20))).component();
    // It has its room, and is as far as it gets until it is compiled.
    let slow = guests.admit(&large).expect("it may be compiled");
    guests.deploy_check(&Source::echo().component()).expect("it does not wait");
    guests.deploy_check(&Source::waits().component()).expect("it does not wait");
    slow.check().expect("it is a guest");
    assert_eq!(guests.readings().compiled, 3);
}
