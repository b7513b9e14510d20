//! Every bound at its edge, and what is refused before anything is looked at.

use indelible_journal::{FunctionName, Payload};
use indelible_ledger::bounds::{
    ACTOR_BYTES_MAX, CLIENT_BYTES_MAX, KEY_BYTES_MAX, ORIGIN_BYTES_MAX, UNIT_BYTES_MAX,
    VAULT_NAME_BYTES_MAX,
};
use indelible_ledger::{
    Actor, ClientId, Code, Condition, EntityKey, Incarnation, Limits, Operation, OperationError,
    OriginId, Request, RequestError, Run, RunError, TransactionId, Unit, ValueHash, VaultName,
};

use crate::support::{client, euro, get, json, sequence, set, set_if, single, transfer};

/// Names: length, blanks and characters.
#[test]
fn names_at_their_edges() {
    fn edges<T, E: std::fmt::Display>(max: usize, new: impl Fn(&str) -> Result<T, E>) {
        assert!(new("a").is_ok() && new(&"a".repeat(max)).is_ok());
        for text in ["", " ", "\t", "a\u{1b}[2J", "a\nb", &"a".repeat(max + 1)] {
            let why = new(text).err().expect("it is refused").to_string();
            assert!(!why.contains(['\u{1b}', '\n']), "{why}");
        }
    }
    edges(KEY_BYTES_MAX, EntityKey::new);
    edges(CLIENT_BYTES_MAX, ClientId::new);
    edges(VAULT_NAME_BYTES_MAX, VaultName::new);
    edges(UNIT_BYTES_MAX, Unit::new);
    edges(ORIGIN_BYTES_MAX, OriginId::new);
    assert!(EntityKey::new("Ä ö/ü").is_ok() && EntityKey::new("a\u{85}").is_err());
    assert!(OriginId::new("a\u{85}").is_ok(), "a key that the door takes");
    for name in ["Wallets", "a b", "a/b", "a.b", "é"] {
        assert!(VaultName::new(name).is_err(), "{name}");
    }
    let long = "é".repeat(ACTOR_BYTES_MAX);
    assert_eq!(Actor::new(&long).as_str().len(), ACTOR_BYTES_MAX);
    for text in ["", "0198C0DE-0000-7000-8000-000000000abc", "0198c0de00007000800000000000abcd"] {
        assert!(text.parse::<TransactionId>().is_err() && text.parse::<Incarnation>().is_err());
    }
    assert!("0198c0de-0000-7000-8000-000000000abc".parse::<TransactionId>().is_ok());
    assert!("ab".repeat(32).parse::<ValueHash>().is_ok());
    assert!("AB".repeat(32).parse::<ValueHash>().is_err());
}

/// Q-19: names and numbers of codes are for ever.
#[test]
fn codes_have_their_numbers() {
    let names = [
        "KEY_EXISTS",
        "KEY_NOT_FOUND",
        "VERSION_MISMATCH",
        "VALUE_MISMATCH",
        "ALREADY_COMMITTED",
        "SEQUENCE_GAP",
        "BELOW_MIN",
        "ABOVE_MAX",
        "UNIT_MISMATCH",
        "AMOUNT_OVERFLOW",
        "RESULT_TOO_LARGE",
        "SEQUENCE_EXHAUSTED",
        "STALE_ATTEMPT",
        "SEQUENCE_MISMATCH",
    ];
    for (code, (number, name)) in Code::ALL.into_iter().zip((1..).zip(names)) {
        assert_eq!((code.number(), code.as_str()), (number, name));
        assert_eq!(Code::from_number(number), Some(code));
    }
    assert_eq!((Code::from_number(0), Code::from_number(15)), (None, None));
}

const LIMITS: Limits = Limits {
    value_bytes_max: 8,
    operations_max: 3,
    transaction_bytes_max: 20,
    batch_writes_max: 2,
    run_transactions_max: 2,
    run_bytes_max: 30,
    result_bytes_max: 0,
};

fn value(bytes: usize) -> indelible_ledger::Content {
    json(&"1".repeat(bytes))
}

/// Each bound of a request, one below and one above; all writes of a batch count together.
#[test]
fn requests_at_their_edges() {
    let single = |operations| Request::single(operations, &LIMITS);
    let batch = |writes| Request::batch(writes, &LIMITS);
    let too_many = |what, got, max| Err(RequestError::TooMany { what, got, max });
    assert_eq!(single(vec![]), Err(RequestError::Empty { write: 0 }));
    assert_eq!(batch(vec![]), Err(RequestError::Empty { write: 0 }));
    assert_eq!(batch(vec![vec![get("a")], vec![]]), Err(RequestError::Empty { write: 1 }));
    assert!(single(vec![get("a"); 3]).is_ok());
    assert_eq!(single(vec![get("a"); 4]), too_many("operations", 4, 3));
    assert!(batch(vec![vec![get("a"); 2], vec![get("a")]]).is_ok());
    assert_eq!(batch(vec![vec![get("a"); 2]; 2]), too_many("operations", 4, 3));
    assert_eq!(batch(vec![vec![get("a")]; 3]), too_many("writes in the batch", 3, 2));
    assert!(single(vec![set("ab", value(8)), set("ab", value(8))]).is_ok());
    let large = single(vec![set("ab", value(8)), set("abc", value(8))]);
    assert_eq!(large, too_many("bytes in the transaction", 21, 20));

    let start = |bytes: usize| Operation::Start {
        function: FunctionName::new("f").unwrap(),
        input: Payload::json("1".repeat(bytes)),
    };
    let compared = |bytes| Condition::Content(value(bytes));
    let at_edge = |bytes| {
        [
            set("a", value(bytes)),
            set_if("a", euro(1), compared(bytes)),
            crate::support::check("a", compared(bytes)),
            Operation::Delete { key: crate::support::key("a"), condition: Some(compared(bytes)) },
            start(bytes),
        ]
    };
    for (fits, large) in at_edge(8).into_iter().zip(at_edge(9)) {
        assert!(single(vec![fits]).is_ok());
        let refused = batch(vec![vec![get("a")], vec![get("a"), large]]).unwrap_err();
        let why = "operation 1 of write 1: the value has 9 bytes; at most 8 are allowed";
        assert_eq!(refused.to_string(), why);
    }
    for quantity in [0, -1, i128::MIN] {
        let refused = single(vec![transfer("a", "b", quantity)]).unwrap_err();
        let why = OperationError::NotPositive { quantity };
        assert!(matches!(refused, RequestError::Operation { why: found, .. } if found == why));
    }
    let refused = single(vec![transfer("a", "a", 1)]).unwrap_err();
    assert!(refused.to_string().contains("two entities"), "{refused}");
}

/// Each bound of a run.
#[test]
fn runs_at_their_edges() {
    let run = |count: u64, bytes| {
        let write = |number| (sequence(number), single(vec![set("a", value(bytes))]));
        Run::new(client("a"), None, (1..=count).map(write).collect(), &LIMITS)
    };
    assert!(run(2, 14).is_ok());
    let bound = |what, got, max| Err(RunError::Bound(RequestError::TooMany { what, got, max }));
    assert_eq!(run(3, 1), bound("transactions in the run", 3, 2));
    assert_eq!(run(2, 15), bound("bytes in the run", 32, 30));
}

/// C-45: the hash is of what the operations mean; nothing that can differ is left out of it.
#[test]
fn request_hashes() {
    let spelled = |text: &str| single(vec![set("a", json(text))]).hash();
    assert_eq!(spelled(r#"{"b":1,"a":[1.0]}"#), spelled("{ \"a\": [1],\n\"b\": 1 }"));
    let not_json = [r#"{"b":1,"b":1}"#, r#"{"b":1"#, "", "\"{}\"", "\u{feff}1"];
    let mut hashes: Vec<_> = not_json.iter().map(|text| spelled(text)).collect();
    for operation in crate::golden::every_operation() {
        hashes.push(single(vec![operation]).hash());
    }
    let count = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), count, "no two requests have one hash");
}
