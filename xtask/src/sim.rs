//! `cargo xtask sim`: simulations of the engine, as many as are asked for, or one again.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use clap::{Args, value_parser};

/// Which seeds.
#[derive(Args)]
pub(crate) struct Sim {
    /// Run so many seeds
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = value_parser!(u64).range(1..))]
    seeds: u64,
    /// Begin with this seed
    #[arg(long, value_name = "SEED")]
    from: Option<String>,
    /// Run this seed alone, and print everything that happened in it
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from", "all"])]
    seed: Option<String>,
    /// Go on after a failure, with a line for each
    #[arg(long)]
    all: bool,
    /// Run so many simulations at once, rather than one for each core
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
    /// Build without checks for speed: worth it from some ten thousand seeds on
    #[arg(long)]
    release: bool,
}

/// Builds the simulation and runs it; false if a seed fails.
pub(crate) fn run(root: &Path, sim: &Sim) -> anyhow::Result<bool> {
    let profile = if sim.release { "release" } else { "dev" };
    // Of the whole workspace, as `verify` builds it: this package alone has dependencies with other
    // features, and would compile wasmtime once more.
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--locked", "--workspace", "--example", "sim"]);
    let built = build.args(["--profile", profile]).current_dir(root).status()?;
    ensure!(built.success(), "the simulation does not build");
    let folder = if sim.release { "release" } else { "debug" };
    let target = indelible_guests::target_folder().join(folder);
    let mut command = Command::new(target.join("examples/sim"));
    match &sim.seed {
        Some(seed) => {
            command.args(["--seed", seed]);
        }
        None => {
            command.args(["--seeds", &sim.seeds.to_string()]);
            command.args(sim.all.then_some("--all"));
            if let Some(seed) = &sim.from {
                command.args(["--from", seed]);
            }
        }
    }
    if let Some(threads) = &sim.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    Ok(command.current_dir(root).status()?.success())
}
