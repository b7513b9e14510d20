//! Damage: flipped bits anywhere in a data folder are found and told, never served.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the test breaks files")]

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::thread;

use indelible_records::check;
use indelible_records::components;
use indelible_records::executions::Standing;
use indelible_store::embedded::{self, Create, Options};
use indelible_store::{Batch, Row, Scan, Store};

use indelible_test_store::rows::{Run, at, key};
use indelible_test_support::Prng;

fn options() -> Options {
    let mut options = Options::default();
    options.create = Create::No;
    options
}

/// A folder with tables in several levels, and a journal that is not flushed.
fn make(folder: &Path) -> Vec<(&'static str, Row)> {
    let mut options = Options::default();
    options.memtable_bytes = Some(32 << 10);
    let store = embedded::open(folder, &indelible_records::TABLES, &options).unwrap();
    for tree in 0..300 {
        let mut run = Run::start(tree, &key(tree, &[], &[1]), "order", at(10));
        run.submit(&store);
        run.work(at(20), 3);
        if tree % 3 > 0 {
            run.end(at(30), Standing::Completed);
        }
        run.submit(&store);
    }
    store.close().unwrap();
    let store = embedded::open(folder, &indelible_records::TABLES, &options).unwrap();
    let mut batch = Batch::new();
    components::put(&mut batch, &[7; 10_000]);
    Run::start(999, &key(999, &[], &[1]), "order", at(10)).flush(&mut batch);
    let position = store.submit_blocking(batch).unwrap();
    store.durable(position).wait().unwrap();
    all_rows(&store).unwrap()
    // Dropped, not closed: the last batch is in the journal alone.
}

fn all_rows(store: &Store) -> Result<Vec<(&'static str, Row)>, String> {
    let snapshot = store.snapshot().map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for table in store.tables() {
        let page = snapshot.scan(&Scan::all(*table, 10_000)).map_err(|error| error.to_string())?;
        rows.extend(page.value.rows.into_iter().map(|row| (table.name(), row)));
    }
    Ok(rows)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with("LOCK") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let at = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &at);
        } else if path.extension().is_some_and(|extension| extension == "jnl") {
            // As long as what is written: the rest is zeros.
            let mut content = fs::read(&path).unwrap();
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            content.truncate(end);
            fs::write(at, content).unwrap();
        } else {
            fs::copy(&path, at).unwrap();
        }
    }
}

/// Whatever bit is flipped in whatever file: either it is told, or everything reads as it was
/// written. Nothing is lost in silence, and nothing wrong is shown.
#[test]
fn flipped_bits_are_never_served() {
    let flips = std::env::var("INDELIBLE_FLIPS").map_or(120, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (whole, broken) = (folder.path().join("whole"), folder.path().join("broken"));
    let live = folder.path().join("live");
    let expected = make(&live);
    copy(&live, &whole);
    let files = files(&whole);
    let mut numbers = Prng::new(5);
    let (mut told_at_open, mut told_at_read, mut harmless) = (0, 0, 0);
    // The engine may panic over damage; that is caught, and its words are not this test's. Other
    // tests panic in threads of their own.
    let own = thread::current().id();
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() != own {
            others(info);
        }
    }));
    let mut failure = None;
    for flip in 0..flips {
        _ = fs::remove_dir_all(&broken);
        copy(&whole, &broken);
        let file = &files[flip as usize % files.len()];
        let name = file.strip_prefix(&whole).unwrap();
        let path = broken.join(name);
        let mut content = fs::read(&path).unwrap();
        if content.is_empty() {
            continue;
        }
        let bit = numbers.below(content.len() as u64 * 8) as usize;
        content[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &content).unwrap();
        let Ok(store) = embedded::open(&broken, &indelible_records::TABLES, &options()) else {
            told_at_open += 1;
            continue;
        };
        match all_rows(&store) {
            Err(_) => {
                told_at_read += 1;
                if store.damage().places() == 0 {
                    failure = Some(format!("bit {bit} of {} is not noted", name.display()));
                }
                let findings = check::check(&store, &mut |_| {});
                if findings.is_ok_and(|findings| findings.problems.is_empty()) {
                    failure = Some(format!("the check missed bit {bit} of {}", name.display()));
                }
            }
            Ok(rows) if rows == expected => harmless += 1,
            Ok(rows) => {
                let (got, wanted) = (rows.len(), expected.len());
                let text = format!("bit {bit} of {}: {got} rows, not {wanted}", name.display());
                failure = Some(text);
            }
        }
        if failure.is_some() {
            break;
        }
    }
    assert_eq!(failure, None);
    // Most of a folder is data: a test that told nothing would have looked nowhere.
    assert!(told_at_open > flips / 20, "{told_at_open} {told_at_read} {harmless}");
    assert!(told_at_read > flips / 20, "{told_at_open} {told_at_read} {harmless}");
}
