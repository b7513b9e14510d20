//! `indelible store` with the real binary, on real folders.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the tests make folders")]

use std::path::Path;
use std::process::{Command, Output};

use indelible_journal::Timestamp;
use indelible_records::retention_clock::Row;
use indelible_records::{components, retention_clock};
use indelible_store::embedded::{self, Options};
use indelible_store::{Batch, Store};
use indelible_test_store::folder::hand_over;
use serde_json::Value;

fn indelible(arguments: &[&str], folder: &Path) -> Output {
    let binary = env!("CARGO_BIN_EXE_indelible");
    Command::new(binary).args(arguments).arg(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn make(folder: &Path) -> Store {
    let store = embedded::open(folder, &indelible_records::TABLES, &Options::default()).unwrap();
    let mut batch = Batch::new();
    let now = Timestamp::EPOCH;
    retention_clock::put(&mut batch, &Row { time: now, wall: now, purged: now });
    components::put(&mut batch, &[7; 5000]);
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    store
}

/// A sound folder: what is in it, that all is well, and the same as JSON.
#[test]
fn a_sound_folder() {
    let folder = tempfile::tempdir().unwrap();
    hand_over(make(folder.path()), folder.path());
    let output = indelible(&["store", "check"], folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("position   1\nevents     0\n"), "{said}");
    assert!(said.ends_with("\nno problems found\n"), "{said}");
    // Columns are as wide as the longest name.
    let row = said.lines().find(|line| line.starts_with("components ")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells, ["components", "1", "4.9", "KiB"], "{said}");

    let output = indelible(&["store", "info"], folder.path());
    let said = text(&output.stdout);
    assert!(output.status.success());
    assert!(said.starts_with("format     2\nengine     fjall 3\nposition   1\n"), "{said}");

    for command in ["check", "info"] {
        let output = indelible(&["store", command, "--json"], folder.path());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&document["v"], &document["position"]), (&1.into(), &1.into()));
        let tables = document["tables"].as_array().unwrap();
        assert_eq!(tables.len(), indelible_records::TABLES.len() + 1);
        let settings = tables.iter().find(|table| table["table"] == "settings").unwrap();
        assert_eq!(settings["rows"], 1);
    }
}

/// A folder with a damaged row: it is named, with its key and what is wrong, and the exit code
/// says so too.
#[test]
fn a_damaged_row_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = make(folder.path());
    let mut batch = Batch::new();
    batch.put(indelible_records::SETTINGS, "other", "not sealed");
    batch.put(indelible_records::QUEUE, "abc", "");
    store.submit_blocking(batch).unwrap();
    hand_over(store, folder.path());
    let output = indelible(&["store", "check"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains(
        "settings: its checksum does not match: it is \
         damaged\n  key 6f74686572\n"
    ));
    assert!(said.contains("queue: it is too short\n  key 616263\n"), "{said}");
    let error = text(&output.stderr);
    assert!(
        error.starts_with("error: 2 problems were found\nhint: nothing was repaired"),
        "{error}"
    );

    let output = indelible(&["store", "check", "--json"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["ok"], &document["problems_count"]), (&false.into(), &2.into()));
    assert_eq!(document["problems"][0]["table"], "queue");
}

/// What is no data folder, or not for us now, is refused with a hint, and no folder is made.
#[test]
fn folders_that_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (missing, foreign) = (folder.path().join("missing"), folder.path().join("foreign"));
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("file"), "").unwrap();
    let used = folder.path().join("used");
    let store = make(&used);
    let pid = format!("is in use by process {}", std::process::id());
    for command in ["check", "info"] {
        for (path, words) in [
            (&missing, "there is no data folder at"),
            (&foreign, "is not empty and is not a data folder"),
            (&used, pid.as_str()),
        ] {
            let output = indelible(&["store", command], path);
            assert_eq!(output.status.code(), Some(1));
            let error = text(&output.stderr);
            assert!(error.contains(words) && error.contains("\nhint: "), "{error}");
            assert_eq!(text(&output.stdout), "");
        }
    }
    assert!(!missing.exists());
    hand_over(store, &used);
    let output = indelible(&["store", "check"], &used);
    assert!(output.status.success());
    let output = Command::new(env!("CARGO_BIN_EXE_indelible")).args(["store", "check"]).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}
