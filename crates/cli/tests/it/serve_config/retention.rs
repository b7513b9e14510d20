//! A server that lets go of what is over.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::process::{Answer, PATIENCE, Server, request, until};

fn id(answer: &Answer) -> String {
    answer.json()["execution_id"].as_str().unwrap().to_owned()
}

fn listed(server: &Server) -> Vec<String> {
    let page = server.get("/v1/executions").json();
    let rows = page["executions"].as_array().unwrap();
    rows.iter().map(|row| row["execution_id"].as_str().unwrap().to_owned()).collect()
}

const CALL: &str = "/v1/call/bench/echo";
const WAITS: &str = r#"{"who":"bob","cents":9900,"seconds":1000}"#;

/// What has returned goes after its time, everywhere; what goes on stays. Its name is remembered: a
/// repetition is told the outcome, by this server and by one that comes after it was killed, also one
/// that keeps everything. Such a server stops when it is told to.
#[test]
fn what_is_over_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (folder.path().join("data"), folder.path().join("indelible.toml"));
    std::fs::write(&config, "[retention]\ncompleted = \"1s\"\nfailed = \"forever\"\n").unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let server = Server::start(&data, &config);
    server.deploy("bench", "bench");
    server.deploy("approval", "approval");
    let key = [("idempotency-key", "k-1")];
    let first = server.post(&format!("{CALL}?label=order=7"), &key, r#"{"a":1}"#);
    assert_eq!(first.status, 200);
    let gone = id(&first);
    let waiting = id(&server.post("/v1/start/approval/approve", &[], WAITS));
    until("it is gone", || (listed(&server) == [waiting.as_str()]).then_some(()));
    for path in ["", "/outcome", "/tree", "/journal", "/events"] {
        let answer = server.get(&format!("/v1/executions/{gone}{path}"));
        assert_eq!((answer.status, &answer.json()["code"]), (404, &"not-found".into()), "{path}");
    }
    let signal = server.post(&format!("/v1/executions/{gone}/signals/x"), &[], "1");
    assert_eq!(signal.status, 404);
    let repeated = |server: &Server| {
        let again = server.post(CALL, &key, r#"{ "a": 1.0 }"#);
        assert_eq!((again.status, again.header("indelible-verdict")), (200, Some("PriorResult")));
        assert_eq!(again.body, first.body);
        let started = server.post("/v1/start/bench/echo", &key, r#"{"a":1}"#);
        assert_eq!((started.status, id(&started)), (202, gone.clone()));
        let outcome = server.get(started.header("location").unwrap());
        assert_eq!((outcome.status, &outcome.body), (200, &first.body));
        let other = server.post(CALL, &key, r#"{"a":2}"#);
        assert_eq!((other.status, &other.json()["code"]), (422, &"mismatch".into()));
        let operation = first.json()["operation_id"].as_str().unwrap().to_owned();
        let operation = server.get(&format!("/v1/operations/{operation}")).json();
        assert_eq!(operation["in_progress"], false);
        let by_key = server.get("/v1/executions?key=k-1").json();
        let used = serde_json::json!({ "used_for": "start", "operation": operation });
        assert_eq!(by_key, serde_json::json!({ "executions": [], "key": used }));
        assert_eq!(
            server.get("/v1/executions?label=order=7").json()["executions"],
            serde_json::json!([])
        );
        // The command line says what came of it all the same.
        let show = |arguments: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
                .args(arguments)
                .env("INDELIBLE_URL", format!("http://{}", server.address))
                .output()
                .unwrap();
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        let shown = show(&["show", "--key", "k-1"]);
        let (first_line, last_line) = (shown.lines().next(), shown.lines().last());
        let kept = format!("execution  {gone} (no longer kept)");
        assert_eq!((first_line, last_line), (Some(kept.as_str()), Some("result     {\"a\":1}")));
        let document: serde_json::Value =
            serde_json::from_str(&show(&["show", "key:k-1", "--json"])).unwrap();
        assert_eq!(document["execution_id"], gone.as_str());
        assert_eq!((&document["v"], &document["result"]["a"]), (&1.into(), &1.into()));
        let refused = show(&["cancel", "key:k-1", "--yes"]);
        assert!(refused.contains("is no longer kept"), "{refused}");
    };
    repeated(&server);
    assert_eq!(listed(&server), [waiting.as_str()]);
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(metrics.contains("indelible_swept_trees_total 1\n"), "{metrics}");
    assert!(metrics.contains("indelible_records_purged_total 0\n"), "{metrics}");
    server.kill();

    let server = Server::start(&data, &[]);
    repeated(&server);
    assert_eq!(server.get(&format!("/v1/executions/{waiting}")).status, 200);
    let signal = format!("/v1/executions/{waiting}/signals/decision");
    assert_eq!(server.post(&signal, &[], r#"{"by":"eve","approved":true}"#).status, 200);
    let outcome = format!("/v1/executions/{waiting}/outcome");
    until("it is over", || (server.get(&outcome).status == 200).then_some(()));
    server.kill();

    let server = Server::start(&data, &config);
    until("the other one is gone, too", || listed(&server).is_empty().then_some(()));
    repeated(&server);
    let process = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    kill_process(process, Signal::TERM).unwrap();
    assert_eq!(server.wait(), Some(0));
}

/// V-31, C-3: a caller who was away for longer than executions are kept asks by the operation id
/// and gets the outcome that the execution had: a result, an error, a cancel. In another namespace
/// the operation is not found. One that goes on is waited for.
#[test]
fn an_outcome_is_asked_for_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (folder.path().join("data"), folder.path().join("indelible.toml"));
    let kept = "[retention]\ncompleted = \"1s\"\nfailed = \"1s\"\ncancelled = \"1s\"\n";
    std::fs::write(&config, kept).unwrap();
    // Nothing goes before everything is over.
    let server = Server::start(&data, &[]);
    server.deploy("script", "script");
    let start = |input: &str| server.post("/v1/start/script/main?namespace=shop", &[], input);
    let inputs = [r#"[{"return":7}]"#, r#"[{"fail":"no luck"}]"#, r#"[{"signal":"never"}]"#];
    let started = inputs.map(start);
    let cancel = format!("/v1/executions/{}/cancel", id(&started[2]));
    assert_eq!(server.post(&cancel, &[], "{}").status, 200);
    let by_id = |answer: &Answer| format!("/v1/executions/{}/outcome", id(answer));
    let by_name = |answer: &Answer, query: &str| {
        let operation = answer.json()["operation_id"].as_str().unwrap().to_owned();
        format!("/v1/operations/{operation}/outcome{query}")
    };
    let shop = "?namespace=shop";
    let told = started.each_ref().map(|started| {
        let told = server.get(&by_id(started));
        let same = server.get(&by_name(started, shop));
        assert_eq!((same.status, &same.body), (told.status, &told.body));
        told
    });
    assert_eq!(told.each_ref().map(|told| told.status), [200, 424, 424]);
    let waits = start(r#"[{"signal":"go"}]"#);
    let path = by_name(&waits, shop);
    let goes_on = server.get(&format!("{path}&wait=0.01"));
    assert_eq!((goes_on.status, id(&goes_on)), (202, id(&waits)));
    assert_eq!(goes_on.header("location"), Some(&*path));
    server.kill();

    let server = Server::start(&data, &["--config", config.to_str().unwrap()]);
    for (started, told) in started.iter().zip(&told) {
        until("it is gone", || (server.get(&by_id(started)).status == 404).then_some(()));
        let kept = server.get(&by_name(started, shop));
        assert_eq!((kept.status, &kept.body), (told.status, &told.body));
        assert_eq!(kept.header("indelible-verdict"), None);
        let elsewhere = server.get(&by_name(started, ""));
        assert_eq!((elsewhere.status, &elsewhere.json()["code"]), (404, &"not-found".into()));
    }
    let signal = format!("/v1/executions/{}/signals/go", id(&waits));
    assert_eq!(server.post(&signal, &[], "1").status, 200);
    let ended = server.get(&path);
    assert_eq!((ended.status, &ended.json()["result"][0]["signal"]), (200, &1.into()));
    until("it is gone", || (server.get(&by_id(&waits)).status == 404).then_some(()));
    assert_eq!(server.get(&path).body, ended.body);
}

/// A stream of events breaks off if its execution is swept while the reader is slow: a reader that
/// has not seen the end is not told that the execution is over.
#[test]
fn a_stream_that_was_too_slow() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["--retention-completed", "1s"]);
    server.deploy("script", "script");
    // More than what is on its way between two sockets; and it is not over before it is told.
    let calls: Vec<_> = (0..40)
        .map(|number| format!(r#"{{"call_big":["{number}","main",500000]}}"#))
        .chain([r#"{"signal":"go"}"#, r#"{"return":1}"#].map(str::to_owned))
        .collect();
    let started = server.post("/v1/start/script/main", &[], &format!("[{}]", calls.join(",")));
    let id = id(&started);
    let path = format!("/v1/executions/{id}/events");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = &server.address;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut beginning = String::new();
    until("it has begun", || {
        let mut bytes = [0; 64];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{beginning}");
        beginning.push_str(&String::from_utf8_lossy(&bytes[..count]));
        beginning.contains("event: InvokeScheduled").then_some(())
    });
    assert!(beginning.starts_with("HTTP/1.1 200 OK"), "{beginning}");
    assert_eq!(server.post(&format!("/v1/executions/{id}/signals/go"), &[], "1").status, 200);
    until("it is gone", || {
        let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
        metrics.contains("indelible_swept_trees_total 1\n").then_some(())
    });
    let mut rest = Vec::new();
    // A server that has waited for its reader for too long resets the connection.
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "it does not break off");
    }
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.contains("event: ExecutionCompleted"), "it is slower than that");
    assert!(!rest.contains("event: over"));
    let behind = [("last-event-id", "1:1")];
    let again = request(&server.address, "GET", &path, &behind, b"").unwrap();
    assert_eq!((again.status, &again.json()["code"]), (404, &"not-found".into()));
}
