//! The program `schemathesis`: installed below `target`, in a virtual environment of its own.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::{install, must};

/// What is installed, each with its version.
const REQUIREMENTS: &str = include_str!("requirements.txt");

/// Python can make environments, and put `pip` into them.
const CAN_INSTALL: &[&str] = &["-c", "import ensurepip, venv"];

/// The program; it is installed first where it is missing.
pub(super) fn program() -> PathBuf {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(parent).unwrap();
    let folder = parent.join("schemathesis");
    let program = folder.join("bin/schemathesis");
    // Of several processes that want to install it, one does, and the others wait.
    let lock = parent.join("schemathesis.lock");
    let lock = OpenOptions::new().create(true).append(true).open(lock).unwrap();
    lock.lock().unwrap();
    // Written last: what is there with it is whole, and of these versions.
    let whole = folder.join("installed.txt");
    if fs::read_to_string(&whole).is_ok_and(|installed| installed == REQUIREMENTS) {
        return program;
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    if !Command::new("python3").args(CAN_INSTALL).output().is_ok_and(|done| done.status.success()) {
        install(&["python3", "python3-venv"]);
    }
    must(Command::new("python3").args(["-m", "venv"]).arg(&folder));
    let wanted = folder.join("requirements.txt");
    fs::write(&wanted, REQUIREMENTS).unwrap();
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    must(Command::new(folder.join("bin/python")).args(pip).arg(&wanted));
    fs::rename(&wanted, &whole).unwrap();
    program
}
