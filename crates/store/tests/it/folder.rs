//! Data folders that cannot be opened, each with a clear error, and unchanged: in use, not ours,
//! newer, damaged, half made, without permission.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the test makes and breaks folders")]

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use indelible_store::embedded::{self, Create, FolderError, OpenError, Options};
use indelible_store::{Batch, Store};

use indelible_test_store::folder::reopen;
use indelible_test_store::rows::{LOG, log_tables};
use indelible_test_support::example;

/// Whether or not a process has it.
fn open_at_once(folder: &Path) -> Result<Store, OpenError> {
    embedded::open(folder, &log_tables(), &Options::default())
}

fn open(folder: &Path) -> Result<Store, OpenError> {
    reopen(|| open_at_once(folder))
}

fn open_existing(folder: &Path) -> Result<Store, OpenError> {
    let mut options = Options::default();
    options.create = Create::No;
    reopen(|| embedded::open(folder, &log_tables(), &options))
}

/// A folder with one row in it.
fn make(folder: &Path) {
    let store = open(folder).unwrap();
    let mut batch = Batch::new();
    batch.put(LOG, "key", "value");
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    store.close().unwrap();
}

fn assert_whole(folder: &Path) {
    let store = open_existing(folder).unwrap();
    assert_eq!(store.get(LOG, b"key").unwrap().value.unwrap().as_ref(), b"value");
    assert_eq!(store.durable_now().number(), 1);
}

/// All files below a folder, with what is in them.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if !path.ends_with("LOCK") {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// A folder has one user at a time, and the other is named; when it is gone, however it went, the
/// folder opens.
#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut child = Command::new(example("committer"))
        .arg(&data)
        .args(["1", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let error = open_at_once(&data).unwrap_err();
    assert!(matches!(error, OpenError::Folder(FolderError::InUse { .. })), "{error}");
    let named = format!("is in use by process {}", child.id());
    assert!(error.to_string().ends_with(&named), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    let store = open(&data).unwrap();
    // The same holds within a process.
    let error = open_at_once(&data).unwrap_err();
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(store);
    open(&data).unwrap();
}

/// A folder from a newer version is refused, and stays as it is.
#[test]
fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let file = folder.path().join("FORMAT");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "indelible store\nformat 2\nengine fjall 3\nstate ready\n");
    // Whatever else a newer version writes there.
    fs::write(&file, "indelible store\nformat 3\nsomething else\n").unwrap();
    let before = contents(folder.path());
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Folder(FolderError::Newer { found: 3, .. })), "{error}");
    assert_eq!(contents(folder.path()), before);
    for damaged in [
        "",
        "nonsense\n",
        "indelible store\n",
        "indelible store\nformat 2\n",
        "indelible store\nformat 2\nengine other\nstate ready\n",
    ] {
        fs::write(&file, damaged).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert!(matches!(error, OpenError::Folder(FolderError::Format { .. })), "{error}");
    }
    fs::write(&file, text).unwrap();
    assert_whole(folder.path());
}

/// A folder with something else in it is not touched; an empty one is taken; one that is not there
/// is made, or, if that is not wanted, missed.
#[test]
fn only_empty_folders_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("photo.jpg"), "pixels").unwrap();
    let before = contents(&foreign);
    for result in [open(&foreign), open_existing(&foreign)] {
        let error = result.unwrap_err();
        assert!(matches!(error, OpenError::Folder(FolderError::NotAStore { .. })), "{error}");
    }
    assert_eq!(contents(&foreign), before);
    let missing = folder.path().join("missing");
    let error = open_existing(&missing).unwrap_err();
    assert!(matches!(error, OpenError::Folder(FolderError::Missing { .. })), "{error}");
    assert!(!missing.exists());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(open(&file).is_err());
    make(&folder.path().join("a/b/c"));
    assert_whole(&folder.path().join("a/b/c"));
}

/// A creation that was interrupted anywhere is finished by the next opening.
#[test]
fn a_half_made_folder_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    make(&whole);
    let creating = "indelible store\nformat 2\nengine fjall 3\nstate creating\n";
    // What is there when the creation stops after each of its steps.
    let steps: [&dyn Fn(&Path); 5] = [
        &|data| fs::write(data.join("FORMAT.new"), "indel").unwrap(),
        &|data| fs::write(data.join("FORMAT"), creating).unwrap(),
        &|data| {
            fs::write(data.join("FORMAT"), creating).unwrap();
            fs::create_dir(data.join("engine.new")).unwrap();
            fs::write(data.join("engine.new/0.jnl"), "").unwrap();
        },
        &|data| {
            fs::write(data.join("FORMAT"), creating).unwrap();
            fs::create_dir(data.join("engine")).unwrap();
            fs::write(data.join("engine/0.jnl"), "").unwrap();
        },
        &|data| {
            fs::write(data.join("FORMAT"), creating).unwrap();
            fs::write(data.join("FORMAT.new"), "indelible store\n").unwrap();
        },
    ];
    for (number, step) in steps.iter().enumerate() {
        let data = folder.path().join(number.to_string());
        fs::create_dir(&data).unwrap();
        step(&data);
        make(&data);
        assert_whole(&data);
    }
}

/// Where a part of a whole folder is gone, it is not made anew: that would be an empty store.
#[test]
fn a_missing_part_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    make(&data);
    let engine = data.join("engine");
    let mut parts = vec![
        engine.clone(),
        engine.join("keyspaces"),
        engine.join("0.jnl"),
        engine.join("version"),
    ];
    for keyspace in fs::read_dir(engine.join("keyspaces")).unwrap() {
        let keyspace = keyspace.unwrap().path();
        // Without rows it may be one whose making was interrupted: nothing is lost with it.
        if fs::read_dir(keyspace.join("tables")).unwrap().next().is_some() {
            parts.push(keyspace.join("current"));
            parts.push(keyspace);
        }
    }
    let aside = folder.path().join("aside");
    let mut broken = 0;
    for part in parts {
        assert!(part.exists(), "{}", part.display());
        fs::rename(&part, &aside).unwrap();
        match open(&data) {
            Ok(_) => panic!("opened without {}", part.display()),
            Err(
                OpenError::Damaged { .. } | OpenError::Folder(FolderError::BackendMissing { .. }),
            ) => {
                broken += 1;
            }
            Err(error) => panic!("{}: {error}", part.display()),
        }
        if part.exists() {
            panic!("{} was made anew", part.display());
        }
        fs::rename(&aside, &part).unwrap();
    }
    assert!(broken >= 8, "{broken}");
    assert_whole(&data);
}

/// A folder that this user may not write to is refused with a word on why. Run as another user
/// where this one may write everywhere.
#[test]
fn a_folder_without_permission_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    make(&data);
    let program = folder.path().join("committer");
    fs::copy(example("committer"), &program).unwrap();
    for path in [folder.path(), &data, &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let mut command = Command::new(&program);
    command.arg(&data).args(["1", "1"]);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    // A child that another test starts has the copy open for writing until it is another program.
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            output => break output.unwrap(),
        }
    };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("PermissionDenied") && said.contains("LOCK"), "{said}");
    assert_whole(&data);
}

/// Tables that a later version adds come to a folder that is there; rows of tables that are not
/// asked for stay.
#[test]
fn tables_come_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store =
        embedded::open(folder.path(), &indelible_records::TABLES, &Options::default()).unwrap();
    store.close().unwrap();
    make(folder.path());
    let fewer = || embedded::open(folder.path(), &indelible_records::TABLES, &Options::default());
    drop(reopen(fewer).unwrap());
    assert_whole(folder.path());
}
