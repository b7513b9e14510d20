//! Simulations: the first thousand seeds, those that once found something, and that a seed is a run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use indelible_sim::{Kit, seeds, simulate};

fn kit() -> &'static Kit {
    static KIT: OnceLock<Kit> = OnceLock::new();
    KIT.get_or_init(Kit::new)
}

/// D2, D5, D7, J-81, V-24, C-22, C-29, C-32, C-38, C-41: whatever happens to the process and on the
/// wire, nothing that was shown is taken back, every start has one outcome, which is one of its
/// program's, nothing is processed twice that must not be, and nothing hangs or is left over.
#[test]
fn seeds_hold() {
    let mut all = seeds::kept();
    all.extend((0..1_000).map(|number| seeds::FIRST + number));
    if let Some(failed) = seeds::run(kit(), &all, 2, &|_| {}) {
        panic!("{}\n{}", failed.transcript, failed.explain());
    }
}

/// Where the test prints a seed's transcript in a process of its own.
const ALONE: &str = "INDELIBLE_SIM_ALONE";

/// The same seed is the same run, byte for byte: beside others on a busy machine, and in another
/// process.
#[test]
#[allow(clippy::disallowed_methods, reason = "it finds out whether it is the other process")]
fn a_seed_is_a_run() {
    if let Ok(seed) = std::env::var(ALONE) {
        let report = simulate(kit(), seeds::parse(&seed).unwrap());
        print!("<<<{}>>>", report.transcript);
        return;
    }
    for seed in 0..8 {
        let reports = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| simulate(kit(), seed))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(reports[0].transcript.lines().count() > 30, "little happened");
        assert!(reports.iter().all(|report| *report == reports[0]), "seed {seed}");
        if seed < 2 {
            assert!(alone(seed) == reports[0].transcript, "seed {seed} in another process");
        }
    }
}

/// The transcript of a seed that was run in another process.
fn alone(seed: u64) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["seeds::a_seed_is_a_run", "--exact", "--nocapture"])
        .env(ALONE, seed.to_string())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, text) = text.split_once("<<<").expect("it printed its transcript");
    text.split_once(">>>").expect("all of it").0.to_owned()
}

/// Two seeds are two runs.
#[test]
fn seeds_differ() {
    let (one, other) = (simulate(kit(), 1), simulate(kit(), 2));
    assert_eq!((one.wrong, other.wrong), (None, None));
    assert_ne!(one.transcript, other.transcript);
}

/// Every seed of the list can be read.
#[test]
fn kept_seeds_are_seeds() {
    let text = include_str!("../../seeds.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    assert_eq!(seeds::kept().len(), lines.count());
}
