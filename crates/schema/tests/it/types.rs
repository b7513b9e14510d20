//! Property: what the SDK's type decodes, its schema accepts.
//!
//! Inputs are made from the schema of a type, with deviations at every place: some decode, and some
//! do not. They include what only a decoder knows, such as a struct as an array of its fields.
#![expect(dead_code, reason = "types are decoded, and their values are not looked at")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::num::{NonZeroI16, NonZeroU64};
use std::ops::Range;

use indelible_schema::{Check, STEPS_MAX, Schema};
use indelible_sdk::__private::SchemasOf;
use indelible_sdk::prelude::*;
use indelible_sdk::{Decode, Payload};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

// Fields are in the order of their names, so that an array of them can be made from the schema.

#[derive(Deserialize, Serialize, JsonSchema, Default)]
struct Plain {
    a: u64,
    b: String,
    c: Option<i8>,
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(default, rename_all = "camelCase")]
struct Defaulted {
    all_of: f64,
    plain_one: Plain,
    #[serde(skip)]
    skipped: u8,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Strict {
    #[serde(rename = "A-1/~%")]
    a: Plain,
    #[serde(default)]
    b: Vec<Plain>,
    #[serde(default = "seven")]
    c: u8,
}

fn seven() -> u8 {
    7
}

#[derive(Deserialize, JsonSchema)]
struct Flat {
    a: u8,
    #[serde(flatten)]
    b: Plain2,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
struct Plain2 {
    b: bool,
}

#[derive(Deserialize, JsonSchema)]
struct FlatEnum {
    a: u8,
    #[serde(flatten)]
    b: Internal,
}

#[derive(Deserialize, JsonSchema)]
struct Empty {}

#[derive(Deserialize, JsonSchema)]
struct Unit;

#[derive(Deserialize, JsonSchema)]
struct New(Plain);

#[derive(Deserialize, JsonSchema)]
struct Pair(u8, Option<Plain>);

#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
struct Transparent {
    only: Option<u8>,
}

#[derive(Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Letters {
    A,
    B,
}

/// The kinds of variants, in one enum.
#[derive(Deserialize, JsonSchema)]
enum External {
    A,
    /// A variant with words of its own.
    B,
    C(u8),
    D(Option<Plain>),
    E(u8, String),
    F {
        a: u8,
        b: Option<String>,
    },
    G(()),
    H(Unit),
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "t")]
enum Internal {
    A,
    B(Plain),
    C { x: u8, y: Option<u8> },
    D(BTreeMap<String, Value>),
    E(Empty),
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "c", content = "t")]
enum Adjacent {
    A,
    B(u8),
    C(Option<Plain>),
    D(u8, u8),
    E { x: u8 },
    F(Transparent),
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    A,
    B(u8),
    C(Plain),
    D(External),
    E(Internal),
    F { x: Unit, y: () },
    G(Adjacent),
    H(u8, Letters),
    I(HashSet<u8>),
}

#[derive(Deserialize, JsonSchema)]
struct Tree {
    children: Vec<Tree>,
    value: Option<Box<Tree>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Expression {
    Not { not: Box<Expression> },
    Both { both: Vec<Expression> },
    Number(f32),
}

/// Numbers and strings at the edges of what types take.
const EDGES: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "127",
    "128",
    "-128",
    "-129",
    "255",
    "256",
    "32767",
    "-32768",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "170141183460469231731687303715884105727",
    "-170141183460469231731687303715884105728",
    "340282366920938463463374607431768211455",
    "340282366920938463463374607431768211456",
    "1.0",
    "1.5",
    "-0.0",
    "1e2",
    "1e400",
    "-1e400",
    "5e-324",
    "3.5e38",
    "0.1e-1000",
    "\"\"",
    "\"A\"",
    "\"B\"",
    "\"a\"",
    "\"ä\"",
    "\"🦀\"",
    "\"1\"",
    "\"\\ud800\"",
    "\"\\u00e4\"",
    "true",
    "false",
    "null",
    "{}",
    "[]",
    "[1]",
    "[1,1]",
    "[null]",
    "{\"\\ud800\":1}",
    "{\"a\":1,\"a\":2}",
    "{\"A\":null}",
    "{\"A\":{}}",
    "{\"A\":[]}",
    "[1,\"\",null]",
    "[1,\"\"]",
    "{\"secs\":1,\"nanos\":2}",
    "[1,2]",
    "{\"start\":1,\"end\":2}",
];

/// Keys of objects, beside those that a schema names.
const KEYS: &[&str] = &["1", "-1", "007", "18446744073709551616", "a", "A", "x", "true", "1.5", ""];

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.roll(all.len())]
    }
}

/// An input like those that a schema asks for.
struct Maker<'a> {
    root: &'a Value,
    dice: Dice,
}

impl Maker<'_> {
    fn make(&mut self, schema: &Value, depth: usize) -> String {
        if depth == 0 || self.dice.one_in(24) {
            return (*self.dice.of(EDGES)).to_owned();
        }
        let Value::Object(schema) = schema else { return (*self.dice.of(EDGES)).to_owned() };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str)
            && !schema.contains_key("properties")
        {
            let target = self.root.pointer(&target[1..]).expect("it is there").clone();
            return self.make(&target, depth - 1);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(all)) = schema.get(keyword)
                && !schema.contains_key("properties")
            {
                let one = self.dice.of(all).clone();
                return self.make(&one, depth - 1);
            }
        }
        if let Some(constant) = schema.get("const") {
            return self.named(constant);
        }
        if let Some(Value::Array(all)) = schema.get("enum") {
            let one = self.dice.of(all).clone();
            return self.named(&one);
        }
        let kind = match schema.get("type") {
            Some(Value::Array(all)) => self.dice.of(all).clone(),
            Some(one) => one.clone(),
            None => Value::Null,
        };
        match kind.as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("null") => "null".to_owned(),
            Some("string") => format!("\"{}\"", self.dice.of(&["", "a", "ä", "🦀", "A"])),
            Some("integer" | "number") if !self.dice.one_in(3) => self.dice.roll(9).to_string(),
            _ => (*self.dice.of(EDGES)).to_owned(),
        }
    }

    /// A name, or how else serde takes it.
    fn named(&mut self, name: &Value) -> String {
        match self.dice.roll(12) {
            0 => format!("{{{name}:null}}"),
            1 => format!("{{{name}:{}}}", self.dice.of(&["{}", "[]", "1"])),
            2 => self.dice.roll(9).to_string(),
            _ => name.to_string(),
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> String {
        let mut members: Vec<(String, String)> = Vec::new();
        let mut schemas = vec![Value::Object(schema.clone())];
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            schemas.push(self.root.pointer(&target[1..]).expect("it is there").clone());
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(all)) = schema.get(keyword) {
                schemas.push(self.dice.of(all).clone());
            }
        }
        for schema in &schemas {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if !self.dice.one_in(8) {
                    let value = self.make(property, depth - 1);
                    members.push((Value::from(name.as_str()).to_string(), value));
                }
            }
        }
        if self.dice.one_in(8) {
            let values: Vec<String> = members.into_iter().map(|(_, value)| value).collect();
            return format!("[{}]", values.join(","));
        }
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let patterns = patterns.and_then(|all| all.values().next());
        let other = schema.get("additionalProperties").filter(|other| other.is_object());
        let more = if other.or(patterns).is_some() { 3 } else { self.dice.roll(2) };
        for _ in 0..self.dice.roll(more + 1) {
            let value = match other.or(patterns) {
                Some(other) => self.make(&other.clone(), depth - 1),
                None => (*self.dice.of(EDGES)).to_owned(),
            };
            members.push((format!("\"{}\"", self.dice.of(KEYS)), value));
        }
        let members: Vec<String> =
            members.into_iter().map(|(name, value)| format!("{name}:{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    fn array(&mut self, schema: &Map<String, Value>, depth: usize) -> String {
        let mut items = Vec::new();
        for item in schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten() {
            items.push(self.make(&item.clone(), depth - 1));
        }
        if let Some(item) = schema.get("items") {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
            for _ in 0..least + self.dice.roll(3) {
                items.push(self.make(&item.clone(), depth - 1));
            }
        }
        if self.dice.one_in(12) {
            items.pop();
        }
        format!("[{}]", items.join(","))
    }
}

/// A type, and how many of its inputs were decoded.
struct Kind {
    name: &'static str,
    root: Value,
    schema: Schema,
    decodes: fn(&str) -> bool,
    decoded: Cell<usize>,
}

macro_rules! kinds {
    ($($type:ty),+ $(,)?) => {
        vec![$({
            let text = SchemasOf::<$type>::input(&["it"]).expect("it has a schema");
            Kind {
                name: stringify!($type),
                root: serde_json::from_str(&text).expect("it is JSON"),
                schema: Schema::compile(&text).expect("it compiles"),
                decodes: |input| {
                    let payload = Payload { codec: Payload::JSON, bytes: input.as_bytes().to_vec() };
                    <$type as Decode>::decode(payload).is_ok()
                },
                decoded: Cell::new(0),
            }
        }),+]
    };
}

fn kinds() -> Vec<Kind> {
    kinds![
        u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool, char,
        String, (), NonZeroU64, NonZeroI16, Duration, Timestamp, Value,
        Option<u64>, Option<Option<String>>, Vec<u8>, Vec<Option<f32>>, [i16; 2], (u8, String),
        (Plain, Letters, Option<Tree>), HashMap<String, u8>, BTreeMap<u64, bool>,
        BTreeMap<i32, Plain>, BTreeMap<Letters, u8>, BTreeSet<u8>, HashSet<Letters>,
        Result<u8, String>, Range<u8>, Box<Plain>,
        Plain, Defaulted, Strict, Flat, FlatEnum, Empty, Unit, New, Pair, Transparent,
        Letters, External, Internal, Adjacent, Untagged, Tree, Expression,
        Option<External>, Vec<Internal>, HashMap<String, Adjacent>, (Untagged, External),
    ]
}

#[test]
fn what_a_type_decodes_its_schema_accepts() {
    const CASES: u32 = 1_500;
    let kinds = kinds();
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() };
    proptest!(config, |(seed in any::<u64>())| {
        for kind in &kinds {
            let mut maker = Maker { root: &kind.root, dice: Dice(seed) };
            let input = maker.make(&kind.root, 8);
            if (kind.decodes)(&input) {
                kind.decoded.set(kind.decoded.get() + 1);
                let check = kind.schema.check(input.as_bytes(), STEPS_MAX);
                prop_assert_eq!(check, Check::Fits, "{} {}", kind.name, input);
            }
        }
    });
    // Otherwise this would say nothing.
    for kind in &kinds {
        let decoded = kind.decoded.get();
        assert!(decoded > CASES as usize / 300, "{}: {decoded}", kind.name);
    }
}

/// Every edge, by itself and as an argument among others.
#[test]
fn edges() {
    for kind in kinds() {
        for edge in EDGES {
            if (kind.decodes)(edge) {
                assert_eq!(
                    kind.schema.check(edge.as_bytes(), STEPS_MAX),
                    Check::Fits,
                    "{} {edge}",
                    kind.name
                );
            }
        }
    }
    let text = SchemasOf::<(u64, Plain, ())>::input(&["a", "b", "c"]).expect("it has a schema");
    let schema = Schema::compile(&text).expect("it compiles");
    for edge in EDGES {
        let input = format!("[{edge},{edge},{edge}]");
        let payload = Payload { codec: Payload::JSON, bytes: input.clone().into_bytes() };
        if <(u64, Plain, ())>::decode(payload).is_ok() {
            assert_eq!(schema.check(input.as_bytes(), STEPS_MAX), Check::Fits, "{input}");
        }
    }
}

/// A decoder skips what it does not know, and that may be what `serde_json` has no value for.
#[test]
fn what_a_decoder_skips() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    for skipped in ["1e400", "\"\\ud800\"", "{\"\\ud800\":[]}", &deep] {
        let input = format!("{{\"a\":1,\"b\":\"\",\"more\":{skipped}}}");
        let payload = Payload { codec: Payload::JSON, bytes: input.clone().into_bytes() };
        assert!(Plain::decode(payload).is_ok(), "{skipped}");
        let text = SchemasOf::<Plain>::input(&["it"]).expect("it has a schema");
        let schema = Schema::compile(&text).expect("it compiles");
        assert_eq!(schema.check(input.as_bytes(), STEPS_MAX), Check::Fits, "{skipped}");
    }
}

/// The property would hold of a schema that accepts everything.
#[test]
fn mistakes_are_refused() {
    let plain = json!({"a": 1, "b": ""});
    for (kind, mistakes) in [
        ("u8", vec![json!(256), json!(-1), json!("1"), json!([1]), json!(null), json!({})]),
        ("u64", vec![json!(-1), json!(1.5), json!("1"), json!({"A": null})]),
        ("String", vec![json!(1), json!(null), json!(["a"])]),
        ("()", vec![json!({}), json!([]), json!(1)]),
        ("Option<u64>", vec![json!({}), json!([]), json!("1"), json!(-1)]),
        ("Vec<u8>", vec![json!([256]), json!("ab"), json!(1), json!({})]),
        (
            "Plain",
            vec![
                json!({"a": 1}),
                json!({"a": "1", "b": ""}),
                json!([plain]),
                json!([]),
                json!([1]),
            ],
        ),
        ("Strict", vec![json!({"A-1/~%": plain, "d": 1}), json!({"a": plain})]),
        ("Letters", vec![json!("C"), json!(0), json!({"C": null}), json!({"A": 1}), json!(["A"])]),
        (
            "External",
            vec![json!("C"), json!({"C": "1"}), json!({"A": null, "B": null}), json!({"E": [1]})],
        ),
        ("Internal", vec![json!({"t": "Z"}), json!({"t": "C"}), json!({"x": 1}), json!("A")]),
        ("Adjacent", vec![json!({"c": "B"}), json!({"c": "B", "t": "1"}), json!({"t": 1})]),
        ("Pair", vec![json!([1]), json!([1, null, 2]), json!({"0": 1})]),
        ("Tree", vec![json!({}), json!({"children": [{"children": [{}]}]})]),
    ] {
        let kind = kinds().into_iter().find(|known| known.name == kind).expect("it is listed");
        for mistake in mistakes {
            let mistake = mistake.to_string();
            assert!(!(kind.decodes)(&mistake), "{} {mistake}", kind.name);
            let check = kind.schema.check(mistake.as_bytes(), STEPS_MAX);
            assert!(matches!(check, Check::Misfit(_)), "{} {mistake}", kind.name);
        }
    }
}
