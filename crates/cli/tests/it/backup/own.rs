//! What is made is its owner's alone: data folders, backups, and what is there before they are.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::server::token;
use super::{names, store};
use crate::support::process::Server;

#[track_caller]
fn has_mode(path: &Path, mode: u32) {
    let found = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(found, mode, "{}: {found:o} is not {mode:o}", path.display());
}

/// A new data folder is closed to other users, whichever command makes it; one that is there
/// already keeps its mode.
#[test]
fn data_folders() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    token(&at("by-token"), "admin");
    has_mode(&at("by-token"), 0o700);
    has_mode(&at("by-token/store"), 0o700);
    Server::start(&at("a/by-serve"), &[]).kill();
    has_mode(&at("a/by-serve"), 0o700);
    store(&[&"backup", &at("file"), &"--json", &"--data", &at("by-token")]).json();
    assert_eq!(store(&[&"restore", &at("file"), &at("b/restored")]).code, Some(0));
    has_mode(&at("b/restored"), 0o700);

    for (name, mode) in [("shared", 0o750), ("open", 0o755)] {
        fs::create_dir(at(name)).unwrap();
        fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
    }
    Server::start(&at("shared"), &[]).kill();
    has_mode(&at("shared"), 0o750);
    assert_eq!(store(&[&"restore", &at("file"), &at("open")]).code, Some(0));
    has_mode(&at("open"), 0o755);
    has_mode(&at("open/store"), 0o700);
}

/// A backup is written first into a file of its owner's alone. Of what has that file's name, a
/// left-over is replaced, a symbolic link is refused, and a hard link is not written through.
#[test]
fn what_a_backup_is_written_into() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    token(&at("data"), "admin");
    let backup = || store(&[&"backup", &at("file"), &"--data", &at("data")]);

    // Left over, and open to every user.
    fs::write(at("file.partial"), "old").unwrap();
    fs::set_permissions(at("file.partial"), Permissions::from_mode(0o666)).unwrap();
    assert_eq!(backup().code, Some(0));
    has_mode(&at("file"), 0o600);
    assert_eq!(names(folder.path()), ["data", "file"]);
    fs::remove_file(at("file")).unwrap();

    fs::write(at("precious"), "x").unwrap();
    symlink(at("precious"), at("file.partial")).unwrap();
    backup().refused(1, "file.partial is a link");
    assert_eq!(fs::read(at("precious")).unwrap(), b"x");
    fs::remove_file(at("file.partial")).unwrap();

    // One that was killed between its two names has left both: the good one stays.
    fs::hard_link(at("precious"), at("file.partial")).unwrap();
    assert_eq!(backup().code, Some(0));
    assert_eq!(fs::read(at("precious")).unwrap(), b"x");
    assert_eq!(names(folder.path()), ["data", "file", "precious"]);

    // What cannot be written is told with what to do.
    let nowhere = at("nowhere/file");
    store(&[&"backup", &nowhere, &"--data", &at("data")]).refused(1, "cannot create");
}
