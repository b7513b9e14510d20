//! The benchmarks of the engine, small.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::{documented, lines, names};

/// `indelible bench`, in this folder, with the project's own guest.
fn bench(folder: &Path, arguments: &str) -> Command {
    with_guest(folder, arguments, &indelible_guests::component("bench"))
}

fn with_guest(folder: &Path, arguments: &str, guest: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command
        .arg("bench")
        .args(arguments.split_whitespace())
        .arg("--guest")
        .arg(guest)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The one object that a benchmark prints, with the keys that are documented under a heading;
/// nothing is left behind.
#[track_caller]
fn measured(arguments: &str, heading: &str) -> Line {
    let folder = tempfile::tempdir().unwrap();
    let output: Output = bench(folder.path(), arguments).arg("--json").output().unwrap();
    let mut lines = lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = lines.remove(0);
    let keys: BTreeSet<String> = line.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, documented(&[heading]), "{arguments}");
    assert_eq!(line["v"], 1);
    assert_eq!(line["workload"].as_str(), arguments.split_whitespace().next());
    assert_eq!(names(folder.path()), [""; 0], "nothing is left behind");
    Line(line)
}

struct Line(Value);

impl Line {
    #[track_caller]
    fn number(&self, key: &str) -> f64 {
        self.0[key].as_f64().unwrap_or_else(|| panic!("{key} in {}", self.0))
    }

    /// Each of these is more than nothing.
    #[track_caller]
    fn has_some(&self, keys: &[&str]) {
        for key in keys {
            assert!(self.number(key) > 0.0, "{key} in {}", self.0);
        }
    }

    /// Each of these is at most the next.
    #[track_caller]
    fn rises(&self, keys: &[&str]) {
        let numbers: Vec<f64> = keys.iter().map(|key| self.number(key)).collect();
        assert!(numbers.is_sorted(), "{keys:?} in {}", self.0);
    }

    /// Memory is told where there is a way to know it.
    #[track_caller]
    fn has_memory(&self, keys: &[&str]) {
        if cfg!(target_os = "linux") {
            self.has_some(keys);
        }
    }
}

/// Calls and workflows: what is told fits together, and is described.
#[test]
fn calls_and_workflows() {
    let cases = [
        ("invoke --in-flight 4 --seconds 1", 1.0),
        ("steps --in-flight 2 --n 10 --seconds 1", 10.0),
        ("fanout --workflows 2 --n 20 --seconds 1", 20.0),
    ];
    for (arguments, n) in cases {
        let heading = "## `bench invoke --json`, `bench steps --json` and `bench fanout --json`";
        let line = measured(arguments, heading);
        assert_eq!(line.number("n"), n);
        let calls = line.number("count") * n;
        assert!(calls > 0.0, "{}", line.0);
        let rate = line.number("per_s") * line.number("seconds") / calls;
        assert!((rate - 1.0).abs() < 0.01, "{}", line.0);
        line.has_some(&["p50_us", "fsyncs", "cpu_s"]);
        line.rises(&["p50_us", "p99_us"]);
    }
}

/// Every signal that was acknowledged made its guest go on.
#[test]
fn requests() {
    let line = measured("http --in-flight 4 --n 10 --seconds 1", "## `bench http --json`");
    assert_eq!((line.number("n"), line.number("in_flight")), (10.0, 4.0));
    let requests = line.number("count") * 10.0;
    let rate = line.number("per_s") * line.number("seconds") / requests;
    assert!((rate - 1.0).abs() < 0.01, "{}", line.0);
    line.has_some(&["step_p50_us", "fsyncs", "fsyncs_per_request", "cpu_s", "raw_sync_us"]);
    line.has_some(&["any_connection_per_s", "new_connection_per_s"]);
    line.rises(&["step_p50_us", "p50_us", "p99_us"]);
}

#[test]
fn signals() {
    let line =
        measured("signals --executions 20 --in-flight 4 --seconds 1", "## `bench signals --json`");
    assert_eq!((line.number("executions"), line.number("in_flight")), (20.0, 4.0));
    let rate = line.number("per_s") * line.number("seconds") / line.number("count");
    assert!((rate - 1.0).abs() < 0.01, "{}", line.0);
    line.has_some(&["count", "acknowledged_p50_us", "gone_on_p50_us", "fsyncs", "cpu_s"]);
    line.rises(&["acknowledged_p50_us", "acknowledged_p99_us"]);
    line.rises(&["gone_on_p50_us", "gone_on_p99_us"]);
    line.has_memory(&["rss_bytes"]);
}

/// No sleep is shorter than it was asked to be, and all that slept have gone on.
#[test]
fn timers() {
    let line = measured("timers --n 50 --seconds 1 --sleeps 5", "## `bench timers --json`");
    assert_eq!((line.number("n"), line.number("sleeps")), (50.0, 5.0));
    assert!(line.number("sleep_min_us") >= 10_000.0, "{}", line.0);
    line.rises(&["sleep_min_us", "sleep_p50_us", "sleep_p99_us"]);
    line.rises(&["call_p50_us", "call_p99_us"]);
    line.rises(&["sleep_min_us", "call_p50_us"]);
    line.rises(&["gone_on_s", "ended_s"]);
    line.has_some(&["started_per_s", "waiting_s", "gone_on_s"]);
    line.has_memory(&["idle_rss_bytes", "waiting_rss_bytes", "rss_bytes"]);
    assert!(line.number("parked") <= 50.0, "{}", line.0);
}

/// What was due has gone on after what could be asked, and the rest still waits on disk.
#[test]
fn recover() {
    let line = measured("recover --n 40 --due 50", "## `bench recover --json`");
    assert_eq!((line.number("n"), line.number("due")), (40.0, 20.0));
    line.has_some(&["store_open_s", "started_per_s", "disk_bytes"]);
    line.rises(&["store_open_s", "open_s", "ready_s", "gone_on_s", "ended_s"]);
    line.has_memory(&["before_rss_bytes", "ready_rss_bytes", "after_rss_bytes"]);
    assert!(line.number("before_parked") <= 40.0, "{}", line.0);
}

/// Medians and their ratio are those of the rounds.
#[test]
fn history() {
    let line = measured(
        "history --n 50 --in-flight 2 --seconds 1 --rounds 1",
        "## `bench history --json`",
    );
    for (rounds, median) in
        [("fresh_per_s", "fresh_median_per_s"), ("full_per_s", "full_median_per_s")]
    {
        assert_eq!(line.0[rounds].as_array().map(Vec::len), Some(1), "{}", line.0);
        assert_eq!(line.0[rounds][0], line.0[median], "{}", line.0);
        line.has_some(&[median]);
    }
    let ratio = line.number("full_median_per_s") / line.number("fresh_median_per_s");
    assert!((line.number("ratio") - ratio).abs() < 0.001, "{}", line.0);
    line.has_some(&["disk_bytes"]);
}

/// What makes no sense is refused before anything is made.
#[test]
fn bad_arguments_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("fanout --n 0", 2, "invalid value '0' for '--n <N>'"),
        ("fanout --workflows 0", 2, "invalid value '0' for '--workflows <K>'"),
        ("signals --executions 0", 2, "invalid value '0' for '--executions <N>'"),
        ("signals --seconds 601", 2, "invalid value '601' for '--seconds <N>'"),
        (
            "signals --executions 2 --in-flight 3",
            1,
            "error: --in-flight 3 is more than --executions 2",
        ),
        ("timers --n 0", 2, "invalid value '0' for '--n <N>'"),
        ("timers --sleeps 0", 2, "invalid value '0' for '--sleeps <N>'"),
        ("recover --n 0", 2, "invalid value '0' for '--n <N>'"),
        ("recover --due 101", 2, "invalid value '101' for '--due <PERCENT>'"),
        ("history --rounds 0", 2, "invalid value '0' for '--rounds <N>'"),
        ("history --keep", 2, "--dir <DIR>"),
    ];
    for (arguments, code, message) in cases {
        let output = bench(folder.path(), arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {said}");
        assert!(said.contains(message), "{arguments}: {said}");
        assert_eq!(output.stdout, b"", "{arguments}");
        assert_eq!(names(folder.path()), [""; 0], "{arguments}");
    }
}

/// A component that is not the benchmark's, or none at all, is refused.
#[test]
fn another_component() {
    let folder = tempfile::tempdir().unwrap();
    let other = indelible_guests::component("other");
    for (workload, guest) in [
        ("invoke --seconds 1", Path::new("absent.wasm")),
        ("invoke --seconds 1", &other),
        ("recover --n 10", Path::new("absent.wasm")),
        ("recover --n 10", &other),
    ] {
        let output = with_guest(folder.path(), workload, guest).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("error: ") && said.contains("hint: "), "{said}");
    }
    assert_eq!(names(folder.path()), [""; 0], "nothing is left behind");
}

/// Ctrl-C ends it, its processes too, and leaves nothing behind.
#[cfg(target_os = "linux")]
#[test]
fn interrupted() {
    use std::io::{BufRead as _, BufReader, Read as _};

    use rustix::process::{Pid, Signal, kill_process};

    let folder = tempfile::tempdir().unwrap();
    let cases =
        [("timers --n 10 --seconds 1000", "measuring "), ("recover --n 1000000", "starting ")];
    for (arguments, begun) in cases {
        let mut child = bench(folder.path(), arguments).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with(begun) {
            line.clear();
            assert!(told.read_line(&mut line).unwrap() > 0, "{arguments}");
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{arguments}");
        // What it started has the same standard error: this ends when all have.
        told.read_to_string(&mut line).unwrap();
        assert_eq!(names(folder.path()), [""; 0], "{arguments}");
    }
}
