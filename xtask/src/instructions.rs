//! `cargo xtask instructions`: counts what an append costs with callgrind, at several lengths of
//! a journal. Instructions repeat exactly, whatever else the machine does; seconds do not.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

const LENGTHS: [u64; 3] = [10, 1_000, 1_000_000];

/// Appends measured at each length.
const COUNT: u64 = 9_000;

/// An append at the longest length costs at most this many times one at the shortest.
const RATIO_MAX: f64 = 1.2;

/// Prints the instructions of an append at each length; false if they grow with it.
pub(crate) fn run(root: &Path, out: &mut dyn Write) -> anyhow::Result<bool> {
    let build =
        ["build", "--locked", "--release", "-p", "indelible-journal", "--example", "append_cost"];
    let built = Command::new("cargo").args(build).current_dir(root).status()?;
    ensure!(built.success(), "the example does not build");

    let mut costs = Vec::new();
    for length in LENGTHS {
        let cost = count(root, length)? as f64 / COUNT as f64;
        writeln!(out, "an append at length {length:>7}: {cost:6.1} instructions")?;
        costs.push(cost);
    }
    let ratio = costs[costs.len() - 1] / costs[0];
    writeln!(out, "longest to shortest: {ratio:.2} (at most {RATIO_MAX})")?;
    Ok(ratio <= RATIO_MAX)
}

/// Instructions within the example's `measured`.
fn count(root: &Path, length: u64) -> anyhow::Result<u64> {
    let program = root.join("target/release/examples/append_cost");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=append_cost::measured*")
        .arg(program)
        .args([length.to_string(), COUNT.to_string()])
        .output()
        .context("cannot run valgrind: install Debian's package of that name")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed:\n{text}");
    let Some((_, collected)) = text.split_once("Collected : ") else {
        bail!("valgrind says nothing of what it collected:\n{text}");
    };
    let number = collected.lines().next().unwrap_or_default().trim();
    let number: u64 = number.parse().with_context(|| format!("not a number: {number}"))?;
    ensure!(number > 0, "nothing was measured: has `measured` been inlined?");
    Ok(number)
}
