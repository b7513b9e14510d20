//! `cargo xtask verify` and `fix`: everything that is checked before a change lands, and what can
//! be mended by itself. `verify` writes nothing but build artifacts.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it reads the source tree")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::{conformance, one_build, package};

/// Past this many lines a reader no longer finds their way.
const FILE_LINES_MAX: usize = 900;

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
    const CHECKS: [Check; 6] = [
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
        Check { name: "tests", args: &["test", "--locked", "--workspace"], env: &[] },
        Check {
            name: "docs",
            args: &["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"],
            env: &[("RUSTDOCFLAGS", "-D warnings")],
        },
    ];
    writeln!(err, "verify: tidy")?;
    if !tidy(root, err)? {
        return Ok(false);
    }
    writeln!(err, "verify: one build")?;
    if !one_build::run(root, err)? {
        return Ok(false);
    }
    for Check { name, args, env } in CHECKS {
        writeln!(err, "verify: {name}: cargo {}", args.join(" "))?;
        if !cargo(root, args, env)? {
            writeln!(err, "error: {name} failed\nhint: `cargo xtask fix` mends format and lints")?;
            return Ok(false);
        }
    }
    writeln!(err, "verify: package")?;
    if !package::run(root, err)? {
        return Ok(false);
    }
    writeln!(err, "verify: conformance")?;
    let passed = conformance::run(root, conformance::Report::write_table, out, err)?;
    if passed {
        writeln!(err, "verify: passed")?;
    }
    Ok(passed)
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

/// House rules that no other tool knows: a file says what it owns, and is not too long.
fn tidy(root: &Path, err: &mut dyn Write) -> anyhow::Result<bool> {
    let mut clean = true;
    for folder in ["crates", "examples", "guests", "xtask"] {
        for path in rust_files(&root.join(folder))? {
            let text = fs::read_to_string(&path)?;
            for problem in problems(&text) {
                clean = false;
                let path = path.strip_prefix(root).unwrap_or(&path);
                writeln!(err, "error: {}: {problem}", path.display())?;
            }
        }
    }
    Ok(clean)
}

fn problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push("does not open with a `//!` line that says what it owns".to_owned());
    }
    // Nobody reads what a tool wrote.
    let generated = text.starts_with("//! Generated");
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX && !generated {
        problems.push(format!("has {lines} lines; split it before {FILE_LINES_MAX}"));
    }
    problems
}

fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            // What a compiler wrote is no source.
            if path.ends_with("target") {
                continue;
            }
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The house rules can be broken.
    #[test]
    fn tidy_finds_problems() {
        assert_eq!(problems("//! Owns nothing.\n").len(), 0);
        assert_eq!(problems("fn main() {}\n").len(), 1);
        assert_eq!(problems(&"//! Too long.\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
        assert_eq!(problems(&"//! Generated.\n".repeat(FILE_LINES_MAX + 1)).len(), 0);
    }
}
