//! `cargo xtask torture`: runs the store's and the engine's randomized tests for as long as is
//! asked for. `verify` runs a few cycles of each.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use clap::Args;

/// How much of each.
#[derive(Args)]
pub(crate) struct Torture {
    /// Kill a committing process, and one with an engine in it, so many times each
    #[arg(long, value_name = "N", default_value_t = 500)]
    cycles: u64,
    /// Lose the power at so many points of each run
    #[arg(long, value_name = "N", default_value_t = 200)]
    cuts: u64,
    /// Flip so many bits
    #[arg(long, value_name = "N", default_value_t = 2000)]
    flips: u64,
    /// Run what is random in the conformance suite with so many seeds
    #[arg(long, value_name = "N", default_value_t = 50)]
    seeds: u64,
    /// The seed of the kills
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run only this one of the tests: crash, killed, effects_killed, power_loss, disk_faults, damage, conformance
    #[arg(long, value_name = "TEST",
        value_parser = ["crash", "killed", "effects_killed", "power_loss", "disk_faults", "damage", "conformance"])]
    only: Option<String>,
}

/// A package, a module of its tests, and how much of it.
type Test<'a> = (&'a str, &'a str, &'a [(&'a str, u64)]);

const STORE: &str = "indelible-store";
const RUNTIME: &str = "indelible-runtime";

/// Runs them one after the other; false at the first that fails.
pub(crate) fn run(root: &Path, torture: &Torture) -> anyhow::Result<bool> {
    for package in [STORE, RUNTIME] {
        let built = cargo(root, &["build", "--locked", "-p", package, "--examples"], &[])?;
        ensure!(built, "the examples of {package} do not build");
    }
    let Torture { cycles, cuts, flips, seeds, seed, only } = torture;
    let kills = [("INDELIBLE_CRASH_CYCLES", *cycles), ("INDELIBLE_SEED", *seed)];
    let tests: [Test<'_>; 7] = [
        (STORE, "crash", &kills),
        (RUNTIME, "killed", &kills),
        (RUNTIME, "effects_killed", &kills),
        (STORE, "power_loss", &[("INDELIBLE_POWER_CUTS", *cuts)]),
        (STORE, "disk_faults", &[("INDELIBLE_DISK_FAULTS", 1)]),
        (STORE, "damage", &[("INDELIBLE_FLIPS", *flips)]),
        (STORE, "conformance", &[("INDELIBLE_SEEDS", *seeds)]),
    ];
    let names = tests.map(|(_, test, _)| format!("{test}::"));
    for (package, test, settings) in tests {
        let module = format!("{test}::");
        if only.as_ref().is_some_and(|only| only != test) {
            continue;
        }
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| (*name, value.to_string())).collect();
        let mut arguments =
            vec!["test", "--locked", "-p", package, "--test", "it", &module, "--", "--nocapture"];
        // A filter is any part of a test's path: another module may end like this one.
        for other in names.iter().filter(|name| name.ends_with(&module) && **name != module) {
            arguments.extend(["--skip", other]);
        }
        if !cargo(root, &arguments, &settings)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn cargo(root: &Path, arguments: &[&str], settings: &[(&str, String)]) -> anyhow::Result<bool> {
    let mut command = Command::new("cargo");
    command.args(arguments).envs(settings.iter().map(|(name, value)| (name, value)));
    Ok(command.current_dir(root).status()?.success())
}
