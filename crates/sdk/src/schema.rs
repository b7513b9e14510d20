//! JSON schemas of what functions take and return: made from their types when the host asks a
//! component to describe itself, and never while a function runs.

use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

/// The annotation that names the arguments, in their order.
const ARGUMENTS: &str = "x-arguments";

/// The annotation that says how the input is decoded. serde accepts more spellings than a schema of
/// a type has: a struct may be an array of its fields. A server that knows the decoder refuses none
/// of them.
const DECODER: (&str, &str) = ("x-decoder", "serde_json");

/// The schemas of a type, or none if it does not implement [`JsonSchema`].
///
/// `SchemasOf::<T>::input(…)` is the function of this type if `T` implements the trait. If it does
/// not, that function does not apply, and [`NoSchemas`] has one of the same name. This works for
/// concrete types only, and durable functions have no others.
#[derive(Debug)]
pub struct SchemasOf<T>(PhantomData<T>);

impl<T: JsonSchema> SchemasOf<T> {
    /// The schema of what a function is given.
    #[must_use]
    pub fn input(arguments: &[&str]) -> Option<String> {
        let mut schema = SchemaSettings::draft2020_12()
            .with(|settings| settings.meta_schema = None)
            .into_generator()
            .into_root_schema_for::<T>();
        match arguments {
            [_] => {}
            // The title of a tuple is a list of types.
            _ => drop(schema.remove("title")),
        }
        schema.insert(ARGUMENTS.to_owned(), arguments.to_vec().into());
        schema.insert(DECODER.0.to_owned(), DECODER.1.into());
        text(&schema)
    }

    /// The schema of what a function returns.
    #[must_use]
    pub fn output() -> Option<String> {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.meta_schema = None)
            .for_serialize();
        text(&settings.into_generator().into_root_schema_for::<T>())
    }
}

fn text(schema: &Schema) -> Option<String> {
    serde_json::to_string(schema).ok()
}

/// For types without a schema: see [`SchemasOf`].
pub trait NoSchemas {
    /// None.
    #[must_use]
    fn input(_arguments: &[&str]) -> Option<String> {
        None
    }

    /// None.
    #[must_use]
    fn output() -> Option<String> {
        None
    }
}

impl<T> NoSchemas for SchemasOf<T> {}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    struct Plain;

    #[derive(JsonSchema)]
    struct Order {
        #[expect(dead_code, reason = "its schema is looked at")]
        id: u64,
    }

    fn read(schema: Option<String>) -> Value {
        serde_json::from_str(&schema.expect("it has a schema")).expect("it is JSON")
    }

    #[test]
    fn types_with_a_schema_and_without() {
        use super::NoSchemas as _;

        assert_eq!(SchemasOf::<Plain>::input(&["plain"]), None);
        assert_eq!(SchemasOf::<(u8, Plain)>::input(&["a", "b"]), None);
        assert_eq!(SchemasOf::<Plain>::output(), None);
        assert_eq!(
            read(SchemasOf::<(String, Order)>::input(&["card", "order"])),
            json!({
                "type": "array",
                "prefixItems": [{"type": "string"}, {"$ref": "#/$defs/Order"}],
                "minItems": 2,
                "maxItems": 2,
                "$defs": {"Order": {
                    "type": "object",
                    "properties": {"id": {"type": "integer", "format": "uint64", "minimum": 0}},
                    "required": ["id"],
                }},
                "x-arguments": ["card", "order"],
                "x-decoder": "serde_json",
            })
        );
        let one = read(SchemasOf::<Order>::input(&["order"]));
        assert_eq!((&one["title"], &one["x-arguments"]), (&json!("Order"), &json!(["order"])));
        assert_eq!(
            read(SchemasOf::<bool>::output()),
            json!({"title": "boolean", "type": "boolean"})
        );
    }
}
