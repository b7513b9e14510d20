//! Crashes: a process that commits from many threads is killed with SIGKILL at some moment, again
//! and again on one folder. After each, everything that it was told to be durable is there and
//! whole, what is there is a prefix of what was accepted, and the indexes agree with the journals.
//!
//! `INDELIBLE_CRASH_CYCLES=500` for more than the few cycles of every run.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the test starts processes and makes folders")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use indelible_store::embedded::{self, Options};

use indelible_test_store::folder::{reopen, until_free};
use indelible_test_store::rows::log_tables;
use indelible_test_store::said::CommitterLog;
use indelible_test_support::Prng;
use indelible_test_support::example;

/// Runs the process until it has said so many lines, kills it, and reads what it still said.
fn run_and_kill(folder: &Path, round: u64, lines: u64, said: &mut CommitterLog) {
    until_free(folder);
    let mut child = Command::new(example("committer"))
        .arg(folder)
        .args([round.to_string(), "8".to_owned()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let mut count = 0;
    while output.read_line(&mut line).unwrap() > 0 {
        said.line(line.trim_end());
        line.clear();
        count += 1;
        if count == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(count >= lines, "the process ended by itself after {count} lines");
}

/// Nothing that was durable is lost, nothing is half there, whenever the process is killed.
#[test]
fn nothing_durable_is_lost_in_a_crash() {
    let cycles = std::env::var("INDELIBLE_CRASH_CYCLES").map_or(6, |text| text.parse().unwrap());
    let seed = std::env::var("INDELIBLE_SEED").map_or(1, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut numbers = Prng::new(seed);
    let mut said = CommitterLog::default();
    for cycle in 0..cycles {
        // The first kill may come while the folder is being made.
        let lines = if cycle % 5 == 4 { 1 } else { 1 + numbers.below(6000) };
        run_and_kill(&data, cycle, lines, &mut said);
        let store = reopen(|| embedded::open(&data, &log_tables(), &Options::default())).unwrap();
        said.verify(&store).unwrap();
        // Every other time the next process meets the folder as the crash left it.
        if cycle % 2 == 0 {
            store.close().unwrap();
        } else {
            drop(store);
        }
        if cycle % 20 == 19 {
            std::fs::remove_dir_all(&data).unwrap();
            said = CommitterLog::default();
        }
    }
}
