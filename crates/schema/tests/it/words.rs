//! What is wrong with an input, in words.

use indelible_schema::{Check, Schema};
use indelible_sdk::prelude::*;
use indelible_sdk::{__private::SchemasOf, JsonSchema};

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "its schema is looked at")]
struct Order {
    id: u64,
    note: Option<String>,
    via: Via,
    to: Option<Address>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "its schema is looked at")]
struct Address {
    street: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Via {
    Post,
    Van,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "its schema is looked at")]
enum Pay {
    Card { number: String },
    Cash { coins: Vec<u8> },
}

fn said(schema: &Schema, input: &str) -> String {
    match schema.check(input.as_bytes(), indelible_schema::STEPS_MAX) {
        Check::Fits => "fits".to_owned(),
        Check::OutOfSteps => "out of steps".to_owned(),
        Check::Misfit(problems) => {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
    }
}

fn compiled(schema: Option<String>) -> Schema {
    Schema::compile(&schema.expect("it has a schema")).expect("it compiles")
}

#[test]
fn of_types() {
    let charge = compiled(SchemasOf::<(String, u64)>::input(&["card", "cents"]));
    let order = compiled(SchemasOf::<Order>::input(&["order"]));
    let pay = compiled(SchemasOf::<Pay>::input(&["pay"]));
    let nothing = compiled(SchemasOf::<()>::input(&[]));
    for (schema, input, expected) in [
        (&charge, r#"["card 1", 500]"#, "fits"),
        (&charge, r#""card 1""#, "expected array, got a string"),
        (&charge, r#"["card 1"]"#, "expected at least 2 items, got 1"),
        (&charge, r#"["card 1", 5, 6]"#, "expected at most 2 items, got 3"),
        (&charge, r#"["card 1", "5"]"#, "at /1: expected integer, got a string"),
        (
            &charge,
            r#"[1, "5"]"#,
            "at /0: expected string, got 1; at /1: expected integer, got a string",
        ),
        (&charge, r#"["card 1", -5]"#, "at /1: -5 is less than 0"),
        (&charge, r#"["card 1", 5.5]"#, "at /1: expected integer, got 5.5"),
        (
            &charge,
            r#"["card 1", 18446744073709551616]"#,
            "at /1: 1.8446744073709552e+19 is more than 18446744073709551615",
        ),
        (
            &charge,
            r#"["card 1", 1e400]"#,
            "at /1: 1.7976931348623157e+308 is more than 18446744073709551615",
        ),
        (&charge, "[1", "expected JSON: EOF while parsing a list at line 1 column 2"),
        (&order, r#"{"id": 1, "via": "van"}"#, "fits"),
        (&order, r#"{"via": "van"}"#, "`id` is missing"),
        (&order, r#"[{"id": 1, "via": "van"}]"#, "expected object, got an array"),
        (
            &order,
            r#"{"id": 1, "via": "air"}"#,
            "at /via: expected \"post\" or \"van\", got a string",
        ),
        (
            &order,
            r#"{"id": 1, "via": "van", "note": 7}"#,
            "at /note: expected null or string, got 7",
        ),
        (&order, r#"{"id": 1, "via": "van", "to": {}}"#, "at /to: `street` is missing"),
        (&order, r#"{"id": 1, "via": "van", "to": 1}"#, "at /to: expected null or object, got 1"),
        (&pay, r#"{"kind": "Card"}"#, "`number` is missing"),
        (&pay, r#"{"kind": "Cash", "coins": [1, 256]}"#, "at /coins/1: 256 is more than 255"),
        (&nothing, "null", "fits"),
        (&nothing, "{}", "expected null, got an object"),
    ] {
        assert_eq!(said(schema, input), expected, "{input}");
    }
}

#[test]
fn of_schemas_by_hand() {
    for (schema, input, expected) in [
        (r#"{"type": "object"}"#, "[]", "expected object, got an array"),
        (r#"{"required": ["a"]}"#, "{}", "`a` is missing"),
        (r#"{"properties": {"a": {"type": "integer"}}}"#, "[1]", "fits"),
        (
            r#"{"properties": {"a": true}, "additionalProperties": false}"#,
            r#"{"a": 1, "b": 1, "c": 1}"#,
            "unexpected `b`, `c`",
        ),
        (
            r#"{"items": {"type": "string"}}"#,
            "[1, 2, 3, 4]",
            "at /0: expected string, got 1; at /1: expected string, got 2; at /2: expected string, got 3",
        ),
        (r#"{"uniqueItems": true}"#, "[1, 1]", "the value has non-unique elements"),
        (r#"{"pattern": "^a+$"}"#, r#""b""#, "the value does not match \"^a+$\""),
        (r#"{"format": "email"}"#, r#""b""#, "fits"),
        ("false", "1", "nothing is allowed here"),
        ("true", "1", "fits"),
        (
            r##"{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "null"}}, "$ref": "#/definitions/a"}"##,
            "1",
            "expected null, got 1",
        ),
        (
            r##"{"properties": {"$ref": {"type": "string"}}}"##,
            r#"{"$ref": 1}"#,
            "at /$ref: expected string, got 1",
        ),
    ] {
        let schema = Schema::compile(schema).expect(schema);
        assert_eq!(said(&schema, input), expected, "{input}");
    }
}
