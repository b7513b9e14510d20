//! `cargo xtask torture`: the tests of the store that take more the longer they run, with as much
//! as is asked for. What runs in every `verify` is a few cycles of each.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use clap::Args;

/// How much of each.
#[derive(Args)]
pub(crate) struct Torture {
    /// Kill a committing process so many times
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
}

/// Runs them one after the other; false at the first that fails.
pub(crate) fn run(root: &Path, torture: &Torture) -> anyhow::Result<bool> {
    let built = cargo(root, &["build", "--locked", "-p", "indelible-store", "--examples"], &[])?;
    ensure!(built, "the examples do not build");
    let Torture { cycles, cuts, flips, seeds, seed } = torture;
    let tests: [(&str, &[(&str, u64)]); 5] = [
        ("crash", &[("INDELIBLE_CRASH_CYCLES", *cycles), ("INDELIBLE_SEED", *seed)]),
        ("power_loss", &[("INDELIBLE_POWER_CUTS", *cuts)]),
        ("disk_faults", &[("INDELIBLE_DISK_FAULTS", 1)]),
        ("damage", &[("INDELIBLE_FLIPS", *flips)]),
        ("conformance", &[("INDELIBLE_SEEDS", *seeds)]),
    ];
    for (test, settings) in tests {
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| (*name, value.to_string())).collect();
        let arguments =
            ["test", "--locked", "-p", "indelible-store", "--test", test, "--", "--nocapture"];
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
