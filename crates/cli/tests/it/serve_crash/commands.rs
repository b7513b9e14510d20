//! Keys on what is no call: signals, cancels, deployments.

use std::sync::{Arc, Barrier};
use std::thread;

use serde_json::{Value, json};

use super::kit::{House, execution, met, text};
use crate::support::process::Answer;

/// Callers of one key at once.
const CALLERS: usize = 16;
const ROUNDS: usize = 3;

fn signals(events: &[Value]) -> usize {
    events.iter().filter(|event| event["event"] == "SignalDelivered").count()
}

/// I-11: a signal under a key is delivered once: sent twice, sent by many at once while the
/// server is killed, sent again when the execution is over.
#[test]
fn a_signal_is_delivered_once() {
    let mut house = House::new();
    house.deploy("script");
    let body = format!(r#"[{{"repeat":[{},[{{"signal":"part"}}]]}}]"#, ROUNDS + 1);
    let run = execution(&house.post("/v1/start/script/main", &[], &body));
    let path = format!("/v1/executions/{run}/signals/part");
    let mut first = None;
    for round in 0..ROUNDS {
        let begin = Arc::new(Barrier::new(CALLERS + 1));
        let send = |_| {
            let (place, begin) = (Arc::clone(&house.place), Arc::clone(&begin));
            let (path, key) = (path.clone(), format!("part-{round}"));
            thread::spawn(move || {
                begin.wait();
                place.post(&path, ("idempotency-key", &key), &round.to_string())
            })
        };
        let senders: Vec<_> = (0..CALLERS).map(send).collect();
        begin.wait();
        house.crash();
        let answers: Vec<_> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        for answer in &answers {
            assert_eq!((answer.status, &answer.body), (200, &answers[0].body));
        }
        assert!(answers.iter().filter(|answer| met(answer).2 == "Fresh").count() <= 1);
        assert_eq!(signals(&house.place.journal(&run)), round + 1, "each once");
        assert_eq!(house.place.audited("signal", &run), round + 1);
        first.get_or_insert_with(|| answers[0].clone());
    }
    let first = first.unwrap();
    let again = |house: &House| {
        let again = house.post(&path, &[("idempotency-key", "part-0")], "0");
        assert_eq!((met(&again).2, &again.body), ("PriorResult", &first.body));
        let other = house.post(&path, &[("idempotency-key", "part-0")], "8");
        assert_eq!(met(&other), (422, "mismatch".into(), "none"));
        assert_eq!(signals(&house.place.journal(&run)), ROUNDS);
    };
    again(&house);
    let last = house.post(&path, &[("idempotency-key", "last")], "9");
    assert_eq!(met(&last), (200, String::new(), "Fresh"), "{}", text(&last));
    let ended = house.get(&format!("/v1/executions/{run}/outcome"));
    let told: Vec<_> = [0, 1, 2, 9].map(|n| json!({"signal": n})).into();
    assert_eq!(ended.json()["result"], json!(told));
    house.crash();
    let over = house.post(&path, &[("idempotency-key", "part-0")], "0");
    assert_eq!((met(&over).2, &over.body), ("PriorResult", &first.body), "also when it is over");
    let late = house.post(&path, &[("idempotency-key", "late")], "0");
    assert_eq!(met(&late), (409, "wrong-state".into(), "none"));
}

/// I-11: a cancel under a key is asked for once, and answered alike.
#[test]
fn a_cancel_is_asked_for_once() {
    let mut house = House::new();
    house.deploy("script");
    let run = execution(&house.post("/v1/start/script/main", &[], r#"[{"signal":"go"}]"#));
    let path = format!("/v1/executions/{run}/cancel");
    let reason = r#"{"reason":"enough"}"#;
    for verdict in ["Fresh", "PriorResult", "PriorResult"] {
        let asked = house.post(&path, &[("idempotency-key", "stop")], reason);
        assert_eq!(met(&asked), (200, String::new(), verdict));
        assert_eq!(asked.json(), json!({"already": false}));
        house.crash();
    }
    let other = house.post(&path, &[("idempotency-key", "stop")], r#"{"reason":"why"}"#);
    assert_eq!(met(&other), (422, "mismatch".into(), "none"));
    let ended = house.get(&format!("/v1/executions/{run}/outcome"));
    assert_eq!((ended.status, &ended.json()["error"]["message"]), (424, &json!("enough")));
    assert_eq!(house.place.audited("cancel", &run), 1);
}

/// I-11: a deployment that is repeated under its key does not undo the one that came after it.
#[test]
fn a_deployment_is_not_repeated() {
    let mut house = House::new();
    let bytes = |guest: &str| std::fs::read(indelible_guests::component(guest)).unwrap();
    let (one, two) = (bytes("trivial"), bytes("other"));
    let put = |house: &House, key: &str, bytes: &[u8]| -> Answer {
        let headers = [("content-type", "application/wasm"), ("idempotency-key", key)];
        let (_, address) = house.place.now();
        crate::support::process::request(&address, "PUT", "/v1/components/thing", &headers, bytes)
            .unwrap()
    };
    let active = |house: &House| house.get("/v1/components/thing").json()["active"].clone();
    let first = put(&house, "a", &one);
    assert_eq!(met(&first), (200, String::new(), "Fresh"));
    assert_eq!(active(&house), first.json()["digest"]);
    let second = put(&house, "b", &two);
    assert_eq!(met(&second), (200, String::new(), "Fresh"));
    for _ in 0..2 {
        let again = put(&house, "a", &one);
        assert_eq!(
            (met(&again).2, again.json()["digest"].clone()),
            ("PriorResult", first.json()["digest"].clone())
        );
        assert_eq!(active(&house), second.json()["digest"], "the second stays");
        assert_eq!(met(&put(&house, "a", &two)), (422, "mismatch".into(), "none"));
        house.crash();
    }
    let deployed = |entry: &&Value| entry["action"] == "deploy";
    let audit = house.place.rows("/v1/audit?limit=500", "entries");
    assert_eq!(audit.iter().filter(deployed).count(), 2, "{audit:?}");
    let back = put(&house, "c", &one);
    assert_eq!((met(&back).2, active(&house)), ("Fresh", first.json()["digest"].clone()));
}
