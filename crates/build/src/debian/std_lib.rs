//! Compiles std for guests, once, and puts it where the compiler looks for it: from then on it is
//! an ordinary compiler with the target, and guests build in seconds.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Error, TARGET, run, toolchain};

const MANIFEST: &str = "[package]
name = \"std-for-guests\"
version = \"0.0.0\"
edition = \"2024\"

[workspace]
";

/// Compiles std with `rustc` and fills the folder `libraries`.
pub(super) fn compile(
    home: &Path,
    rustc: &Path,
    tools: &Path,
    libraries: &Path,
) -> Result<(), Error> {
    let package = home.join("std-for-guests");
    let source = package.join("src");
    fs::create_dir_all(&source).map_err(Error::file("create", &source))?;
    for (path, text) in [(package.join("Cargo.toml"), MANIFEST), (source.join("lib.rs"), "")] {
        fs::write(&path, text).map_err(Error::file("write", &path))?;
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--target", TARGET, "--target-dir", "target"])
        .args(["-Zbuild-std=std,panic_abort"])
        .current_dir(&package)
        .env("RUSTC", rustc)
        // Cargo builds std only for a compiler that it takes for a nightly one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("PATH", toolchain::with_folder(tools))
        // Without bitcode, guests could not be optimised together with std. Paths within the
        // staging folder mean nothing later.
        .env("RUSTFLAGS", format!("-Cembed-bitcode=yes --remap-path-prefix={}=", home.display()));
    for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER"] {
        cargo.env_remove(name);
    }
    run::output(&mut cargo)?;
    fs::create_dir_all(libraries).map_err(Error::file("create", libraries))?;
    let built = package.join("target").join(TARGET).join("release/deps");
    for entry in fs::read_dir(&built).map_err(Error::file("list", &built))? {
        let path = entry.map_err(Error::file("list", &built))?.path();
        let library = path.extension().is_some_and(|extension| extension == "rlib");
        let Some(name) = path.file_name().filter(|_| library) else { continue };
        if name.to_string_lossy().starts_with("libstd_for_guests") {
            continue;
        }
        fs::copy(&path, libraries.join(name)).map_err(Error::file("copy", &path))?;
    }
    fs::remove_dir_all(&package).map_err(Error::file("remove", &package))
}
