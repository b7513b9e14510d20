//! Crashes: a process that commits from many threads is killed with SIGKILL at some moment, again
//! and again on one folder. After each, everything that it was told to be durable is there and
//! whole, what is there is a prefix of what was accepted, and the indexes agree with the journals.
//!
//! `INDELIBLE_CRASH_CYCLES=500` for more than the few cycles of every run.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the test starts processes and makes folders")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use indelible_store::embedded::{self, Options};
use indelible_store::rows::executions;
use indelible_store::{Scan, Store, check};

use crate::support::{LOG, Numbers, committer, log_key, log_tables, read_log_value};

/// What the process said before it died.
#[derive(Default)]
struct Said {
    /// Position to thread and number.
    accepted: BTreeMap<u64, (u64, u64)>,
    durable: u64,
}

impl Said {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["accepted", position, thread, number] => {
                let batch = (thread.parse().unwrap(), number.parse().unwrap());
                self.accepted.insert(position.parse().unwrap(), batch);
            }
            ["durable", position] => self.durable = self.durable.max(position.parse().unwrap()),
            _ => panic!("{line:?}"),
        }
    }
}

/// Runs the process until it has said so many lines, kills it, and reads what it still said.
fn run_and_kill(folder: &Path, round: u64, lines: u64) -> Said {
    let mut child = Command::new(committer())
        .arg(folder)
        .args([round.to_string(), "8".to_owned()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Said::default();
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
    said
}

fn verify(store: &Store, before: u64, said: &Said) -> u64 {
    let position = store.durable_now().number();
    assert!(position >= said.durable, "{} was durable; {position} is left", said.durable);
    for (at, (thread, number)) in &said.accepted {
        let row = store.get(LOG, &log_key(*thread, *number)).unwrap().value;
        assert!(*at > before);
        match row {
            // What is there is a prefix: everything up to the position, nothing behind it.
            None => assert!(*at > position, "batch {at} is missing; {position} is there"),
            Some(row) => {
                assert!(*at <= position, "batch {at} is there, behind {position}");
                let (key, length) = read_log_value(&row);
                let execution = executions::get(store, &key).unwrap().value.unwrap();
                assert!(execution.length >= length, "batch {at} is not whole");
            }
        }
    }
    let snapshot = store.snapshot().unwrap();
    let mut rows = 0;
    let mut scan = Scan::all(LOG, 10_000);
    loop {
        let page = snapshot.scan(&scan).unwrap().value;
        rows += page.rows.len() as u64;
        match page.rows.last() {
            Some((key, _)) if page.more => scan = scan.after(key.clone()),
            _ => break,
        }
    }
    assert_eq!(rows, position, "each batch has one row");
    let findings = check::check(store, &mut |_| {}).unwrap();
    assert_eq!(findings.problems, []);
    position
}

/// Nothing that was durable is lost, nothing is half there, whenever the process is killed.
#[test]
fn nothing_durable_is_lost_in_a_crash() {
    let cycles = std::env::var("INDELIBLE_CRASH_CYCLES").map_or(6, |text| text.parse().unwrap());
    let seed = std::env::var("INDELIBLE_SEED").map_or(1, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut numbers = Numbers::new(seed);
    let mut position = 0;
    for cycle in 0..cycles {
        // The first kill may come while the folder is being made.
        let lines = if cycle % 5 == 4 { 1 } else { 1 + numbers.below(6000) };
        let said = run_and_kill(&data, cycle, lines);
        let store = embedded::open(&data, &log_tables(), &Options::default()).unwrap();
        position = verify(&store, position, &said);
        // Every other time the next process meets the folder as the crash left it.
        if cycle % 2 == 0 {
            store.close().unwrap();
        } else {
            drop(store);
        }
        if cycle % 20 == 19 {
            std::fs::remove_dir_all(&data).unwrap();
            position = 0;
        }
    }
}
