//! `cargo xtask guests` and `bindings`: what is built for, and generated from, the contract with
//! guests.

use std::io::{Write, stderr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, anyhow};

/// Builds all guests and lists them with their sizes.
pub(crate) fn build(out: &mut dyn Write) -> anyhow::Result<bool> {
    let mut progress = |what: &str| _ = writeln!(stderr(), "guests: {what}");
    let components = indelible_guests::build(false, &mut progress)
        .map_err(|error| anyhow!(indelible_guests::explain(&error)))?;
    for component in components {
        let size = component.path.metadata().context("a guest is gone")?.len();
        writeln!(out, "{size:>8} {}", component.path.display())?;
    }
    Ok(true)
}

/// Rewrites the SDK's bindings: the test that checks them can.
pub(crate) fn bindings(root: &Path) -> anyhow::Result<bool> {
    let status = Command::new("cargo")
        .args(["test", "--quiet", "--package", "indelible-sdk", "--test", "bindings"])
        .env("INDELIBLE_REWRITE", "1")
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    Ok(status.success())
}
