//! What `indelible serve` is told, and by whom: the real binary with files, an environment and flags;
//! what it makes of bad ones; what retention does to a server that runs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and write files for them")]

mod bad_use;
mod log;
mod printed;
mod retention;
mod terminal;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `indelible serve` in a folder, with no variables but these and what a process needs.
fn serve(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.arg("serve").args(arguments).current_dir(folder).env_clear();
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// What such a process said, which ends by itself.
fn said(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> (Output, String) {
    let output = serve(folder, variables, arguments).output().unwrap();
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    (output, text)
}
