//! The bare engine as a subject: `examples/raw_committer.rs` under the shim.
#![allow(clippy::unwrap_used, reason = "a test that cannot start its subject has failed")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]

use super::Faults;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Cargo builds examples with the tests, but not with one test that is asked for by `--test`.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/raw_committer");
    assert!(program.exists(), "cargo build -p indelible-store --examples");
    program
}

/// A folder on the disk that cargo builds on: the one for temporary files may be small.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Commits up to `batches`; see the example for what the rest means.
pub(crate) fn run(
    faults: &Faults,
    root: &Path,
    acks: &Path,
    batches: u64,
    big: u64,
    kind: &str,
) -> Output {
    let mut command = Command::new(program());
    command.arg("run").arg(root).arg(acks).args([&batches.to_string(), &big.to_string(), kind]);
    faults.run(&mut command)
}

/// Opens and compares the disk in `root`: the last batch, or what is wrong.
pub(crate) fn check(root: &Path) -> Result<u64, String> {
    let mut command = Command::new(program());
    let output = Faults::new(root).sync_skip().seconds(60).run(command.arg("check").arg(root));
    let said = String::from_utf8_lossy(&output.stdout);
    match said.trim().strip_prefix("ok ") {
        Some(number) => Ok(number.parse().unwrap()),
        None => Err(format!(
            "{}{}({})",
            said.trim(),
            String::from_utf8_lossy(&output.stderr).replace('\n', " "),
            output.status
        )),
    }
}
