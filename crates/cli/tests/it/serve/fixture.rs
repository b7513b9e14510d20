//! A data folder of a server, written by an earlier version: it must open for ever, and go on.
//!
//! The folder has a component, a completed call under a key, an execution that waits for a signal,
//! and an API key. `INDELIBLE_REWRITE=1` makes it anew; that is for a new version of the format
//! only, and then under a new name.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::process::{Server, request};

const CALL: &str = "/v1/call/approval/approve";
const START: &str = "/v1/start/approval/approve";
/// A decision that comes too late is none: the answer comes at once.
const QUICK: &str = r#"{"who":"ann","cents":100,"seconds":0}"#;
/// It waits for a decision for most of a century.
const PATIENT: &str = r#"{"who":"bob","cents":9900,"seconds":2500000000}"#;

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect()
}

fn make(data: &Path) {
    let server = Server::start(data, &[]);
    server.deploy("approval", "approval");
    let quick = server.post(CALL, &[("idempotency-key", "quick")], QUICK);
    assert_eq!(quick.status, 200, "{}", String::from_utf8_lossy(&quick.body));
    let patient = server.post(START, &[("idempotency-key", "patient")], PATIENT);
    assert_eq!(patient.status, 202, "{}", String::from_utf8_lossy(&patient.body));
    let token = r#"{"name":"fixture","roles":["call"],"namespaces":["default"]}"#;
    assert_eq!(server.post("/v1/tokens", &[], token).status, 201);
    server.kill();
}

/// D12: what this version wrote can be read, found and carried on by later ones.
#[test]
fn a_folder_of_version_1_goes_on() {
    let packed = file("server-v1.bin");
    if std::env::var_os("INDELIBLE_REWRITE").is_some() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        let mut bytes = Vec::new();
        pack(folder.path(), folder.path(), &mut bytes);
        fs::create_dir_all(packed.parent().unwrap()).unwrap();
        fs::write(&packed, bytes).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    unpack(&fs::read(&packed).unwrap(), folder.path());
    let server = Server::start(folder.path(), &[]);
    // It is found with its result, though the component's compiled form was not kept. Its key may be
    // forgotten by now: then it is executed again, and comes to the same.
    let completed = server.get("/v1/executions?state=completed").json();
    let completed = completed["executions"][0]["execution_id"].as_str().unwrap().to_owned();
    let detail = server.get(&format!("/v1/executions/{completed}")).json();
    let quick = server.post(CALL, &[("idempotency-key", "quick")], QUICK);
    assert_eq!((quick.status, &quick.json()["result"]), (200, &detail["result"]));
    let patient = server.post(START, &[("idempotency-key", "patient")], PATIENT);
    assert_eq!((patient.status, patient.header("indelible-verdict")), (202, Some("InFlight")));
    let execution = patient.json()["execution_id"].as_str().unwrap().to_owned();
    let detail = server.get(&format!("/v1/executions/{execution}")).json();
    assert_eq!(detail["execution"]["state"], "blocked");
    assert_eq!(detail["waits_for"][0]["kind"], "signal");
    assert_eq!(detail["waits_for"][0]["label"], "decision");
    let signal = format!("/v1/executions/{execution}/signals/decision");
    let sent = server.post(&signal, &[], r#"{"by":"eve","approved":true}"#);
    assert_eq!((sent.status, sent.json()), (200, json!({"delivery_id": 1})));
    let outcome = server.get(&format!("/v1/executions/{execution}/outcome"));
    assert_eq!(outcome.status, 200, "{}", String::from_utf8_lossy(&outcome.body));
    let tokens = server.get("/v1/tokens").json();
    assert_eq!(tokens["tokens"][0]["name"], "fixture");
    let audit = server.get("/v1/audit").json();
    let actions: Vec<_> =
        audit["entries"].as_array().unwrap().iter().map(|entry| entry["action"].clone()).collect();
    let earlier = ["token create", "start", "start", "deploy"];
    assert!(actions.len() >= 5 && actions[actions.len() - 4..] == earlier, "{actions:?}");
    let none = request(&server.address, "GET", "/v1/nothing", &[], b"").unwrap();
    assert_eq!((none.status, &none.json()["code"]), (404, &"no-such-path".into()));
}

/// Paths and contents, each with its length; what can be made again is left out.
fn pack(folder: &Path, below: &Path, out: &mut Vec<u8>) {
    let mut paths: Vec<_> =
        fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        if name.starts_with("artifacts") {
            continue;
        }
        if path.is_dir() {
            pack(folder, &path, out);
            continue;
        }
        let mut content = fs::read(&path).unwrap();
        if name.ends_with(".jnl") {
            // Journals are long and end in zeros; what is written is what counts.
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            content.truncate(end);
        }
        for part in [name.as_bytes(), &content] {
            out.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
            out.extend(part);
        }
    }
}

fn unpack(mut packed: &[u8], folder: &Path) {
    let mut part = || {
        let (length, rest) = packed.split_at_checked(4)?;
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let (part, rest) = rest.split_at(length);
        packed = rest;
        Some(part.to_vec())
    };
    while let Some(name) = part() {
        let path = folder.join(String::from_utf8(name).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, part().unwrap()).unwrap();
    }
}
