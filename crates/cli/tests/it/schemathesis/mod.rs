//! The served OpenAPI document holds: `schemathesis` makes requests of it, good and bad, and the
//! document has to tell of every answer.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and read their files")]

mod environment;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::process::{Answer, Server, request};
use serde_json::Value;

/// How the requests are made.
const CONFIG: &str = include_str!("schemathesis.toml");

/// What schemathesis cannot know of the server.
const HOOKS: &str = include_str!("hooks.py");

/// Operations that need not succeed here: no execution is stuck, nothing is unknown, hardly a generated
/// request names the present time or a URL, no letter is dead, and streams without an end are not
/// begun.
const SELDOM_DONE: [&str; 10] = [
    "release",
    "fail",
    "getUnresolved",
    "resolve",
    "confirmRetentionClock",
    "ledgerEvents",
    "putEndpoint",
    "sendMessage",
    "redeliver",
    "abandon",
];

/// A run takes half a minute, and two or three times as long beside other tests. What takes longer than
/// this hangs.
const RUN_MAX: Duration = Duration::from_secs(300);

/// Requests of all kinds, made of the document and of what it forbids, are answered as the document
/// says: no 5xx, no other status, no other media type, no other shape. Nearly every operation
/// succeeds at least once.
#[test]
fn every_answer_is_in_the_document() {
    let schemathesis = environment::program();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let own = token(
        &data,
        "all",
        &["call", "operate", "read", "write", "send", "decide", "deploy", "admin"],
    );
    let other = token(&data, "other", &["call"]);
    let server = Server::start(&data, &["--keys"]);
    let (config, hooks) = (folder.path().join("config.toml"), folder.path().join("hooks.py"));
    let document = folder.path().join("openapi.json");
    let filled = [
        ("HOOKS", hooks.to_str().unwrap().to_owned()),
        ("SECRET", text(&own["secret"])),
        ("TOKEN", text(&other["token"]["id"])),
    ];
    let about = set_up(&server, &text(&own["secret"]));
    let filled = filled
        .iter()
        .chain(&about)
        .fold(CONFIG.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value));
    let waiting = about.iter().filter(|(name, _)| ["LIVE", "ENDING"].contains(name));
    let waiting: Vec<_> = waiting.map(|(_, execution)| execution.as_str()).collect();
    fs::write(&config, filled).unwrap();
    fs::write(&hooks, HOOKS).unwrap();
    let served = server.get("/v1/openapi.json");
    fs::write(&document, &served.body).unwrap();

    let sent = folder.path().join("sent.har");
    let mut run = Command::new(schemathesis);
    run.arg("--config-file").arg(config).arg("run").arg(document);
    run.args(["--url", &format!("http://{}", server.address), "--report", "har"]);
    run.arg("--report-har-path").arg(&sent);
    run.env("INDELIBLE_TOKEN", text(&own["token"]["id"]));
    run.env("INDELIBLE_WAITING", waiting.join(","));
    run.env("INDELIBLE_COMPONENT", indelible_guests::component("bench"));
    // Requests go straight to the server, not through a proxy.
    run.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let (went_well, said) = finish(run.current_dir(folder.path()));
    assert!(went_well, "{said}");

    let statuses = statuses(&served.json(), &sent);
    let mut succeeded = BTreeMap::new();
    for (operation, statuses) in &statuses {
        assert!(!statuses.is_empty(), "no request went to {operation}: {said}");
        let done = statuses.iter().any(|status| (200..300).contains(status));
        // What vaults have, the ledger of a namespace has too: one handler serves both.
        let name = operation.strip_prefix("vault").map(|name| format!("ledger{name}"));
        let name = name.unwrap_or_else(|| operation.clone());
        *succeeded.entry(name).or_insert(false) |= done;
    }
    let undone = succeeded.into_iter().filter(|(_, done)| !done).map(|(name, _)| name);
    let undone: Vec<_> = undone.filter(|name| !SELDOM_DONE.contains(&name.as_str())).collect();
    assert_eq!(undone, [""; 0], "{statuses:?}\n{said}");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Makes an API key in a data folder.
fn token(data: &Path, name: &str, roles: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(["token", "create", name, "--json", "--data"]).arg(data);
    command.args(roles.iter().flat_map(|role| ["--role", role]));
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    serde_json::from_slice(&made.stdout).unwrap()
}

/// Deploys functions and starts some: what the requests can be about.
fn set_up(server: &Server, secret: &str) -> [(&'static str, String); 6] {
    let bearer = format!("Bearer {secret}");
    let send = |method: &str, path: &str, kind: &str, body: &[u8], wanted: u16| -> Answer {
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let answer = request(&server.address, method, path, &headers, body).unwrap();
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, wanted, "{method} {path}: {text}");
        answer
    };
    let component = fs::read(indelible_guests::component("bench")).unwrap();
    send("PUT", "/v1/components/bench", "application/wasm", &component, 200);
    let post = |path: &str, body: &str, wanted: u16| {
        send("POST", path, "application/json", body.as_bytes(), wanted).json()
    };
    for vault in ["till", "spare"] {
        send("PUT", &format!("/v1/vaults/{vault}"), "application/json", b"{}", 201);
    }
    let add =
        r#"{"client_id":"c","sequence":1,"operations":[{"add":{"key":"a","delta":1,"unit":"u"}}]}"#;
    for scope in ["vaults/till", "ledger"] {
        post(&format!("/v1/{scope}/transactions"), add, 200);
    }
    for endpoint in ["till", "spare"] {
        let settings = br#"{"url":"https://hook.invalid/"}"#;
        send("PUT", &format!("/v1/endpoints/{endpoint}"), "application/json", settings, 201);
    }
    let message = {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "m"),
        ];
        let body = br#"{"topic":"t","body":[1]}"#;
        let answer = request(&server.address, "POST", "/v1/messages", &headers, body).unwrap();
        assert_eq!(answer.status, 202);
        answer.json()
    };
    let returned = post("/v1/call/bench/echo", r#"{"a":[1,null]}"#, 200);
    let failed = post("/v1/call/bench/requests", r#"[1, "http://127.0.0.1:1/"]"#, 424);
    // Both wait for signals, which this set-up does not send.
    let live = || post("/v1/start/bench/listen?namespace=apart", "1", 202);
    let (live, ending) = (live(), live());
    [
        ("RETURNED", text(&returned["execution_id"])),
        ("OPERATION", text(&returned["operation_id"])),
        ("FAILED", text(&failed["execution_id"])),
        ("LIVE", text(&live["execution_id"])),
        ("ENDING", text(&ending["execution_id"])),
        ("MESSAGE", text(&message["message"])),
    ]
}

/// Waits for the end of a process, but not for ever: whether it went well, and what it said.
fn finish(command: &mut Command) -> (bool, String) {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = piped.spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (tell, told) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes);
        // `finish` does not wait for this any more if the process took too long.
        let _ = tell.send(());
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned())
    });
    let in_time = told.recv_timeout(RUN_MAX).is_ok();
    if !in_time {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let said = reader.join().unwrap().unwrap();
    assert!(in_time, "it takes longer than {RUN_MAX:?}: {said}");
    (status.success(), said)
}

/// What each operation of the document was answered.
fn statuses(document: &Value, sent: &Path) -> BTreeMap<String, BTreeSet<u64>> {
    let mut operations = Vec::new();
    let mut statuses = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            statuses.insert(name.clone(), BTreeSet::new());
            operations.push((method.to_uppercase(), path.as_str(), name));
        }
    }
    let sent: Value = serde_json::from_slice(&fs::read(sent).unwrap()).unwrap();
    for entry in sent["log"]["entries"].as_array().unwrap() {
        let (method, url) = (&entry["request"]["method"], &entry["request"]["url"]);
        let path =
            url.as_str().unwrap().strip_prefix("http://").unwrap().split_once('/').unwrap().1;
        let path = path.split(['?', '#']).next().unwrap();
        // A path without names in braces goes before one with.
        let found = operations
            .iter()
            .filter(|(known, form, _)| method == known && matches(form, path))
            .min_by_key(|(_, form, _)| form.matches('{').count());
        if let Some((_, _, name)) = found {
            let status = entry["response"]["status"].as_u64().unwrap();
            statuses.get_mut(name).unwrap().insert(status);
        }
    }
    statuses
}

/// Whether a path has a form, as `/v1/components/{component}`.
fn matches(form: &str, path: &str) -> bool {
    let (form, path) = (form.trim_start_matches('/').split('/'), path.split('/'));
    form.clone().count() == path.clone().count()
        && form.zip(path).all(|(form, part)| form.starts_with('{') || form == part)
}
