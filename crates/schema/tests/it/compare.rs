//! Whether what fitted still fits.
#![expect(dead_code, reason = "the schemas of types are compared, and no value is made")]

use std::collections::BTreeMap;

use indelible_schema::accepts_all;
use indelible_sdk::__private::SchemasOf;
use indelible_sdk::prelude::*;

mod before {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    pub(super) struct Order {
        pub(super) id: u32,
        pub(super) via: Via,
        pub(super) lines: Vec<Line>,
    }

    #[derive(Serialize, JsonSchema)]
    pub(super) enum Via {
        Post,
        Van { plate: String },
    }

    #[derive(Serialize, JsonSchema)]
    pub(super) struct Line {
        pub(super) item: String,
        pub(super) parts: Option<Vec<Line>>,
    }
}

mod after {
    use super::*;

    /// More optional fields, a larger number, another variant, a field that may be missing.
    #[derive(Serialize, JsonSchema)]
    pub(super) struct Order {
        pub(super) id: u64,
        pub(super) via: Via,
        #[serde(default)]
        pub(super) lines: Vec<Line>,
        pub(super) note: Option<String>,
    }

    #[derive(Serialize, JsonSchema)]
    pub(super) enum Via {
        Post,
        Van { plate: String },
        Bike,
    }

    #[derive(Serialize, JsonSchema)]
    pub(super) struct Line {
        pub(super) item: Option<String>,
        pub(super) parts: Option<Vec<Line>>,
    }
}

#[test]
fn types_that_grow() {
    let input = |schema: Option<String>| schema.expect("it has a schema");
    let (old, new) = (
        input(SchemasOf::<before::Order>::input(&["order"])),
        input(SchemasOf::<after::Order>::input(&["an_order"])),
    );
    assert!(accepts_all(&new, &old));
    assert!(!accepts_all(&old, &new));
    let same = input(SchemasOf::<(before::Order, u8)>::input(&["a", "b"]));
    let more = input(SchemasOf::<(after::Order, u8)>::input(&["a", "b"]));
    let longer = input(SchemasOf::<(after::Order, u8, u8)>::input(&["a", "b", "c"]));
    assert!(accepts_all(&more, &same) && accepts_all(&same, &same));
    assert!(!accepts_all(&longer, &more) && !accepts_all(&more, &longer));
    let map = input(SchemasOf::<BTreeMap<String, u8>>::input(&["map"]));
    let wider = input(SchemasOf::<BTreeMap<String, u16>>::input(&["map"]));
    assert!(accepts_all(&wider, &map) && !accepts_all(&map, &wider));
}

#[test]
fn keyword_by_keyword() {
    for (wide, narrow, fits) in [
        ("true", r#"{"type": "string"}"#, true),
        ("{}", "true", true),
        (r#"{"type": "string"}"#, "true", false),
        (r#"{"type": "string"}"#, "false", true),
        ("false", "{}", false),
        (r#"{"title": "a", "description": "b", "default": 1}"#, "{}", true),
        (r#"{"type": "number"}"#, r#"{"type": "integer"}"#, true),
        (r#"{"type": "integer"}"#, r#"{"type": "number"}"#, false),
        (r#"{"type": ["string", "null"]}"#, r#"{"type": "string"}"#, true),
        (r#"{"type": "string"}"#, r#"{"type": ["string", "null"]}"#, false),
        (
            r#"{"anyOf": [{"type": "string"}, {"type": "null"}]}"#,
            r#"{"type": ["null", "string"]}"#,
            true,
        ),
        (
            r#"{"type": ["null", "string"]}"#,
            r#"{"oneOf": [{"type": "string"}, {"type": "null"}]}"#,
            true,
        ),
        (r#"{"minimum": 0}"#, r#"{"minimum": 1}"#, true),
        (r#"{"minimum": 0}"#, "{}", false),
        (r#"{"minimum": 1}"#, r#"{"minimum": 0}"#, false),
        (r#"{"maxLength": 5}"#, r#"{"maxLength": 4}"#, true),
        (r#"{"maxLength": 5}"#, r#"{"maxLength": 6}"#, false),
        (r#"{"enum": ["a", "b"]}"#, r#"{"const": "a"}"#, true),
        (r#"{"enum": ["a"]}"#, r#"{"enum": ["a", "b"]}"#, false),
        (r#"{"enum": ["a"]}"#, r#"{"type": "string"}"#, false),
        (r#"{"required": ["a"]}"#, r#"{"required": ["b", "a"]}"#, true),
        (r#"{"required": ["a", "b"]}"#, r#"{"required": ["a"]}"#, false),
        (r#"{"properties": {"a": {"type": "string"}}}"#, "{}", true),
        (
            r#"{"properties": {"a": {"type": "string"}}}"#,
            r#"{"properties": {"a": {"type": "null"}}}"#,
            false,
        ),
        (r#"{"additionalProperties": false}"#, "{}", false),
        (
            r#"{"properties": {"a": true}, "additionalProperties": false}"#,
            r#"{"properties": {"b": true}, "additionalProperties": false}"#,
            false,
        ),
        (
            r#"{"properties": {"a": true, "b": true}, "additionalProperties": false}"#,
            r#"{"properties": {"b": true}, "additionalProperties": false}"#,
            true,
        ),
        (
            r#"{"items": {"type": "string"}}"#,
            r#"{"items": {"const": "a", "type": "string"}}"#,
            true,
        ),
        (r#"{"items": {"type": "string"}}"#, r#"{"type": "array"}"#, false),
        (r#"{"pattern": "a"}"#, r#"{"pattern": "a", "minLength": 1}"#, true),
        (r#"{"pattern": "a"}"#, r#"{"pattern": "b"}"#, false),
        (r#"{"not": {"type": "null"}}"#, r#"{"type": "string"}"#, false),
        (r##"{"$ref": "#/$defs/gone"}"##, "{}", false),
        (r##"{"items": {"$ref": "#"}}"##, r##"{"items": {"$ref": "#"}, "maxItems": 1}"##, true),
        ("not JSON", "not JSON", true),
        ("not JSON", "{}", false),
    ] {
        assert_eq!(accepts_all(wide, narrow), fits, "{wide} {narrow}");
    }
}

/// Comparing ends, whatever is compared.
#[test]
fn alternatives_that_multiply() {
    let mut schema = r#"{"type": "string"}"#.to_owned();
    for _ in 0..40 {
        schema = format!(r#"{{"anyOf": [{schema}, {{"items": {schema}}}]}}"#);
        if schema.len() > 1 << 16 {
            break;
        }
    }
    _ = accepts_all(&schema, &schema.replace("string", "null"));
}
