//! Where a schema has schemas within it.

use serde_json::{Map, Value};

/// Keywords whose value is a schema.
const SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
const LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];

/// Keywords whose value is an object of schemas.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// A schema within another: the keyword that it stands under, its JSON Pointer from there, and it.
pub(crate) struct Subschema<'a> {
    pub(crate) keyword: &'static str,
    pub(crate) pointer: String,
    pub(crate) schema: &'a mut Value,
}

/// The schemas directly within a schema.
pub(crate) fn subschemas(schema: &mut Map<String, Value>) -> Vec<Subschema<'_>> {
    let mut found = Vec::new();
    for (name, value) in schema {
        let known = |list: &[&'static str]| list.iter().find(|known| *known == name).copied();
        match (value, known(&LIST), known(&NAMED), known(&SCHEMA)) {
            (Value::Array(items), Some(keyword), ..) => {
                found.extend(items.iter_mut().enumerate().map(|(index, schema)| {
                    let pointer = format!("/{keyword}/{index}");
                    Subschema { keyword, pointer, schema }
                }));
            }
            (Value::Object(named), _, Some(keyword), _) => {
                found.extend(named.iter_mut().map(|(name, schema)| {
                    let pointer = format!("/{keyword}/{}", escaped(name));
                    Subschema { keyword, pointer, schema }
                }));
            }
            (schema, _, _, Some(keyword)) => {
                found.push(Subschema { keyword, pointer: format!("/{keyword}"), schema });
            }
            _ => {}
        }
    }
    found
}

/// A name as a part of a JSON Pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A reference to the schema at a JSON Pointer.
pub(crate) fn reference(pointer: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/$~-._".contains(&byte);
    let mut fragment = String::from("#");
    for byte in pointer.bytes() {
        match plain(byte) {
            true => fragment.push(byte.into()),
            false => fragment.push_str(&format!("%{byte:02X}")),
        }
    }
    fragment
}
