//! What a function takes and returns, in a line: `shop/charge(card: string, cents: integer) -> string`.

use indelible_client::api::component::Function;
use serde_json::{Map, Value};

/// Longer types are cut.
const TYPE_CHARS_MAX: usize = 60;

/// How deep types within types are shown.
const DEPTH_MAX: usize = 4;

/// The name of a function, with what is known of its types.
pub(super) fn signature(function: &Function) -> String {
    let input = function.input_schema.as_ref().map_or_else(String::new, arguments);
    let output = function.output_schema.as_ref().map(shown);
    let output = output.filter(|output| output != "null");
    let output = output.map_or_else(String::new, |output| format!(" -> {output}"));
    format!("{}/{}{input}{output}", function.component, function.name)
}

/// The arguments, with the names that the SDK gives them.
fn arguments(schema: &Value) -> String {
    let names = schema.get("x-arguments").and_then(Value::as_array);
    let names: Option<Vec<&str>> =
        names.and_then(|all| all.iter().map(Value::as_str).collect::<Option<_>>());
    let named = |name: &str, schema: &Value| format!("{name}: {}", shown(schema));
    match (names.as_deref(), schema.get("prefixItems").and_then(Value::as_array)) {
        (Some([]), _) => "()".to_owned(),
        (Some([name]), _) => format!("({})", named(name, schema)),
        (Some(names), Some(schemas)) if names.len() == schemas.len() => {
            let all = names.iter().zip(schemas).map(|(name, schema)| named(name, schema));
            format!("({})", all.collect::<Vec<_>>().join(", "))
        }
        _ => format!("({})", shown(schema)),
    }
}

fn shown(schema: &Value) -> String {
    let text = type_of(schema, DEPTH_MAX);
    match text.char_indices().nth(TYPE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn type_of(schema: &Value, depth: usize) -> String {
    let Value::Object(schema) = schema else { return "any".to_owned() };
    if depth == 0 {
        return "…".to_owned();
    }
    let string = |key: &str| schema.get(key).and_then(Value::as_str);
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(name) = string("$ref").and_then(|target| target.rsplit('/').next()) {
        return name.to_owned();
    }
    if let Some(all) = list("anyOf").or_else(|| list("oneOf")) {
        return match string("title") {
            Some(title) => title.to_owned(),
            None => joined(all.iter().map(|one| type_of(one, depth - 1))),
        };
    }
    if let Some(all) = list("enum") {
        return string("title")
            .map_or_else(|| joined(all.iter().map(Value::to_string)), str::to_owned);
    }
    if let Some(one) = schema.get("const") {
        return one.to_string();
    }
    match schema.get("type") {
        Some(Value::String(one)) => of_kind(one, schema, depth),
        Some(Value::Array(all)) => {
            joined(all.iter().filter_map(Value::as_str).map(|one| of_kind(one, schema, depth)))
        }
        _ => "any".to_owned(),
    }
}

fn of_kind(kind: &str, schema: &Map<String, Value>, depth: usize) -> String {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    match kind {
        "array" => match (list("prefixItems"), schema.get("items")) {
            (Some(all), _) => {
                let all: Vec<String> = all.iter().map(|one| type_of(one, depth - 1)).collect();
                format!("[{}]", all.join(", "))
            }
            (None, Some(item)) => format!("[{}]", type_of(item, depth - 1)),
            (None, None) => "array".to_owned(),
        },
        "object" => match (schema.get("title"), schema.get("additionalProperties")) {
            (Some(Value::String(title)), _) if schema.contains_key("properties") => title.clone(),
            (_, Some(value @ Value::Object(_))) => {
                format!("{{string: {}}}", type_of(value, depth - 1))
            }
            _ => "object".to_owned(),
        },
        other => other.to_owned(),
    }
}

fn joined(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn functions_in_a_line() {
        let order = json!({"type": "object", "title": "Order", "properties": {}});
        for (input, output, expected) in [
            (None, None, "shop/f"),
            (
                Some(json!({"type": "null", "x-arguments": []})),
                Some(json!({"type": "null"})),
                "shop/f()",
            ),
            (
                Some(json!({
                    "type": "array",
                    "prefixItems": [{"type": "string"}, {"type": "integer"}],
                    "x-arguments": ["card", "cents"],
                })),
                Some(json!({"type": ["string", "null"]})),
                "shop/f(card: string, cents: integer) -> string | null",
            ),
            (
                Some(
                    json!({"type": "object", "title": "Order", "properties": {}, "x-arguments": ["order"]}),
                ),
                Some(json!({"type": "array", "items": {"$ref": "#/$defs/Order"}})),
                "shop/f(order: Order) -> [Order]",
            ),
            (
                Some(json!({"type": "object", "additionalProperties": {"type": "boolean"}})),
                Some(json!({"anyOf": [{"const": "a"}, {"enum": [1, 2]}, true]})),
                "shop/f({string: boolean}) -> \"a\" | 1 | 2 | any",
            ),
            (Some(json!({"prefixItems": [order], "x-arguments": [1]})), None, "shop/f(any)"),
        ] {
            let function = Function {
                component: "shop".to_owned(),
                name: "f".to_owned(),
                description: String::new(),
                persist: true,
                idem: false,
                input_schema: input,
                output_schema: output,
            };
            assert_eq!(signature(&function), expected);
        }
    }
}
