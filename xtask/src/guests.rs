//! `cargo xtask guests`, `demo-component` and `bindings`: what is built for, and generated from, the
//! contract with guests.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it writes what it has built")]

use std::fs;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Builds the component that `indelible demo` brings along, and notes what it was built from. In a
/// target folder of its own, because its flags differ: the component must not contain anything of
/// the machine that it was built on.
pub(crate) fn demo_component(root: &Path, out: &mut dyn Write) -> anyhow::Result<bool> {
    // Read before the build: a change during the build may not be in the component.
    let sources = indelible_guests::demo_sources().context("cannot read the sources")?;
    let home = |name| std::env::var_os(name).map(PathBuf::from);
    let cargo = home("CARGO_HOME").or_else(|| home("HOME").map(|home| home.join(".cargo")));
    let cargo = cargo.context("neither CARGO_HOME nor HOME is set")?;
    let remap = |from: &Path, to| format!("--remap-path-prefix={}={to}", from.display());
    let flags = [remap(root, "indelible"), remap(&cargo, "cargo")].join(" ");
    let target = root.join("target/demo-component");
    let status = Command::new(std::env::current_exe()?)
        .arg("guests")
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", flags)
        .current_dir(root)
        .stdout(Stdio::null())
        .status()
        .context("cannot build the guests")?;
    if !status.success() {
        return Ok(false);
    }
    let shop = fs::read(target.join("guests/shop.wasm")).context("there is no guest shop")?;
    let folder = root.join("crates/cli/demo");
    fs::write(folder.join("shop.wasm"), &shop)?;
    fs::write(folder.join("shop.sources.sha256"), format!("{sources}\n"))?;
    writeln!(out, "{:>8} {}", shop.len(), folder.join("shop.wasm").display())?;
    Ok(true)
}

/// Rewrites the SDK's bindings, with the test that checks them.
pub(crate) fn bindings(root: &Path) -> anyhow::Result<bool> {
    let status = Command::new("cargo")
        .args(["test", "--quiet", "--package", "indelible-sdk", "--test", "it", "bindings::"])
        .env("INDELIBLE_REWRITE", "1")
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    Ok(status.success())
}
