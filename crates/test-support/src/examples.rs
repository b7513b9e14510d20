//! Programs of a crate that its tests start: its examples, which cargo builds beside the tests.

use std::path::{Path, PathBuf};

/// The example of this name, for a test or another example of the same crate.
///
/// # Panics
///
/// If it is not built: `cargo test --test NAME` alone builds no examples.
pub fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a running program has a file");
    // A test is in `deps`, which stands beside `examples`.
    let folder = own.parent().and_then(Path::parent).expect("cargo puts it into a folder");
    let path = folder.join("examples").join(name);
    assert!(path.exists(), "no {}: build it with `cargo build --examples`", path.display());
    path
}
