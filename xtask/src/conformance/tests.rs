//! What the tool makes of small specifications and sources.

use super::id::{Id, find, ranges};
use super::report::Report;
use super::source::{Place, Source};
use super::spec::{Level, Spec};
use super::{Cited, cited};

fn id(text: &str) -> Id {
    Id::parse(text).expect("an id")
}

fn ids(text: &str) -> Vec<Id> {
    text.split_whitespace().map(id).collect()
}

fn spec(text: &str) -> Spec {
    let mut spec = Spec::default();
    spec.add("a.md", text);
    spec
}

fn scan(source: &str) -> Vec<(Id, usize, Place)> {
    Source::new("crates/a/src/lib.rs", source).expect("a source").citations()
}

/// Checks the ids that a source cites, in order, as `id line place`.
#[track_caller]
fn check_scan(source: &str, expected: &[&str]) {
    let mut found = scan(source);
    found.sort_by_key(|(id, line, _)| (*line, *id));
    let found: Vec<String> =
        found.iter().map(|(id, line, place)| format!("{id} {line} {place:?}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn an_id_is_a_group_and_a_number() {
    assert_eq!(id("SE-4").to_string(), "SE-4");
    for not in ["X-1", "J-", "J", "J-06", "J-0", "J-+1", "j-1", "J-1a", "J-99999999999", "-1"] {
        assert_eq!(Id::parse(not), None, "{not}");
    }
}

#[test]
fn only_whole_words_are_ids() {
    let text = "J-61, (SE-4) V-17..V-28 `C-38`: I-2. O-4/Q-1 INV-6- ü J-3";
    let found: Vec<Id> = find(text).map(|(_, id)| id).collect();
    assert_eq!(found, ids("J-61 SE-4 V-17 V-28 C-38 I-2 O-4 Q-1 INV-6 J-3"));
    for (offset, id) in find(text) {
        assert!(text[offset..].starts_with(&id.to_string()), "{id}");
    }
    let others = "UTF-8 SHA-256 FOO-J-1 xJ-1 _J-1 J-1a J-1-a J-1_ -J-1 üJ-1 J - 1";
    assert_eq!(find(others).next(), None);
}

#[test]
fn runs_of_three_become_ranges() {
    assert_eq!(ranges(&[]), "");
    assert_eq!(ranges(&ids("J-5 J-9 J-10 J-11 J-12")), "J-5, J-9..J-12");
    assert_eq!(ranges(&ids("S-4 S-5 SE-6 SE-7 SE-8")), "S-4, S-5, SE-6..SE-8");
}

#[test]
fn requirements_are_read_with_level_and_built() {
    let spec = spec("# T\n\n- **J-1** [must] One\n  two.\n- **SE-2** [api, built] `x`: y\n- z\n");
    assert_eq!(spec.problems, Vec::<String>::new());
    let read: Vec<_> =
        spec.requirements.iter().map(|(id, it)| (*id, it.level, it.is_built, it.line)).collect();
    assert_eq!(read, [(id("J-1"), Level::Must, false, 3), (id("SE-2"), Level::Api, true, 5)]);
}

#[test]
fn examples_in_fenced_code_are_no_requirements() {
    let spec = spec("```text\n- **J-1** [must] x\n- **nonsense\n```\n- **J-2** [may] y\n");
    assert_eq!(spec.problems, Vec::<String>::new());
    assert_eq!(spec.requirements.into_keys().collect::<Vec<_>>(), [id("J-2")]);
}

#[test]
fn malformed_requirements_are_reported_where_they_stand() {
    let spec = spec(
        "- **J-1** [must] x\n- **J-2** must x\n- **J-3** [must]\n- **K-4** [must] x\n\
         - **J-5** [shall] x\n- **J-6** [must, done] x\n- **J-1** [may] again\n- **J-7** [must] \n",
    );
    assert_eq!(
        spec.problems,
        [
            "a.md:2: a requirement has the form `- **ID** [level] text`",
            "a.md:3: a requirement has the form `- **ID** [level] text`",
            "a.md:4: `K-4` is not an id of a known group",
            "a.md:5: `shall` is not a level",
            "a.md:6: `done` is not `built`",
            "a.md:7: J-1 is already defined at a.md:1",
            "a.md:8: a requirement has the form `- **ID** [level] text`",
        ]
    );
    assert_eq!(spec.requirements.len(), 1);
}

#[test]
fn comments_and_strings_cite_but_code_does_not() {
    check_scan(
        "//! J-1\n// J-2\n/// J-3\nfn f() -> u32 { J-4; \"J-5\\nJ-6\"; r#\"a \" J-7\n J-8\"#; }\n\
         /* J-9 /* J-10 */\n J-11 */ const C: &str = b\"J-12\"; // J-13",
        &[
            "J-1 1 Code",
            "J-2 2 Code",
            "J-3 3 Code",
            "J-5 4 Code",
            "J-6 4 Code",
            "J-7 4 Code",
            "J-8 5 Code",
            "J-9 6 Code",
            "J-10 6 Code",
            "J-11 7 Code",
            "J-12 7 Code",
            "J-13 7 Code",
        ],
    );
}

#[test]
fn an_id_behind_see_is_a_reference() {
    let check = |text: &str, expected: &[&str]| {
        for source in
            [format!("// {text}"), format!("/* {text} */"), format!("/// {text}\nfn f() {{}}")]
        {
            let found = scan(&source);
            let references: Vec<String> = found
                .iter()
                .filter(|(_, _, place)| *place == Place::Reference)
                .map(|(id, _, _)| id.to_string())
                .collect();
            assert_eq!(references, expected, "{source}");
        }
    };
    check("J-1 (see J-2) J-3", &["J-2"]);
    check("See J-1, `J-2` and J-3..J-4/J-5: J-6", &["J-1", "J-2", "J-3", "J-4", "J-5"]);
    check("SEE J-1. J-2 and J-3", &["J-1"]);
    check("see J-1 for J-2; sees J-3, over-see J-4, see: J-5, see the rule J-6", &["J-1"]);
    check_scan(
        "// x, see\n// J-1,\n// J-2\n// J-3\n/// see J-4,\n/// J-5\n#[test] fn t() { \"J-6\" }",
        &[
            "J-1 2 Reference",
            "J-2 3 Reference",
            "J-3 4 Code",
            "J-4 5 Reference",
            "J-5 6 Reference",
            "J-6 7 Code",
        ],
    );
}

#[test]
fn quotes_and_lifetimes_do_not_hide_what_follows() {
    check_scan(
        "fn f<'a>(x: &'a str) { ('\"', '\\'', b'\"', '\\\\', '\\u{22}'); 'l: loop {} } // J-1\n\
         let r#fn = \"\\\"// J-2\"; // J-3",
        &["J-1 1 Code", "J-2 2 Code", "J-3 2 Code"],
    );
}

#[test]
fn the_docs_of_a_test_prove() {
    check_scan("/// J-1: x.\n/// SE-2\n#[test]\nfn t() {}", &["J-1 1 Test", "SE-2 2 Test"]);
    check_scan("#[test]\n/// J-1\nfn t() {}", &["J-1 2 Test"]);
    check_scan("/// J-1\n#[tokio::test(flavor = \"x\")]\nasync fn t() {}", &["J-1 1 Test"]);
    check_scan(
        "/// J-1\n#[test]\n#[should_panic(\n  expected = \"]\"\n)]\nfn t() {}",
        &["J-1 1 Test"],
    );
    check_scan("/// J-1\n#[test] pub(crate) unsafe extern \"C\" fn t() {}", &["J-1 1 Test"]);
    check_scan(
        "proptest! {\n  #![proptest_config(c())]\n  /// J-1\n  #[test]\n  fn p(x in 0..9) {}\n}",
        &["J-1 3 Test"],
    );
}

#[test]
fn ids_elsewhere_in_a_test_prove_nothing() {
    check_scan("/// J-1\nfn helper() {}\n#[test]\nfn t() {}", &["J-1 1 Code"]);
    check_scan("/// J-1\nconst X: u8 = 1;\n#[test]\nfn t() {}", &["J-1 1 Code"]);
    check_scan("#[test]\n// J-1\nfn t() { /* J-2 */ }", &["J-1 2 Elsewhere", "J-2 3 Code"]);
    check_scan(
        "/// J-1\n#[test]\n#[ignore = \"J-2\"]\nfn t() {}",
        &["J-1 1 Elsewhere", "J-2 3 Elsewhere"],
    );
    check_scan("/// J-1\n#[test_log(test)]\nfn t() {}", &["J-1 1 Code"]);
}

#[test]
fn a_test_module_ends_at_its_brace() {
    check_scan(
        "// J-1\n#[cfg(test)]\nmod tests {\n  // J-2\n  fn f() { \"J-3\" }\n  /// J-4\n  #[test]\n  \
         fn t() {}\n}\n// J-5\n#[cfg(not(test))]\nmod real {\n // J-6\n}",
        &[
            "J-1 1 Code",
            "J-2 4 Elsewhere",
            "J-3 5 Elsewhere",
            "J-4 6 Test",
            "J-5 10 Code",
            "J-6 13 Code",
        ],
    );
    check_scan("#![cfg(test)]\n// J-1", &["J-1 2 Elsewhere"]);
    let (cited, problems) = cite(&[
        ("crates/a/src/lib.rs", "#[cfg(test)]\nmod tests;\n#[cfg(test)] pub(crate) mod x;\nmod y;"),
        ("crates/a/src/tests.rs", "// J-1"),
        ("crates/a/src/x.rs", "// J-1"),
        ("crates/a/src/y.rs", "// J-2"),
    ]);
    assert!(cited.code.is_empty());
    assert_eq!(problems, ["crates/a/src/y.rs:1: J-2 has code only where no binary reaches it"]);
}

/// The citations of these files against the ids `J-1` to `J-4`.
fn cite(files: &[(&str, &str)]) -> (Cited, Vec<String>) {
    let spec =
        spec("- **J-1** [must] a\n- **J-2** [must] b\n- **J-3** [must] c\n- **J-4** [must] d\n");
    let sources = files.iter().map(|(path, source)| ((*path).to_owned(), (*source).to_owned()));
    let mut cited = cited(&sources.collect(), &["crates/a/src/lib.rs"], &spec).expect("sources");
    let problems = std::mem::take(&mut cited.problems);
    (cited, problems)
}

#[test]
fn code_is_what_stands_below_src_outside_test_modules() {
    let (cited, problems) = cite(&[
        ("crates/a/src/lib.rs", "// J-1\n#[cfg(test)] mod tests;"),
        ("crates/a/src/tests.rs", "// J-2\n/// J-3\n#[test]\nfn t() {}"),
        ("crates/a/src/tests/more.rs", "// J-2"),
        ("crates/a/tests/b.rs", "// J-2\n/// J-4\n#[test]\nfn t() {}"),
        ("crates/a/src/c.rs", "#[cfg(test)] mod tests;"),
        ("crates/a/src/c/tests.rs", "// J-2"),
    ]);
    assert_eq!(cited.code.into_iter().collect::<Vec<_>>(), ids("J-1"));
    assert_eq!(cited.tests.into_iter().collect::<Vec<_>>(), ids("J-3 J-4"));
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn code_that_nothing_reaches_does_not_count() {
    let (cited, problems) = cite(&[
        ("crates/a/src/c.rs", "//! J-1\n//! J-2, see J-3\n// J-2"),
        ("crates/a/src/lib.rs", "mod c;\nmod d; // J-1\nfn f() { d::g() }"),
        ("crates/a/src/d.rs", "// J-4"),
    ]);
    assert_eq!(cited.code.into_iter().collect::<Vec<_>>(), ids("J-1 J-4"));
    assert_eq!(problems, ["crates/a/src/c.rs:2: J-2 has code only where no binary reaches it"]);
}

#[test]
fn an_unknown_id_is_an_error_anywhere() {
    let (cited, problems) = cite(&[("crates/a/tests/b.rs", "// x\n\n/// J-9\n#[test]\nfn t() {}")]);
    assert!(cited.tests.is_empty());
    assert_eq!(problems, ["crates/a/tests/b.rs:3: J-9 is cited, but docs/spec does not define it"]);
}

fn report(text: &str, code: &str, tests: &str) -> (Spec, Report) {
    let spec = spec(text);
    let report =
        Report::new(&spec, &ids(code).into_iter().collect(), &ids(tests).into_iter().collect());
    (spec, report)
}

const SMALL: &str = "- **J-1** [must, built] a\n- **J-2** [must] b\n- **J-3** [background, built] c\n\
    - **J-4** [api] d\n- **SE-1** [must, built] e\n- **S-1** [must] f\n- **V-1** [must] g\n";

#[test]
fn a_built_requirement_needs_a_test_unless_it_is_background() {
    let (spec, report) = report(SMALL, "J-1 SE-1", "J-1");
    assert_eq!(
        report.unproved(&spec),
        ["a.md:5: SE-1 is marked built, but the docs of no test cite it"]
    );
}

#[test]
fn the_table_lists_what_is_missing_where_something_is_built() {
    let (_, report) = report(SMALL, "J-1 V-1", "J-1 SE-1");
    let mut out = Vec::new();
    report.write_table(&mut out).unwrap();
    let expected = "\
group       requirements  background  code  test  built
V                      1           0     1     0      0
J                      4           1     1     1      2
invariants             2           0     0     1      1
I                      0           0     0     0      0
Q                      0           0     0     0      0
O                      0           0     0     0      0
C                      0           0     0     0      0

J without code: J-2, J-4
J without test: J-2, J-4

invariants without code: S-1, SE-1
invariants without test: S-1
";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn json_says_the_same() {
    let (_, report) = report(SMALL, "J-1", "J-1");
    let mut out = Vec::new();
    report.write_json(&mut out).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        json["groups"][1],
        serde_json::json!({
            "group": "J", "requirements": 4, "background": 1, "with_code": 1, "with_test": 1,
            "built": 2, "without_code": ["J-2", "J-4"], "without_test": ["J-2", "J-4"],
        })
    );
    assert_eq!(json["built_without_test"], serde_json::json!(["SE-1"]));
}
