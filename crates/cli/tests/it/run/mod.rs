//! `indelible run`, with the real binary: what a function returns, what goes wrong, and a process
//! that is killed in the middle.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the tests make files")]

mod http;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn indelible(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, guest: &str, arguments: &[&str]) -> Output {
    let component = indelible_guests::component(guest);
    indelible(folder).arg("run").arg(component).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const ORDER: &str = r#"{"id":"o-1","item":"tea","quantity":2,"cents":500}"#;

#[test]
fn a_function_returns() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(folder.path(), "order-saga", &["order", ORDER, "--id", "o-1"]);
    assert_eq!(text(&first.stdout), "\"parcel o-1\"\n");
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("started; --id o-1 finds it again"));

    // The same again is the same operation: nothing runs twice.
    let again = run(folder.path(), "order-saga", &["order", ORDER, "--id", "o-1", "--timeline"]);
    let shown = text(&again.stdout);
    assert!(shown.starts_with("\"parcel o-1\"\n"), "{shown}");
    assert!(shown.contains("charge   root.1"), "{shown}");
    assert!(text(&again.stderr).contains("has ended, with this outcome"));
    let other = run(folder.path(), "order-saga", &["order", "null", "--id", "o-1"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("already used"), "{}", text(&other.stderr));
}

#[test]
fn a_function_fails() {
    let folder = tempfile::tempdir().unwrap();
    let order = ORDER.replace("tea", "glass");
    let output = run(folder.path(), "order-saga", &["order", &order]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), ""));
    let said = text(&output.stderr);
    assert!(
        said.contains(
            "error: the function failed: UserError: ship: the carrier does not take glass"
        ),
        "{said}"
    );
    assert!(said.contains("refunded receipt=receipt o-1-500"), "{said}");
}

#[test]
fn a_signal_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let expense = r#"{"who":"ann","cents":9900,"seconds":3600}"#;
    let decision = r#"decision={"by":"bob","approved":true}"#;
    let output = run(folder.path(), "approval", &["approve", expense, "--signal", decision]);
    assert_eq!(text(&output.stdout), "\"approved by bob\"\n", "{}", text(&output.stderr));
}

/// A command that is given again does not send its signals again.
#[test]
fn a_signal_is_sent_once() {
    let folder = tempfile::tempdir().unwrap();
    let waits = r#"["go", 2]"#;
    let component = indelible_guests::component("behaviours");
    for round in 0..2 {
        let mut child = indelible(folder.path())
            .arg("run")
            .arg(&component)
            .args(["wait_signals", waits, "--id", "one", "--signal", "go=1"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(said.next().unwrap().unwrap().contains("--id one"), "round {round}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Whether or not the first arrived before the kill: it arrives once.
    let arguments = ["wait_signals", waits, "--id", "one", "--signal", "go=1", "--signal", "go=2"];
    let journal = ["--journal", "all.jsonl"];
    let output = run(folder.path(), "behaviours", &[&arguments[..], &journal[..]].concat());
    assert_eq!(text(&output.stdout), "[1,2]\n", "{}", text(&output.stderr));
    let verified = indelible(folder.path()).args(["journal", "verify", "all.jsonl"]).output();
    assert!(verified.unwrap().status.success());
}

/// What went wrong with each attempt is told as it happens, and a trap's frames are lines.
#[test]
fn attempts_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "behaviours", &["flaky", "3"]);
    let said = text(&output.stderr);
    assert!(said.contains("Transient: attempt 1 of 3; retrying in "), "{said}");
    assert!(said.contains("Transient: attempt 2 of 3; retrying in "), "{said}");
    let output = run(folder.path(), "behaviours", &["recurse"]);
    let said = text(&output.stderr);
    assert!(said.contains("\n  in ") && !said.contains("\\u{a}"), "{said}");
}

/// What was begun goes on after the process was killed: nothing is lost, nothing done twice.
#[test]
fn killed_in_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    let component = indelible_guests::component("polling");
    for round in 0..3 {
        let mut child = indelible(folder.path())
            .arg("run")
            .arg(&component)
            .args(["await_job", "2", "--id", "job"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = said.next().unwrap().unwrap();
        // It may be over by then, on a machine that has much else to do; it does not start again.
        assert_eq!(line.contains(" started; "), round == 0, "{line}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = run(folder.path(), "polling", &["await_job", "2", "--id", "job", "--timeline"]);
    // The function asked after 0, 1 and 3 seconds, or less often if one of its processes was late.
    let shown = text(&output.stdout);
    let first = shown.lines().next().unwrap_or_default();
    let questions = first.parse::<usize>().unwrap_or_default();
    assert!((1..=3).contains(&questions), "{shown}{}", text(&output.stderr));
    let calls = shown.lines().filter(|line| line.contains(" root."));
    let asked = calls.filter(|line| line.starts_with("status ")).count();
    assert_eq!(asked, questions, "{shown}");
    let checked =
        indelible(folder.path()).args(["store", "check", "indelible-data"]).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

/// A data folder is one process's.
#[test]
fn a_folder_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let component = indelible_guests::component("polling");
    let mut child = indelible(folder.path())
        .arg("run")
        .arg(&component)
        .args(["await_job", "3600"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    let output = run(folder.path(), "polling", &["await_job", "1"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("cannot open indelible-data"), "{said}");
    assert!(said.contains("hint: only one process can open"), "{said}");
}

/// Bad input gets an error that helps, and changes nothing.
#[test]
fn bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |code: i32, arguments: &[&str], words: &[&str]| {
        let output = run(folder.path(), "order-saga", arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let said = text(&output.stderr);
        for word in words {
            assert!(said.contains(word), "no {word:?} in: {said}");
        }
        assert_eq!(text(&output.stdout), "");
    };
    refused(2, &["order", "{"], &["the input is not JSON", "hint: quote it"]);
    refused(1, &["order", "@absent.json"], &["cannot read absent.json", "hint: give JSON, @FILE"]);
    refused(2, &["order", ORDER, "--signal", "x"], &["the `=` is missing"]);
    refused(2, &["order", ORDER, "--signal", "x=y"], &["it is not JSON"]);
    refused(2, &["order", ORDER, "--id", "\n"], &["blank"]);
    assert!(!folder.path().join("indelible-data").exists(), "nothing was made");
    refused(1, &["ordr", ORDER], &["has no function \"ordr\"; its functions: ", "order"]);

    let junk = folder.path().join("junk.wasm");
    std::fs::write(&junk, "junk").unwrap();
    for (path, words) in [(junk.as_path(), "cannot deploy"), (Path::new("absent"), "cannot read")] {
        let output = indelible(folder.path()).arg("run").arg(path).arg("f").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    let output = indelible(folder.path()).arg("run").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
