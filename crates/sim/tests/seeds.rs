//! Simulations: a few hundred seeds, those that once found something, and that a seed is a run.

use indelible_sim::{Kit, seeds, simulate};

/// D2, D7, J-81, C-41: whatever happens to the process, nothing that was shown is taken back,
/// every start has one outcome, and nothing hangs or is left over.
#[test]
fn seeds_hold() {
    let kit = Kit::new();
    let mut all = seeds::kept();
    all.extend((0..300).map(|number| seeds::FIRST + number));
    if let Some(failed) = seeds::run(&kit, &all, 2, &|_| {}) {
        panic!("{}\n{}", failed.transcript, failed.explain());
    }
}

/// The same seed is the same run, byte for byte, while others run beside it.
#[test]
fn a_seed_is_a_run() {
    let kit = Kit::new();
    for seed in 0..10 {
        let reports = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..3).map(|_| scope.spawn(|| simulate(&kit, seed))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(reports[0].transcript.lines().count() > 30, "little happened");
        assert!(reports.iter().all(|report| *report == reports[0]), "seed {seed}");
    }
}
