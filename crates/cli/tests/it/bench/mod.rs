//! `indelible bench`, run as a user runs it. No figure is tested, only that what is told fits
//! together, and that nothing is left behind.

#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]
#![expect(clippy::disallowed_methods, reason = "it reads the documentation, and looks at folders")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

mod engine;

/// `indelible bench store`, in this folder.
fn bench(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command
        .args(["bench", "store"])
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect()
}

#[track_caller]
fn lines(output: &Output) -> Vec<Value> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The keys that `docs/formats/cli-json.md` lists under headings.
fn documented(headings: &[&str]) -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/cli-json.md");
    let text = fs::read_to_string(path).unwrap();
    let mut keys = BTreeSet::new();
    for heading in headings {
        let (_, section) = text.split_once(&format!("\n{heading}\n")).unwrap();
        let lines = section.lines().take_while(|line| !line.starts_with('#'));
        for row in lines.filter(|line| line.starts_with("| `")) {
            let column = row.split('|').nth(1).unwrap();
            keys.extend(column.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    keys
}

#[track_caller]
fn has_documented_keys(line: &Value, heading: Option<&str>) {
    let keys: BTreeSet<String> = line.as_object().unwrap().keys().cloned().collect();
    let headings: Vec<&str> = Some("## `bench store --json`").into_iter().chain(heading).collect();
    assert_eq!(keys, documented(&headings));
    assert_eq!(line["v"], 1);
}

/// Commits and reads: a line for each, in which everything fits together.
#[test]
fn commits_and_reads() {
    let folder = tempfile::tempdir().unwrap();
    let run = bench(folder.path(), "--seconds 1 --producers 1,4 --load 2000 --json");
    let lines = lines(&{ run }.output().unwrap());
    let found: Vec<_> =
        lines.iter().map(|line| (line["workload"].as_str().unwrap(), &line["producers"])).collect();
    let expected = [
        ("raw", 1.into()),
        ("step", 1.into()),
        ("raw", 4.into()),
        ("step", 4.into()),
        ("scan", Value::Null),
        ("get", Value::Null),
    ];
    assert_eq!(found, expected.each_ref().map(|(workload, producers)| (*workload, producers)));
    for line in &lines {
        let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
        let (seconds, count, per_s) = (number("seconds"), number("count"), number("per_s"));
        assert!(count > 0.0 && seconds >= 0.99, "{line}");
        assert!((per_s * seconds / count - 1.0).abs() < 0.01, "{line}");
        assert!(0.0 < number("p50_us") && number("p50_us") <= number("p99_us"), "{line}");
        assert!(number("p99_us") <= number("p999_us"), "{line}");
        assert!(number("cpu_s") > 0.0, "{line}");
        let workload = line["workload"].as_str().unwrap();
        has_documented_keys(
            line,
            match workload {
                "step" => None,
                "raw" => Some("### `raw`"),
                _ => Some("### `scan` and `get`"),
            },
        );
        if let "step" | "raw" = workload {
            assert!((1.0..=count).contains(&number("fsyncs")), "{line}");
            let bytes = number("bytes_given") / count;
            assert!((700.0..=776.0).contains(&bytes), "{line}");
            if fs::read("/proc/self/io").is_ok() {
                assert!(number("bytes_written") > 0.0, "{line}");
            }
        } else {
            let each = if workload == "scan" { 20.0 } else { 2.0 };
            assert!((number("entries_per_s") / per_s / each - 1.0).abs() < 0.01, "{line}");
            assert_eq!((number("entries"), number("cache_mib")), (2_000.0, 256.0), "{line}");
            assert!(line["fsyncs"].is_null() && line["bytes_given"].is_null(), "{line}");
        }
        if workload == "step" {
            let ratio = number("per_s") / number("raw_per_s");
            assert!((number("ratio_to_raw") - ratio).abs() < 0.001, "{line}");
        } else {
            assert!(line["raw_per_s"].is_null() && line["ratio_to_raw"].is_null(), "{line}");
        }
    }
    assert!(names(folder.path()).is_empty());
}

/// A folder that is named and kept has what was made; the store that was killed opens.
#[test]
fn opening_what_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let run = bench(folder.path(), "--workload open --load 10000 --dir made --keep --json");
    let lines = lines(&{ run }.output().unwrap());
    let [line] = &lines[..] else { panic!("{lines:?}") };
    has_documented_keys(line, Some("### `open`"));
    for key in ["after_kill_s", "close_s", "after_close_s", "batches", "closed_disk_bytes"] {
        assert!(line[key].as_f64().unwrap() > 0.0, "{key} in {line}");
    }
    assert!(line["disk_bytes"].as_u64().unwrap() >= 10_000 * 512, "{line}");
    assert_eq!(names(&folder.path().join("made")), ["open"]);
}

/// What makes no sense is refused before anything is made.
#[test]
fn bad_arguments_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("precious"), "data").unwrap();
    let cases = [
        ("--producers 0", 2, "invalid value '0' for '--producers <LIST>'"),
        ("--producers 1,0", 2, "invalid value '0' for '--producers <LIST>'"),
        ("--producers ,", 2, "invalid value '' for '--producers <LIST>'"),
        ("--seconds 0", 2, "invalid value '0' for '--seconds <N>'"),
        ("--load 0", 2, "invalid value '0' for '--load <N>'"),
        ("--workload fly", 2, "invalid value 'fly' for '--workload <LIST>'"),
        ("--keep", 2, "--dir <DIR>"),
        ("--dir full", 1, "error: cannot use the folder full: it is not empty\nhint: give an"),
        ("--dir full --keep", 1, "error: cannot use the folder full: it is not empty\nhint:"),
        ("--dir full/precious", 1, "error: cannot use the folder full/precious: "),
    ];
    for (arguments, code, message) in cases {
        let output = bench(folder.path(), arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {stderr}");
        assert!(stderr.contains(message), "{arguments}: {stderr}");
        assert_eq!(output.stdout, b"", "{arguments}");
        assert_eq!(names(folder.path()), ["full"], "{arguments}");
        assert_eq!(names(&full), ["precious"], "{arguments}");
    }
}

/// Ctrl-C leaves nothing behind, and a folder that was there is there.
#[cfg(target_os = "linux")]
#[test]
fn interrupted() {
    use std::io::{BufRead as _, BufReader};

    use rustix::process::{Pid, Signal, kill_process};

    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    for (arguments, left) in [("", vec!["empty"]), ("--dir empty", vec!["empty"])] {
        let long = format!("--seconds 1000 --workload step {arguments}");
        let mut child = bench(folder.path(), &long).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        assert!(line.starts_with("measuring in "), "{line}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(names(folder.path()), left);
        assert_eq!(names(&folder.path().join("empty")), [""; 0]);
    }
}
