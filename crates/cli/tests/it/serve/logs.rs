//! What functions log, read afterwards from a real server: also after it was killed.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::process::{Server, lines, until};

fn call(server: &Server, namespace: &str, steps: &Value) -> String {
    let path = format!("/v1/call/script/main?namespace={namespace}");
    let answer = server.post(&path, &[], &steps.to_string());
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()["execution_id"].as_str().unwrap().to_owned()
}

fn page(server: &Server, execution: &str, query: &str) -> Value {
    let answer = server.get(&format!("/v1/executions/{execution}/logs{query}"));
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

fn messages(page: &Value) -> Vec<&str> {
    page["lines"].as_array().unwrap().iter().map(|line| line["message"].as_str().unwrap()).collect()
}

/// Lines of an execution and of what it called, oldest first; a child's alone; what others log is
/// not among them; and who follows gets what is new.
#[test]
fn what_functions_log_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("script", "script");
    server.deploy("approval", "approval");
    let child = json!([{ "log": "in the child" }, { "return": 1 }]);
    let steps = json!([
        { "log": "first \u{1b}[31mred\nline" },
        { "call": ["a", "main", child] },
        { "log": "called" }, { "await": "a" }, { "log": "last" },
    ]);
    let root = call(&server, "default", &steps);
    let other = call(&server, "default", &json!([{ "log": "another" }]));
    let whole = page(&server, &root, "");
    let mut found = messages(&whole);
    // The child may run before or after its caller goes on to wait.
    assert_eq!((found[0], found[3]), ("first \u{1b}[31mred\nline", "last"));
    found.sort_unstable();
    assert_eq!(found[1..], ["first \u{1b}[31mred\nline", "in the child", "last"]);
    assert_eq!(whole["more"], false);
    let first = &whole["lines"][0];
    assert_eq!(first["execution_id"], root.as_str());
    assert_eq!((&first["attempts"], &first["level"]), (&json!("1"), &json!("info")));
    assert_eq!(first["fields"], json!({}));
    assert!(first["at"].as_str().unwrap().ends_with('Z'));
    let below = page(&server, &format!("{root}.0"), "");
    assert_eq!(messages(&below), ["in the child"]);
    assert_eq!(below["lines"][0]["execution_id"], format!("{root}.0"));
    assert_eq!(below["lines"][0]["attempts"], "1.1");
    assert_eq!(messages(&page(&server, &other, "")), ["another"]);
    // Page by page.
    let (mut seen, mut query) = (0, "?limit=1".to_owned());
    until("the last page", || {
        let page = page(&server, &root, &query);
        seen += messages(&page).len();
        assert!(messages(&page).len() <= 1);
        query = format!("?limit=1&from={}", page["next"].as_str().unwrap());
        (page["more"] == false).then_some(())
    });
    assert_eq!(seen, 4);
    // Fields, and a line of one that waits.
    let waiting = r#"{"who":"bob","cents":9900,"seconds":1000}"#;
    let started = server.post("/v1/start/approval/approve", &[], waiting).json();
    let execution = started["execution_id"].as_str().unwrap();
    let lines = until("it logs", || {
        Some(page(&server, execution, "")).filter(|page| page["lines"] != json!([]))
    });
    assert_eq!(messages(&lines), ["waiting for a decision"]);
    assert_eq!(lines["lines"][0]["fields"], json!({ "who": "bob", "cents": "9900" }));
    let from = format!("?from={}", lines["next"].as_str().unwrap());
    let nothing = page(&server, execution, &from);
    assert_eq!((&nothing["lines"], &nothing["more"]), (&json!([]), &json!(false)));
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(text.contains("indelible_log_lines_total 6"), "{text}");
    assert!(text.contains("indelible_log_lines_dropped_total 0"), "{text}");
}

/// Killed, a server has lost no line that was logged; the execution that it was killed in goes on,
/// and does not log again what stands before its wait.
#[test]
fn lines_survive_a_killed_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("script", "script");
    let steps = json!([
        { "log": "before" }, { "timer": ["t", 1] }, { "await": "t" }, { "log": "between" },
        { "signal": "go" }, { "log": "after" },
    ]);
    let over = call(&server, "default", &json!([{ "log": "over" }]));
    let started = server.post("/v1/start/script/main", &[], &steps.to_string()).json();
    let execution = started["execution_id"].as_str().unwrap().to_owned();
    let detail = format!("/v1/executions/{execution}");
    // Its wait is shown, so it is durable.
    until("it waits", || {
        (server.get(&detail).json()["waits_for"][0]["kind"] == "signal").then_some(())
    });
    let before = page(&server, &execution, "");
    assert_eq!(messages(&before), ["before", "between"]);
    let from = before["next"].as_str().unwrap().to_owned();
    drop(server);
    // What it was writing when it was killed.
    let file = folder.path().join("logs").join("00000001.jsonl");
    let mut torn = std::fs::read(&file).unwrap();
    torn.extend_from_slice(br#"{"v":1,"execution_id":"abab"#);
    std::fs::write(&file, torn).unwrap();

    let server = Server::start(folder.path(), &[]);
    assert_eq!(messages(&page(&server, &over, "")), ["over"]);
    assert_eq!(messages(&page(&server, &execution, "")), ["before", "between"]);
    let signal = format!("/v1/executions/{execution}/signals/go");
    assert_eq!(server.post(&signal, &[], "1").status, 200);
    assert_eq!(server.get(&format!("{detail}/outcome")).status, 200);
    assert_eq!(messages(&page(&server, &execution, "")), ["before", "between", "after"]);
    let from = format!("?from={from}");
    assert_eq!(messages(&page(&server, &execution, &from)), ["after"]);
}

/// What cannot be kept is dropped: a folder that cannot be made stops no function, and the server
/// says so once.
#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("logs"), "not a folder").unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("script", "script");
    let root = call(&server, "default", &json!([{ "log": "a" }, { "log": "b" }]));
    let answer = server.get(&format!("/v1/executions/{root}/logs"));
    assert_eq!((answer.status, &answer.json()["code"]), (500, &"internal".into()));
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(text.contains("indelible_log_lines_dropped_total 2"), "{text}");
    assert_eq!(server.get("/v1/ready").status, 200);
}

/// `indelible logs` with these arguments.
fn logs(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("logs").args(arguments).args(["--url", &format!("http://{}", server.address)]);
    command.env_remove("INDELIBLE_TOKEN").env("XDG_CONFIG_HOME", "/nonexistent");
    command.stdin(Stdio::null());
    command
}

fn said(mut command: Command) -> (String, String, Option<i32>) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// A line without its time, and with a word for the id.
fn without_time(line: &str, id: &str) -> String {
    let (time, rest) = line.split_once(' ').unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
    rest.replace(&id[..8], "ROOT")
}

/// What the command prints, of an execution and of what it called.
#[test]
fn the_command_prints_lines() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("script", "script");
    let steps = json!([
        { "log": "first \u{1b}[31mred\nline" },
        { "call": ["a", "main", [{ "log": "in the child" }]] }, { "await": "a" },
        { "log": "last" },
    ]);
    let root = call(&server, "default", &steps);
    let (out, errors, code) = said(logs(&server, &[&root]));
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    let lines: Vec<_> = out.lines().map(|line| without_time(line, &root)).collect();
    assert_eq!(
        lines,
        [
            r"info  ROOT  first \u{1b}[31mred\nline",
            "info  ROOT.0  in the child",
            "info  ROOT  last",
        ]
    );
    let (out, _, _) = said(logs(&server, &[&format!("{}.0", &root[..8]), "--json"]));
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&line["v"], &line["message"]), (&json!(1), &json!("in the child")));
    assert_eq!(line["execution_id"], format!("{root}.0"));
    let (out, errors, code) = said(logs(&server, &["abcdef"]));
    assert_eq!((out.as_str(), code), ("", Some(1)));
    assert!(errors.contains("no execution begins with abcdef"), "{errors}");
    let (_, errors, code) = said(logs(&server, &[&"0".repeat(64)]));
    assert_eq!(code, Some(1));
    assert!(errors.contains("not-found") && errors.contains("hint: "), "{errors}");
}

/// Followed, lines come as they are logged, all of them, and it ends when the execution does.
#[test]
fn the_command_follows() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("script", "script");
    let steps = json!([{ "log": "waits" }, { "signal": "go" }, { "log": "goes on" }]);
    let started = server.post("/v1/start/script/main", &[], &steps.to_string()).json();
    let id = started["execution_id"].as_str().unwrap().to_owned();
    let mut child = logs(&server, &[&id, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = lines(child.stdout.take().unwrap());
    let mut next = || lines.next().map(|line| without_time(&line, &id));
    assert_eq!(next().as_deref(), Some("info  ROOT  waits"));
    let signal = format!("/v1/executions/{id}/signals/go");
    assert_eq!(server.post(&signal, &[], "1").status, 200);
    assert_eq!(next().as_deref(), Some("info  ROOT  goes on"));
    assert_eq!(next(), None);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// `logs --follow` ends well when its reader closes the pipe (`| head`), with no further log line.
#[test]
fn the_command_ends_with_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("script", "script");
    let steps = json!([{ "log": "waits" }, { "signal": "go" }]);
    let started = server.post("/v1/start/script/main", &[], &steps.to_string()).json();
    let id = started["execution_id"].as_str().unwrap().to_owned();
    for how in [&["--follow"][..], &["--follow", "--json"]] {
        let mut command = logs(&server, &[&[id.as_str()], how].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.contains("waits"), "{line}");
        drop(output);
        let status = until("it ends with its reader", || child.try_wait().unwrap());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((said.as_str(), status.code()), ("", Some(0)));
    }
}
