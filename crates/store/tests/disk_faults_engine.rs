//! What the bare engine keeps when its disk is full or fails: runs of `examples/raw_committer.rs`
//! that must end with an error, and whose promises must hold once the disk is well again.
//!
//! `INDELIBLE_DISK_FAULTS=1` lets every operation of the run fail in turn instead of a few.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot run its subject has failed")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]
#![allow(clippy::print_stdout, reason = "how many came out how is worth a line")]

mod faults;

use faults::Faults;
use faults::committer::{self, check, scratch};
use std::fs;

/// More batches than a fault of a journal lets through.
const BATCHES: u64 = 400;

/// One run with a fault: whether the program ended with an error, or what is wrong.
fn run(fault: impl Fn(Faults) -> Faults) -> Result<bool, String> {
    let folder = scratch();
    let (root, acks) = (folder.path().join("root"), folder.path().join("acks"));
    let faults = fault(Faults::new(&root)).acks(&acks).sync_skip().seconds(60);
    let output = committer::run(&faults, &root, &acks, BATCHES, 0, "synced");
    let acks = fs::read_to_string(&acks).unwrap();
    let promised = acks.lines().last().map_or(0, |last| last.parse().unwrap());
    let found = check(&root);
    let kept = match found {
        Ok(found) => found == promised || found == promised + 1,
        // A database that never came to be has promised nothing.
        Err(_) => promised == 0,
    };
    match output.status.code() {
        Some(0) if kept && promised == BATCHES => Ok(false),
        Some(1) if kept => Ok(true),
        _ => Err(format!("{promised} promised, {found:?}; the run: {output:?}")),
    }
}

/// Some numbers up to `n`, or all of them.
fn some_of(n: u64, few: u64) -> impl Iterator<Item = u64> {
    let all = std::env::var_os("INDELIBLE_DISK_FAULTS").is_some();
    (1..=n).step_by(if all { 1 } else { (n / few) as usize })
}

/// Runs with each of the faults; how many of them passed without an error.
fn each(
    name: &str,
    faults: impl Iterator<Item = u64>,
    with: impl Fn(Faults, u64) -> Faults,
) -> u64 {
    let (mut runs, mut unharmed, mut broken) = (0, 0, Vec::new());
    for k in faults {
        runs += 1;
        match run(|faults| with(faults, k)) {
            Ok(failed) => unharmed += u64::from(!failed),
            Err(why) => broken.push((k, why)),
        }
    }
    println!("{name}: {runs} runs, {} broken, {unharmed} without an error", broken.len());
    assert!(broken.is_empty(), "{name}: {broken:#?}");
    assert!(unharmed < runs, "{name}: the fault never came");
    unharmed
}

#[test]
fn a_full_disk_breaks_no_promise() {
    let limits = some_of(60, 6).map(|k| k * 40_001);
    assert_eq!(each("full", limits, Faults::disk_bytes), 0);
}

#[test]
fn a_failing_journal_breaks_no_promise() {
    let sync = |faults: Faults, k| faults.name(".jnl").sync_fails_at(k);
    assert_eq!(each("sync of a journal", some_of(300, 6), sync), 0);
    let write = |faults: Faults, k| faults.name(".jnl").write_fails_at(k);
    assert_eq!(each("write of a journal", some_of(300, 6), write), 0);
}

/// A fault anywhere else stops the commits as well, except while the engine tidies its list of
/// keyspaces: of that it makes a line in the log.
#[test]
fn a_failing_disk_breaks_no_promise() {
    each("sync", some_of(300, 6), Faults::sync_fails_at);
    each("write", some_of(300, 6), Faults::write_fails_at);
}
