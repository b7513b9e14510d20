//! Canonical JSON against properties and an independent oracle; known answers are in
//! `tests/it/vectors.rs`.

use proptest::prelude::*;
use serde_json::Value;

use super::canonicalize;
use crate::json::{Json, JsonError, Limits};

fn canonical(text: &str) -> Result<String, JsonError> {
    let bytes = canonicalize(text, &Limits::default())?;
    Ok(String::from_utf8(bytes).expect("canonical JSON is UTF-8"))
}

/// I-7: order of members is normalised and white space goes, order of arrays is kept.
#[test]
fn members_are_sorted_and_arrays_are_not() {
    let text = r#" { "b" : [ 3 , 1 , 2 ], "a" : { "z" : null, "y" : [ { "d":1, "c":2 } ] } } "#;
    assert_eq!(canonical(text).unwrap(), r#"{"a":{"y":[{"c":2,"d":1}],"z":null},"b":[3,1,2]}"#);
    assert_eq!(canonical("[]").unwrap(), "[]");
    assert_eq!(canonical("{}").unwrap(), "{}");
    assert_eq!(canonical("[{},[],{}]").unwrap(), "[{},[],{}]");
}

/// I-7: bounds of size and depth, with an error that says where.
#[test]
fn limits_are_exact() {
    let limits = Limits { bytes_max: 10, depth_max: 3 };
    assert!(canonicalize("\"12345678\"", &limits).is_ok());
    let large = canonicalize("\"123456789\"", &limits).unwrap_err();
    assert_eq!(large, JsonError::TooLarge { bytes: 11, max: 10 });
    assert!(canonicalize("[[[]]]", &limits).is_ok());
    let deep = canonicalize("[[{\"a\":[", &Limits { bytes_max: 100, depth_max: 3 }).unwrap_err();
    assert_eq!(deep, JsonError::TooDeep { offset: 8, max: 3 });
    // Hostile nesting is refused at the bound, and does not exhaust the stack.
    let hostile = "[".repeat(1 << 20);
    assert!(matches!(canonical(&hostile), Err(JsonError::TooDeep { max: 100, .. })));
    let hostile = "{\"a\":".repeat(200_000);
    assert!(matches!(canonical(&hostile), Err(JsonError::TooDeep { max: 100, .. })));
}

/// What is refused is shown without anything that a terminal acts on.
#[test]
fn errors_are_harmless() {
    for text in ["\u{1b}[2J", "\"\u{0}\"", "{\"a\u{202e}\":1,\"a\u{202e}\":2}", "\u{feff}1", ""] {
        let why = canonical(text).unwrap_err().to_string();
        assert!(!why.contains(['\u{1b}', '\u{0}', '\u{202e}', '\u{feff}']), "{why:?}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has none", |number| number.is_finite())
            .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[ab\u{fb33}\u{1f600}]{0,2}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// I-7: the canonical form means what the text means, is its own canonical form, and does not
    /// depend on how the text was written.
    #[test]
    fn one_form_for_one_value(value in values()) {
        let plain = serde_json::to_string(&value).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let form = canonical(&plain).unwrap();
        prop_assert_eq!(&form, &canonical(&pretty).unwrap());
        prop_assert_eq!(&form, &canonical(&form).unwrap());
        // serde_json reads the form as the value that it wrote: as numbers, not as their texts.
        prop_assert!(same(&serde_json::from_str(&form).unwrap(), &value), "{} {}", form, plain);
    }

    /// This and serde_json accept the same texts, except where the rules here differ on purpose:
    /// duplicate members, exponents, and numbers beyond a double.
    #[test]
    fn the_same_texts_are_json(text in r#"[\[\]{}:,"\\0-9eE+\-.a-f unltrs\u{1}\u{7f}é]{0,24}"#) {
        let theirs = serde_json::from_str::<Box<serde_json::value::RawValue>>(&text);
        match canonical(&text) {
            Ok(_) => prop_assert!(theirs.is_ok(), "{:?} is taken here only", text),
            Err(JsonError::DuplicateMember { .. } | JsonError::Exponent { .. }) => {
                prop_assert!(theirs.is_ok());
            }
            // A raw value's strings are not looked into: lone surrogates pass there.
            Err(why) => prop_assert!(
                theirs.is_err() || text.contains("\\u"), "{:?} is refused here only: {}", text, why
            ),
        }
    }

    /// I-7: numbers are equal here exactly if they are equal as decimals.
    #[test]
    fn numbers_are_decimals(digits in "[1-9][0-9]{0,25}", zeros in 0_usize..6, shift in -30_i64..30) {
        let plain = canonical(&format!("{digits}e{shift}")).unwrap();
        // The same number, with zeros behind the point or moved into the exponent.
        let padded = format!("{digits}.{}e{shift}", "0".repeat(zeros + 1));
        prop_assert_eq!(&plain, &canonical(&padded).unwrap());
        let moved = format!("{digits}{}e{}", "0".repeat(zeros), shift - zeros as i64);
        prop_assert_eq!(&plain, &canonical(&moved).unwrap());
        let small = format!("0.{}{digits}E{}", "0".repeat(zeros), shift + (zeros + digits.len()) as i64);
        prop_assert_eq!(&plain, &canonical(&small).unwrap());
        // Another digit anywhere makes another number.
        let other = format!("{digits}1e{shift}");
        prop_assert_ne!(&plain, &canonical(&other).unwrap());
        let negative = canonical(&format!("-{digits}e{shift}")).unwrap();
        prop_assert_eq!(negative, format!("-{plain}"));
    }
}

/// Equal as JSON, where 1.0 and 1 are one number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // serde_json reads long numbers a last digit off; that they are exact is shown above.
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= other.abs() * 1e-15
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

/// A checked text is taken again without its limits.
#[test]
fn what_was_checked_has_a_canonical_form() {
    let json = Json::parse(r#"{"b":1.50,"a":"\u0041"}"#).unwrap();
    assert_eq!(super::canonical_utf8(&json), br#"{"a":"A","b":1.5}"#);
    assert_eq!(json.as_str(), r#"{"b":1.50,"a":"\u0041"}"#, "it is kept as it was written");
}
