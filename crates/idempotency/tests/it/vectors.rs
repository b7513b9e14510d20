//! Known answers, computed by something other than this crate: see `vectors/README.md`.

use indelible_idempotency::{
    ConsumerNamespace, Json, JsonError, KeyError, KeyMinter, Request, canonical_utf8, parse_key,
};
use serde::Deserialize;
use std::collections::HashMap;

fn read<T: for<'a> Deserialize<'a>>(text: &str) -> T {
    serde_json::from_str(text).expect("the vectors are as described beside them")
}

/// A text, written out or as what it repeats.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Repeat { repeat: String, times: usize },
}

impl Text {
    fn get(&self) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::Repeat { repeat, times } => repeat.repeat(*times),
        }
    }
}

fn namespace(name: &str) -> ConsumerNamespace {
    ConsumerNamespace::new(name).expect("a plain name")
}

#[derive(Deserialize)]
struct Minting {
    cases: Vec<Minted>,
    refused: Vec<Minted>,
}

#[derive(Deserialize)]
struct Minted {
    name: String,
    parts: Vec<Text>,
    key: Option<String>,
}

impl Minted {
    fn parts(&self) -> Vec<String> {
        self.parts.iter().map(Text::get).collect()
    }
}

/// I-1, I-2, I-24, I-29: keys are what the specification says, distinct, and the same in every
/// namespace.
#[test]
fn minted_keys() {
    let minting: Minting = read(include_str!("../../vectors/minting.json"));
    assert!(minting.cases.len() >= 25);
    let minter = KeyMinter::new(namespace("orders"));
    let other = KeyMinter::new(namespace("payments"));
    let mut seen = HashMap::new();
    for case in &minting.cases {
        let key = minter.mint(case.parts()).unwrap();
        assert_eq!(Some(key.value()), case.key.as_deref(), "{}", case.name);
        assert_eq!(other.mint(case.parts()).unwrap().value(), key.value());
        assert_ne!(other.mint(case.parts()).unwrap(), key, "the namespace is part of a key");
        let twin = seen.insert(key.value().to_owned(), &case.name);
        assert_eq!(twin, None, "{} has the key of another case", case.name);
    }
}

/// I-3, I-24: no parts, or a blank one, give no key.
#[test]
fn parts_that_give_no_key() {
    let minting: Minting = read(include_str!("../../vectors/minting.json"));
    assert!(minting.refused.len() >= 5);
    let minter = KeyMinter::new(namespace("orders"));
    assert_eq!(minter.namespace().as_str(), "orders");
    for case in &minting.refused {
        assert!(minter.mint(case.parts()).is_err(), "{}", case.name);
    }
}

#[derive(Deserialize)]
struct Keys {
    cases: Vec<Parsed>,
}

#[derive(Deserialize)]
struct Parsed {
    name: String,
    raw: Option<Text>,
    outcome: String,
    value: Option<Text>,
    index: Option<usize>,
}

/// I-5, I-6, I-24: what a caller's key may be, and what is said of one that may not.
#[test]
fn callers_keys() {
    let keys: Keys = read(include_str!("../../vectors/keys.json"));
    assert!(keys.cases.len() >= 30);
    let orders = namespace("orders");
    for Parsed { name, raw, outcome, value, index } in keys.cases {
        let raw = raw.as_ref().map(Text::get);
        let parsed = parse_key(&orders, raw.as_deref());
        if let Err(why) = &parsed {
            let shown = why.to_string();
            assert!(!shown.chars().any(char::is_control), "{name}: {shown:?}");
        }
        match outcome.as_str() {
            "none" => assert_eq!(parsed, Ok(None), "{name}"),
            "key" => {
                let key = parsed.unwrap_or_else(|why| panic!("{name}: {why}")).unwrap();
                assert_eq!(Some(key.value().to_owned()), value.as_ref().map(Text::get), "{name}");
                assert_eq!(key.namespace(), &orders);
            }
            "blank" => assert_eq!(parsed, Err(KeyError::Blank), "{name}"),
            "too_long" => assert!(matches!(parsed, Err(KeyError::TooLong { .. })), "{name}"),
            "control" => {
                let Err(KeyError::ControlCharacter { index: at, .. }) = parsed else {
                    panic!("{name}: {parsed:?}");
                };
                assert_eq!(Some(at), index, "{name}");
            }
            other => panic!("{name}: no outcome is {other}"),
        }
    }
}

#[derive(Deserialize)]
struct Canonical {
    cases: Vec<Form>,
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
struct Form {
    name: String,
    group: String,
    input: String,
    canonical: String,
    sha256: String,
}

#[derive(Deserialize)]
struct Refused {
    name: String,
    input: String,
    why: String,
}

/// I-7, I-24, C-6: canonical JSON, byte by byte, and its hash; texts of one value have one form,
/// those of two values never.
#[test]
fn canonical_json() {
    let canonical: Canonical = read(include_str!("../../vectors/canonical.json"));
    assert!(canonical.cases.len() >= 60);
    let mut groups = HashMap::new();
    for Form { name, group, input, canonical, sha256 } in canonical.cases {
        let json = Json::parse(input).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(String::from_utf8(canonical_utf8(&json)).unwrap(), canonical, "{name}");
        let request = Request::new(json);
        assert_eq!(request.hash().to_string(), sha256, "{name}");
        let of_form = groups.entry(canonical).or_insert_with(|| group.clone());
        assert_eq!(*of_form, group, "{name} has the form of another group");
    }
}

/// I-7: what has no canonical form is refused, and the error says why.
#[test]
fn texts_without_a_canonical_form() {
    let canonical: Canonical = read(include_str!("../../vectors/canonical.json"));
    assert!(canonical.refused.len() >= 15);
    for Refused { name, input, why } in canonical.refused {
        let refused = match Json::parse(input) {
            Ok(json) => panic!("{name} is taken: {json}"),
            Err(refused) => refused,
        };
        let fits = match why.as_str() {
            "syntax" | "surrogate" => matches!(refused, JsonError::Syntax { .. }),
            "duplicate" => matches!(refused, JsonError::DuplicateMember { .. }),
            "exponent" => matches!(refused, JsonError::Exponent { .. }),
            other => panic!("{name}: no reason is {other}"),
        };
        assert!(fits, "{name}: {refused}");
    }
}
