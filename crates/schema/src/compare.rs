//! Whether a schema accepts everything that another accepts. The answer errs on one side: it is yes
//! only if that follows from the keywords, one by one.
//!
//! - Words for people say nothing: titles, descriptions, defaults, examples, formats of strings.
//! - Types, enumerations, bounds, lengths, `required`, `properties`, `items` and `prefixItems` are
//!   compared by what they mean. A property that the narrow schema does not declare is none that
//!   its values have, so a new optional property is no obstacle.
//! - Each alternative of the narrow schema must fit one of the wide schema's.
//! - Any other keyword of the wide schema must stand in the narrow one, to the letter.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::relax::bound_integers;

/// Keywords that accept and refuse nothing.
const SILENT: [&str; 14] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "examples",
    "format",
    "readOnly",
    "title",
    "writeOnly",
];

/// How many pairs of schemas are compared at most.
const PAIRS_MAX: usize = 20_000;

/// How deep schemas are followed.
const DEPTH_MAX: usize = 200;

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Whether `wide` accepts everything that `narrow` accepts, as far as can be told. Texts that are
/// not JSON are compared to the letter.
pub fn accepts_all(wide: &str, narrow: &str) -> bool {
    let (Ok(wide_root), Ok(narrow_root)) = (read(wide), read(narrow)) else {
        return wide == narrow;
    };
    let mut comparison = Comparison {
        wide_root: &wide_root,
        narrow_root: &narrow_root,
        assumed: HashSet::new(),
        pairs: 0,
    };
    comparison.fits(&wide_root, &narrow_root, DEPTH_MAX)
}

fn read(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}

struct Comparison<'a> {
    wide_root: &'a Value,
    narrow_root: &'a Value,
    /// Pairs of references that are being compared, or were: a recursive type fits another if it
    /// does wherever it does not recur.
    assumed: HashSet<(String, String)>,
    pairs: usize,
}

impl Comparison<'_> {
    fn fits(&mut self, wide: &Value, narrow: &Value, depth: usize) -> bool {
        self.pairs += 1;
        if self.pairs > PAIRS_MAX || depth == 0 {
            return false;
        }
        let depth = depth - 1;
        match (wide, narrow) {
            (Value::Bool(true), _) | (_, Value::Bool(false)) => return true,
            (Value::Bool(false), _) => return false,
            _ => {}
        }
        let empty = Map::new();
        let Value::Object(wide) = wide else { return false };
        let narrow = narrow.as_object().unwrap_or(&empty);
        let (wide, narrow) = (&bounded(wide), &bounded(narrow));
        if wide.is_empty() {
            return true;
        }
        if let Some(fits) = self.references(wide, narrow, depth) {
            return fits;
        }
        if let Some(alternatives) = alternatives(narrow) {
            let whole = Value::Object(wide.clone());
            return alternatives.iter().all(|one| self.fits(&whole, one, depth));
        }
        if let Some(alternatives) = alternatives(wide) {
            // Each type by itself: a string or null fits the alternatives string and null.
            let each_type = types(narrow).into_iter().map(|one| {
                let mut single = narrow.clone();
                single.insert("type".to_owned(), one.into());
                Value::Object(single)
            });
            let each_type: Vec<Value> = each_type.collect();
            return each_type
                .iter()
                .all(|single| alternatives.iter().any(|one| self.fits(one, single, depth)));
        }
        self.keywords(wide, narrow, depth)
    }

    /// Follows references; none if neither schema is one.
    fn references(
        &mut self,
        wide: &Map<String, Value>,
        narrow: &Map<String, Value>,
        depth: usize,
    ) -> Option<bool> {
        let (wide_target, narrow_target) = (reference(wide), reference(narrow));
        if wide_target.is_none() && narrow_target.is_none() {
            return None;
        }
        if let (Some(wide), Some(narrow)) = (wide_target, narrow_target)
            && !self.assumed.insert((wide.to_owned(), narrow.to_owned()))
        {
            return Some(true);
        }
        let follow = |root: &Value, target: Option<&str>, schema: &Map<String, Value>| match target
        {
            Some(target) => root.pointer(target.strip_prefix('#')?).cloned(),
            None => Some(Value::Object(schema.clone())),
        };
        let wide = follow(self.wide_root, wide_target, wide);
        let narrow = follow(self.narrow_root, narrow_target, narrow);
        Some(match (wide, narrow) {
            (Some(wide), Some(narrow)) => self.fits(&wide, &narrow, depth),
            _ => false,
        })
    }

    fn keywords(
        &mut self,
        wide: &Map<String, Value>,
        narrow: &Map<String, Value>,
        depth: usize,
    ) -> bool {
        let wide_types = types(wide);
        let covers = |one: &&str| {
            wide_types.contains(one) || *one == "integer" && wide_types.contains(&"number")
        };
        if !types(narrow).iter().all(covers) {
            return false;
        }
        wide.iter().all(|(keyword, value)| {
            let same = narrow.get(keyword);
            let number = |value: &Value| value.as_f64();
            match keyword.as_str() {
                "type" => true,
                "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                    // As `f64`: what differs in the last digits of a large bound is not seen.
                    let least = same.and_then(number).or(match keyword.as_str() {
                        "minimum" | "exclusiveMinimum" => None,
                        _ => Some(0.0),
                    });
                    least.is_some_and(|least| number(value).is_some_and(|wide| wide <= least))
                }
                "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                    let most = same.and_then(number);
                    most.is_some_and(|most| number(value).is_some_and(|wide| wide >= most))
                }
                "enum" | "const" => values(narrow).is_some_and(|narrow| {
                    let wide = values(wide).unwrap_or_default();
                    narrow.iter().all(|value| wide.contains(value))
                }),
                "required" => {
                    let names = |value: Option<&Value>| {
                        value.and_then(Value::as_array).cloned().unwrap_or_default()
                    };
                    let narrow = names(same);
                    names(Some(value)).iter().all(|name| narrow.contains(name))
                }
                "properties" => self.properties(value, narrow, depth),
                "additionalProperties" => self.additional(value, wide, narrow, depth),
                "prefixItems" => self.prefix(value, narrow, depth),
                "items" if value.is_array() => same == Some(value),
                "items" => self.items(value, wide, narrow, depth),
                // Beside other keywords.
                "$ref" => same.is_some_and(|same| {
                    let alone = |target: &Value| json!({ "$ref": target });
                    self.fits(&alone(value), &alone(same), depth)
                }),
                "uniqueItems" if *value == Value::Bool(false) => true,
                // The reference that it has may lead elsewhere in the other document.
                _ => same == Some(value) && !value.to_string().contains("\"$ref\""),
            }
        })
    }

    /// What the narrow schema does not declare is not compared.
    fn properties(&mut self, wide: &Value, narrow: &Map<String, Value>, depth: usize) -> bool {
        let declared = narrow.get("properties").and_then(Value::as_object);
        let other = narrow.get("additionalProperties").filter(|other| other.is_object());
        wide.as_object().into_iter().flatten().all(|(name, wide)| {
            match declared.and_then(|all| all.get(name)).or(other) {
                Some(narrow) => self.fits(wide, narrow, depth),
                None => true,
            }
        })
    }

    fn additional(
        &mut self,
        other: &Value,
        wide: &Map<String, Value>,
        narrow: &Map<String, Value>,
        depth: usize,
    ) -> bool {
        if *other == Value::Bool(true) {
            return true;
        }
        if narrow.contains_key("patternProperties") {
            return wide.get("patternProperties") == narrow.get("patternProperties")
                && narrow.get("additionalProperties") == Some(other);
        }
        let known = wide.get("properties").and_then(Value::as_object);
        let declared = narrow.get("properties").and_then(Value::as_object);
        let rest = narrow.get("additionalProperties").unwrap_or(&Value::Bool(true));
        self.fits(other, rest, depth)
            && declared.into_iter().flatten().all(|(name, narrow)| {
                known.is_some_and(|known| known.contains_key(name))
                    || self.fits(other, narrow, depth)
            })
    }

    fn prefix(&mut self, wide: &Value, narrow: &Map<String, Value>, depth: usize) -> bool {
        let wide = wide.as_array().map(Vec::as_slice).unwrap_or_default();
        let most = narrow.get("maxItems").and_then(Value::as_u64);
        wide.iter().enumerate().all(|(index, wide)| {
            most.is_some_and(|most| index as u64 >= most)
                || self.fits(wide, &item(narrow, index), depth)
        })
    }

    fn items(
        &mut self,
        each: &Value,
        wide: &Map<String, Value>,
        narrow: &Map<String, Value>,
        depth: usize,
    ) -> bool {
        let prefix = |schema: &Map<String, Value>| {
            schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len)
        };
        let (from, to) = (prefix(wide), prefix(narrow));
        let most = narrow.get("maxItems").and_then(Value::as_u64);
        (from..to).all(|index| self.fits(each, &item(narrow, index), depth))
            && (most.is_some_and(|most| to as u64 >= most)
                || self.fits(each, &item(narrow, usize::MAX), depth))
    }
}

/// A schema without its silent keywords, and with the bounds of its integers.
fn bounded(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema.clone();
    bound_integers(&mut schema);
    schema.retain(|keyword, _| !SILENT.contains(&keyword.as_str()) && !keyword.starts_with("x-"));
    schema
}

/// The target of a schema that is a reference and nothing else.
fn reference(schema: &Map<String, Value>) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str).filter(|_| schema.len() == 1)
}

/// The alternatives of a schema that has nothing else.
fn alternatives(schema: &Map<String, Value>) -> Option<&Vec<Value>> {
    let all = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    all.as_array().filter(|_| schema.len() == 1)
}

fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => TYPES.to_vec(),
    }
}

/// The values that an enumeration has.
fn values(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(all)), _) => Some(all.clone()),
        (None, Some(one)) => Some(vec![one.clone()]),
        _ => None,
    }
}

/// The schema of an item.
fn item(schema: &Map<String, Value>, index: usize) -> Value {
    let prefix = schema.get("prefixItems").and_then(Value::as_array);
    let item = prefix.and_then(|all| all.get(index)).or_else(|| schema.get("items"));
    item.cloned().unwrap_or(Value::Bool(true))
}
