//! An input that does not fit its function is refused before anything is named: the key and the id
//! of the request are not used up, and no execution exists.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_idempotency::{ConsumerNamespace, parse_key};
use indelible_journal::{Codec, Namespace, Payload};
use indelible_runtime::{
    Attribution, DeployRefused, Filter, Lane, Options, Start, StartRefused, Verdict,
};
use indelible_test_guests::{Function, Source};

use crate::support::{House, KEEP, by_hand, returned};

const CARD: &str = r#"{"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}],
    "minItems": 2, "maxItems": 2}"#;

/// Deploys functions that return what they are given, and take what their schemas say.
fn deploy(house: &House, schemas: &[(&str, Option<&str>)]) -> Result<(), DeployRefused> {
    let function = |(name, schema): &(&str, Option<&str>)| Function {
        persist: !name.starts_with("volatile"),
        input_schema: schema.map(str::to_owned),
        ..Function::new(name)
    };
    let functions: Vec<Function> = schemas.iter().map(function).collect();
    let bytes = Source::echo().functions(&functions).component();
    house.wait(house.engine().deploy("echo", &bytes, Attribution::default())).map(drop)
}

fn house(schema: &str) -> House {
    let house = House::new(by_hand(KEEP));
    deploy(&house, &[("f", Some(schema)), ("free", None), ("volatile", Some(schema))]).unwrap();
    house
}

fn keyed(house: &House, key: &str, function: &str, input: &str) -> Start {
    let namespace = ConsumerNamespace::new("tests").unwrap();
    let idempotency_key = parse_key(&namespace, Some(key)).unwrap();
    Start { operation_id: None, idempotency_key, ..house.request("x", function, input) }
}

/// Why a start is refused: in words, and with nothing written.
#[track_caller]
fn refused(house: &House, start: Start) -> String {
    let before = house.engine().store().accepted();
    let error = house.wait(house.engine().start(start)).unwrap_err();
    assert!(matches!(error, StartRefused::InvalidInput { .. }), "{error}");
    assert_eq!(house.engine().store().accepted(), before, "something was written");
    error.to_string()
}

fn executions(house: &House) -> usize {
    let whose = Namespace::new("tests").unwrap().into();
    let filter = Filter { whose, ..Filter::default() };
    house.wait(house.engine().list(&filter, None, 10)).unwrap().executions.len()
}

#[test]
fn a_refused_input_uses_up_no_name() {
    let house = house(CARD);
    let said = refused(&house, keyed(&house, "k", "echo/f", r#"["card 1", "500"]"#));
    assert_eq!(said, "the input does not fit echo/f: at /1: expected integer, got a string");
    refused(&house, house.request("id-1", "echo/f", "null"));
    assert_eq!(executions(&house), 0);
    // Under the same names, with inputs that fit.
    let right = r#"["card 1", 500]"#;
    for start in [keyed(&house, "k", "echo/f", right), house.request("id-1", "echo/f", right)] {
        let (started, ending) = house.wait(house.engine().call(start)).unwrap();
        assert_eq!((started.verdict, &*returned(&ending)), (Verdict::Fresh, right));
    }
    assert_eq!(executions(&house), 2);
}

/// What is accepted stays accepted, and a known name is judged by what it stands for.
#[test]
fn names_are_looked_up_before_inputs_are_checked() {
    let mut house = house(r#"{"type": "array"}"#);
    let starts = |house: &House, input: &str| {
        [keyed(house, "k", "echo/f", input), house.request("id-1", "echo/f", input)]
    };
    for start in starts(&house, "[1]") {
        house.wait(house.engine().call(start)).unwrap();
    }
    deploy(&house, &[("f", Some(CARD))]).unwrap();
    for crashed in [false, true] {
        if crashed {
            house.crash();
        }
        for start in starts(&house, "[1]") {
            let (started, ending) = house.wait(house.engine().call(start)).unwrap();
            assert_eq!((started.verdict, &*returned(&ending)), (Verdict::Prior, "[1]"));
        }
        let [keyed, named] = starts(&house, "[2]");
        let mismatch = house.wait(house.engine().start(keyed)).unwrap_err();
        assert!(matches!(mismatch, StartRefused::Mismatch), "{mismatch}");
        let conflict = house.wait(house.engine().start(named)).unwrap_err();
        assert!(matches!(conflict, StartRefused::Conflict), "{conflict}");
    }
    refused(&house, keyed(&house, "new", "echo/f", "[1]"));
}

#[test]
fn volatile_functions_and_those_without_a_schema() {
    let house = house(CARD);
    refused(&house, keyed(&house, "k", "echo/volatile", "[]"));
    let fits = keyed(&house, "k", "echo/volatile", r#"["", 1]"#);
    let (started, ending) = house.wait(house.engine().call(fits)).unwrap();
    assert_eq!((started.verdict, &*returned(&ending)), (Verdict::Fresh, r#"["", 1]"#));
    for input in ["null", "{}", "not JSON at all"] {
        let start = keyed(&house, input, "echo/free", input);
        let (_, ending) = house.wait(house.engine().call(start)).unwrap();
        assert_eq!(returned(&ending), input);
    }
    // What is not JSON is for the function to read.
    let raw = Payload::new(Codec::RAW, &b"\xff"[..]);
    let start = Start { input: raw, ..house.request("raw", "echo/f", "") };
    house.wait(house.engine().call(start)).unwrap();
    refused(&house, house.request("text", "echo/f", "not JSON"));
}

/// The types of an SDK's function are its schema. A guest's own calls are not checked: they have a
/// name already, and their decoder says what is wrong.
#[test]
fn functions_of_the_sdk() {
    let house = House::new(by_hand(KEEP));
    house.deploy("behaviours");
    for (input, expected) in [
        ("[1]", "expected at least 2 items, got 1"),
        ("[1, -1]", "at /1: -1 is less than 0"),
        ("[1, 18446744073709551616]", "at /1: 1.8446744073709552e+19 is more than"),
        ("[1, 1e999]", "at /1: 1.7976931348623157e+308 is more than"),
        (r#"{"a": 1, "b": 2}"#, "expected array, got an object"),
    ] {
        let said = refused(&house, keyed(&house, "k", "add", input));
        assert!(said.contains(&format!("fit behaviours/add: {expected}")), "{said}");
    }
    let most = "[18446744073709551615, 0]";
    let (_, ending) = house.wait(house.engine().call(keyed(&house, "k", "add", most))).unwrap();
    assert_eq!(returned(&ending), "18446744073709551615");
    // What a function calls is for the callee's decoder to refuse: the call is journaled.
    let (_, ending) = house.run("calls_volatile", r#"["glance", ["x", 1]]"#);
    assert_eq!(returned(&ending), "\"UserError\"");
}

#[test]
fn hostile_schemas_and_inputs() {
    let house = house(CARD);
    for (schema, expected) in [
        ("[]", "its input schema is not a valid JSON Schema"),
        (r#"{"$ref": "https://example.com/a"}"#, "refers to `https://example.com/a`"),
        (r#"{"pattern": "(a)\\1"}"#, "its input schema is not a valid JSON Schema"),
    ] {
        let error = deploy(&house, &[("f", Some(schema))]).unwrap_err();
        let why = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
        assert!(format!("{error}: {why}").contains(expected), "{error}: {why}");
    }
    for input in ["[".repeat(1 << 20), "[".repeat(1 << 20) + &"]".repeat(1 << 20)] {
        refused(&house, house.request("deep", "echo/f", &input));
    }
    // A schema that multiplies work decides nothing: the input is passed on.
    let mut doubling = r##"{"$ref": "#/$defs/a0", "$defs": {"a48": {"type": "string"}"##.to_owned();
    for link in 0..48 {
        let next = format!("{{\"$ref\": \"#/$defs/a{}\"}}", link + 1);
        doubling.push_str(&format!(r#", "a{link}": {{"anyOf": [{next}, {next}]}}"#));
    }
    doubling.push_str("}}");
    deploy(&house, &[("f", Some(&doubling))]).unwrap();
    let (_, ending) = house.wait(house.engine().call(house.request("d", "echo/f", "1"))).unwrap();
    assert_eq!(returned(&ending), "1");
}

/// Neither a worker nor the thread of a connection checks a large input.
#[test]
fn large_inputs_have_threads_of_their_own() {
    let house = House::new(Options { workers: 2, readers: 1, ..by_hand(KEEP) });
    deploy(&house, &[("f", Some(r#"{"items": {"type": "integer"}}"#))]).unwrap();
    let taken = || {
        let readings = house.engine().readings().reads;
        readings.into_iter().find(|one| one.lane == Lane::Inputs).unwrap().taken
    };
    let call = |id: &str, input: &str| {
        house.wait(house.engine().call(house.request(id, "echo/f", input))).map(drop)
    };
    // The first compiles the schema.
    call("first", "[1]").unwrap();
    assert_eq!(taken(), 1);
    call("small", "[1, 2]").unwrap();
    assert!(matches!(call("wrong", r#"["x"]"#), Err(StartRefused::InvalidInput { .. })));
    assert_eq!(taken(), 1);
    let large = format!("[{}1]", "1,".repeat(1 << 20));
    call("large", &large).unwrap();
    let wrong = large.replace("1]", "\"x\"]");
    assert!(matches!(call("wrong", &wrong), Err(StartRefused::InvalidInput { .. })));
    assert_eq!(taken(), 3);
}
