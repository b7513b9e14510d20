//! Debian's packages, for tests that need a program which is not there.

use std::process::{Command, Stdio};

/// Installs them; the lists are fetched only if they are missing or too old.
pub(crate) fn install(packages: &[&str]) {
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-y", "-o", "DPkg::Lock::Timeout=600"]).args(arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let install = [&["install", "--no-install-recommends"], packages].concat();
    if run(&mut apt_get(&install)).is_err() {
        must(&mut apt_get(&["update"]));
        must(&mut apt_get(&install));
    }
}

/// Runs what has to succeed.
pub(crate) fn must(command: &mut Command) {
    run(command).unwrap_or_else(|said| panic!("{command:?} failed: {said}"));
}

/// Err: what it said.
fn run(command: &mut Command) -> Result<(), String> {
    let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let said = [done.stdout, done.stderr].concat();
    Err(String::from_utf8_lossy(&said).into_owned())
}
