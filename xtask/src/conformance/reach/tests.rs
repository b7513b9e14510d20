//! What is reached in small workspaces.

use super::super::modules::{self, Modules};
use super::super::source::Source;
use super::reached;

const MAIN: &str = "crates/cli/src/main.rs";
const A: &str = "crates/a/src/lib.rs";

const ROOTS: [&str; 2] = [MAIN, "crates/linked-lib/src/lib.rs"];

fn modules(files: &[(&str, &str)]) -> Modules {
    let sources = files.iter().map(|(path, source)| Source::new(path, source).unwrap());
    modules::modules(&sources.collect::<Vec<_>>()).unwrap()
}

/// Checks which files of a workspace with these sources are not reached at all.
#[track_caller]
fn check(main: &str, others: &[(&str, &str)], expected: &[&str]) {
    let files = [&[(MAIN, main)], others].concat();
    let modules = modules(&files);
    let reached = reached(&modules, &ROOTS);
    let missed: Vec<&str> =
        files.iter().map(|(path, _)| *path).filter(|it| !reached.contains_key(it)).collect();
    assert_eq!(missed, expected, "{main}");
}

/// Checks which lines of a file with one item in each are reached from a `main` that is one of them.
#[track_caller]
fn check_lines(source: &str, expected: &[usize]) {
    let modules = modules(&[(MAIN, source)]);
    let reached = reached(&modules, &ROOTS);
    let is_reached = |line: &usize| reached[MAIN].iter().any(|it| it.contains(line));
    let lines: Vec<usize> = (1..=source.lines().count()).filter(is_reached).collect();
    assert_eq!(lines, expected, "{source}");
}

/// Checks what code in `main` reaches of a crate with a module behind each kind of name.
#[track_caller]
fn check_names(main: &str, expected: &[&str]) {
    let found = [
        (
            A,
            "pub mod open; mod one; mod two; pub use one::{One, make as build}; pub use self::two::Two;",
        ),
        ("crates/a/src/one.rs", ""),
        ("crates/a/src/two.rs", ""),
        ("crates/a/src/open/mod.rs", "pub mod deep;"),
        ("crates/a/src/open/deep.rs", ""),
    ];
    let expected: Vec<String> = expected.iter().map(|it| format!("crates/a/src/{it}.rs")).collect();
    check(main, &found, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_path_into_a_module_reaches_it() {
    const ALL: [&str; 5] = ["lib", "one", "two", "open/mod", "open/deep"];
    check_names("fn main() { deep(); one(); \"indelible_a::One\"; } // indelible_a::One", &ALL);
    check_names("use indelible_a as a;", &ALL[1..]);
    check_names("use indelible_a::open::{self, deep as d};", &["one", "two"]);
    check_names("fn f() { indelible_a::open::deep::X::new(); }", &["one", "two"]);
    check_names("fn f() { indelible_a::open::f(); }", &["one", "two", "open/deep"]);
    check_names("use indelible_a as a; fn f() { a::open::deep::g() }", &["one", "two"]);
    check_names("use indelible_a::open; fn f() { open::deep::g::<u8>() }", &["one", "two"]);
    check_names("use indelible_a::*;", &[]);
    check_names(
        "macro_rules! m { () => { $crate::x(); ::indelible_a::open::f() } }",
        &["one", "two", "open/deep"],
    );
}

#[test]
fn a_re_export_leads_to_the_module_that_defines() {
    check_names("use indelible_a::One;", &["two", "open/mod", "open/deep"]);
    check_names("use indelible_a::build;", &["two", "open/mod", "open/deep"]);
    check_names("fn f(x: &indelible_a::Two) {}", &["one", "open/mod", "open/deep"]);
    check_names("use indelible_a::{Two as T, One};", &["open/mod", "open/deep"]);
    check_names("pub use indelible_a::One;", &["lib", "one", "two", "open/mod", "open/deep"]);
    check_names("pub use indelible_a::One; fn f(x: One) {}", &["two", "open/mod", "open/deep"]);
}

#[test]
fn test_code_reaches_nothing() {
    const ALL: [&str; 5] = ["lib", "one", "two", "open/mod", "open/deep"];
    check_names("#[cfg(test)] mod tests { use indelible_a::One; } #[cfg(test)] mod more;", &ALL);
    check_names("#[cfg(test)] use indelible_a::{One, Two};", &ALL);
    check_names("#[test] #[should_panic] fn t() { indelible_a::f(); }", &ALL);
    check_names(
        "struct S { #[cfg(test)] a: indelible_a::One, b: indelible_a::Two }",
        &["one", "open/mod", "open/deep"],
    );
    check_names("#[cfg(not(test))] use indelible_a::open;", &["one", "two", "open/deep"]);
    check_names("#[cfg(any(test, unix))] use indelible_a::open;", &["one", "two", "open/deep"]);
    let of_tests = ("crates/cli/src/tests.rs", "use super::*; make! { fn f() { super::x::f() } }");
    let others = [of_tests, ("crates/cli/src/x.rs", "")];
    check("fn main() {} mod x; #[cfg(test)] mod tests;", &others, &others.map(|(path, _)| path));
}

/// A line between two items belongs to the second.
#[test]
fn an_item_is_reached_when_it_is_named() {
    check_lines(
        "//! x\nfn main() { f() }\n\nfn f() {}\n\nfn g() { f() }\n\nfn h() {}\n",
        &[1, 2, 3, 4],
    );
    check_lines(
        "fn main() { S::new(A[0]) }\n\nstruct S;\n\nimpl S {}\n\nconst A: [u8; 1] = [0];",
        &[1, 2, 3, 4, 5, 6, 7],
    );
    check_lines(
        "fn main() { S }\n\nimpl Drop for S {}\n\nstruct S;\n\nimpl From<T> for S {}\n\nstruct T;",
        &[1, 2, 3, 4, 5],
    );
    check_lines(
        "fn main() { format!(\"{W}{:>X$}\") }\n\nconst W: u8 = 1;\n\nstatic mut X: u8 = 1;\n\nconst fn y() {}",
        &[1, 2, 3, 4, 5],
    );
    check_lines(
        "fn main() {}\n\n#[unsafe(no_mangle)]\n\nextern \"C\" fn f() { g() }\n\nconst _: () = h();\n\nfn g() {}\n\nfn h() {}\n\nfn i() {}",
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    );
    check_lines(
        "fn main() {}\n\nmacro_rules! m { () => { f() } }\n\ntype A = fn(B);\n\nfn f() {}\n\nstruct B;\n\ntrait C {}\n\n",
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 12],
    );
    check_lines(
        "fn main() { a::f() }\n\nmod a {\n\npub fn f() { super::g() }\n\nfn h() {}\n\n}\n\nfn g() {}\n\nfn i() {}",
        &[1, 2, 3, 4, 5, 8, 9, 10, 11],
    );
}

#[test]
fn strings_of_attributes_can_be_paths() {
    let source = |attribute: &str| {
        format!("fn main() {{ S }}\n{attribute} struct S;\nfn f() {{}}\nmod m {{\nfn g() {{}}\n}}")
    };
    check_lines(&source("#[serde(rename = \"kind\", alias = \"\")]"), &[1, 2, 4]);
    check_lines(&source("#[serde(default = \"f\")]"), &[1, 2, 3, 4]);
    check_lines(&source("#[serde(with = \"m\")]"), &[1, 2, 4, 5, 6]);
    check_lines(&source("#[serde(with = \"self::m::g\")]"), &[1, 2, 4, 5, 6]);
}

#[test]
fn modules_name_each_other() {
    check(
        "mod x; mod y; mod z; fn main() { inner::f() } mod inner { pub fn f() { super::x::f() } }",
        &[
            ("crates/cli/src/x.rs", "use super::y::Y; fn f() { let z = 1; z }"),
            ("crates/cli/src/y.rs", "mod w; #[serde(with = \"w\")] struct Y;"),
            (
                "crates/cli/src/y/w.rs",
                "fn read() { inline::f() } mod inline { pub fn f() { super::V } } mod v; pub use v::V;",
            ),
            ("crates/cli/src/y/w/v.rs", "use foo::foo; fn f() { foo::foo() }"),
            ("crates/cli/src/z.rs", ""),
        ],
        &["crates/cli/src/z.rs"],
    );
    // Imports in a circle, each by the other.
    check(
        "mod x; mod y; use x::A;",
        &[
            ("crates/cli/src/x.rs", "pub use crate::y::*;"),
            ("crates/cli/src/y.rs", "pub use crate::x::*;"),
        ],
        &[],
    );
}

/// Methods are called without a path: an `impl` for a type of another module is reached with that
/// type, one for a type or trait of its own only when that is named.
#[test]
fn an_impl_is_reached_with_what_it_is_for() {
    let check_impl = |source: &str, expected: &[&str]| {
        check(
            "mod t; mod i; mod u; fn f(t: t::T) {}",
            &[
                ("crates/cli/src/t.rs", "pub struct T;"),
                ("crates/cli/src/i.rs", source),
                ("crates/cli/src/u.rs", "pub trait U {}"),
            ],
            expected,
        );
    };
    const I: &str = "crates/cli/src/i.rs";
    const U: &str = "crates/cli/src/u.rs";
    check_impl("use std::fmt; use crate::t::T; impl<X> fmt::Display for T where X: Copy {}", &[U]);
    check_impl("impl super::t::T {}", &[U]);
    check_impl("use super::*; impl t::T {}", &[U]);
    check_impl("use crate::t::T; struct Own; impl From<T> for Own {}", &[I, U]);
    check_impl("use crate::t::T; trait Own {} impl Own for T {}", &[I, U]);
    check_impl("use crate::t::T; use crate::u::U; impl U for T {}", &[I, U]);
    check_impl("fn f(x: impl Fn()) -> impl Copy {}", &[I, U]);
    check_impl(
        "const C: &str = concat!(\"\"); fn f() { vec![1]; } macro_rules! m { () => {} }",
        &[I, U],
    );
    check_impl("implement! { T }", &[U]);
}

#[test]
fn a_linked_library_is_reached_where_it_is_public() {
    check(
        "",
        &[
            ("crates/linked-lib/src/lib.rs", "pub mod a; mod b; mod c; pub use b::B;"),
            ("crates/linked-lib/src/a.rs", "pub(crate) mod d; mod e;"),
            ("crates/linked-lib/src/a/d.rs", ""),
            ("crates/linked-lib/src/a/e.rs", ""),
            ("crates/linked-lib/src/b.rs", ""),
            ("crates/linked-lib/src/c.rs", ""),
        ],
        &["crates/linked-lib/src/a/e.rs", "crates/linked-lib/src/c.rs"],
    );
}
