//! `cargo xtask verify` and `fix`: everything that is checked before a change lands, and the
//! automatic repair of what can be repaired. `verify` installs what tests need, and writes nothing
//! else but build artifacts.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it times its stages")]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::{conformance, one_build, package, setup, test_run, tidy};

/// A check that is a call of cargo.
struct Check {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

/// Runs every check in turn; false at the first that fails.
pub(crate) fn verify(
    root: &Path,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<bool> {
    const CHECKS: [Check; 5] = [
        Check { name: "format", args: &["fmt", "--all", "--check"], env: &[] },
        Check {
            name: "lints",
            args: &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"],
            env: &[],
        },
        Check {
            name: "format of guests",
            args: &["fmt", "--all", "--check", "--manifest-path", "examples/Cargo.toml"],
            env: &[],
        },
        // For the host, where clippy is certain to have a std.
        Check {
            name: "lints of guests",
            args: &[
                "clippy",
                "--locked",
                "--manifest-path",
                "examples/Cargo.toml",
                "--target-dir",
                "target/guests/host",
                "--workspace",
                "--",
                "-D",
                "warnings",
            ],
            env: &[],
        },
        Check {
            name: "build of tests",
            args: &["test", "--locked", "--workspace", "--no-run"],
            env: &[],
        },
    ];
    const DOCS: [Check; 1] = [Check {
        name: "docs",
        args: &["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"],
        env: &[("RUSTDOCFLAGS", "-D warnings")],
    }];
    let mut stages = Stages::default();
    let passed = stages.run("setup", err, |err| {
        writeln!(err, "verify: setup: what tests need is installed first, if it is missing")?;
        setup::run(root, err)
    })? && stages.run("tidy", err, |err| tidy::run(root, err))?
        && stages.run("one build", err, |err| one_build::run(root, err))?
        && stages.run_all(root, &CHECKS, err)?
        && stages.run("tests", err, |err| test_run::run(root, err))?
        && stages.run_all(root, &DOCS, err)?
        && stages.run("package", err, |err| package::run(root, err))?
        && stages.run("conformance", err, |err| {
            conformance::run(root, conformance::Report::write_table, out, err)
        })?;
    stages.sum_up(err)?;
    writeln!(err, "verify: {}", if passed { "passed" } else { "failed" })?;
    Ok(passed)
}

/// The stages that are over, and how long each took.
#[derive(Default)]
struct Stages(Vec<(&'static str, Duration)>);

impl Stages {
    /// Runs a stage, and says how long it took. False if it failed.
    fn run(
        &mut self,
        name: &'static str,
        err: &mut dyn Write,
        stage: impl FnOnce(&mut dyn Write) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        writeln!(err, "verify: {name}")?;
        let begin = Instant::now();
        let passed = stage(err);
        let took = begin.elapsed();
        let ended = if let Ok(true) = passed { "done" } else { "FAILED" };
        writeln!(err, "verify: {name}: {ended} after {}", text(took))?;
        self.0.push((name, took));
        passed
    }

    /// Runs what is a call of cargo, one after the other, up to the first that fails.
    fn run_all(
        &mut self,
        root: &Path,
        checks: &[Check],
        err: &mut dyn Write,
    ) -> anyhow::Result<bool> {
        for Check { name, args, env } in checks {
            let passed = self.run(name, err, |err| {
                writeln!(err, "cargo {}", args.join(" "))?;
                cargo(root, args, env)
            })?;
            if !passed {
                writeln!(err, "hint: `cargo xtask fix` mends format and lints")?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn sum_up(&self, err: &mut dyn Write) -> anyhow::Result<()> {
        for (name, took) in &self.0 {
            writeln!(err, "{:>10}  {name}", text(*took))?;
        }
        let all = self.0.iter().map(|(_, took)| *took).sum();
        Ok(writeln!(err, "{:>10}  altogether", text(all))?)
    }
}

/// Minutes, if there are any, and seconds.
fn text(time: Duration) -> String {
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs_f64() % 60.0);
    if minutes > 0 { format!("{minutes} min {seconds:2.0} s") } else { format!("{seconds:.1} s") }
}

/// Mends what can be mended by itself; with `scenarios`, also rewrites the expected transcripts.
pub(crate) fn fix(root: &Path, scenarios: bool) -> anyhow::Result<bool> {
    let lints =
        ["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"];
    let mut passed = cargo(root, &lints, &[])?
        && cargo(root, &["fmt", "--all"], &[])?
        && cargo(root, &["fmt", "--all", "--manifest-path", "examples/Cargo.toml"], &[])?;
    if scenarios {
        let rewrite = [("INDELIBLE_REWRITE", "1")];
        passed &= cargo(root, &["test", "--workspace", "rewritable"], &rewrite)?;
    }
    Ok(passed)
}

fn cargo(root: &Path, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<bool> {
    let status = Command::new("cargo")
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root)
        .status()
        .with_context(|| format!("cannot run cargo {}", args.join(" ")))?;
    Ok(status.success())
}
