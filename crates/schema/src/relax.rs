//! What serde accepts beyond the schema that `schemars` makes of a type. Such schemas carry the
//! annotation `x-decoder: serde_json`; the door reads them as this makes them, and shows them as
//! they are.
//!
//! - A struct, and a variant with fields, may be an array of the fields in their order.
//! - A unit variant `"A"` may be `{"A": null}`.
//! - The content of an adjacently tagged variant may be missing if it may be null.
//! - In untagged and internally tagged enums and in flattened structs, values are decoded from
//!   serde's own buffer: a tag may be the number of its variant, and a unit may be `{}` or `[]`.
//! - A set may have an element twice.
//! - Alternatives need not exclude each other: the first that fits is taken.
//!
//! Some is narrowed instead: integers have the bounds that their `format` says.
//!
//! Property: what a type decodes, its relaxed schema accepts (`tests/it/types.rs`). Where a schema
//! cannot say exactly what serde accepts, it accepts more.

use serde_json::{Map, Value, json};

use crate::subschemas::{reference, subschemas};

/// The annotation of a schema whose inputs serde decodes.
const DECODER: &str = "x-decoder";
const SERDE_JSON: &str = "serde_json";

/// Keywords that combine schemas at the same value.
const COMBINING: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];

/// Keywords whose schemas are only referred to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Whether serde decodes the inputs of this schema.
pub(crate) fn is_for_serde(schema: &Value) -> bool {
    schema.get(DECODER).and_then(Value::as_str) == Some(SERDE_JSON)
}

/// Relaxes a whole schema.
pub(crate) fn relax(schema: &mut Value) {
    // A function without arguments is given null: at the root nothing else is a unit.
    let is_unit = schema.get("type").and_then(Value::as_str) == Some("null");
    if !is_unit {
        relax_part(schema, "", Position::Value);
    }
}

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Value,
    /// It is one of several alternatives.
    Alternative,
    /// It is a property of an alternative: it may be the tag of a variant.
    VariantProperty,
}

fn relax_part(value: &mut Value, pointer: &str, position: Position) {
    let Value::Object(schema) = value else { return };
    bound_integers(schema);
    schema.remove("uniqueItems");
    if let Some(alternatives) = schema.remove("oneOf") {
        // A schema with both keeps both.
        match schema.contains_key("anyOf") {
            false => _ = schema.insert("anyOf".to_owned(), alternatives),
            true => {
                let all = schema.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(all) = all {
                    all.push(json!({ "anyOf": alternatives }));
                }
            }
        }
    }
    let is_struct = has_type(schema, "object") && !is_map(schema);
    if is_struct && position == Position::Alternative {
        allow_missing_content(schema);
    }
    let is_combined = COMBINING.iter().any(|keyword| schema.contains_key(*keyword));
    if is_struct && !is_combined {
        allow_array_of_fields(schema, pointer);
    }
    if schema.get("type").and_then(Value::as_str) == Some("null")
        && position != Position::Alternative
    {
        schema.insert("type".to_owned(), json!(["null", "object", "array"]));
        schema.insert("maxProperties".to_owned(), json!(0));
        schema.insert("maxItems".to_owned(), json!(0));
    }
    let mut others = Vec::new();
    if has_type(schema, "string")
        && let Some(names) = variants(schema)
    {
        others.push(json!({
            "type": "object",
            "propertyNames": { "enum": names },
            "additionalProperties": {
                "type": ["null", "object", "array"], "maxProperties": 0, "maxItems": 0,
            },
            "minProperties": 1,
            "maxProperties": 1,
        }));
        if position == Position::VariantProperty {
            others.push(json!({ "type": "integer", "minimum": 0 }));
        }
    }
    if is_struct && is_combined {
        // Which fields the array has cannot be said here.
        others.push(json!({ "type": "array" }));
    }
    let inner = if others.is_empty() { pointer.to_owned() } else { format!("{pointer}/anyOf/0") };
    for part in subschemas(schema) {
        let stays = pointer.is_empty() && DEFINITIONS.contains(&part.keyword);
        let pointer = if stays { pointer } else { &inner };
        let is_alternative = matches!(part.keyword, "anyOf" | "oneOf");
        let position = match part.keyword {
            "properties" if position == Position::Alternative => Position::VariantProperty,
            _ if is_alternative => Position::Alternative,
            _ => Position::Value,
        };
        relax_part(part.schema, &format!("{pointer}{}", part.pointer), position);
    }
    if !others.is_empty() {
        widen(value, pointer, others);
    }
}

/// Makes a schema one of several alternatives. The root keeps its definitions in their place, which
/// references name.
fn widen(value: &mut Value, pointer: &str, others: Vec<Value>) {
    let mut alternatives = vec![std::mem::take(value)];
    alternatives.extend(others);
    let mut wide = Map::new();
    if pointer.is_empty()
        && let Value::Object(schema) = &mut alternatives[0]
    {
        for keyword in DEFINITIONS {
            wide.extend(schema.remove_entry(keyword));
        }
    }
    wide.insert("anyOf".to_owned(), Value::Array(alternatives));
    *value = Value::Object(wide);
}

fn has_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

/// Whether an object has keys that are data, and not the names of fields.
fn is_map(schema: &Map<String, Value>) -> bool {
    !schema.contains_key("properties")
        && schema.get("additionalProperties").is_some_and(|other| *other != Value::Bool(false))
        || schema.contains_key("patternProperties")
}

/// The names of unit variants.
fn variants(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    let names = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(names)), _) => names.clone(),
        (None, Some(name)) => vec![name.clone()],
        _ => return None,
    };
    Some(names.into_iter().filter(Value::is_string).collect())
}

/// What a field's `Option` may be left out of is in the schema; that of a variant's content is not.
fn allow_missing_content(schema: &mut Map<String, Value>) {
    let may_be_null = |schema: &Value| {
        schema.as_object().is_some_and(|schema| {
            let alternatives = schema.get("anyOf").and_then(Value::as_array);
            matches!(schema.get("type"), Some(Value::Array(_))) && has_type(schema, "null")
                || alternatives.is_some_and(|all| all.iter().any(|one| one["type"] == "null"))
        })
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let optional: Vec<String> = properties
        .into_iter()
        .flatten()
        .filter(|(_, schema)| may_be_null(schema))
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !optional.iter().any(|optional| *name == optional.as_str()));
    }
}

/// An array has no more elements than there are fields, and no fewer than are required; each fits
/// one of the fields. Their order is not known: a schema's properties have none.
fn allow_array_of_fields(schema: &mut Map<String, Value>, pointer: &str) {
    if has_type(schema, "array") {
        return;
    }
    let mut fields = Vec::new();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let count = properties.len();
        let mut named = Map::new();
        named.insert("properties".to_owned(), Value::Object(std::mem::take(properties)));
        fields.reserve(count);
        for field in subschemas(&mut named) {
            fields.push(json!({ "$ref": reference(&format!("{pointer}{}", field.pointer)) }));
        }
        if let Some(Value::Object(taken)) = named.remove("properties") {
            *properties = taken;
        }
    }
    let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
    match schema.get_mut("type") {
        Some(Value::Array(types)) => types.push("array".into()),
        _ => _ = schema.insert("type".to_owned(), json!(["object", "array"])),
    }
    schema.insert("minItems".to_owned(), required.into());
    schema.insert("maxItems".to_owned(), fields.len().into());
    if !fields.is_empty() {
        schema.insert("items".to_owned(), json!({ "anyOf": fields }));
    }
}

/// The bounds of integers whose schema has none: those of their format.
pub(crate) fn bound_integers(schema: &mut Map<String, Value>) {
    let (min, max): (Value, Value) = match schema.get("format").and_then(Value::as_str) {
        _ if !has_type(schema, "integer") => return,
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        Some("int64" | "int") => (i64::MIN.into(), i64::MAX.into()),
        Some("uint32") => (0.into(), u32::MAX.into()),
        Some("uint64" | "uint") => (0.into(), u64::MAX.into()),
        _ => return,
    };
    schema.entry("minimum").or_insert(min);
    schema.entry("maximum").or_insert(max);
}
