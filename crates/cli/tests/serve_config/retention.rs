//! A server that lets go of what is over.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::process::{Answer, Server, request};

/// How long is waited for what must happen: far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until it is so.
#[track_caller]
fn until(what: &str, mut look: impl FnMut() -> bool) {
    let began = Instant::now();
    while !look() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
    }
}

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
    let first = server.post(CALL, &key, r#"{"a":1}"#);
    assert_eq!(first.status, 200);
    let gone = id(&first);
    let waiting = id(&server.post("/v1/start/approval/approve", &[], WAITS));
    until("it is gone", || listed(&server) == [waiting.as_str()]);
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
        let other = server.post(CALL, &key, r#"{"a":2}"#);
        assert_eq!((other.status, &other.json()["code"]), (422, &"mismatch".into()));
        let operation = first.json()["operation_id"].as_str().unwrap().to_owned();
        let operation = server.get(&format!("/v1/operations/{operation}")).json();
        assert_eq!(operation["in_progress"], false);
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
    until("it is over", || server.get(&format!("/v1/executions/{waiting}/outcome")).status == 200);
    server.kill();

    let server = Server::start(&data, &config);
    until("the other one is gone, too", || listed(&server).is_empty());
    repeated(&server);
    let process = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    kill_process(process, Signal::TERM).unwrap();
    assert_eq!(server.wait(), Some(0));
}

/// A stream of events whose execution goes while its reader is slow breaks off: nobody is told that it
/// was over who has not seen the end.
#[test]
fn a_stream_that_was_too_slow() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["--retention-completed", "1s"]);
    server.deploy("script", "script");
    // More than what is on its way between two sockets.
    let calls: Vec<_> = (0..40)
        .map(|number| format!(r#"{{"call_big":["{number}","main",500000]}}"#))
        .chain([r#"{"return":1}"#.to_owned()])
        .collect();
    let started = server.post("/v1/start/script/main", &[], &format!("[{}]", calls.join(",")));
    let id = id(&started);
    let path = format!("/v1/executions/{id}/events");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = &server.address;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut beginning = [0; 64];
    stream.read_exact(&mut beginning).unwrap();
    assert!(beginning.starts_with(b"HTTP/1.1 200 OK"));
    until("it is gone", || {
        let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
        metrics.contains("indelible_swept_trees_total 1\n")
    });
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("event: InvokeScheduled"), "it had begun");
    assert!(!rest.contains("event: ExecutionCompleted"), "it is slower than that");
    assert!(!rest.contains("event: over"));
    let behind = [("last-event-id", "1:1")];
    let again = request(&server.address, "GET", &path, &behind, b"").unwrap();
    assert_eq!((again.status, &again.json()["code"]), (404, &"not-found".into()));
}
