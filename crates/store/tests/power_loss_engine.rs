//! What the bare engine keeps when the power goes: runs of `examples/raw_committer.rs`, cut off at
//! many points, opened again and compared with what they had promised.
//!
//! What it showed of fjall 3.1.13 is in the doc comments of the tests.
//! `INDELIBLE_POWER_CUTS=5000` takes that many cuts of each run instead of a few.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot run its subject has failed")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]
#![allow(clippy::print_stdout, reason = "how many came out how is worth a line")]

mod faults;

use faults::Faults;
use faults::committer::{self, check, scratch};
use faults::power::Mode;
use faults::record::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What came of one cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// Every promise kept, no batch in part, and it goes on.
    Kept,
    /// Not opened because of the batch in flight at the end of the journal; without what had
    /// arrived of it, all is kept.
    TornTail,
    /// Not opened, but nothing was promised yet.
    Unborn,
    /// Opened, and batches that were promised are gone, or some that were never committed are there.
    Lost,
    /// Opened, and not what any number of batches leaves.
    Mixed,
    /// Not opened.
    Refused,
    /// Opened with every promise kept, but what was committed then was not there the next time.
    LostLater,
}

/// How many cuts came out how.
type Counts = BTreeMap<Verdict, usize>;

/// What the engine says of a batch that arrived in part. The panic is a debug assertion of its
/// decoder about lengths that it just read.
fn is_torn_tail(error: &str) -> bool {
    error.contains("JournalRecovery(") || error.contains("journal/entry.rs")
}

fn numbers(acks: &[Vec<u8>]) -> Vec<u64> {
    acks.iter().map(|ack| str::from_utf8(ack).unwrap().trim().parse().unwrap()).collect()
}

fn promised(record: &Record, k: usize) -> u64 {
    numbers(&record.acks_before(k)).last().copied().unwrap_or(0)
}

/// The first cut with something promised. Before it, making the database is a matter of its own.
fn born(record: &Record) -> usize {
    (record.start()..=record.len()).find(|&k| promised(record, k) > 0).unwrap()
}

fn judge(record: &Record, cut: Cut, mode: Mode, before: u64, folder: &Path) -> (Verdict, String) {
    let (k, seed) = cut;
    let promised = promised(record, k).max(before);
    let open = |mode: Mode| {
        if folder.exists() {
            fs::remove_dir_all(folder).unwrap();
        }
        record.materialize(k, seed, mode, folder);
        check(folder)
    };
    let mut verdict = Verdict::Kept;
    let mut outcome = open(mode);
    let mut why = format!("{promised} promised: {outcome:?}");
    if outcome.as_ref().is_err_and(|error| is_torn_tail(error)) {
        verdict = Verdict::TornTail;
        outcome = open(mode.settled(".jnl"));
        why = format!("{why}, then {outcome:?}");
    }
    let verdict = match outcome {
        Ok(found) if found == promised || found == promised + 1 => verdict,
        Ok(_) => Verdict::Lost,
        Err(error) if error.contains("after recovery") => Verdict::LostLater,
        Err(_) if promised == 0 => Verdict::Unborn,
        Err(error) if error.contains("at batch") => Verdict::Mixed,
        Err(_) => Verdict::Refused,
    };
    (verdict, why)
}

/// Records a run of the committer in `folder`, from what `root` holds there on.
fn record(folder: &Path, batches: u64, big: u64, kind: &str) -> Record {
    let (root, acks, file) = (folder.join("root"), folder.join("acks"), folder.join("record"));
    let faults = Faults::new(&root).record(&file).acks(&acks).sync_skip();
    let run = committer::run(&faults, &root, &acks, batches, big, kind);
    assert!(run.status.success(), "{run:?}");
    let record = Record::load(&file);
    assert_eq!(promised(&record, record.len()), batches);
    // What was recorded is what happened.
    let last = folder.join("last");
    record.materialize(record.len(), 0, Mode::KILLED, &last);
    assert!(
        faults::contents(&root) == faults::contents(&last),
        "{} and {} differ",
        root.display(),
        last.display()
    );
    fs::remove_dir_all(&last).unwrap();
    record
}

/// One loss of power: before which operation, and by which draw.
type Cut = (usize, u64);

/// Cuts around the syncs of everything but journals.
fn around_syncs(record: &Record) -> Vec<usize> {
    let syncs = record.syncs().iter();
    syncs
        .filter(|sync| sync.begin > record.start() && !sync.path.ends_with(".jnl"))
        .flat_map(|sync| [sync.begin, sync.begin + 1, sync.end, sync.end + 1])
        .collect()
}

/// Cuts while one journal follows another, and when one is deleted.
fn around_rotations(record: &Record) -> Vec<usize> {
    let near = |i: usize| {
        let words = record.words(i);
        match words.split_once(' ') {
            Some(("create", path)) if path.ends_with(".jnl") && path != "0.jnl" => i - 2..i + 9,
            Some(("unlink", path)) if path.ends_with(".jnl") => i..i + 2,
            _ => i..i,
        }
    };
    (record.start()..record.len()).flat_map(near).collect()
}

/// Cuts while a batch is in flight.
fn around_commits(record: &Record) -> Vec<usize> {
    let journals = record.syncs().iter().filter(|sync| sync.path.ends_with(".jnl"));
    journals.flat_map(|sync| [sync.begin, sync.begin + 1, sync.end]).collect()
}

/// Half of `n` cuts among `special` ones, half anywhere, but none before operation `from`.
fn cuts(record: &Record, from: usize, mut special: Vec<usize>, n: usize) -> Vec<Cut> {
    special.retain(|k| *k >= from);
    special.sort_unstable();
    special.dedup();
    let anywhere: Vec<usize> = (from..=record.len()).collect();
    let spread = |among: &[usize], seeds: u64| -> Vec<Cut> {
        let each = (n / 2).max(1);
        (0..each).map(|i| (among[i * among.len() / each], i as u64 * 2 + seeds)).collect()
    };
    [spread(&special, 0), spread(&anywhere, 1)].concat()
}

/// Judges every cut, on all cores, and says how many came out how.
fn judge_all(name: &str, record: &Record, cuts: &[Cut], mode: Mode) -> Counts {
    judge_again(name, record, cuts, mode, 0)
}

/// The same for a run that found `before` batches when it began.
fn judge_again(name: &str, record: &Record, cuts: &[Cut], mode: Mode, before: u64) -> Counts {
    let scratch = scratch();
    let next = AtomicUsize::new(0);
    let all: Mutex<Vec<(usize, Verdict, String)>> = Mutex::default();
    thread::scope(|threads| {
        for worker in 0..thread::available_parallelism().map_or(2, usize::from) {
            let (scratch, next, all) = (scratch.path(), &next, &all);
            threads.spawn(move || {
                let folder = scratch.join(worker.to_string());
                while let Some(&(k, seed)) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mode =
                        if (k as u64 + seed).is_multiple_of(2) { mode } else { mode.sectors() };
                    let (verdict, why) = judge(record, (k, seed), mode, before, &folder);
                    all.lock().unwrap().push((k, verdict, why));
                }
            });
        }
    });
    let mut counts = Counts::new();
    let mut said = BTreeSet::new();
    let mut all = all.into_inner().unwrap();
    all.sort();
    for (k, verdict, why) in all {
        *counts.entry(verdict).or_default() += 1;
        if verdict > Verdict::TornTail && said.len() < 12 && said.insert(why.clone()) {
            println!("{name}: cut {k}: {verdict:?}: {why}\n{}", record.tail(k, 12));
        }
    }
    println!("{name}: {} cuts of {} operations: {counts:?}", cuts.len(), record.len());
    counts
}

fn wanted(few: usize) -> usize {
    std::env::var("INDELIBLE_POWER_CUTS").map_or(few, |n| n.parse().expect("a number of cuts"))
}

fn broken(counts: &Counts) -> usize {
    counts.range(Verdict::Lost..).map(|(_, n)| n).sum()
}

/// Flushes, compactions and manifests, in files that are written and synced while commits go on.
#[test]
fn a_run_with_flushes_and_compactions_keeps_its_promises() {
    let folder = scratch();
    let record = record(folder.path(), 600, 0, "synced");
    let cuts = cuts(&record, born(&record), around_syncs(&record), wanted(60));
    let few: Vec<Cut> = cuts.iter().copied().step_by(3).collect();
    assert_eq!(broken(&judge_all("small, killed", &record, &few, Mode::KILLED)), 0);
    assert_eq!(broken(&judge_all("small, ordered", &record, &cuts, Mode::ORDERED)), 0);
    assert_eq!(broken(&judge_all("small, harsh", &record, &cuts, Mode::HARSH)), 0);
}

/// Before the first promise. A database that is cut off while it is made may not open, even when
/// only the program ended; and where names are not ordered, a keyspace may vanish that the engine
/// has on its list, and then what is committed after the recovery is lost with the next opening.
/// So nothing may be promised before the making is whole, and what is not whole is made anew.
#[test]
fn a_database_in_the_making_has_promised_nothing() {
    let folder = scratch();
    let record = record(folder.path(), 3, 0, "synced");
    let making = (record.start()..=born(&record)).collect();
    let cuts = cuts(&record, record.start(), making, wanted(30));
    assert_eq!(broken(&judge_all("making, killed", &record, &cuts, Mode::KILLED)), 0);
    assert_eq!(broken(&judge_all("making, ordered", &record, &cuts, Mode::ORDERED)), 0);
    let mut harsh = judge_all("making, harsh", &record, &cuts, Mode::HARSH);
    harsh.remove(&Verdict::LostLater);
    assert_eq!(broken(&harsh), 0);
}

/// Large values: journals are sealed, replayed from several files, and deleted.
#[test]
fn a_run_with_several_journals_keeps_its_promises() {
    let folder = scratch();
    let record = record(folder.path(), 320, 3, "synced");
    let all = record.tail(record.len(), record.len());
    assert!(
        all.contains("create 1.jnl") && all.contains("unlink 0.jnl"),
        "a journal came and went"
    );
    let cuts = cuts(&record, born(&record), around_rotations(&record), wanted(8));
    assert_eq!(broken(&judge_all("large, ordered", &record, &cuts, Mode::ORDERED)), 0);
    assert_eq!(broken(&judge_all("large, harsh", &record, &cuts, Mode::HARSH)), 0);
}

/// Batches in flight, of one page and of hundreds, arrive in every way: wholly, not at all, or in
/// part; in part the engine may refuse to open, which is for us to mend before it opens.
#[test]
fn a_batch_in_flight_is_there_or_not() {
    let folder = scratch();
    let record = record(folder.path(), 40, 8, "synced");
    let cuts = cuts(&record, born(&record), around_commits(&record), wanted(30));
    let counts = judge_all("in flight, ordered", &record, &cuts, Mode::ORDERED);
    assert_eq!(broken(&counts), 0);
    assert!(counts[&Verdict::Kept] > 0);
}

/// What the recovery from one loss of power does to the files may be cut off too.
#[test]
fn a_run_after_a_power_loss_keeps_its_promises() {
    let folder = scratch();
    let first = record(folder.path(), 200, 0, "synced");
    for (i, mode) in [Mode::ORDERED, Mode::HARSH].into_iter().enumerate() {
        let k = first.len() * (i + 2) / 4;
        let again = folder.path().join(i.to_string());
        fs::create_dir(&again).unwrap();
        let root = again.join("root");
        first.materialize(k, 7, mode.settled(".jnl"), &root);
        let promised = promised(&first, k);
        let second = record(&again, promised + 60, 0, "synced");
        // The batch in flight may have been whole.
        let found = numbers(&second.acks_before(second.len()))[0] - 1;
        assert!(found == promised || found == promised + 1);
        let cuts = cuts(&second, second.start(), around_syncs(&second), wanted(20));
        let name = format!("again, {:?}", mode.names);
        assert_eq!(broken(&judge_again(&name, &second, &cuts, mode, found)), 0);
    }
}

/// The engine makes a folder for each keyspace and never syncs the folder that they are in. Where
/// names are not ordered, a keyspace vanishes with all that is in it, and what the journal has of
/// it is passed over in silence. We sync that folder ourselves.
#[test]
fn without_a_sync_of_their_folder_keyspaces_may_vanish() {
    let folder = scratch();
    let record = record(folder.path(), 100, 0, "bare");
    let cuts = cuts(&record, born(&record), around_syncs(&record), wanted(40));
    assert_eq!(broken(&judge_all("bare, ordered", &record, &cuts, Mode::ORDERED)), 0);
    assert_ne!(broken(&judge_all("bare, harsh", &record, &cuts, Mode::HARSH)), 0);
}

/// That the other tests can fail: promises without a sync are broken, and it is seen.
#[test]
fn commits_that_are_not_synced_are_lost() {
    let folder = scratch();
    let record = record(folder.path(), 100, 0, "lax");
    let cuts = cuts(&record, born(&record), around_syncs(&record), 48);
    assert_eq!(broken(&judge_all("lax, killed", &record, &cuts[40..], Mode::KILLED)), 0);
    assert_ne!(broken(&judge_all("lax, ordered", &record, &cuts, Mode::ORDERED)), 0);
}
