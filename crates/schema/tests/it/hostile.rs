//! Schemas and inputs that are made to take long, or to take the process with them.

use std::fmt::Write as _;

use indelible_schema::{Check, PATTERNS_MAX, STEPS_MAX, SUBSCHEMAS_MAX, Schema, SchemaError};

/// Definitions, each made of a reference to the next; the last is an integer.
fn chain(length: usize, link: impl Fn(&str) -> String) -> String {
    let mut schema = r##"{"$ref": "#/$defs/a0", "$defs": {"##.to_owned();
    for index in 0..length {
        let next = format!("{{\"$ref\": \"#/$defs/a{}\"}}", index + 1);
        write!(schema, "\"a{index}\": {},", link(&next)).expect("a string takes all");
    }
    write!(schema, "\"a{length}\": {{\"type\": \"integer\"}}}}}}").expect("a string takes all");
    schema
}

fn check(schema: &str, input: &str) -> Check {
    Schema::compile(schema).expect("it compiles").check(input.as_bytes(), STEPS_MAX)
}

/// Each link doubles the work; without the meter this would take years.
#[test]
fn schemas_that_multiply_work() {
    let doubling: [fn(&str) -> String; 4] = [
        |next| format!(r#"{{"allOf": [{next}, {next}]}}"#),
        |next| format!(r#"{{"anyOf": [{next}, {next}]}}"#),
        |next| format!(r#"{{"oneOf": [{next}, {next}, true]}}"#),
        |next| format!(r#"{{"if": {next}, "then": {next}, "else": {next}}}"#),
    ];
    for link in doubling {
        let schema = chain(64, link);
        let fits = [check(&schema, "1"), check(&schema, "\"x\"")];
        assert!(fits.contains(&Check::OutOfSteps), "{fits:?}");
    }
    // The leaves allow everything: they never look at the input by themselves.
    let schema = chain(64, doubling[0]).replace(r#"{"type": "integer"}"#, "true");
    assert_eq!(check(&schema, "1"), Check::OutOfSteps);
    // At every depth of the input both alternatives are tried.
    let node = r##"{"anyOf": [
        {"properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}, "required": ["b"]},
        {"properties": {"a": {"$ref": "#"}, "b": {"type": "integer"}}, "required": ["b"]}]}"##;
    let deep = "{\"b\":1,\"a\":".repeat(120) + "{\"b\":null}" + &"}".repeat(120);
    assert!(matches!(check(node, &deep), Check::Misfit(_) | Check::OutOfSteps));
}

#[test]
fn references_without_an_end() {
    let both = r##"{"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]},
        "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}"##;
    for schema in [both, r##"{"$ref": "#"}"##, r##"{"not": {"$ref": "#"}}"##] {
        let schema = Schema::compile(schema).expect("it compiles");
        // Which it is does not matter: it ends.
        _ = schema.check(b"1", STEPS_MAX);
    }
    let length = SUBSCHEMAS_MAX / 2 - 2;
    let long = chain(length, |next| format!(r#"{{"allOf": [{next}]}}"#));
    assert_ne!(check(&long, "1"), Check::Misfit(Vec::new()));
    let nested = chain(length, |next| format!(r#"{{"properties": {{"x": {next}}}}}"#));
    assert_eq!(check(&nested, r#"{"x": {"x": 1}}"#), Check::Fits);
}

#[test]
fn inputs_that_are_large_or_deep() {
    let numbers = format!("[{}1]", "1,".repeat(1 << 20));
    let list = r#"{"items": {"type": "integer"}}"#;
    assert_eq!(check(list, &numbers), Check::Fits);
    let strings = r#"{"items": {"type": "string"}}"#;
    assert!(matches!(check(strings, &numbers), Check::Misfit(problems) if problems.len() == 1));
    assert!(matches!(check(r#"{"uniqueItems": true}"#, &numbers), Check::Misfit(_)));
    let tree = r##"{"items": {"$ref": "#"}, "type": "array"}"##;
    let deep = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
    assert!(matches!(check(tree, &deep), Check::Misfit(_)));
    let long = format!("\"{}\"", "a".repeat(4 << 20));
    assert!(matches!(check(r#"{"pattern": "(a|aa)+b$"}"#, &long), Check::Misfit(_)));
    assert!(matches!(check(r#"{"maxLength": 3}"#, &long), Check::Misfit(_)));
}

#[test]
fn schemas_that_are_refused() {
    let many = |count: usize, each: &str| format!("[{}]", vec![each; count].join(","));
    let all = |count: usize, each: &str| format!("{{\"allOf\": {}}}", many(count, each));
    let refused = |schema: &str| Schema::compile(schema).map(drop).expect_err("it is refused");
    assert!(Schema::compile(&all(SUBSCHEMAS_MAX - 1, "{}")).is_ok());
    assert_eq!(refused(&all(SUBSCHEMAS_MAX, "{}")), SchemaError::TooManySubschemas);
    assert!(Schema::compile(&all(PATTERNS_MAX, r#"{"pattern": "a"}"#)).is_ok());
    assert_eq!(
        refused(&all(PATTERNS_MAX + 1, r#"{"pattern": "a"}"#)),
        SchemaError::TooManyPatterns
    );
    for remote in ["https://example.com/a.json", "file:///etc/passwd", "other.json#/a", "//x"] {
        let schema = format!(r#"{{"properties": {{"a": {{"$ref": "{remote}"}}}}}}"#);
        assert_eq!(refused(&schema), SchemaError::Remote(remote.to_owned()));
    }
    for (schema, expected) in [
        ("{", "is not JSON"),
        ("[]", "is not a valid JSON Schema"),
        (r#"{"type": "text"}"#, "is not a valid JSON Schema: at /type"),
        (r##"{"$ref": "#/$defs/gone"}"##, "is not a valid JSON Schema"),
        (r#"{"$schema": "https://example.com/own"}"#, "is not a valid JSON Schema"),
        (r#"{"pattern": "("}"#, "is not a valid JSON Schema"),
        // Beyond a linear-time engine, and beyond its bound.
        (r#"{"pattern": "(a)\\1"}"#, "is not a valid JSON Schema"),
        (r#"{"pattern": "(\\w{100}){100}"}"#, "is not a valid JSON Schema"),
        (&("[".repeat(1 << 17)), "is not JSON"),
        (&("{\"not\":".repeat(200) + "{}" + &"}".repeat(200)), "is not JSON"),
    ] {
        let error = refused(schema).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
