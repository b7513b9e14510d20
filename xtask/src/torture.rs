//! `cargo xtask torture`: runs the store's and the engine's randomized tests for as long as is
//! asked for. `verify` runs a few cycles of each.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "xtask is a shell: it times its stages"
)]

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::executables::built;

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

const STORE: &str = "store";
const RUNTIME: &str = "runtime";

/// Runs them one after the other; false at the first that fails.
pub(crate) fn run(root: &Path, torture: &Torture) -> anyhow::Result<bool> {
    // The whole workspace, as `verify` builds it: one package alone has dependencies with other
    // features, and would compile wasmtime once more.
    let examples = built(root, &["build", "--examples"])?;
    ensure!(!examples.is_empty(), "there are no examples");
    let tests = built(root, &["test", "--test", "it", "--no-run"])?;
    let Torture { cycles, cuts, flips, seeds, seed, only } = torture;
    let kills = [("INDELIBLE_CRASH_CYCLES", *cycles), ("INDELIBLE_SEED", *seed)];
    let modules: [Test<'_>; 7] = [
        (STORE, "crash", &kills),
        (RUNTIME, "killed", &kills),
        (RUNTIME, "effects_killed", &kills),
        (STORE, "power_loss", &[("INDELIBLE_POWER_CUTS", *cuts)]),
        (STORE, "disk_faults", &[("INDELIBLE_DISK_FAULTS", 1)]),
        (STORE, "damage", &[("INDELIBLE_FLIPS", *flips)]),
        (STORE, "conformance", &[("INDELIBLE_SEEDS", *seeds)]),
    ];
    let names = modules.map(|(_, module, _)| format!("{module}::"));
    for (package, module, settings) in modules {
        if only.as_ref().is_some_and(|only| only != module) {
            continue;
        }
        let folder = root.join("crates").join(package);
        let binary = tests.iter().find(|built| built.is_test() && built.folder() == folder);
        let binary = binary.with_context(|| format!("{package} has no tests"))?;
        let module = format!("{module}::");
        let mut command = binary.command();
        command.args([&module, "--nocapture"]);
        // A filter is any part of a test's path: another module may end like this one.
        for other in names.iter().filter(|name| name.ends_with(&module) && **name != module) {
            command.args(["--skip", other]);
        }
        command.envs(settings.iter().map(|(name, value)| (name, value.to_string())));
        let began = Instant::now();
        let passed = command.status()?.success();
        let (seconds, end) = (began.elapsed().as_secs(), if passed { "passed" } else { "FAILED" });
        eprintln!("torture: {package} {module} {end} after {seconds} s");
        if !passed {
            return Ok(false);
        }
    }
    Ok(true)
}
