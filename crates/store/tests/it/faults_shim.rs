//! That the shim sees what a program does, however it does it, and that the model of power loss
//! draws the disks it says it draws.
//!
//! The program under test is this one, run again under the shim with `FAULTS_SUBJECT` set.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot run its subject has failed")]
#![allow(clippy::disallowed_methods, reason = "a test of the disk touches the disk")]

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, IoSlice, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::faults::power::Mode;
use crate::faults::record::Record;
use crate::faults::{Faults, scratch};

/// Runs the subject `name` below in `folder/root`.
fn subject(faults: &Faults, name: &str, folder: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("faults_shim::{name}");
    command.args(["--exact", &name, "--nocapture"]).env("FAULTS_SUBJECT", folder);
    faults.run(&mut command)
}

/// Where a subject shall work, when it is run as one.
fn as_subject() -> Option<PathBuf> {
    std::env::var_os("FAULTS_SUBJECT").map(PathBuf::from)
}

fn recorded(name: &str, folder: &Path) -> Record {
    let (root, file, acks) = (folder.join("root"), folder.join("record"), folder.join("acks"));
    let run = subject(&Faults::new(&root).record(&file).acks(&acks), name, folder);
    assert!(run.status.success(), "{run:?}");
    Record::load(&file)
}

#[test]
fn subject_that_does_everything() {
    let Some(folder) = as_subject() else { return };
    let root = folder.join("root");
    let mut file = File::create(root.join("plain")).unwrap();
    file.write_all(b"first").unwrap();
    file.seek(SeekFrom::Start(9000)).unwrap();
    let parts = [IoSlice::new(b"one "), IoSlice::new(b"two")];
    assert_eq!(file.write_vectored(&parts).unwrap(), 7);
    file.write_all_at(b"middle", 4090).unwrap();
    file.set_len(9005).unwrap();
    let mut more = OpenOptions::new().append(true).open(root.join("plain")).unwrap();
    more.write_all(b"end").unwrap();
    // The same by a system call that no symbol stands for, as the engine's own renames.
    rustix::fs::rename(root.join("plain"), root.join("renamed")).unwrap();
    file.write_all_at(b"after", 1).unwrap();

    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/file"), vec![7; 100_000]).unwrap();
    fs::write(root.join("a/b/file"), b"truncated").unwrap();
    fs::hard_link(root.join("a/b/file"), root.join("a/linked")).unwrap();
    fs::rename(root.join("a/b"), root.join("c")).unwrap();
    fs::copy(root.join("renamed"), root.join("copied")).unwrap();
    fs::write(root.join("gone"), b"gone").unwrap();
    fs::remove_file(root.join("gone")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::remove_dir(root.join("empty")).unwrap();
    let named = tempfile::NamedTempFile::new_in(&root).unwrap();
    named.persist(root.join("persisted")).unwrap();
    let outside = File::create(folder.join("outside")).unwrap();
    drop(outside);
    let moved = fs::rename(folder.join("outside"), root.join("inside")).unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::CrossesDevices);

    let threads = ["x", "y", "z"].map(|name| {
        let path = root.join(name);
        std::thread::spawn(move || {
            let mut file = File::create(path).unwrap();
            for i in 0..200u32 {
                file.write_all(&i.to_le_bytes()).unwrap();
            }
            file.sync_all().unwrap();
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn the_record_holds_whatever_a_program_does() {
    let folder = scratch();
    let record = recorded("subject_that_does_everything", folder.path());
    let (root, again) = (folder.path().join("root"), folder.path().join("again"));
    record.materialize(record.len(), 0, Mode::KILLED, &again);
    assert_eq!(crate::faults::contents(&root), crate::faults::contents(&again));
    assert_eq!(crate::faults::contents(&again).len(), 8);
    let syncs: BTreeSet<&str> = record.syncs().iter().map(|sync| &*sync.path).collect();
    assert_eq!(syncs, ["x", "y", "z"].into());
}

#[test]
fn a_run_on_what_was_there_is_recorded_with_it() {
    let folder = scratch();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("old/er")).unwrap();
    let sparse = File::create(root.join("old/er/sparse")).unwrap();
    sparse.write_all_at(b"in the middle", 3 << 20).unwrap();
    sparse.set_len(64 << 20).unwrap();
    let record = recorded("subject_that_does_everything", folder.path());
    for (k, mode) in [(record.start(), Mode::HARSH), (record.len(), Mode::ORDERED)] {
        let again = folder.path().join(format!("again-{k}"));
        record.materialize(k, 3, mode, &again);
        let path = again.join("old/er/sparse");
        assert_eq!(fs::read(root.join("old/er/sparse")).unwrap(), fs::read(path).unwrap());
    }
}

/// A file that is replaced the right way, then one that is not, with a promise after each.
#[test]
fn subject_that_replaces_a_file() {
    let Some(folder) = as_subject() else { return };
    let root = folder.join("root");
    let mut acks = OpenOptions::new().append(true).open(folder.join("acks")).unwrap();
    let sync_folder = || File::open(&root).unwrap().sync_all().unwrap();
    for (name, byte) in [("current", 1), ("new", 2)] {
        let mut file = File::create(root.join(name)).unwrap();
        file.write_all(&[byte; 10_000]).unwrap();
        file.sync_data().unwrap();
    }
    sync_folder();
    acks.write_all(b"old").unwrap();
    fs::rename(root.join("new"), root.join("current")).unwrap();
    sync_folder();
    acks.write_all(b"new").unwrap();
    let mut file = OpenOptions::new().write(true).open(root.join("current")).unwrap();
    file.write_all(&[3; 10_000]).unwrap();
    fs::remove_file(root.join("current")).unwrap();
}

#[test]
fn power_losses_are_all_that_they_may_be() {
    let folder = scratch();
    let record = recorded("subject_that_replaces_a_file", folder.path());
    assert_eq!(record.acks_before(record.len()), [b"old", b"new"]);
    let position = |words: &str| {
        (0..record.len()).find(|&i| record.words(i) == words).expect("it was recorded")
    };
    let drawn = |k: usize, mode: Mode| -> BTreeSet<Option<Vec<u8>>> {
        let drawn = (0..80).map(|seed| {
            let disk = folder.path().join("disk");
            record.materialize(k, seed, mode, &disk);
            let content = fs::read(disk.join("current")).ok();
            fs::remove_dir_all(&disk).unwrap();
            content
        });
        drawn.collect()
    };
    let whole = |byte: u8| Some(vec![byte; 10_000]);
    let renamed = position("rename new -> current");
    // Synced and named: certain.
    assert_eq!(drawn(renamed, Mode::HARSH), [whole(1)].into());
    // A rename is done or not.
    assert_eq!(drawn(renamed + 1, Mode::HARSH), [whole(1), whole(2)].into());
    assert_eq!(drawn(renamed + 1, Mode::ORDERED), [whole(1), whole(2)].into());
    // A sync of the folder that is under way has not happened; one that has ended has.
    let synced = renamed + 3;
    assert_eq!(record.words(synced - 1), format!("sync . done (since {})", renamed + 1));
    assert_eq!(drawn(synced - 1, Mode::HARSH).len(), 2);
    assert_eq!(drawn(synced, Mode::HARSH), [whole(2)].into());
    // Each of three pages by itself, two whole and a part.
    let written = position("write current at 0 +10000") + 1;
    let pages = drawn(record.len() - 1, Mode::ORDERED);
    assert!(written < record.len() && pages.len() == 8, "{} of 8", pages.len());
    assert!(pages.contains(&whole(2)) && pages.contains(&whole(3)));
    assert!(drawn(record.len() - 1, Mode::ORDERED.sectors()).len() > 30);
    // Its name is gone or not.
    assert!(drawn(record.len(), Mode::ORDERED).contains(&None));
    // Before anything was synced, neither name nor length nor content is certain.
    let first = drawn(position("sync current ...") + 1, Mode::HARSH);
    assert!(first.contains(&None) && first.contains(&Some(vec![])));
    assert!(first.contains(&Some(vec![0; 10_000])) && first.contains(&whole(1)));
}

#[test]
fn subject_that_meets_faults() {
    let Some(folder) = as_subject() else { return };
    let mut file = File::create(folder.join("root/file.jnl")).unwrap();
    let mut other = File::create(folder.join("root/other")).unwrap();
    let mut said = Vec::new();
    for _ in 0..4 {
        other.write_all(&[1; 100]).unwrap();
        let written = file.write(&[1; 100]).map_err(|e| e.kind());
        let synced = file.sync_data().map_err(|e| e.raw_os_error().unwrap_or(0));
        said.push(format!("{written:?} {synced:?}"));
    }
    said.push(format!("{:?}", file.set_len(1000).map_err(|e| e.kind())));
    File::create(folder.join("free")).unwrap();
    said.push(format!("{:?}", file.write(&[1; 100]).map_err(|e| e.kind())));
    fs::write(folder.join("said"), said.join("\n")).unwrap();
}

fn said(faults: impl Fn(Faults, &Path) -> Faults) -> String {
    let folder = scratch();
    let faults = faults(Faults::new(&folder.path().join("root")), folder.path());
    let run = subject(&faults, "subject_that_meets_faults", folder.path());
    assert!(run.status.success(), "{run:?}");
    fs::read_to_string(folder.path().join("said")).unwrap()
}

#[test]
fn faults_come_when_they_are_due() {
    let full =
        said(|faults, folder| faults.name(".jnl").disk_bytes(250).disk_free(&folder.join("free")));
    assert_eq!(
        full.lines().collect::<Vec<_>>(),
        [
            "Ok(100) Ok(())",
            "Ok(100) Ok(())",
            "Ok(50) Ok(())",
            "Err(StorageFull) Ok(())",
            "Err(StorageFull)",
            "Ok(100)",
        ]
    );
    let sync = said(|faults, _| faults.sync_fails_at(3).sync_delay_us(10));
    assert_eq!(sync.lines().nth(1), Some("Ok(100) Ok(())"));
    assert_eq!(sync.lines().nth(2), Some("Ok(100) Err(5)"));
    assert_eq!(sync.lines().nth(3), Some("Ok(100) Ok(())"));
    let write = said(|faults, _| faults.name(".jnl").write_fails_at(2));
    assert_eq!(write.lines().next(), Some("Ok(100) Ok(())"));
    assert_eq!(write.lines().nth(1), Some("Err(Uncategorized) Ok(())"));
    assert_eq!(write.lines().nth(2), Some("Ok(100) Ok(())"));
}
