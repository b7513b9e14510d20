//! Scenarios that a person can read: `scenarios/*.txt` hold commands, the journal they write, and
//! what a guest meets on replay. `cargo xtask fix --scenarios` rewrites what is expected.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "the scenarios are files")]

use std::path::{Path, PathBuf};
use std::{env, fs};

use indelible_journal::{Entry, Journal, Record, Status, binary, json};

use crate::script::{Attempt, run};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// J-86, J-87, J-88, C-22, C-32, C-37: the golden journals validate, fold to the printed status
/// after each entry, and replay; so do approval with a time-out, compensation under cancel, and a
/// retried function.
#[test]
fn scenario_transcripts_are_rewritable() {
    let files = files();
    assert!(files.len() >= 6, "{files:?}");
    let rewrite = env::var_os("INDELIBLE_REWRITE").is_some();
    let mut differ = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let written = run(&text).text;
        if rewrite {
            fs::write(&path, &written).unwrap();
        } else if written != text {
            differ.push(format!("{}:\n{written}", path.display()));
        }
    }
    assert!(
        differ.is_empty(),
        "{}\nhint: `cargo xtask fix --scenarios` rewrites what is expected",
        differ.join("\n")
    );
}

fn attempts() -> Vec<Attempt> {
    files().iter().flat_map(|path| run(&fs::read_to_string(path).unwrap()).attempts).collect()
}

/// J-7, J-56, J-81: what is derived from the events is what was derived while they were written,
/// through the stored form and through the export.
#[test]
fn scenarios_survive_storage_and_export() {
    for Attempt { journal, entries } in attempts() {
        let key = journal.key();
        let events = entries.iter().map(Entry::event);
        assert_eq!(journal.status().cloned(), Status::fold(events));

        // As many commits as there are events, and all in one.
        for size in [1, entries.len()] {
            let rows = entries.chunks(size).map(|batch| {
                binary::encode(key.execution_id(), batch).expect("accepted entries can be stored")
            });
            let records: Vec<Record> = rows
                .flat_map(|row| binary::decode(key.execution_id(), row.into()).unwrap())
                .collect();
            assert_eq!(Journal::recover(key.clone(), records).as_ref(), Ok(&journal));
        }

        let records = entries.iter().map(|entry| {
            let mut line = Vec::new();
            json::write_line(key, entry.as_record(), &mut line);
            let line = String::from_utf8(line).unwrap();
            let (parsed, record) = json::parse_line(line.trim_end()).unwrap();
            assert_eq!(parsed, *key);
            record
        });
        assert_eq!(Journal::recover(key.clone(), records).as_ref(), Ok(&journal));
    }
}
