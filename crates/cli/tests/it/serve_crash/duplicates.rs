//! Requests under one key: from many at once, and before and after the server was killed.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

use super::kit::{House, execution, met, outcome, text, until, uuid};

/// Callers of the one key at once.
const CALLERS: usize = 64;
/// Callers of the one operation id at once.
const OTHERS: usize = 16;
const ROUNDS: usize = 6;

const CALL: &str = "/v1/call/script/main?namespace=shop";

/// Timers and calls one after the other; what comes of it is another thing in every execution.
fn long(end: &str) -> String {
    format!(
        r#"[{{"repeat":[6,[{{"timer":["t",15]}},{{"await":"t"}},{{"call":["c","main",[]]}},{{"await":"c"}}]]}},{{"random":8}}{end}]"#
    )
}

/// I-8, I-11, V-29, V-30, V-31, V-20: 64 callers with one key, and others with one operation id,
/// while the server is killed at one point or another: one execution for each of the two, started
/// once, and one outcome for all its callers, good or bad.
#[test]
fn one_execution_for_each_key() {
    let mut house = House::new();
    house.deploy("script");
    let (good, bad) = (long(""), long(r#",{"fail":"sold out"}"#));
    let (mut known, mut before) = (Vec::new(), BTreeSet::new());
    for round in 0..ROUNDS {
        let key = ("idempotency-key", format!("order-{round}"));
        let id = ("indelible-operation-id", uuid(0, round as u64));
        let begin = Arc::new(Barrier::new(CALLERS + OTHERS + 1));
        let call = |(name, value): &(&'static str, String), body: &str| {
            let (name, value, body) = (*name, value.clone(), body.to_owned());
            let (place, begin) = (Arc::clone(&house.place), Arc::clone(&begin));
            thread::spawn(move || {
                begin.wait();
                place.post(CALL, (name, &value), &body)
            })
        };
        let buyers: Vec<_> = (0..CALLERS).map(|_| call(&key, &good)).collect();
        let others: Vec<_> = (0..OTHERS).map(|_| call(&id, &bad)).collect();
        begin.wait();
        // The first round ends before anything is known; each other one a few events later.
        until("both have come so far", || {
            let rows = house.get("/v1/executions?namespace=shop&limit=4").json();
            let rows = rows["executions"].as_array().unwrap().iter();
            let own = rows.filter(|row| !before.contains(row["execution_id"].as_str().unwrap()));
            let far = own.filter(|row| row["events"].as_u64() >= Some(4 * round as u64));
            (round == 0 || far.count() == 2).then_some(())
        });
        house.crash();
        for (callers, header, body, status) in [(buyers, key, &good, 200), (others, id, &bad, 424)]
        {
            let answers: Vec<_> = callers.into_iter().map(|it| it.join().unwrap()).collect();
            for answer in &answers {
                assert_eq!(answer.status, status, "{}", text(answer));
                assert_eq!(outcome(answer), outcome(&answers[0]), "one outcome for everybody");
            }
            let fresh = answers.iter().filter(|answer| met(answer).2 == "Fresh").count();
            assert!(fresh <= 1, "{fresh} were told that they were the first");
            assert!(before.insert(execution(&answers[0])), "a key of another has another");
            known.push((header, body.clone(), answers[0].clone()));
        }
    }
    house.crash();
    for ((name, value), body, first) in &known {
        let again = house.post(CALL, &[(name, value)], body);
        let verdict = if first.status == 200 { "PriorResult" } else { "PriorError" };
        assert_eq!((again.status, met(&again).2), (first.status, verdict));
        assert_eq!(outcome(&again), outcome(first));
        assert_eq!(house.place.audited("start", &execution(first)), 1);
    }
    let rows = house.place.rows("/v1/executions?namespace=shop&limit=5", "executions");
    let all: Vec<_> = rows.iter().map(|row| row["execution_id"].as_str().unwrap()).collect();
    assert_eq!(all.len(), before.len(), "there are no others: {all:?}");
    assert!(all.iter().all(|id| before.contains(*id)));
    assert!(rows.iter().all(|row| row["attempts"] == "1"), "none was begun again: {rows:?}");
}

/// I-8, I-9, C-2, C-31: everything that a request under a key can meet, before and after the server
/// was killed: nothing, what goes on, a result, an error, and another request.
#[test]
fn what_a_duplicate_meets() {
    let mut house = House::new();
    house.deploy("script");
    let key = ("idempotency-key", "pay-1");
    let body = r#"[{"note":"card 4711"},{"signal":"go"}]"#;
    let again = r#" [ {"note":"card 4711"}, {"signal":"go"} ] "#;
    let start = "/v1/start/script/main?namespace=shop";
    let first = house.post(start, &[key], body);
    assert_eq!(met(&first), (202, String::new(), "Fresh"));
    let id = execution(&first);
    let at = format!("/v1/executions/{id}/outcome");
    let conflict = ("indelible-if-in-flight", "conflict");
    let mismatch = |house: &House| {
        for other in [r#"[{"signal":"go"}]"#, "[]", "null"] {
            let refused = house.post(CALL, &[key], other);
            assert_eq!(met(&refused), (422, "mismatch".into(), "none"));
            assert!(!text(&refused).contains("4711"), "what was recorded is nobody's business");
        }
        let refused = house.post("/v1/call/script/idem?namespace=shop", &[key], body);
        assert_eq!(met(&refused), (422, "mismatch".into(), "none"), "another function");
    };
    for _ in 0..2 {
        let attached = house.post(start, &[key], again);
        assert_eq!(met(&attached), (202, String::new(), "InFlight"));
        let waited = house.post(&format!("{CALL}&wait=0.01"), &[key], again);
        assert_eq!(met(&waited), (202, String::new(), "InFlight"));
        for answer in [&attached, &waited] {
            assert_eq!((execution(answer), answer.header("location")), (id.clone(), Some(&*at)));
        }
        let refused = house.post(CALL, &[key, conflict], body);
        assert_eq!(met(&refused), (409, "in-flight".into(), "InFlight"));
        assert_eq!((execution(&refused), refused.header("retry-after")), (id.clone(), Some("1")));
        mismatch(&house);
        house.crash();
    }
    let both = [key, ("indelible-operation-id", &uuid(0, 1))];
    assert_eq!(house.post(CALL, &both, body).status, 400, "one name");
    let waits = {
        let place = Arc::clone(&house.place);
        thread::spawn(move || place.post(CALL, key, body))
    };
    assert_eq!(house.post(&format!("/v1/executions/{id}/signals/go"), &[], "7").status, 200);
    let ended = waits.join().unwrap();
    assert_eq!(ended.json()["result"], serde_json::json!(["card 4711", {"signal":7}]));
    let failing = ("idempotency-key", "pay-2");
    let failed = house.post(CALL, &[failing], r#"[{"fail":"no money"}]"#);
    assert_eq!(met(&failed), (424, "function-failed".into(), "Fresh"));
    assert_eq!(failed.json()["error"]["message"], "no money");
    for _ in 0..2 {
        let prior = house.post(CALL, &[key, conflict], again);
        assert_eq!(met(&prior), (200, String::new(), "PriorResult"), "it is over: no conflict");
        assert_eq!(prior.body, ended.body);
        let prior = house.post(CALL, &[failing], r#"[{"fail": "no money"}]"#);
        assert_eq!(met(&prior), (424, "function-failed".into(), "PriorError"));
        assert_eq!(outcome(&prior), outcome(&failed));
        mismatch(&house);
        house.crash();
    }
    let elsewhere = house.post("/v1/call/script/main?namespace=bank", &[key], "[]");
    assert_eq!(met(&elsewhere), (200, String::new(), "Fresh"), "another namespace, another key");
    assert_eq!(house.place.audited("start", &id), 1);
}
