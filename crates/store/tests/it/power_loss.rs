//! What the store keeps when the power goes: runs of `examples/committer.rs`, cut off at many
//! points, opened again and compared with what they had promised. Every cut opens, keeps all that
//! was durable, shows a prefix of what was accepted, and goes on.
//!
//! The engine alone (fjall 3.1.13) does not, as the same runs showed of it; each of these is
//! mended by the store:
//!
//! - It makes a folder for each keyspace and never syncs the folder that they are in. Where names
//!   are not ordered, a keyspace vanishes with all that is in it, and what the journal has of it is
//!   passed over in silence.
//! - A batch that arrived in part at the end of a journal may keep it from opening: as an error, as
//!   a panic of its decoder, or as an allocation of what a broken length says.
//! - A folder that is cut off while it is made may not open, even when only the program ended; or a
//!   keyspace may be on its list and not there, and then what is committed after the recovery is
//!   lost with the next opening.
//!
//! `INDELIBLE_POWER_CUTS=1000` takes that many cuts of each run in each mode instead of a few.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot run its subject has failed")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]
#![allow(clippy::print_stdout, reason = "how many came out how is worth a line")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indelible_store::embedded::{self, OpenError};
use indelible_test_store::rows::log_tables;
use indelible_test_store::said::{CommitterLog, FolderState, judge, small_options};
use indelible_test_store::work::Book;
use indelible_test_support::example;

use crate::faults::power::Mode;
use crate::faults::record::Record;
use crate::faults::{Faults, scratch_in_memory as scratch};

/// A recorded run of the committer, and what was there before it.
struct Run {
    record: Record,
    before: CommitterLog,
    book: Book,
}

/// What a run is like: threads, batches of each, how seldom a value is large, and whether it
/// promises too early.
#[derive(Clone, Copy)]
struct Plan {
    round: u64,
    threads: u64,
    batches: u64,
    large: u64,
    lax: bool,
}

const PLAN: Plan = Plan { round: 1, threads: 3, batches: 150, large: 0, lax: false };

impl Plan {
    /// Records a run in `folder`, from what `root` holds there on.
    fn record(self, folder: &Path, before: CommitterLog) -> Run {
        let (root, acks, file) = (folder.join("root"), folder.join("acks"), folder.join("record"));
        let faults = Faults::new(&root).record(&file).acks(&acks).sync_skip().seconds(60);
        let Self { round, threads, batches, large, lax } = self;
        let mut command = Command::new(example("committer"));
        command.arg(root.join("data")).args([round, threads].map(|n| n.to_string()));
        command.args([format!("batches={batches}"), format!("large={large}")]);
        // So small that many flushes and compactions happen in a short run.
        command.args(["memtable=16384".to_owned(), format!("lax={}", u8::from(lax))]);
        command.arg(format!("acks={}", acks.display()));
        let run = faults.run(&mut command);
        assert!(run.status.success(), "{run:?}");
        let record = Record::load(&file);
        // What was recorded is what happened.
        let last = folder.join("last");
        record.materialize(record.len(), 0, Mode::KILLED, &last);
        assert!(
            crate::faults::contents(&root) == crate::faults::contents(&last),
            "the record is not the run"
        );
        fs::remove_dir_all(&last).unwrap();
        Run { record, before, book: Book::new(large) }
    }
}

impl Run {
    /// What was promised before operation `k`.
    fn said(&self, k: usize) -> CommitterLog {
        let mut said = self.before.clone();
        for line in self.record.acks_before(k) {
            said.lines(str::from_utf8(&line).unwrap());
        }
        said
    }

    /// What is there when the power goes at a cut.
    fn found(&self, (k, seed): Cut, mode: Mode, root: &Path) -> Result<FolderState, String> {
        if root.exists() {
            fs::remove_dir_all(root).unwrap();
        }
        self.record.materialize(k, seed, mode, root);
        judge(&root.join("data"), &self.said(k), &self.book)
    }

    /// Where the program has said that the store is open. Before it, most that happens is the
    /// making of the folder, which is a matter of its own.
    fn opened(&self) -> usize {
        let opened = |k: &usize| !self.record.acks_before(*k).is_empty();
        (self.record.start()..=self.record.len()).find(opened).unwrap()
    }

    fn all_words(&self) -> Vec<String> {
        (0..self.record.len()).map(|i| self.record.words(i)).collect()
    }
}

/// One loss of power: before which operation, and by which draw.
type Cut = (usize, u64);

/// Cuts around the syncs of everything but journals.
fn around_syncs(run: &Run) -> Vec<usize> {
    let syncs = run.record.syncs().iter();
    syncs
        .filter(|sync| sync.begin > run.record.start() && !sync.path.ends_with(".jnl"))
        .flat_map(|sync| [sync.begin, sync.begin + 1, sync.end, sync.end + 1])
        .collect()
}

/// Cuts while one journal follows another, and when one is deleted.
fn around_rotations(run: &Run) -> Vec<usize> {
    let near = |(i, words): (usize, String)| match words.split_once(' ') {
        Some(("create", path)) if path.ends_with(".jnl") && !path.ends_with("/0.jnl") => {
            i - 2..i + 9
        }
        Some(("unlink", path)) if path.ends_with(".jnl") => i - 1..i + 3,
        _ => i..i,
    };
    run.all_words().into_iter().enumerate().flat_map(near).collect()
}

/// Cuts while a commit is in flight: written to a journal, and not synced.
fn around_commits(run: &Run) -> Vec<usize> {
    let mut written = false;
    let in_flight = |(i, words): (usize, String)| {
        let journal = words.contains(".jnl");
        written |= journal && words.starts_with("write");
        written &= !(journal && words.contains(" done "));
        written.then_some(i + 1)
    };
    run.all_words().into_iter().enumerate().filter_map(in_flight).collect()
}

/// Half of `n` cuts among `special` ones, half anywhere, but none before operation `from`.
fn cuts(run: &Run, from: usize, mut special: Vec<usize>, n: usize) -> Vec<Cut> {
    special.retain(|k| *k >= from);
    special.sort_unstable();
    special.dedup();
    let anywhere: Vec<usize> = (from..=run.record.len()).collect();
    let spread = |among: &[usize], seeds: u64| -> Vec<Cut> {
        let each = (n / 2).max(1);
        (0..each).map(|i| (among[i * among.len() / each], i as u64 * 2 + seeds)).collect()
    };
    [spread(&special, 0), spread(&anywhere, 1)].concat()
}

/// How cuts came out.
#[derive(Default)]
struct Tally {
    /// Every promise kept, nothing in part, and it goes on.
    kept: usize,
    /// Of them, those with nothing in them.
    empty: usize,
    /// Of them, those where a commit in flight had arrived in part, and was cut off.
    torn: usize,
    /// The longest of those commits, in bytes.
    torn_bytes_max: u64,
    /// Anything else.
    bad: usize,
}

/// Judges every cut, on all cores, and says how they came out. Pages and sectors take turns.
fn judge_all(name: &str, run: &Run, cuts: &[Cut], mode: Mode) -> Tally {
    let scratch = scratch();
    let next = AtomicUsize::new(0);
    let all: Mutex<Vec<(Cut, Result<FolderState, String>)>> = Mutex::default();
    thread::scope(|threads| {
        for worker in 0..thread::available_parallelism().map_or(2, usize::from) {
            let (scratch, next, all) = (scratch.path(), &next, &all);
            threads.spawn(move || {
                let root = scratch.join(worker.to_string());
                while let Some(&cut) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let pages = (cut.0 as u64 + cut.1).is_multiple_of(2);
                    let mode = if pages { mode } else { mode.sectors() };
                    let found = run.found(cut, mode, &root);
                    all.lock().unwrap().push((cut, found));
                }
            });
        }
    });
    let mut tally = Tally::default();
    let mut told = BTreeSet::new();
    for ((k, seed), found) in all.into_inner().unwrap() {
        match found {
            Ok(found) => {
                tally.kept += 1;
                tally.empty += usize::from(found.position == 0);
                tally.torn += usize::from(found.torn.is_some());
                let bytes = found.torn.map_or(0, |torn| torn.bytes);
                tally.torn_bytes_max = tally.torn_bytes_max.max(bytes);
            }
            Err(why) => {
                tally.bad += 1;
                if told.len() < 3 && told.insert(why.clone()) {
                    println!("{name}: cut {k}, {seed}: {why}\n{}", run.record.tail(k, 12));
                }
            }
        }
    }
    let Tally { kept, empty, torn, torn_bytes_max, bad } = tally;
    println!(
        "{name}: {} cuts of {} operations: {kept} kept, {empty} of them empty, {torn} torn tails \
         cut (up to {torn_bytes_max} bytes), {bad} bad",
        cuts.len(),
        run.record.len() - run.record.start(),
    );
    tally
}

/// All of them kept, whether only the program ends, or the power goes with names in order, or not.
fn assert_kept(name: &str, run: &Run, cuts: &[Cut]) -> [Tally; 3] {
    let few: Vec<Cut> = cuts.iter().copied().step_by(4).collect();
    let others: Vec<Cut> = cuts.iter().map(|(k, seed)| (*k, seed + 1_000_000)).collect();
    let tallies = [
        judge_all(&format!("{name}, killed"), run, &few, Mode::KILLED),
        judge_all(&format!("{name}, ordered"), run, cuts, Mode::ORDERED),
        judge_all(&format!("{name}, harsh"), run, &others, Mode::HARSH),
    ];
    assert_eq!(tallies.iter().map(|tally| tally.bad).sum::<usize>(), 0, "{name}");
    tallies
}

fn wanted(few: usize) -> usize {
    std::env::var("INDELIBLE_POWER_CUTS").map_or(few, |n| n.parse().expect("a number of cuts"))
}

/// Flushes, compactions and manifests, in files that are written and synced while commits go on.
#[test]
fn a_run_with_flushes_and_compactions_keeps_its_promises() {
    let folder = scratch();
    let run = PLAN.record(folder.path(), CommitterLog::default());
    let words = run.all_words();
    let unlinked = |words: &String| words.starts_with("unlink") && words.contains("/tables/");
    assert!(words.iter().any(unlinked), "nothing was compacted");
    assert_kept("flushes", &run, &cuts(&run, run.opened(), around_syncs(&run), wanted(40)));
}

/// Before the first promise. A folder that is cut off while it is made is made anew.
#[test]
fn a_folder_in_the_making_is_empty_or_made_anew() {
    let folder = scratch();
    let run =
        Plan { threads: 1, batches: 3, ..PLAN }.record(folder.path(), CommitterLog::default());
    let making = (run.record.start()..run.opened()).collect();
    let cuts = cuts(&run, run.record.start(), making, wanted(24));
    assert!(assert_kept("making", &run, &cuts).iter().all(|tally| tally.empty > 0));
}

/// Large values: journals are sealed, replayed from several files, and deleted.
#[test]
fn a_run_with_several_journals_keeps_its_promises() {
    let folder = scratch();
    let plan = Plan { threads: 2, batches: 120, large: 3, ..PLAN };
    let run = plan.record(folder.path(), CommitterLog::default());
    let words = run.all_words();
    for (kind, name) in [("create", "/1.jnl"), ("unlink", "/0.jnl")] {
        let happened = |words: &String| words.starts_with(kind) && words.ends_with(name);
        assert!(words.iter().any(happened), "no {kind} of {name}");
    }
    assert_kept("rotation", &run, &cuts(&run, run.opened(), around_rotations(&run), wanted(6)));
}

/// Commits in flight, of one page and of hundreds, arrive in every way: wholly, not at all, or in
/// part; in part they are cut off.
#[test]
fn a_commit_in_flight_is_there_or_not() {
    let folder = scratch();
    let plan = Plan { threads: 2, batches: 20, large: 2, ..PLAN };
    let run = plan.record(folder.path(), CommitterLog::default());
    let cuts = cuts(&run, run.opened(), around_commits(&run), wanted(48));
    let tallies = assert_kept("in flight", &run, &cuts);
    let (kept, torn) = tallies.iter().fold((0, 0), |sum, t| (sum.0 + t.kept, sum.1 + t.torn));
    assert!(0 < torn && torn < kept, "{torn} torn tails of {kept}");
    let largest = tallies.iter().map(|tally| tally.torn_bytes_max).max();
    assert!(largest > Some(1 << 20), "no large value was torn");
}

/// What the recovery from one loss of power does to the files may be cut off too.
#[test]
fn a_second_power_loss_during_recovery_changes_nothing() {
    let folder = scratch();
    let plan = Plan { threads: 2, batches: 40, large: 10, ..PLAN };
    let first = plan.record(folder.path(), CommitterLog::default());
    let commits = around_commits(&first);
    for (i, mode) in [Mode::ORDERED, Mode::HARSH].into_iter().enumerate() {
        // A cut with something to recover from.
        let late = &commits[commits.len() / 2..];
        let torn = |cut: &Cut| {
            let found = first.found(*cut, mode, &folder.path().join("disk"));
            found.unwrap().torn.is_some()
        };
        let cut = late.iter().map(|&k| (k, i as u64)).find(torn).expect("some tail is torn");
        let again = folder.path().join(i.to_string());
        fs::create_dir(&again).unwrap();
        first.record.materialize(cut.0, cut.1, mode, &again.join("root"));
        let second = Plan { round: 2, ..plan }.record(&again, first.said(cut.0));
        let recovery = (second.record.start()..second.opened()).collect();
        let cuts = cuts(&second, second.record.start(), recovery, wanted(12));
        assert_kept(&format!("again, {:?}", mode.names), &second, &cuts);
    }
}

/// That an opening has synced every folder that was there, whatever it is a sign of.
fn assert_names_synced(run: &Run) {
    let (start, opened) = (run.record.start(), run.opened());
    let syncs = run.record.syncs().iter().filter(|sync| sync.begin >= start && sync.end < opened);
    let synced: BTreeSet<&str> = syncs.map(|sync| &*sync.path).collect();
    for folder in ["", "data", "data/engine", "data/engine/keyspaces", "data/engine/keyspaces/1"] {
        // Where the folder was made anew, names are of the time before it was renamed.
        let new = folder.replace("engine", "engine.new");
        assert!(synced.contains(folder) || synced.contains(&*new), "{folder:?} of {synced:?}");
    }
}

/// A program is killed, the next one finds what it wrote and goes on from there, and then the power
/// goes: what the second one found, it has to make durable before it tells of it.
#[test]
fn what_a_killed_program_left_is_made_durable_first() {
    let folder = scratch();
    let plan = Plan { threads: 2, batches: 25, ..PLAN };
    let first = plan.record(folder.path(), CommitterLog::default());
    let spread = |among: &[usize], n: usize| -> Vec<usize> {
        (1..=n).map(|i| among[(among.len() - 1) * i / n]).collect()
    };
    let opened = first.opened();
    let after = |kinds: &[&str]| -> Vec<usize> {
        let words = first.all_words().into_iter().enumerate().skip(first.record.start());
        let done = words.filter(|(_, words)| kinds.iter().any(|kind| words.starts_with(kind)));
        done.map(|(i, _)| i + 1).collect()
    };
    // Named, and the folder not synced: first of all and last of all in the making, then in flushes.
    let names = after(&["mkdir", "rename"]);
    let (making, later) = names.split_at(names.partition_point(|k| *k < opened));
    let (flushes, makings) = (spread(later, 3), spread(making, 2));
    let mut commits = around_commits(&first);
    commits.retain(|k| *k > opened);
    let commits = spread(&commits, 2);
    let kills = [vec![making[0]], makings, flushes, commits].concat();
    for (i, k) in kills.into_iter().enumerate() {
        let again = folder.path().join(i.to_string());
        fs::create_dir(&again).unwrap();
        first.record.materialize(k, 0, Mode::KILLED, &again.join("root"));
        let next = Plan { round: 2, threads: 1, batches: 6, ..plan };
        let second = next.record(&again, CommitterLog::default());
        assert_names_synced(&second);
        let opened = second.opened() - second.record.start() + k;
        let record = Record::load(&folder.path().join("record")).killed_then(k, second.record);
        let run = Run { record, before: CommitterLog::default(), book: second.book };
        let cuts = cuts(&run, k, (opened..opened + 6).collect(), wanted(96) / 6);
        assert_kept(&format!("killed at {k}"), &run, &cuts);
    }
}

/// That the other tests can fail: promises that are made too early are broken, and it is seen.
#[test]
fn promises_before_a_sync_are_broken() {
    let folder = scratch();
    let plan = Plan { threads: 1, batches: 60, lax: true, ..PLAN };
    let run = plan.record(folder.path(), CommitterLog::default());
    let cuts = cuts(&run, run.opened(), around_commits(&run), 96);
    assert_ne!(judge_all("lax, ordered", &run, &cuts, Mode::ORDERED).bad, 0);
}

/// Damage is not taken for a torn tail: nothing is cut off that others follow.
#[test]
fn a_flipped_bit_before_the_tail_is_refused() {
    let folder = scratch();
    let run =
        Plan { threads: 1, batches: 20, ..PLAN }.record(folder.path(), CommitterLog::default());
    let root = folder.path().join("disk");
    // Before the end, where closing makes an end of the journal's use.
    let durable = |k: &usize| run.said(*k).durable >= 12;
    let k = (run.record.start()..run.record.len()).find(durable).unwrap();
    run.record.materialize(k, 0, Mode::ORDERED, &root);
    let journal = root.join("data/engine/0.jnl");
    let mut content = fs::read(&journal).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap();
    content[end / 2] ^= 4;
    fs::write(&journal, &content).unwrap();
    let error = embedded::open(&root.join("data"), &log_tables(), &small_options()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("0.jnl is damaged at byte"), "{error}");
    assert!(fs::read(&journal).unwrap() == content, "a refused folder has changed");
}
