//! Starting under a caller's idempotency key (C-31, C-3).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use indelible_idempotency::{ConsumerNamespace, IdempotencyKey, parse_key};
use indelible_journal::{Micros, OperationId};
use indelible_records::{check, windows};
use indelible_runtime::world::Clock as _;
use indelible_runtime::{Attribution, Start, StartRefused};

use crate::support::{House, KEEP, by_hand, guests, returned};

fn house() -> House {
    let house = House::new(by_hand(KEEP));
    house.deploy("script");
    house
}

fn key_in(namespace: &str, value: &str) -> IdempotencyKey {
    let namespace = ConsumerNamespace::new(namespace).unwrap();
    parse_key(&namespace, Some(value)).unwrap().unwrap()
}

/// A request under a key, with no operation id of its own.
fn keyed(house: &House, value: &str, input: &str) -> Start {
    let idempotency_key = Some(key_in("tests", value));
    Start { operation_id: None, idempotency_key, ..house.request("x", "script/main", input) }
}

/// C-31: one key, one execution, however the request is written; running, finished, after a crash
/// and after a new version.
#[test]
fn a_key_leads_to_one_execution() {
    let mut house = house();
    let long = "é".repeat(255);
    for value in ["k", &long] {
        let first = keyed(&house, value, "[{\"signal\":\"go\"}]");
        let first = house.wait(house.engine().start(first)).unwrap();
        assert!(!first.attached());
        let again = keyed(&house, value, " [ { \"signal\" : \"go\" } ] ");
        let again = house.wait(house.engine().start(again)).unwrap();
        assert!(again.attached());
        assert_eq!(again.execution_id, first.execution_id);
        assert_eq!(again.operation_id, first.operation_id);
        house.signal(&first.execution_id, "go", "1");
        house.work();
        let mut other_version = guests::bytes("script");
        other_version.extend([0, 6, 4, b'n', b'o', b't', b'e', 2]);
        house
            .wait(house.engine().deploy("script", &other_version, Attribution::default()))
            .unwrap();
        house.crash();
        let request = keyed(&house, value, "[{\"signal\":\"go\"}]");
        let (after, ending) = house.wait(house.engine().call(request)).unwrap();
        assert!(after.attached());
        assert_eq!(after.execution_id, first.execution_id);
        assert_eq!(returned(&ending), "[{\"signal\":1}]");
    }
}

/// C-77, D13: a key, the operation that it leads to and its tree share a slot, and each id alone
/// leads to it; so do an operation id of the caller's own and its tree.
#[test]
fn a_key_its_operation_and_its_tree_share_a_slot() {
    let house = house();
    for number in 0..20 {
        let value = format!("order {number}");
        let request = keyed(&house, &value, "[{\"return\":1}]");
        let started = house.wait(house.engine().start(request)).unwrap();
        let of_key = indelible_slots::of_key("tests", &value);
        let id = started.operation_id.as_str();
        assert_eq!(indelible_slots::of_operation("tests", id), of_key);
        assert!(id.ends_with(&of_key.to_string()), "{id}");
        assert_eq!(started.execution_id.root().slot(), of_key);
        let own = house.start(&format!("own-{number}"), "script/main", "[{\"return\":1}]");
        let of_id = indelible_slots::of_operation("tests", &format!("own-{number}"));
        assert_eq!(own.root().slot(), of_id);
    }
}

/// I-12, C-31: another request under the key is a mismatch, whatever became of the first, and
/// changes nothing.
#[test]
fn another_request_under_the_key_is_a_mismatch() {
    let mut house = house();
    let first = house.engine_start(keyed(&house, "k", "[{\"return\":1}]"));
    let refused = |house: &House, start: Start| {
        let refused = house.wait(house.engine().start(start));
        assert!(matches!(refused, Err(StartRefused::Mismatch)), "{refused:?}");
    };
    refused(&house, keyed(&house, "k", "[{\"return\":2}]"));
    house.work();
    house.crash();
    refused(&house, keyed(&house, "k", "[{\"return\":2}]"));
    let other = Start { function: "idem".into(), ..keyed(&house, "k", "[{\"return\":1}]") };
    refused(&house, other);
    assert_eq!(house.engine_start(keyed(&house, "k", "[{\"return\":1}]")), first);
    // The same key in another namespace is another key; a key of another namespace is refused.
    let elsewhere = Start {
        namespace: indelible_journal::Namespace::new("elsewhere").unwrap(),
        ..keyed(&house, "k", "[{\"return\":2}]")
    };
    let foreign = house.wait(house.engine().start(elsewhere.clone()));
    assert!(matches!(foreign, Err(StartRefused::ForeignKey)), "{foreign:?}");
    let own = Start { idempotency_key: Some(key_in("elsewhere", "k")), ..elsewhere };
    assert!(!house.wait(house.engine().start(own)).unwrap().attached());
}

/// C-31: many starts at once under one key: one execution, and no caller is refused.
#[test]
fn many_starts_at_once() {
    let house = house();
    let start = || house.engine().start(keyed(&house, "k", "[{\"signal\":\"go\"}]"));
    let all = house.wait(async {
        let (a, b, c, d) = tokio::join!(start(), start(), start(), start());
        [a, b, c, d].map(Result::unwrap)
    });
    assert_eq!(all.iter().filter(|started| !started.attached()).count(), 1);
    assert!(all.iter().all(|started| started.execution_id == all[0].execution_id));
    assert_eq!(house.tree(&all[0].execution_id).len(), 1);
}

/// C-31: a request has one name: with an id beside the key, a repetition that has only one of them
/// could be taken for new.
#[test]
fn a_key_and_an_id_are_refused() {
    let house = house();
    let both = Start {
        operation_id: Some(OperationId::new("one").unwrap()),
        ..keyed(&house, "k", "[{\"return\":1}]")
    };
    let refused = house.wait(house.engine().start(both));
    assert!(matches!(refused, Err(StartRefused::KeyAndId)), "{refused:?}");
}

/// C-3: the record of a key outlives its execution, by the operations' window, and then the key is
/// fresh, also before the operation's record has followed it; while the execution goes on it stays,
/// whatever its age. The check finds nothing wrong on the way.
#[test]
fn a_key_goes_with_its_operation() {
    let house = house();
    let purge = || {
        let (store, now) = (house.engine().store(), house.clock.now());
        assert_eq!(check::check(store, &mut |_| {}).unwrap().problems, []);
        house.wait(windows::purge(store, now, 1)).unwrap().records
    };
    let first = house.engine_start(keyed(&house, "k", "[{\"signal\":\"go\"}]"));
    house.work();
    house.move_clock(Micros::from_secs(30 * 86_400));
    assert_eq!(purge(), 0, "it goes on");
    house.signal(&first, "go", "1");
    house.work();
    house.move_clock(Micros::from_secs(7 * 86_400 - 1));
    assert_eq!(purge(), 0, "its window is a week");
    assert_eq!(house.engine_start(keyed(&house, "k", "[{\"signal\":\"go\"}]")), first);
    house.move_clock(Micros::from_secs(2));
    assert_eq!(purge(), 1, "the key's record");
    let new = house.engine_start(keyed(&house, "k", "[{\"return\":2}]"));
    assert_ne!(new, first);
    assert_eq!(purge(), 1, "the operation's");
    assert_eq!(purge(), 0);
}
