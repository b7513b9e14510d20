//! What a transaction does to a vault: every condition and code, all or nothing, in order.

use indelible_journal::{FunctionName, OperationId, Payload};
use indelible_ledger::{
    Actor, Application, Applied, Code, Condition, ContentSummary, Entity, Height, Limits,
    Operation, OperationResult, Origin, Proposal, Reads, Refusal, TransactionId, ValueHash, Vault,
};
use proptest::prelude::*;

use crate::support::{
    Entities, add, at, check, delete, euro, get, incarnation, json, key, scope, set, set_if,
    single, transfer, unit,
};

struct Bench {
    vault: Vault,
    entities: Entities,
}

impl Bench {
    /// `text` is a value at version 1, `rich` an amount of 100 at version 2, `poor` one of 0.
    fn new() -> Self {
        let vault = Vault::new(&scope(), incarnation());
        let mut bench = Self { vault, entities: Entities::default() };
        bench.applied(vec![set("text", json("1"))]);
        bench.applied(vec![set("rich", euro(100)), set("poor", euro(0))]);
        bench
    }

    fn apply(&mut self, operations: Vec<Operation>) -> Application {
        let proposal = Proposal {
            id: TransactionId::from_bytes([9; 16]),
            origin: Origin::Expiry,
            request: single(operations),
            actor: Actor::new("system:test"),
        };
        let limits = Limits { result_bytes_max: 3, ..Limits::DEFAULT };
        let now = at(5);
        let result = self.vault.apply(proposal, now, &limits, &mut self.entities).unwrap();
        if let Application::Applied(applied) = &result {
            self.entities.store(applied);
        }
        result
    }

    fn applied(&mut self, operations: Vec<Operation>) -> Applied {
        match self.apply(operations) {
            Application::Applied(applied) => applied,
            Application::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    fn refused(&mut self, operations: Vec<Operation>) -> Refusal {
        let before = (self.vault.clone(), self.entities.clone());
        match self.apply(operations) {
            Application::Refused(refusal) => {
                assert_eq!(before, (self.vault.clone(), self.entities.clone()), "all or nothing");
                refusal
            }
            Application::Applied(applied) => panic!("{applied:?}"),
        }
    }
}

fn hash(text: &str) -> Condition {
    Condition::Hash(ValueHash::of(text.as_bytes()))
}

fn version(number: u64) -> Condition {
    Condition::Version(Height::new(number))
}

/// each condition on each state of an entity, as a check and on a write.
#[test]
fn every_condition() {
    let is = Condition::Content;
    #[rustfmt::skip]
    let table: [(Condition, [Option<Code>; 3]); 11] = [
        // Of nothing, of the value `1` at version 1, of 100 EUR at version 2.
        (Condition::Absent, [None, Some(Code::KeyExists), Some(Code::KeyExists)]),
        (Condition::Present, [Some(Code::KeyNotFound), None, None]),
        (version(1), [Some(Code::KeyNotFound), None, Some(Code::VersionMismatch)]),
        (version(2), [Some(Code::KeyNotFound), Some(Code::VersionMismatch), None]),
        (version(0), [Some(Code::KeyNotFound), Some(Code::VersionMismatch), Some(Code::VersionMismatch)]),
        (is(json("1")), [Some(Code::KeyNotFound), None, Some(Code::ValueMismatch)]),
        (is(json("2")), [Some(Code::KeyNotFound), Some(Code::ValueMismatch), Some(Code::ValueMismatch)]),
        (is(indelible_ledger::Content::value(Payload::new(indelible_journal::Codec::TEXT, "1"))),
            [Some(Code::KeyNotFound), Some(Code::ValueMismatch), Some(Code::ValueMismatch)]),
        (is(euro(100)), [Some(Code::KeyNotFound), Some(Code::ValueMismatch), None]),
        (hash("1"), [Some(Code::KeyNotFound), None, Some(Code::ValueMismatch)]),
        (hash("2"), [Some(Code::KeyNotFound), Some(Code::ValueMismatch), Some(Code::ValueMismatch)]),
    ];
    for (condition, codes) in table {
        for (of, code) in ["nothing", "text", "rich"].into_iter().zip(codes) {
            let mut operations = vec![
                check(of, condition.clone()),
                set_if(of, json("3"), condition.clone()),
                Operation::Delete { key: key(of), condition: Some(condition.clone()) },
            ];
            if of != "text" {
                operations.push(Operation::Add {
                    key: key(of),
                    delta: 0,
                    unit: Some(unit("EUR")),
                    min: None,
                    max: None,
                    condition: Some(condition.clone()),
                });
            }
            for operation in operations {
                let mut bench = Bench::new();
                match code {
                    None => drop(bench.applied(vec![operation])),
                    Some(code) => {
                        let refusal = bench.refused(vec![set("x", json("0")), operation]);
                        assert_eq!((refusal.index, refusal.code), (1, code));
                        assert_eq!(refusal.key, key(of));
                    }
                }
            }
        }
    }
}

/// a refusal has the current version and value; of a large value the hash alone.
#[test]
fn a_refusal_shows_what_it_met() {
    let mut bench = Bench::new();
    let refusal = bench.refused(vec![check("text", Condition::Absent)]);
    assert_eq!(refusal.current.as_ref().unwrap().version, Height::new(1));
    assert_eq!(refusal.current_value, Some(Payload::json("1")));
    let refusal = bench.refused(vec![check("rich", Condition::Absent)]);
    let ContentSummary::Amount(amount) = refusal.current.unwrap().content else { panic!() };
    assert_eq!((amount.quantity, refusal.current_value), (100, None));
    let refusal = bench.refused(vec![check("nothing", Condition::Present)]);
    assert_eq!((refusal.current, refusal.current_value), (None, None));
    for (bytes, is_shown) in [(4096, true), (4097, false)] {
        let large = "1".repeat(bytes);
        bench.applied(vec![set("large", json(&large))]);
        let refusal = bench.refused(vec![check("large", Condition::Absent)]);
        assert_eq!(refusal.current_value.is_some(), is_shown);
        let ContentSummary::Value { hash, .. } = refusal.current.unwrap().content else { panic!() };
        assert_eq!(hash, ValueHash::of(large.as_bytes()));
    }
}

/// Later operations of a transaction see earlier ones; results carry versions and balances.
#[test]
fn results_in_order() {
    let mut bench = Bench::new();
    let three = Height::new(3);
    let applied = bench.applied(vec![
        set("new", euro(5)),
        check("new", version(3)),
        add("new", 7),
        transfer("new", "poor", 10),
        get("text"),
        delete("text"),
        delete("text"),
        get("text"),
        delete("nothing"),
    ]);
    let text = Entity { content: json("1"), version: Height::new(1), expires_at: None };
    assert_eq!(
        applied.receipt.success.results,
        [
            OperationResult::Set { version: three },
            OperationResult::Checked,
            OperationResult::Added { version: three, balance: 12 },
            OperationResult::Transferred { version: three, from_balance: 2, to_balance: 10 },
            OperationResult::Got(Some(text)),
            OperationResult::Deleted { version: Some(Height::new(1)) },
            OperationResult::Deleted { version: None },
            OperationResult::Got(None),
            OperationResult::Deleted { version: None },
        ]
    );
    let changed: Vec<_> = applied
        .changes
        .iter()
        .map(|change| (change.key.as_str(), change.after.is_some()))
        .collect();
    assert_eq!(changed, [("new", true), ("poor", true), ("text", false)]);
    let before: Vec<_> = applied.record.before.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(before, ["poor", "text"]);
    assert_eq!(bench.vault.height(), three);
}

/// The codes of amounts, at their edges.
#[test]
fn amounts_at_their_edges() {
    let add_to = |of: &str, delta, named: Option<&str>, min, max| Operation::Add {
        key: key(of),
        delta,
        unit: named.map(unit),
        min,
        max,
        condition: None,
    };
    let move_to =
        |from: &str, to: &str, quantity, named: Option<&str>, min, max| Operation::Transfer {
            from: key(from),
            to: key(to),
            quantity,
            unit: named.map(unit),
            min,
            max,
        };
    let mut bench = Bench::new();
    bench.applied(vec![
        set("usd", indelible_ledger::Content::amount(5, unit("USD"))),
        set("most", euro(i128::MAX)),
        set("least", euro(i128::MIN)),
    ]);
    let refusals = [
        (add_to("rich", -101, None, Some(0), None), Code::BelowMin, "rich"),
        (add_to("poor", 1, None, None, Some(0)), Code::AboveMax, "poor"),
        (add_to("rich", 1, Some("USD"), None, None), Code::UnitMismatch, "rich"),
        (add_to("text", 1, None, None, None), Code::UnitMismatch, "text"),
        (add_to("nothing", 1, None, None, None), Code::KeyNotFound, "nothing"),
        (add_to("nothing", -1, Some("EUR"), Some(0), None), Code::BelowMin, "nothing"),
        (add_to("most", 1, None, None, None), Code::AmountOverflow, "most"),
        (add_to("least", -1, None, None, None), Code::AmountOverflow, "least"),
        (move_to("rich", "poor", 101, None, Some(0), None), Code::BelowMin, "rich"),
        (move_to("rich", "poor", 100, None, Some(0), Some(99)), Code::AboveMax, "poor"),
        (move_to("rich", "usd", 1, None, None, None), Code::UnitMismatch, "usd"),
        (move_to("usd", "rich", 1, Some("EUR"), None, None), Code::UnitMismatch, "usd"),
        (move_to("rich", "nothing", 1, Some("EUR"), None, None), Code::KeyNotFound, "nothing"),
        (move_to("nothing", "rich", 1, Some("EUR"), None, None), Code::KeyNotFound, "nothing"),
        (move_to("rich", "text", 1, None, None, None), Code::UnitMismatch, "text"),
        (move_to("rich", "most", 1, None, None, None), Code::AmountOverflow, "most"),
        (move_to("least", "rich", 1, None, None, None), Code::AmountOverflow, "least"),
        (move_to("poor", "rich", i128::MAX, None, None, None), Code::AmountOverflow, "rich"),
    ];
    for (operation, code, of) in refusals {
        let refusal = bench.refused(vec![operation.clone()]);
        assert_eq!((refusal.code, refusal.key.as_str()), (code, of), "{operation:?}");
    }
    bench.applied(vec![
        add_to("rich", -100, Some("EUR"), Some(0), Some(0)),
        add_to("rich", 100, None, Some(100), Some(100)),
        move_to("rich", "poor", 100, Some("EUR"), Some(0), Some(100)),
        add_to("counter", 1, Some("pieces"), None, None),
    ]);
    assert!(matches!(
        bench.entities.entity(&key("counter")).unwrap().unwrap().content,
        indelible_ledger::Content::Amount(amount) if (amount.quantity, amount.unit.as_str()) == (1, "pieces")
    ));
}

/// C-84: an entity whose time has passed is there, for conditions and reads, until the transaction of
/// `system:expiry`; `add` and `transfer` keep the time, `set` puts another in its place.
#[test]
fn an_expired_entity_is_there_until_it_is_deleted() {
    let mut bench = Bench::new();
    let expires_at = Some(at(1));
    bench.applied(vec![Operation::Set {
        key: key("old"),
        content: euro(5),
        expires_at,
        condition: None,
    }]);
    let applied = bench.applied(vec![
        check("old", Condition::Present),
        add("old", 1),
        transfer("old", "poor", 1),
    ]);
    assert!(applied.record.transaction.time > at(1));
    let old = |bench: &mut Bench| bench.entities.entity(&key("old")).unwrap();
    assert_eq!(old(&mut bench).unwrap().expires_at, expires_at);
    bench.applied(vec![set_if("old", euro(1), version(4))]);
    assert_eq!(old(&mut bench).unwrap().expires_at, None);
    bench.applied(vec![delete("old")]);
    assert_eq!(old(&mut bench), None);
    bench.refused(vec![check("old", Condition::Present)]);
}

/// times never go back in a scope; heights go up by one; a start is data for the caller.
#[test]
fn times_and_starts() {
    let mut vault = Vault::new(&scope(), incarnation());
    let mut entities = Entities::default();
    let start = Operation::Start {
        function: FunctionName::new("ship").unwrap(),
        input: Payload::json("{}"),
    };
    for (height, (now, time)) in (1..).zip([(5, 5), (3, 5), (7, 7), (0, 7)]) {
        let proposal = Proposal {
            id: TransactionId::from_bytes([height; 16]),
            origin: Origin::Expiry,
            request: single(vec![get("x"), start.clone()]),
            actor: Actor::new("system:test"),
        };
        let applied = vault.apply(proposal, at(now), &Limits::DEFAULT, &mut entities).unwrap();
        let Application::Applied(applied) = applied else { panic!("{applied:?}") };
        let success = &applied.receipt.success;
        assert_eq!((success.height.get(), success.time), (u64::from(height), at(time)));
        assert_eq!(applied.starts.len(), 1);
        assert_eq!((applied.starts[0].index, applied.starts[0].function.as_str()), (1, "ship"));
        let operation = OperationId::new(&format!("tx:{}:1", success.transaction)).unwrap();
        assert_eq!(success.results[1], OperationResult::Started { operation });
        assert_eq!((applied.changes.len(), vault.time()), (0, at(time)));
    }
}

/// What `get` returns is bounded over the whole transaction.
#[test]
fn results_are_bounded() {
    let mut bench = Bench::new();
    bench.applied(vec![set("a", json("123")), set("b", json("1"))]);
    bench.applied(vec![get("a"), get("rich")]);
    let refusal = bench.refused(vec![get("a"), get("b")]);
    assert_eq!((refusal.index, refusal.code), (1, Code::ResultTooLarge));
}

/// A large value is not held for a check, and is there for a `get` that follows, and for its refusal.
#[test]
fn a_large_value_is_read_when_it_is_returned() {
    let mut bench = Bench::new();
    let large = json(&"1".repeat(5_000));
    bench.applied(vec![set("large", large.clone())]);
    let limits = Limits::DEFAULT;
    let mut apply = |operations| {
        let proposal = Proposal {
            id: TransactionId::from_bytes([9; 16]),
            origin: Origin::Expiry,
            request: single(operations),
            actor: Actor::new("system:test"),
        };
        bench.vault.apply(proposal, at(5), &limits, &mut bench.entities).unwrap()
    };
    let same = check("large", Condition::Content(large.clone()));
    let small = set("large", json("2"));
    let result = apply(vec![same.clone(), get("large"), small.clone(), get("large")]);
    let Application::Applied(applied) = result else { panic!("{result:?}") };
    let values = applied.receipt.success.results.iter().filter_map(|result| match result {
        OperationResult::Got(Some(entity)) => Some(entity.content.clone()),
        _ => None,
    });
    assert_eq!(values.collect::<Vec<_>>(), [large, json("2")]);
    let absent = check("large", Condition::Absent);
    let result = apply(vec![same, small, absent]);
    let Application::Refused(refusal) = result else { panic!("{result:?}") };
    assert_eq!((refusal.index, refusal.current_value), (2, Some(Payload::json("2"))));
}

/// A reader that fails leaves the vault as it was.
#[test]
fn a_failed_read_changes_nothing() {
    struct Failing;
    impl Reads for Failing {
        type Error = &'static str;
        fn entity(
            &mut self,
            key: &indelible_ledger::EntityKey,
        ) -> Result<Option<Entity>, Self::Error> {
            if key.as_str() == "bad" { Err("the disk") } else { Ok(None) }
        }
    }
    let mut vault = Vault::new(&scope(), incarnation());
    let before = vault.clone();
    let proposal = Proposal {
        id: TransactionId::from_bytes([1; 16]),
        origin: Origin::Expiry,
        request: single(vec![set("good", json("1")), get("bad")]),
        actor: Actor::new("system:test"),
    };
    assert_eq!(vault.apply(proposal, at(1), &Limits::DEFAULT, &mut Failing), Err("the disk"));
    assert_eq!(vault, before);
}

proptest! {
    /// The sum of balances is constant over transfers, no balance leaves its bounds, and the state hash
    /// is that of the entities, in whatever order they are added.
    #[test]
    fn transfers_keep_the_sum(
        moves in prop::collection::vec((0_usize..5, 0_usize..5, 1_i128..60), 1..40),
    ) {
        let mut bench = Bench::new();
        let names = ["a", "b", "c", "d", "e"];
        bench.applied(names.iter().map(|name| set(name, euro(50))).collect());
        for (from, to, quantity) in moves {
            if from != to {
                let _ = bench.apply(vec![transfer(names[from], names[to], quantity)]);
            }
        }
        let balances: Vec<i128> = names.iter().map(|name| {
            match bench.entities.entity(&key(name)).unwrap().unwrap().content {
                indelible_ledger::Content::Amount(amount) => amount.quantity,
                indelible_ledger::Content::Value(_) => panic!("an amount"),
            }
        }).collect();
        prop_assert_eq!(balances.iter().sum::<i128>(), 250);
        prop_assert!(balances.iter().all(|balance| *balance >= 0));
        let mut state = indelible_ledger::proof::LtHash::default();
        for (key, entity) in bench.entities.0.iter().rev() {
            state.add(key, &entity.summary());
        }
        prop_assert_eq!(&state, bench.vault.state());
        prop_assert_eq!(state.digest(), bench.vault.state_hash());
    }
}
