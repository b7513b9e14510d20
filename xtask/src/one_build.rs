//! `cargo xtask one-build`: whether the binary alone is made of the same dependencies, with the same
//! features, as everything together. If not, cargo compiles wasmtime for each of them. And whether
//! machines are free of what their host knows.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Whether both have the same dependencies; differences are printed. Packages for the build machine
/// (macros, and dependencies of build scripts) have features of their own, so they are compared
/// apart.
pub(crate) fn run(root: &Path, err: &mut dyn Write) -> anyhow::Result<bool> {
    const KINDS: [[&str; 2]; 2] = [
        ["normal,no-proc-macro", "normal,dev,no-proc-macro"],
        ["normal,build", "normal,build,dev"],
    ];
    let mut whole = true;
    for [of_binary, of_everything] in KINDS {
        let binary = tree(root, &["--package", "indelible", "--edges", of_binary])?;
        let everything = tree(root, &["--workspace", "--edges", of_everything])?;
        for package in apart(&binary, &everything) {
            whole = false;
            writeln!(err, "error: in the binary alone, it has other features: {package}")?;
        }
    }
    if !whole {
        writeln!(
            err,
            "hint: name it in crates/one-build/Cargo.toml with the features that it lacks"
        )?;
    }
    Ok(machines_are_pure(root, err)? && whole)
}

/// Whether no machine depends on a runtime, a storage engine or WebAssembly (D14).
fn machines_are_pure(root: &Path, err: &mut dyn Write) -> anyhow::Result<bool> {
    let mut pure = true;
    for machine in ["indelible-machine", "indelible-execution"] {
        let packages = tree(root, &["--package", machine])?;
        for host in ["tokio ", "fjall ", "wasmtime "] {
            if packages.iter().any(|package| package.starts_with(host)) {
                pure = false;
                writeln!(err, "error: {machine} depends on {host}, which is its host's to know")?;
            }
        }
    }
    Ok(pure)
}

/// Packages of the binary that the whole build has with other features, or not at all. Our own
/// crates are left out: they are quick to build twice.
fn apart<'a>(binary: &'a BTreeSet<String>, everything: &BTreeSet<String>) -> Vec<&'a String> {
    let ours = |package: &String| package.contains(" (/");
    binary.iter().filter(|package| !everything.contains(*package) && !ours(package)).collect()
}

/// Packages with their features, a line each.
fn tree(root: &Path, what: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    let output = Command::new("cargo")
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p} [{f}]"])
        .args(what)
        .current_dir(root)
        .output()
        .context("cannot run cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("cargo tree prints text")?;
    // cargo marks packages that it has printed before: drop the mark.
    Ok(text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A feature that only one of the two has is found.
    #[test]
    fn other_features_are_found() {
        let set = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let everything = set(&["a v1 [std]", "b v1 []", "own v1 (/x) [x]"]);
        assert!(apart(&set(&["a v1 [std]", "own v1 (/x) []"]), &everything).is_empty());
        assert_eq!(apart(&set(&["a v1 []", "b v1 []"]), &everything), ["a v1 []"]);
    }
}
