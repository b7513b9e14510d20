//! The program `schemathesis`, where `cargo xtask setup` installs it: below `target`, in a virtual
//! environment of its own.

use std::fs;
use std::path::{Path, PathBuf};

/// What is installed, each with its version.
const REQUIREMENTS: &str = include_str!("requirements.txt");

/// The program.
pub(super) fn program() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis");
    // Written last: what is there with it is whole, and of these versions.
    let installed = fs::read_to_string(folder.join("installed.txt"));
    assert!(
        installed.is_ok_and(|installed| installed == REQUIREMENTS),
        "{} has no schemathesis of these versions: `cargo xtask setup` installs it",
        folder.display()
    );
    folder.join("bin/schemathesis")
}
