//! What the store keeps when its disk is full or fails: runs of `examples/committer.rs` that end
//! with an error that says why, and whose promises hold once the disk is well again.
//!
//! The committer itself sees to it that after the error every call says the same; see there.
//! `INDELIBLE_DISK_FAULTS=1` lets every operation of the run fail in turn instead of a few.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot run its subject has failed")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]
#![allow(clippy::print_stdout, reason = "how many came out how is worth a line")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use indelible_store::embedded;
use indelible_test_store::folder::reopen;
use indelible_test_store::rows::log_tables;
use indelible_test_store::said::{CommitterLog, judge, small_options};
use indelible_test_store::work::Book;
use indelible_test_support::example;

use crate::faults::{Faults, output, scratch_in_memory as scratch};

/// One of so many batches has a large value.
const LARGE: u64 = 40;

fn run(faults: &Faults, data: &Path, acks: &Path, batches: u64) -> Output {
    let mut command = Command::new(example("committer"));
    command.arg(data).args(["1", "2", "memtable=16384"]);
    command.args([format!("batches={batches}"), format!("large={LARGE}")]);
    command.arg(format!("acks={}", acks.display()));
    faults.run(&mut command)
}

/// How a run ended.
enum Ended {
    Well,
    /// It could not be opened, or stopped: in these words.
    Badly(String),
}

/// The words with which it ended, if it ended in one of the ways it may.
fn ended(output: &Output) -> Result<Ended, String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let words = |before: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(before));
        line.map(|line| Ended::Badly(line.to_owned())).ok_or_else(|| format!("{output:?}"))
    };
    match output.status.code() {
        Some(0) => Ok(Ended::Well),
        Some(1) => words("stopped: "),
        Some(2) => words("unopened: "),
        _ => Err(format!("{output:?}")),
    }
}

fn said(acks: &Path) -> CommitterLog {
    let mut said = CommitterLog::default();
    said.lines(&fs::read_to_string(acks).unwrap());
    said
}

/// Whether words say what failed: the system's own, or that it was in the background.
fn says_why(words: &str, reasons: &[&str]) -> bool {
    reasons.iter().any(|reason| words.contains(reason))
}

const IO: &str = "Input/output error";
const FULL: &str = "No space left on device";
/// All that the engine tells of work that it does by itself, which may be a journal's sync too.
const BACKGROUND: &str = "flushing or compacting in the background failed";

/// Some numbers up to `n`, or all of them.
fn some_of(n: u64, few: u64) -> impl Iterator<Item = u64> {
    let all = std::env::var_os("INDELIBLE_DISK_FAULTS").is_some();
    (1..=n).step_by(if all { 1 } else { (n / few) as usize })
}

/// Runs with each of the faults; how many of them passed without an error.
fn each(
    name: &str,
    reasons: &[&str],
    numbers: impl Iterator<Item = u64>,
    fault: impl Fn(Faults, u64) -> Faults,
) -> u64 {
    let book = Book::new(LARGE);
    let (mut runs, mut unharmed, mut unopened, mut bad) = (0, 0, 0, Vec::new());
    for k in numbers {
        runs += 1;
        let folder = scratch();
        let (root, acks) = (folder.path().join("root"), folder.path().join("acks"));
        let faults = fault(Faults::new(&root), k).acks(&acks).sync_skip().seconds(60);
        let ran = run(&faults, &root.join("data"), &acks, 100);
        let said = said(&acks);
        match ended(&ran) {
            Ok(Ended::Well) => unharmed += 1,
            Ok(Ended::Badly(words)) if says_why(&words, reasons) => {
                unopened += u64::from(ran.status.code() == Some(2));
            }
            Ok(Ended::Badly(words)) => bad.push((k, format!("it does not say why: {words}"))),
            Err(why) => bad.push((k, why)),
        }
        if let Err(why) = judge(&root.join("data"), &said, &book) {
            bad.push((k, format!("{why}; the run: {ran:?}")));
        }
    }
    let stopped = runs - unharmed - unopened;
    println!(
        "{name}: {runs} runs: {stopped} stopped, {unopened} did not open, {unharmed} without an \
         error, {} bad",
        bad.len()
    );
    assert!(bad.is_empty(), "{name}: {bad:#?}");
    assert!(stopped > 0, "{name}: the fault never came");
    unharmed
}

#[test]
fn a_failing_journal_stops_the_store() {
    let sync = |faults: Faults, k| faults.name(".jnl").sync_fails_at(k);
    // One is of no account: when the engine that made the folder is closed, with all synced before.
    assert!(each("sync of a journal", &[IO, BACKGROUND], some_of(60, 6), sync) <= 1);
    let write = |faults: Faults, k| faults.name(".jnl").write_fails_at(k);
    assert_eq!(each("write of a journal", &[IO, BACKGROUND], some_of(60, 6), write), 0);
}

/// A fault anywhere: in the making of the folder, in a flush or a compaction, or in a journal. It
/// passes without an error while the engine tidies its list of keyspaces, of which nothing depends.
#[test]
fn a_failing_disk_breaks_no_promise() {
    let reasons = [IO, BACKGROUND];
    // Most syncs and writes make the folder, some for each table. A run has some tens of its own, so the
    // steps are small enough that a fault comes while it commits.
    each("sync", &reasons, some_of(600, 60), Faults::sync_fails_at);
    each("write", &reasons, some_of(1600, 60), Faults::write_fails_at);
}

#[test]
fn a_full_disk_breaks_no_promise() {
    let full = |faults: Faults, k| faults.disk_bytes(k * 20_001);
    assert_eq!(each("full", &[FULL, BACKGROUND], some_of(40, 8), full), 0);
    let full = |faults: Faults, k| faults.name(".jnl").disk_bytes(k * 20_001);
    assert_eq!(each("full for journals", &[FULL, BACKGROUND], some_of(40, 4), full), 0);
}

/// A file system of its own, which goes with this.
struct Mounted(PathBuf);

impl Mounted {
    fn new(at: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let option = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &option, "tmpfs"]).arg(&at);
        match output(&mut mount) {
            Ok(output) if output.status.success() => Some(Self(at)),
            refused => {
                println!("not run, for it takes a mount: {refused:?}");
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = output(Command::new("umount").arg(&self.0)).unwrap();
        assert!(unmounted.status.success() || std::thread::panicking());
    }
}

/// A file system that is really full: the store says so and stops, it opens while the disk is full
/// or says why not, and it goes on once there is room.
#[test]
fn a_full_file_system_is_named_and_left_behind() {
    let folder = scratch();
    let Some(disk) = Mounted::new(folder.path().join("disk"), "24m") else { return };
    let (data, acks) = (disk.0.join("data"), folder.path().join("acks"));
    // Something else takes room, too.
    let other = disk.0.join("other");
    fs::write(&other, vec![1; 8 << 20]).unwrap();
    let faults = Faults::new(&disk.0).acks(&acks).seconds(60);
    let ran = run(&faults, &data, &acks, 100_000);
    let Ok(Ended::Badly(words)) = ended(&ran) else { panic!("{ran:?}") };
    println!("{words}");
    let full = says_why(&words, &[FULL, " 0 MiB are free on its disk"]);
    assert!(full && ran.status.code() == Some(1), "{words}");
    let said = said(&acks);
    assert!(said.durable > 0);
    // There is no room to open it, or just enough.
    if let Err(error) = reopen(|| embedded::open(&data, &log_tables(), &small_options())).map(drop)
    {
        println!("{error}");
        assert!(error.to_string().contains(FULL), "{error}");
    }
    fs::remove_file(&other).unwrap();
    let book = Book::new(LARGE);
    let found = judge(&data, &said, &book).unwrap();
    println!("{} was durable; {} is there", said.durable, found.position);
}
