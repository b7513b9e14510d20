//! What a person at a terminal sees while something takes long.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use indelible_records::{SETTINGS, TABLES};
use indelible_store::{Batch, embedded};
use indelible_test_store::folder::hand_over;

use super::command;
use crate::support::pty;

/// Runs a command with errors on a terminal: what was written there, if it did what it should.
fn on_a_terminal(arguments: &[&dyn AsRef<OsStr>]) -> String {
    let master = pty::open();
    let mut command = command(arguments);
    command.stdout(std::process::Stdio::null());
    command.stderr(pty::peer(&master));
    let mut child = command.spawn().unwrap();
    // `command` holds the other end of the terminal, which ends when no process has it open.
    drop(command);
    let (mut master, mut written, mut bytes) = (File::from(master), Vec::new(), [0; 4096]);
    // Reading a terminal that no process has open any more ends with an error.
    while let Ok(count @ 1..) = master.read(&mut bytes) {
        written.extend_from_slice(&bytes[..count]);
    }
    let written = String::from_utf8(written).unwrap();
    assert!(child.wait().unwrap().success(), "{written}");
    written
}

/// A data folder with so many rows of a mebibyte. They mean nothing.
fn make(data: &Path, rows: u8) {
    let folder = data.join("store");
    let store = embedded::open(&folder, &TABLES, &embedded::Options::default()).unwrap();
    for row in 0..rows {
        let mut batch = Batch::new();
        batch.put(SETTINGS, vec![row], vec![row; 1 << 20]);
        store.submit_blocking(batch).unwrap();
    }
    hand_over(store, &folder);
}

/// Each pass over what is large says how far it is; what is small is done before anybody could read
/// it, and says nothing.
#[test]
fn how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    make(&at("large"), 6);
    let told = on_a_terminal(&[&"backup", &at("file"), &"--data", &at("large")]);
    for words in ["\rcopied 6.0 MiB", "\rverified 6.0 MiB"] {
        assert!(told.contains(words), "{told:?}");
    }
    let told = on_a_terminal(&[&"restore", &at("file"), &at("made"), &"--despite-problems"]);
    let passes = ["\rverified 6.0 MiB", "\rrestored 6.0 MiB", "\rchecking settings", "\rchecked "];
    let mut rest = told.as_str();
    for words in passes {
        let at = rest.find(words).unwrap_or_else(|| panic!("no {words:?} in {told:?}"));
        rest = &rest[at..];
    }

    make(&at("small"), 1);
    let told = on_a_terminal(&[&"backup", &at("little"), &"--data", &at("small")]);
    assert_eq!(told, "");
    let (file, made) = (at("little"), at("other"));
    let told = on_a_terminal(&[&"restore", &file, &made, &"--despite-problems"]);
    assert_eq!(told, "");
}
