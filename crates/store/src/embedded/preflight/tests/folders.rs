//! Files that are missing or changed beside the journals.

use super::*;
use crate::embedded::preflight::Stage;

/// A folder with some tables, in the list of keyspaces and in a keyspace.
fn flushed() -> Folder {
    let folder = Folder::new();
    let (database, rows) = open(folder.path());
    commit(&database, &rows, &[(b"a", b"1")]);
    rows.rotate_memtable_and_wait().unwrap();
    commit(&database, &rows, &[(b"b", b"2")]);
    drop((database, rows));
    assert_eq!(folder.examine().unwrap().torn, None);
    folder
}

fn current_version(keyspace: &Path) -> PathBuf {
    let current = fs::read(keyspace.join("current")).unwrap();
    keyspace.join(format!("v{}", u64::from_le_bytes(*current.first_chunk().unwrap())))
}

fn tables(keyspace: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(keyspace.join("tables")).unwrap();
    let tables: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(!tables.is_empty());
    tables
}

/// Takes a file away, and looks.
#[track_caller]
fn without(folder: &Folder, path: &Path) -> Damage {
    let aside = folder.path().join("aside");
    fs::rename(path, &aside).unwrap();
    let found = damage(folder.examine());
    fs::rename(&aside, path).unwrap();
    folder.examine().unwrap();
    found
}

#[test]
fn what_is_missing() {
    let folder = flushed();
    let keyspaces = folder.path().join("keyspaces");
    without(&folder, &folder.journal());
    without(&folder, &folder.path().join("version"));
    assert_eq!(without(&folder, &keyspaces).path, keyspaces);
    for id in ["0", "1"] {
        let keyspace = keyspaces.join(id);
        assert_eq!(without(&folder, &keyspace).path, keyspace);
        let current = keyspace.join("current");
        assert_eq!(without(&folder, &current).path, current);
        let version = current_version(&keyspace);
        assert_eq!(without(&folder, &version).path, version);
        for table in tables(&keyspace) {
            assert_eq!(without(&folder, &table).path, table);
        }
        assert!(without(&folder, &keyspace.join("tables")).path.starts_with(&keyspace));
    }
}

/// The list of keyspaces is missing where nothing else tells that there were any.
#[test]
fn the_list_of_keyspaces() {
    // No commit yet, but a keyspace.
    let folder = Folder::new();
    let keyspaces = folder.path().join("keyspaces");
    let list = keyspaces.join("0");
    assert_eq!(without(&folder, &list).path, list);
    let marker = folder.path().join("version");
    assert_eq!(without(&folder, &marker).path, marker);

    // No keyspace, but not the first journal either.
    let empty = || {
        fs::remove_dir_all(&keyspaces).unwrap();
        fs::create_dir(&keyspaces).unwrap();
    };
    empty();
    folder.examine().unwrap();
    let later = folder.path().join("3.jnl");
    fs::rename(folder.journal(), &later).unwrap();
    assert_eq!(damage(folder.examine()).path, list);

    // The same without the marker; and the first journal, but with a batch.
    fs::remove_file(&marker).unwrap();
    assert_eq!(damage(folder.examine()).path, marker);
    fs::rename(&later, folder.journal()).unwrap();
    assert_eq!(folder.examine().unwrap().stage, Stage::Unfinished);
    assert_eq!(folder.damage(&batch(5, &[(b"a", b"1")])).path, marker);
}

/// Every bit of the small files, each of which says what is there.
#[test]
fn what_is_changed() {
    let folder = flushed();
    let keyspaces = folder.path().join("keyspaces");
    let mut files = vec![folder.path().join("version")];
    for id in ["0", "1"] {
        files.push(keyspaces.join(id).join("current"));
        files.push(current_version(&keyspaces.join(id)));
    }
    files.extend(tables(&keyspaces.join("0")));
    for path in files {
        let mut bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            damage(folder.examine());
            bytes[at] ^= 1 << (at % 8);
        }
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        damage(folder.examine());
        fs::write(&path, &bytes).unwrap();
        folder.examine().unwrap();
    }
}

/// What a crash leaves in the middle of making a keyspace is no damage, and fjall opens it.
#[test]
fn a_keyspace_that_was_never_finished() {
    let folder = flushed();
    let unfinished = folder.path().join("keyspaces/7");
    fs::create_dir_all(unfinished.join("tables")).unwrap();
    folder.examine().unwrap();
    fs::write(unfinished.join("v0"), b"par").unwrap();
    folder.examine().unwrap();
    fs::write(unfinished.join("v3"), b"").unwrap();
    damage(folder.examine());
    fs::remove_file(unfinished.join("v3")).unwrap();
    fs::write(unfinished.join("tables/0"), b"").unwrap();
    damage(folder.examine());
    fs::remove_file(unfinished.join("tables/0")).unwrap();
    folder.examine().unwrap();
    assert_eq!(open(folder.path()).1.len().unwrap(), 2);
}

/// Names that fjall would panic at, or that hide a journal.
#[test]
fn strange_names() {
    for name in ["x.jnl", "00.jnl", "1.JNL", "keyspaces/x"] {
        let folder = flushed();
        let path = folder.path().join(name);
        if name.starts_with("keyspaces") {
            fs::create_dir(&path).unwrap();
        } else {
            fs::write(&path, b"").unwrap();
        }
        assert_eq!(damage(folder.examine()).path, path);
    }
}

/// A first start that was interrupted, at each of its steps.
#[test]
fn a_first_start_that_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let stage = |expected| {
        let report = examine(path).unwrap();
        assert_eq!((report.stage, report.torn), (expected, None));
    };
    assert_eq!(examine(&path.join("not there")).unwrap().stage, Stage::Absent);
    stage(Stage::Absent);
    fs::write(path.join("lock"), b"").unwrap();
    fs::create_dir(path.join("keyspaces")).unwrap();
    stage(Stage::Absent);
    fs::write(path.join("0.jnl"), b"").unwrap();
    stage(Stage::Unfinished);
    assert!(Database::builder(path).open().is_err(), "the engine does not mend it by itself");
    fs::write(path.join("0.jnl"), [0; 4096]).unwrap();
    fs::write(path.join("version"), b"").unwrap();
    stage(Stage::Unfinished);
    assert!(Database::builder(path).open().is_err(), "the engine does not mend it by itself");

    fs::write(path.join("0.jnl"), [0; 4096]).unwrap();
    fs::write(path.join("version"), b"FJL\x03").unwrap();
    stage(Stage::Created);
    fs::create_dir_all(path.join("keyspaces/0/tables")).unwrap();
    stage(Stage::Created);
    let (database, rows) = open(path);
    commit(&database, &rows, &[(b"a", b"1")]);
    drop((database, rows));
    stage(Stage::Created);
    assert_eq!(batches(&examine(path).unwrap()), 1);
}
