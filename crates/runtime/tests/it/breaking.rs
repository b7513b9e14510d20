//! A change of the active version that breaks callers of functions in use says so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_idempotency::{ConsumerNamespace, parse_key};
use indelible_journal::{ComponentDigest, Timestamp};
use indelible_runtime::{
    Actor, Attribution, ContractChange, Count, DeployRefused, IfBreaking, StartRefused, Verdict,
};
use indelible_test_guests::{Function, Source};

use crate::support::{House, KEEP, by_hand, returned};

const NUMBER: &str = r#"{"type": "integer"}"#;
const ANY_NUMBER: &str = r#"{"type": "number"}"#;

/// A component whose functions wait for ever, or, if it echoes, return what they are given.
fn component(waits: bool, functions: &[(&str, Option<&str>, Option<&str>)]) -> Vec<u8> {
    let function = |(name, input, output): &(&str, Option<&str>, Option<&str>)| Function {
        input_schema: input.map(str::to_owned),
        output_schema: output.map(str::to_owned),
        ..Function::new(name)
    };
    let functions: Vec<Function> = functions.iter().map(function).collect();
    let source = if waits { forever() } else { Source::echo() };
    source.functions(&functions).component()
}

/// Waits for a signal that never comes.
fn forever() -> Source {
    Source::new(
        "(call $await_signal (i32.const 256) (i32.const 2) (i32.const 512))
         (call $ok (i32.const 0) (i32.const 0) (i32.const 0))",
    )
    .items(r#"(data (i32.const 256) "go")"#)
}

fn asked(key: Option<&str>) -> Attribution {
    let namespace = ConsumerNamespace::new("server").unwrap();
    let key = key.map(|key| parse_key(&namespace, Some(key)).unwrap().unwrap());
    Attribution { actor: Some(Actor::new("person")), reason: String::new(), key }
}

fn deploy(house: &House, bytes: &[u8], how: IfBreaking) -> Result<(), DeployRefused> {
    house.wait(house.engine().deploy_with("c", bytes, how, asked(None))).map(drop)
}

/// What a deployment would break, in words; empty: nothing, and it is deployed.
fn broken(house: &House, bytes: &[u8]) -> Vec<String> {
    match deploy(house, bytes, IfBreaking::Refuse) {
        Ok(()) => Vec::new(),
        Err(DeployRefused::Breaking { changes, .. }) => {
            changes.iter().map(ToString::to_string).collect()
        }
        Err(error) => panic!("{error}"),
    }
}

fn actions(house: &House) -> Vec<String> {
    let entries = house.wait(house.engine().audit(Timestamp::MAX, 10));
    entries.unwrap().into_iter().map(|entry| entry.action).collect()
}

#[test]
fn functions_in_use_are_not_broken_silently() {
    let house = House::new(by_hand(KEEP));
    let old = component(
        true,
        &[("f", Some(NUMBER), Some(ANY_NUMBER)), ("g", None, None), ("h", Some(NUMBER), None)],
    );
    assert_eq!(broken(&house, &old), [""; 0]);
    let rest = |f: Option<(&'static str, Option<&'static str>, Option<&'static str>)>| {
        let mut functions = vec![("g", None, None), ("h", Some(NUMBER), None)];
        functions.extend(f);
        component(true, &functions)
    };
    // No execution uses it.
    assert_eq!(broken(&house, &rest(None)), [""; 0]);
    assert_eq!(broken(&house, &old), [""; 0]);
    let first = house.start("1", "c/f", "1");
    house.start("2", "c/f", "2");
    house.start("3", "c/g", "3");
    house.work();
    for (f, expected) in [
        (None, "f is removed (2 unfinished)"),
        (
            Some(("f", Some(r#"{"type": "string"}"#), Some(ANY_NUMBER))),
            "f may refuse inputs that it accepted (2 unfinished)",
        ),
        (
            Some(("f", Some(NUMBER), Some("true"))),
            "f may return what it did not return (2 unfinished)",
        ),
    ] {
        assert_eq!(broken(&house, &rest(f)), [expected]);
        assert_eq!(
            house.wait(house.engine().components()).unwrap()[0].1,
            ComponentDigest::of(&old)
        );
    }
    // More inputs, fewer results, no schema: callers notice nothing.
    for f in [("f", Some(ANY_NUMBER), Some(NUMBER)), ("f", None, None)] {
        assert_eq!(broken(&house, &rest(Some(f))), [""; 0]);
        deploy(&house, &old, IfBreaking::Proceed).unwrap();
    }
    // An execution that is over uses nothing, and those of a version before the last one count.
    deploy(
        &house,
        &component(true, &[("f", Some(NUMBER), None), ("g", None, None)]),
        IfBreaking::Refuse,
    )
    .unwrap();
    house.cancel(&first);
    house.work();
    assert_eq!(broken(&house, &rest(None)), ["f is removed (1 unfinished)"]);
    deploy(&house, &rest(None), IfBreaking::Proceed).unwrap();
    assert!(actions(&house).contains(&"deploy: forced".to_owned()));
}

#[test]
fn versions_are_counted_and_go_back() {
    let mut house = House::new(by_hand(KEEP));
    let waits = component(true, &[("f", None, None)]);
    let echoes = component(false, &[("f", None, None), ("g", None, None)]);
    deploy(&house, &waits, IfBreaking::Refuse).unwrap();
    house.start("1", "c/f", "1");
    deploy(&house, &echoes, IfBreaking::Refuse).unwrap();
    house.start("2", "c/g", "2");
    house.work();
    let digests = [ComponentDigest::of(&waits), ComponentDigest::of(&echoes)];
    let counts = house.wait(house.engine().unfinished_by_version(&digests)).unwrap();
    assert_eq!(counts, [Count { found: 1, more: false }, Count::default()]);
    assert_eq!(counts[0].to_string(), "1");

    let activate = |house: &House, digest: &ComponentDigest, key: Option<&str>| {
        let asked = asked(key);
        house.wait(house.engine().activate("c", digest, IfBreaking::Refuse, asked))
    };
    let unknown = activate(&house, &ComponentDigest::of(b""), None).unwrap_err();
    assert!(matches!(unknown, DeployRefused::NoVersion { .. }), "{unknown}");
    let done = activate(&house, &digests[0], Some("back")).unwrap();
    assert!(!done.prior);
    assert_eq!(done.value.manifest.functions().len(), 1);
    house.crash();
    let gone = house.wait(house.engine().start(house.request("3", "c/g", "3"))).unwrap_err();
    assert!(matches!(gone, StartRefused::NoFunction { .. }), "{gone}");
    // A repetition changes nothing, although another version is active now.
    activate(&house, &digests[1], Some("forth")).unwrap();
    assert!(activate(&house, &digests[0], Some("back")).unwrap().prior);
    let other = activate(&house, &digests[1], Some("back")).unwrap_err();
    assert!(matches!(other, DeployRefused::Mismatch), "{other}");
    let (started, ending) =
        house.wait(house.engine().call(house.request("4", "c/g", "4"))).unwrap();
    assert_eq!((started.verdict, &*returned(&ending)), (Verdict::Fresh, "4"));
    assert_eq!(actions(&house)[..2], ["activate", "activate"]);

    // A refusal uses up no key.
    let stuck = component(true, &[("f", Some(NUMBER), None), ("w", None, None)]);
    deploy(&house, &stuck, IfBreaking::Refuse).unwrap();
    house.start("5", "c/w", "5");
    let refused = activate(&house, &digests[0], Some("key")).unwrap_err();
    let DeployRefused::Breaking { changes, .. } = &refused else { panic!("{refused}") };
    assert_eq!(changes[0].change, ContractChange::Removed);
    let asked = asked(Some("key"));
    let forced = house.engine().activate("c", &digests[0], IfBreaking::Proceed, asked);
    assert!(!house.wait(forced).unwrap().prior);
    assert!(actions(&house).contains(&"activate: forced".to_owned()));
}
