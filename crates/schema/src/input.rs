//! An input as a value. What a function's decoder reads must be read here too, even where
//! `serde_json` makes no value of it: in parts that the decoder skips, numbers are not converted,
//! escapes are not decoded, and nesting has no limit.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// How deep `serde_json` reads values.
const DEPTH_MAX: usize = 128;

/// What stands for a string that has no characters: a lone half of a surrogate pair.
const UNREADABLE: &str = "\u{fffd}";

/// Reads an input. Err: why it is not JSON.
pub(crate) fn read(input: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(input) {
        return Ok(value);
    }
    let raw: &RawValue = serde_json::from_slice(input).map_err(|error| error.to_string())?;
    Ok(leniently(raw, 0))
}

/// Reads a value part by part. A decoder that looks at a part that is unreadable fails, so what
/// stands for that part does not matter: null, or the nearest value.
fn leniently(raw: &RawValue, depth: usize) -> Value {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{' | b'[') if depth == DEPTH_MAX => Value::Null,
        Some(b'{') => match serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
            Ok(members) => members
                .into_iter()
                .map(|(name, value)| (name, leniently(value, depth + 1)))
                .collect(),
            Err(_) => Value::Null,
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(items) => items.into_iter().map(|item| leniently(item, depth + 1)).collect(),
            Err(_) => Value::Null,
        },
        Some(b'"') => serde_json::from_str(text).unwrap_or_else(|_| UNREADABLE.into()),
        Some(b'-' | b'0'..=b'9') => number(text).map_or(Value::Null, Value::Number),
        _ => serde_json::from_str(text).unwrap_or_default(),
    }
}

/// A number; one that is too large becomes the largest.
fn number(text: &str) -> Option<Number> {
    let number: f64 = match serde_json::from_str(text) {
        Ok(number) => return Some(number),
        Err(_) => text.parse().ok()?,
    };
    Number::from_f64(number.clamp(f64::MIN, f64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inputs_that_are_no_values() {
        for (text, value) in [
            (r#" {"a": [1, 1e400, -1e400]} "#, json!({"a": [1, f64::MAX, f64::MIN]})),
            (r#"["\ud800", "\u00e4"]"#, json!(["\u{fffd}", "ä"])),
            (r#"[{"\ud800": 1}, {"a": 1e400, "a": 2}]"#, json!([null, {"a": 2}])),
            ("12345678901234567890123", json!(12_345_678_901_234_567_890_123.0)),
        ] {
            assert_eq!(read(text.as_bytes()), Ok(value), "{text}");
        }
        for bad in ["", "{", "[1,]", "nul", "1 2", "\u{feff}1"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(read(b"\"\xff\"").is_err());
    }

    #[test]
    fn deep_inputs() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let depth = |mut value: &Value| {
            let mut depth = 0;
            while let Some(items) = value.as_array() {
                depth += 1;
                let Some(item) = items.first() else { break };
                value = item;
            }
            depth
        };
        for (given, read_to) in [(1, 1), (127, 127), (128, 128), (129, 128), (1_000_000, 128)] {
            assert_eq!(depth(&read(deep(given).as_bytes()).expect("JSON")), read_to, "{given}");
        }
    }
}
