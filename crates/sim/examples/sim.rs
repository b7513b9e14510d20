//! Runs simulations: what `cargo xtask sim` starts.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is the shell of the simulation: it measures, and says how it went"
)]

use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Instant;

use indelible_sim::{Kit, seeds, simulate};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut first, mut count, mut one, mut all) = (seeds::FIRST, 1_000, None, false);
    let mut threads = available_parallelism().map_or(1, usize::from);
    while let Some(argument) = arguments.next() {
        if argument == "--all" {
            all = true;
            continue;
        }
        let value = arguments.next().unwrap_or_default();
        let Some(number) = seeds::parse(&value) else {
            return usage(&format!("{argument} {value:?}: that is no number, like 7 or 0x1de1"));
        };
        match argument.as_str() {
            // None at all would seem to have gone well.
            "--seeds" | "--threads" if number == 0 => {
                return usage(&format!("{argument} 0: at least one"));
            }
            "--seeds" => count = number,
            "--seed" => one = Some(number),
            "--from" => first = number,
            "--threads" => threads = number as usize,
            _ => return usage(&format!("{argument} is not known")),
        }
    }
    let kit = Kit::new();
    match one {
        Some(seed) => repeat(&kit, seed),
        None => run(&kit, first, count, threads, all),
    }
}

fn usage(wrong: &str) -> ExitCode {
    eprintln!("error: {wrong}");
    eprintln!("usage: sim [--seeds N] [--from SEED] [--threads N] [--all] | --seed SEED");
    ExitCode::FAILURE
}

/// One seed, with everything that happened.
fn repeat(kit: &Kit, seed: u64) -> ExitCode {
    let report = simulate(kit, seed);
    print!("{}", report.transcript);
    eprintln!("{}", report.explain());
    if report.wrong.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Many seeds, up to the first that fails; with `all`, a line for each that does.
fn run(kit: &Kit, first: u64, count: u64, threads: usize, all: bool) -> ExitCode {
    let began = Instant::now();
    let rate = |done: u64| done as f64 / began.elapsed().as_secs_f64();
    let told = |done: u64| {
        if done.is_multiple_of(1_000) {
            eprintln!("{done} seeds, {:.0} a second", rate(done));
        }
    };
    let mut list: Vec<_> = (0..count).map(|number| first.wrapping_add(number)).collect();
    let mut failures = 0;
    while let Some(failed) = seeds::run(kit, &list, threads, &told) {
        failures += 1;
        if !all {
            print!("{}", failed.transcript);
            eprintln!("{}", failed.explain());
            return ExitCode::FAILURE;
        }
        println!("{}", failed.explain().lines().next().unwrap_or_default());
        list.retain(|seed| *seed > failed.seed);
    }
    eprintln!("{count} seeds, {failures} failed, {:.1} a second", rate(count));
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
