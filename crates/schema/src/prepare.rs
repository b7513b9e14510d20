//! A schema before it is compiled: its parts are counted, and each gets what the meter needs.

use serde_json::{Map, Value, json};

use crate::subschemas::subschemas;
use crate::{PATTERNS_MAX, SUBSCHEMAS_MAX, SchemaError};

/// Keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

#[derive(Default)]
struct Counts {
    subschemas: usize,
    patterns: usize,
}

/// Checks that a schema is within the bounds and refers to nothing outside of it.
pub(crate) fn check(schema: &mut Value) -> Result<(), SchemaError> {
    check_part(schema, &mut Counts::default())
}

fn check_part(schema: &mut Value, counts: &mut Counts) -> Result<(), SchemaError> {
    counts.subschemas += 1;
    if counts.subschemas > SUBSCHEMAS_MAX {
        return Err(SchemaError::TooManySubschemas);
    }
    let Value::Object(schema) = schema else { return Ok(()) };
    counts.patterns += usize::from(schema.contains_key("pattern"));
    let named = schema.get("patternProperties").and_then(Value::as_object);
    counts.patterns += named.map_or(0, Map::len);
    if counts.patterns > PATTERNS_MAX {
        return Err(SchemaError::TooManyPatterns);
    }
    for keyword in REFERENCES {
        if let Some(Value::String(target)) = schema.get(keyword)
            && !target.starts_with('#')
        {
            return Err(SchemaError::Remote(target.chars().take(SHOWN_CHARS_MAX).collect()));
        }
    }
    subschemas(schema).into_iter().try_for_each(|part| check_part(part.schema, counts))
}

/// How much of a reference an error shows.
const SHOWN_CHARS_MAX: usize = 100;

/// Makes every part of a schema look at the value that it is applied to, and that counts: a part
/// without a type allows all types. Otherwise schemas that only refer to each other would take time
/// that the meter does not see.
pub(crate) fn meter(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema
        .entry("type")
        .or_insert_with(|| json!(["array", "boolean", "null", "number", "object", "string"]));
    for part in subschemas(schema) {
        if *part.schema == Value::Bool(true) && part.pointer != format!("/{}", part.keyword) {
            *part.schema = Value::Object(Map::new());
        }
        meter(part.schema);
    }
}
