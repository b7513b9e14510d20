//! A backup while callers call, and what a server makes of it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::store;
use crate::support::process::{Server, request, until};

/// What a caller was told: its key, and the whole answer.
type Acknowledged = (String, Vec<u8>);

/// Calls under new keys until it is over, and notes what was acknowledged.
fn caller(address: &str, name: usize, noted: &Mutex<Vec<Acknowledged>>, over: &AtomicBool) {
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("caller-{name}-{number}");
        let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
        let body = json!({ "caller": name, "number": number }).to_string();
        let path = "/v1/call/bench/echo";
        let answer = request(address, "POST", path, &headers, body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        noted.lock().unwrap().push((key, answer.body));
    }
}

/// Waits until so many calls were acknowledged.
#[track_caller]
fn wait_for(noted: &Mutex<Vec<Acknowledged>>, count: usize) {
    until("so many calls are acknowledged", || {
        (noted.lock().unwrap().len() >= count).then_some(())
    });
}

/// Lets callers go when it is dropped: also when the test fails, which waits for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A backup that is taken while callers call has everything that was acknowledged before it began,
/// fits together, and a server goes on with it: repeated requests get the prior results, what waits
/// goes on, components are compiled anew. The server that it was taken of was not disturbed.
#[test]
fn a_backup_under_load_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("one.backup"));
    let server = Server::start(&data, &[]);
    server.deploy("bench", "bench");
    server.deploy("approval", "approval");
    let waits = r#"{"who":"bob","cents":9900,"seconds":100000}"#;
    let waiting: Vec<String> = (0..3)
        .map(|_| server.post("/v1/start/approval/approve", &[], waits).json())
        .map(|started| started["execution_id"].as_str().unwrap().to_owned())
        .collect();
    let (noted, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let (before, made) = std::thread::scope(|scope| {
        let _ends = Ends(&over);
        for name in 0..4 {
            let (noted, over, address) = (&noted, &over, &server.address);
            scope.spawn(move || caller(address, name, noted, over));
        }
        wait_for(&noted, 200);
        let before = noted.lock().unwrap().clone();
        let url = format!("http://{}", server.address);
        let made = store(&[&"backup", &file, &"--json", &"--url", &url]);
        // The callers are served as before.
        let after = noted.lock().unwrap().len();
        wait_for(&noted, after + 50);
        (before, made)
    });
    let made = made.json();
    assert_eq!(made["file_bytes"], std::fs::metadata(&file).unwrap().len());
    assert!(made["rows"].as_u64().unwrap() > 1_000, "{made}");
    assert_eq!(super::names(folder.path()), ["data", "one.backup"]);
    let record = server.get("/v1/audit?limit=500").json();
    let entries = record["entries"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["action"] == "backup").unwrap();
    assert_eq!((&entry["actor"], &entry["subject"]), (&"system:local".into(), &"store".into()));
    // The original is lost.
    server.kill();
    std::fs::remove_dir_all(&data).unwrap();

    let restored = store(&[&"restore", &file, &data, &"--json"]).json();
    assert_eq!(restored["position"], made["position"]);
    assert_eq!((&restored["rows"], &restored["problems_count"]), (&made["rows"], &json!(0)));
    let unfinished = restored["unfinished"].as_u64().unwrap();
    // Those that wait, and at most one call of each caller.
    assert!((3..=7).contains(&unfinished), "{restored}");
    assert_eq!(super::names(folder.path()), ["data", "one.backup"]);
    assert_eq!(super::names(&data), ["store"]);
    let check: Value = store(&[&"check", &data, &"--json"]).json();
    assert_eq!(check["ok"], true, "{check}");

    let server = Server::start(&data, &[]);
    for (key, body) in &before {
        let input: Value = serde_json::from_slice::<Value>(body).unwrap()["result"].clone();
        let headers = [("idempotency-key", key.as_str())];
        let again = server.post("/v1/call/bench/echo", &headers, &input.to_string());
        assert_eq!((again.status, again.header("indelible-verdict")), (200, Some("PriorResult")));
        assert_eq!(again.body, *body, "{key}");
    }
    let decision = r#"{"by":"eve","approved":true}"#;
    for execution in &waiting {
        let signal = format!("/v1/executions/{execution}/signals/decision");
        assert_eq!(server.post(&signal, &[], decision).status, 200);
        let outcome = server.get(&format!("/v1/executions/{execution}/outcome"));
        assert_eq!(outcome.status, 200, "{}", String::from_utf8_lossy(&outcome.body));
    }
    assert_eq!(server.post("/v1/call/bench/echo", &[], "1").status, 200);
    assert!(!super::names(&data.join("artifacts")).is_empty(), "they were compiled");
}

/// A folder that no server has open is copied just so, and the copy of its copy is the same; one
/// that a server has open is not touched. Of nothing there is a backup too.
#[test]
fn a_folder_at_rest() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let server = Server::start(&at("data"), &[]);
    server.deploy("bench", "bench");
    for number in 0..20 {
        assert_eq!(server.post("/v1/call/bench/echo", &[], &number.to_string()).status, 200);
    }
    let busy = store(&[&"backup", &at("busy"), &"--data", &at("data")]);
    busy.refused(1, "process");
    server.kill();
    let made = store(&[&"backup", &at("one"), &"--json", &"--data", &at("data")]).json();
    store(&[&"restore", &at("one"), &at("two"), &"--json"]).json();
    let again = store(&[&"backup", &at("three"), &"--json", &"--data", &at("two")]).json();
    let rows_of = |made: &Value| made["rows"].as_u64().unwrap();
    assert_eq!(rows_of(&again), rows_of(&made) + 2, "how often it was restored, and from what");
    // The head says where and when, and every check depends on it: the rows are the same.
    let counts = |folder: &str| store(&[&"info", &at(folder), &"--json"]).json()["tables"].clone();
    let rows = |tables: Value| -> Vec<(Value, Value)> {
        let tables = tables.as_array().unwrap().clone();
        let own = tables.into_iter().filter(|table| {
            // The pipeline's are its own, and settings say that it was restored.
            table["table"] != "pipeline" && table["table"] != "settings"
        });
        own.map(|table| (table["rows"].clone(), table["bytes"].clone())).collect()
    };
    assert_eq!(rows(counts("data")), rows(counts("two")));
    let server = Server::start(&at("two"), &[]);
    assert_eq!(server.get("/v1/executions").json()["executions"].as_array().unwrap().len(), 20);
    server.kill();

    // A server that no client has used.
    Server::start(&at("empty"), &[]).kill();
    let made = store(&[&"backup", &at("nothing"), &"--json", &"--data", &at("empty")]).json();
    assert_eq!(made["rows"], 2, "the retention clock, and the key of cursors");
    std::fs::create_dir(at("from-nothing")).unwrap();
    let restored = store(&[&"restore", &at("nothing"), &at("from-nothing"), &"--json"]).json();
    assert_eq!((&restored["rows"], &restored["unfinished"]), (&json!(2), &json!(0)));
    let server = Server::start(&at("from-nothing"), &[]);
    server.deploy("bench", "bench");
    assert_eq!(server.post("/v1/call/bench/echo", &[], "1").status, 200);
}
