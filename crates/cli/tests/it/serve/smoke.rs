//! One of everything, over the wire.

use crate::support::process::Server;

/// A function is deployed, called and found again; a key and an id lead to the same execution.
#[test]
fn a_call_and_what_is_shown_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.get("/v1/ready").status, 200);
    server.deploy("bench", "bench");
    let key = [("idempotency-key", "k-1")];
    let first = server.post("/v1/call/bench/echo", &key, r#"{"a":1}"#);
    assert_eq!((first.status, first.header("indelible-verdict")), (200, Some("Fresh")));
    assert_eq!(first.json()["result"], serde_json::json!({"a":1}));
    let again = server.post("/v1/call/bench/echo", &key, r#"{ "a": 1.0 }"#);
    assert_eq!((again.status, again.header("indelible-verdict")), (200, Some("PriorResult")));
    assert_eq!(again.body, first.body);
    let other = server.post("/v1/call/bench/echo", &key, r#"{"a":2}"#);
    assert_eq!((other.status, &other.json()["code"]), (422, &"mismatch".into()));
    let execution = first.json()["execution_id"].as_str().unwrap().to_owned();
    let list = server.get("/v1/executions?state=completed").json();
    assert_eq!(list["executions"][0]["execution_id"], execution.as_str());
    assert_eq!(list["executions"].as_array().unwrap().len(), 1);
    let detail = server.get(&format!("/v1/executions/{execution}"));
    assert_eq!(detail.json()["result"], serde_json::json!({"a":1}));
    let journal = server.get(&format!("/v1/executions/{execution}/journal")).json();
    assert_eq!(journal["events"][0]["event"], "ExecutionStarted");
    let events = server.get(&format!("/v1/executions/{execution}/events"));
    let text = String::from_utf8(events.body).unwrap();
    assert!(text.contains("event: ExecutionCompleted"), "{text}");
    assert!(text.contains("event: over"), "{text}");
    let audit = server.get("/v1/audit").json();
    assert_eq!(audit["entries"][0]["action"], "start");
    assert_eq!(audit["entries"][0]["actor"], "system:local");
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(metrics.contains("indelible_store_syncs_total"), "{metrics}");
}
