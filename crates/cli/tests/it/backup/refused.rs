//! Backups that cannot be used, and folders that cannot be made: clear words, and nothing is made.

use std::fs;
use std::path::{Path, PathBuf};

use indelible_test_store::folder::hand_over;

use super::{names, store};
use crate::support::process::Server;

struct Place {
    folder: tempfile::TempDir,
    good: Vec<u8>,
}

impl Place {
    /// A good backup of a server with something in it.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("original");
        let server = Server::start(&data, &[]);
        server.deploy("trivial", "trivial");
        for _ in 0..3 {
            assert_eq!(server.post("/v1/call/trivial/echo", &[], "{}").status, 200);
        }
        server.kill();
        let file = folder.path().join("file");
        store(&[&"backup", &file, &"--json", &"--data", &data]).json();
        fs::remove_dir_all(data).unwrap();
        let good = fs::read(&file).unwrap();
        fs::remove_file(file).unwrap();
        Self { folder, good }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// These bytes are refused, with these words, and nothing is made.
    #[track_caller]
    fn refuses(&self, bytes: &[u8], words: &str) {
        let (file, made) = (self.at("file"), self.at("made"));
        fs::write(&file, bytes).unwrap();
        store(&[&"restore", &file, &made]).refused(1, words);
        assert_eq!(names(self.folder.path()), ["file"]);
    }
}

/// Where the frames of a backup end: as `docs/formats/backup.md` says.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![44];
    while let Some(head) = bytes.get(*ends.last().unwrap()..).filter(|rest| !rest.is_empty()) {
        let length = u32::from_be_bytes(head[9..13].try_into().unwrap()) as usize;
        ends.push(ends.last().unwrap() + 17 + length + 8);
    }
    assert_eq!(ends.last(), Some(&bytes.len()));
    ends
}

/// A backup that was cut off, at every boundary between two frames and within them, is refused.
#[test]
fn cut_off() {
    let place = Place::new();
    let ends = ends(&place.good);
    assert!(ends.len() > 15, "{ends:?}");
    for end in &ends[..ends.len() - 1] {
        place.refuses(&place.good[..*end], "it is incomplete");
    }
    for within in [1, 16, 20, 43, 45, place.good.len() / 2, place.good.len() - 1] {
        place.refuses(&place.good[..within], "it is incomplete");
    }
}

/// Flipped bits, wherever they are, frames in another order, more behind the end: refused.
#[test]
fn damaged() {
    let place = Place::new();
    let bits = place.good.len() * 8;
    for step in 0..40_usize {
        // Spread over the file, and over the bits of a byte; the first bytes say what it is.
        let bit = 20 * 8 + step * (bits - 160) / 40 + step % 8;
        let mut flipped = place.good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        place.refuses(&flipped, "damaged");
    }
    let ends = ends(&place.good);
    let part = |index: usize| &place.good[ends[index]..ends[index + 1]];
    let swapped = [&place.good[..ends[3]], part(4), part(3), &place.good[ends[5]..]].concat();
    place.refuses(&swapped, "damaged");
    place.refuses(&[&place.good[..], b"x"].concat(), "damaged");
}

/// What is no backup, or a newer one, or is not there.
#[test]
fn not_a_backup() {
    let place = Place::new();
    place.refuses(b"", "it is not a backup");
    place.refuses(b"hello", "it is not a backup");
    place.refuses(&[0; 100_000], "it is not a backup");
    let mut newer = place.good.clone();
    newer[19] = 3;
    place.refuses(&newer, "format 3");
    fs::remove_file(place.at("file")).unwrap();
    store(&[&"restore", &place.at("file"), &place.at("made")]).refused(1, "cannot open");
    store(&[&"restore", &place.folder.path(), &place.at("made")]).refused(1, "cannot be read");
    assert_eq!(names(place.folder.path()), Vec::<String>::new());
    // The file itself is fine.
    fs::write(place.at("file"), &place.good).unwrap();
    assert_eq!(store(&[&"restore", &place.at("file"), &place.at("made")]).code, Some(0));
}

/// A folder that has something in it, or is none, or is being made, stays as it is; what a restore
/// that was killed has left is no hindrance.
#[test]
fn folders_that_are_taken() {
    let place = Place::new();
    let (file, made) = (place.at("file"), place.at("made"));
    fs::write(&file, &place.good).unwrap();
    fs::create_dir(&made).unwrap();
    fs::write(made.join("precious"), "x").unwrap();
    store(&[&"restore", &file, &made]).refused(1, "not empty");
    assert_eq!(names(&made), ["precious"]);
    store(&[&"restore", &file, &file]).refused(1, "cannot list");
    store(&[&"restore", &file, &Path::new("..")]).refused(1, "..");
    assert_eq!(fs::read(&file).unwrap(), place.good);
    fs::remove_dir_all(&made).unwrap();

    // A folder of that name that no restore has made.
    let aside = place.at("made.partial");
    fs::create_dir(&aside).unwrap();
    fs::write(aside.join("precious"), "x").unwrap();
    store(&[&"restore", &file, &made]).refused(1, "already exists");
    assert_eq!(names(&aside), ["precious"]);
    fs::remove_dir_all(&aside).unwrap();
    // One that another process is making.
    fs::create_dir_all(aside.join("data/store")).unwrap();
    let marker = fs::File::create(aside.join("RESTORING")).unwrap();
    marker.lock().unwrap();
    store(&[&"restore", &file, &made]).refused(1, "another process");
    assert_eq!(names(&aside), ["RESTORING", "data"]);
    // It was killed. Closing the file alone would leave the lock to a child that another test has
    // forked and that has not yet become another program.
    marker.unlock().unwrap();
    drop(marker);
    assert_eq!(store(&[&"restore", &file, &made]).code, Some(0));
    assert_eq!(names(place.folder.path()), ["file", "made"]);
    assert_eq!(names(&made), ["store"]);
    // A second time would overwrite it.
    store(&[&"restore", &file, &made]).refused(1, "not empty");
    // Folders above it are made.
    let deep = place.at("a/b/c");
    assert_eq!(store(&[&"restore", &file, &deep]).code, Some(0));
    assert_eq!(store(&[&"check", &deep]).code, Some(0));
}

/// A store that was damaged before the backup was taken: the backup is whole, what is in it is not,
/// and the folder is made only with `--despite-problems`.
#[test]
fn a_backup_of_what_was_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let options = indelible_store::embedded::Options::default();
    let path = at("data").join("store");
    let tables = &indelible_records::TABLES;
    let damaged = indelible_store::embedded::open(&path, tables, &options).unwrap();
    let mut batch = indelible_store::Batch::new();
    batch.put(indelible_records::SETTINGS, &b"no seal"[..], &b"nothing"[..]);
    damaged.submit_blocking(batch).unwrap();
    hand_over(damaged, &path);
    assert_eq!(store(&[&"check", &at("data")]).code, Some(1));
    store(&[&"backup", &at("file"), &"--json", &"--data", &at("data")]).json();
    let restore = |arguments: &[&dyn AsRef<std::ffi::OsStr>]| {
        let (file, made) = (at("file"), at("made"));
        let all: [&dyn AsRef<std::ffi::OsStr>; 3] = [&"restore", &file, &made];
        store(&[&all[..], arguments].concat())
    };
    restore(&[]).refused(1, "its contents are inconsistent (1 problem)");
    assert_eq!(names(folder.path()), ["data", "file"]);
    let made = restore(&[&"--despite-problems", &"--json"]).json();
    assert_eq!((&made["problems_count"], &made["rows"]), (&1.into(), &1.into()));
    assert_eq!(store(&[&"check", &at("made")]).code, Some(1));
}
