//! Edges of the API where one request could harm others.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::support::process::{PATIENCE, Server, request, until};

fn execution_of(answer: &crate::support::process::Answer) -> String {
    answer.json()["execution_id"].as_str().unwrap().to_owned()
}

/// A stream resumed behind an event that never was is refused: it would look for it for ever.
#[test]
fn a_stream_does_not_look_for_what_never_was() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("approval", "approval");
    let waiting = r#"{"who":"bob","cents":9900,"seconds":1000}"#;
    let id = execution_of(&server.post("/v1/start/approval/approve", &[], waiting));
    let path = format!("/v1/executions/{id}/events");
    for wrong in ["9:0", "1:1000", "2:0"] {
        let headers = [("last-event-id", wrong)];
        let answer = request(&server.address, "GET", &path, &headers, b"").unwrap();
        assert_eq!((answer.status, &answer.json()["code"]), (400, &"malformed-request".into()));
    }
    let after = [("last-event-id", "over")];
    assert_eq!(request(&server.address, "GET", &path, &after, b"").unwrap().status, 204);
    assert_eq!(server.get("/v1/ready").status, 200);
}

/// Keys of deployments belong to the server: no caller can take one away.
#[test]
fn keys_of_deployments_are_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("bench", "bench");
    let key = ("idempotency-key", "release-1");
    assert_eq!(server.post("/v1/call/bench/echo", &[key], "1").status, 200);
    let bytes = std::fs::read(indelible_guests::component("trivial")).unwrap();
    let headers = [key, ("content-type", "application/wasm")];
    let deploy = || {
        let path = "/v1/components/trivial";
        request(&server.address, "PUT", path, &headers, &bytes).unwrap()
    };
    assert_eq!(deploy().status, 200);
    assert_eq!(deploy().header("indelible-verdict"), Some("PriorResult"));
    let own = server.post("/v1/call/bench/echo?namespace=_server", &[key], "1");
    assert_eq!((own.status, &own.json()["code"]), (403, &"forbidden".into()));
}

/// Behind a proxy every client comes from loopback: without keys each could do everything. The
/// server refuses to start, and does not touch the data folder.
#[test]
fn a_proxy_needs_keys() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for arguments in [&["--behind-proxy"][..], &["--listen", "0.0.0.0:0"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
            .arg("serve")
            .args(arguments)
            .arg("--data")
            .arg(&data)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains("callers would need no credential") && text.contains("hint"),
            "{text}"
        );
        assert!(!data.exists(), "{arguments:?}");
    }
}

/// A revoked key ends the streams that it opened: nothing that happens later is shown to it.
#[test]
fn a_revoked_key_ends_its_streams() {
    let folder = tempfile::tempdir().unwrap();
    let token = |name: &str, role: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
            .args(["token", "create", name, "--role", role, "--data"])
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (admin, reader) = (token("admin", "admin"), token("reader", "call"));
    let server = Server::start(folder.path(), &["--keys"]);
    let bearer = format!("Bearer {admin}");
    let as_admin = |method: &str, path: &str, kind: &str, body: &[u8]| {
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let headers = if kind.is_empty() { &headers[..1] } else { &headers };
        request(&server.address, method, path, headers, body).unwrap()
    };
    let bytes = std::fs::read(indelible_guests::component("approval")).unwrap();
    let deployed = as_admin("PUT", "/v1/components/approval", "application/wasm", &bytes);
    assert_eq!(deployed.status, 200);
    let waiting = br#"{"who":"bob","cents":9900,"seconds":1000}"#;
    let json = "application/json";
    let id = execution_of(&as_admin("POST", "/v1/start/approval/approve", json, waiting));

    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "GET /v1/executions/{id}/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {reader}\r\n\
         connection: close\r\n\r\n",
        server.address
    );
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    let mut bytes = [0; 4096];
    until("it is shown to wait", || {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        text.contains("ExecutionAwaiting").then_some(())
    });
    let key = reader.split('_').nth(1).unwrap();
    assert_eq!(as_admin("DELETE", &format!("/v1/tokens/{key}"), "", b"").status, 200);
    let signal = format!("/v1/executions/{id}/signals/decision");
    let decision = br#"{"by":"eve","approved":true}"#;
    assert_eq!(as_admin("POST", &signal, json, decision).status, 200);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("SignalReceived") && !rest.contains("eve"), "{rest}");
}

/// The beginning of an id finds the root in the namespace of the request, as its list shows it. The
/// beginning of a foreign execution's id is answered as an id that does not exist, byte by byte.
#[test]
fn an_id_is_found_by_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("bench", "bench");
    let call = |namespace: &str| {
        let path = format!("/v1/call/bench/echo?namespace={namespace}");
        execution_of(&server.post(&path, &[], "1"))
    };
    let (own, foreign) = (call("default"), call("other"));
    let list = |query: &str| server.get(&format!("/v1/executions?{query}"));
    for digits in [6, 7, 12, 63, 64] {
        let found = list(&format!("id_prefix={}", &own[..digits]));
        assert_eq!(found.json()["executions"].as_array().unwrap().len(), 1, "{digits}");
        assert_eq!(found.json()["executions"][0]["execution_id"], own.as_str());
        assert_eq!(found.body, list("state=completed").body);
    }
    // An id that does not exist: halves of two ids are hardly the id of a third.
    let missing = format!("{}{}", &own[..32], &foreign[32..]);
    let nothing = list(&format!("id_prefix={missing}"));
    assert_eq!((nothing.status, &nothing.json()["executions"]), (200, &serde_json::json!([])));
    assert_eq!(list(&format!("id_prefix={}", &foreign[..8])).body, nothing.body);
    let theirs = list(&format!("id_prefix={}&namespace=other", &foreign[..8]));
    assert_eq!(theirs.json()["executions"][0]["execution_id"], foreign.as_str());
    // Other filters go with it.
    let both = |state: &str| list(&format!("id_prefix={}&state={state}", &own[..6])).json();
    assert_eq!(both("completed")["executions"].as_array().unwrap().len(), 1);
    assert_eq!(both("failed")["executions"], serde_json::json!([]));
    let problem = list("id_prefix=ABCDEF");
    assert_eq!((problem.status, &problem.json()["code"]), (400, &"malformed-request".into()));
    let detail = problem.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("6 to 64 lower-case"), "{detail}");
}
