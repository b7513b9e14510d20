//! What a committer process printed before it ended, and whether the folder it left agrees with
//! that.
#![allow(clippy::unwrap_used, reason = "a test helper: a panic is how a test fails")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use indelible_records::{check, executions};
use indelible_store::embedded::{self, EmbeddedBackend, Options, Recovered};
use indelible_store::{Scan, Store, Table};

use crate::folder::reopen;
use crate::rows::{LOG, log_key, log_tables, read_log_key, read_log_value};
use crate::work::{Book, Rows, Work};

/// What committers said of one folder, one after the other.
#[derive(Clone, Default)]
pub struct CommitterLog {
    /// For each position, the thread and the number of its batch.
    accepted: BTreeMap<u64, (u64, u64)>,
    /// Batches that a committer had accepted, but that were not durable when it ended and are lost.
    gone: Vec<(u64, u64)>,
    /// Up to here everything is durable.
    pub durable: u64,
}

impl CommitterLog {
    /// One line of a committer.
    pub fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().unwrap();
        match words[..] {
            ["opened", position] => self.opened(number(position)),
            ["accepted", position, thread, n] => {
                let before = self.accepted.insert(number(position), (number(thread), number(n)));
                assert_eq!(before, None, "{line:?} was given twice");
            }
            ["durable", position] => self.durable = self.durable.max(number(position)),
            _ => panic!("{line:?}"),
        }
    }

    /// All that a committer said.
    pub fn lines(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }

    /// The folder was opened at a position: batches accepted beyond it are lost.
    pub fn opened(&mut self, position: u64) {
        assert!(position >= self.durable, "{} was durable; {position} is left", self.durable);
        let gone = self.accepted.split_off(&(position + 1));
        self.gone.extend(gone.into_values());
        self.durable = position;
    }

    /// Everything durable is there and whole, the store holds a prefix of what was accepted, and
    /// its rows agree with each other. Returns the position.
    pub fn verify(&self, store: &Store) -> Result<u64, String> {
        let position = store.durable_now().number();
        if position < self.durable {
            return Err(format!("lost: {} was durable; {position} is left", self.durable));
        }
        for (at, (thread, number)) in &self.accepted {
            let row = store.get(LOG, &log_key(*thread, *number)).map_err(words)?.value;
            // Everything up to the position, nothing behind it.
            if row.is_some() != (*at <= position) {
                let there = if row.is_some() { "there" } else { "missing" };
                return Err(format!("mixed: batch {at} is {there}, at position {position}"));
            }
            let Some(row) = row else { continue };
            let (key, length) = read_log_value(&row);
            let execution = executions::get(store, &key).map_err(words)?.value;
            if execution.is_none_or(|execution| execution.length < length) {
                return Err(format!("mixed: batch {at} is not whole, at position {position}"));
            }
        }
        for (thread, number) in &self.gone {
            if store.get(LOG, &log_key(*thread, *number)).map_err(words)?.value.is_some() {
                return Err(format!("mixed: batch {number} of {thread} has come back"));
            }
        }
        let rows = table_rows(store, LOG)?.len() as u64;
        if rows != position {
            return Err(format!("mixed: {rows} batches are there, at position {position}"));
        }
        let findings = check::check(store, &mut |_| {}).map_err(words)?;
        if findings.problems_count > 0 {
            return Err(format!("damaged: {:?}", findings.problems));
        }
        Ok(position)
    }
}

fn words(error: impl std::fmt::Display) -> String {
    format!("unreadable: {error}")
}

fn table_rows(store: &Store, table: Table) -> Result<Rows, String> {
    let snapshot = store.snapshot().map_err(words)?;
    let mut rows = Rows::new();
    let mut scan = Scan::all(table, 10_000);
    loop {
        let page = snapshot.scan(&scan).map_err(words)?.value;
        let last = page.rows.last().map(|(key, _)| key.clone());
        rows.extend(page.rows.into_iter().map(|(key, value)| ((table.name(), key), value)));
        match last {
            Some(key) if page.more => scan = scan.after(key),
            _ => return Ok(rows),
        }
    }
}

/// Every table has exactly the rows that the batches up to the position leave.
fn compare(store: &Store, book: &Book) -> Result<(), String> {
    let tables = log_tables();
    let mut counts = BTreeMap::<u64, u64>::new();
    for (_, key) in table_rows(store, LOG)?.into_keys() {
        let (thread, number) = read_log_key(&key);
        let count = counts.entry(thread).or_default();
        if number != *count {
            return Err(format!("mixed: batch {count} of {thread} is missing, {number} is there"));
        }
        *count += 1;
    }
    let mut expected = book.rows(&tables, &counts);
    for table in tables {
        for (row, value) in table_rows(store, table)? {
            match expected.remove(&row) {
                None => return Err(format!("mixed: {row:?} should not be there")),
                Some(other) if other != value => {
                    return Err(format!("mixed: {row:?} has another value"));
                }
                Some(_) => {}
            }
        }
    }
    match expected.into_keys().next() {
        None => Ok(()),
        Some(row) => Err(format!("mixed: {row:?} is missing")),
    }
}

/// How a folder was found.
#[derive(Debug)]
pub struct FolderState {
    /// The last commit that is there.
    pub position: u64,
    /// The torn end that recovery cut off, if any.
    pub torn: Option<Recovered>,
}

/// The round of the batches that [`judge`] adds; no committer has it.
const AFTERWARDS: u64 = 1 << 40;

/// Opens a folder after its committer ended, verifies it, commits a batch, closes and opens it once
/// more, and verifies it again.
pub fn judge(data: &Path, said: &CommitterLog, book: &Book) -> Result<FolderState, String> {
    let judged = || -> Result<FolderState, String> {
        let refused = |error: &dyn std::fmt::Display| format!("refused: {error}");
        let options = small_options();
        let tables = log_tables();
        let engine =
            reopen(|| EmbeddedBackend::open(data, &tables, &options)).map_err(|e| refused(&e))?;
        let torn = engine.recovered().cloned();
        let store = Store::start(Arc::new(engine), &tables, options.bounds);
        let store = store.map_err(|e| refused(&e))?;
        let mut said = said.clone();
        let position = said.verify(&store)?;
        compare(&store, book)?;
        said.opened(position);

        let mut work = Work::new(AFTERWARDS + position, book.large());
        let added = store.submit_blocking(work.batch()).map_err(|e| refused(&e))?;
        said.line(&format!("accepted {added} {} 0", AFTERWARDS + position));
        store.durable(added).wait().map_err(|e| refused(&e))?;
        said.line(&format!("durable {added}"));
        store.close().map_err(|e| refused(&e))?;
        let again = |error: String| format!("after recovery: {error}");
        let store =
            reopen(|| embedded::open(data, &tables, &options)).map_err(|e| again(refused(&e)))?;
        said.verify(&store).map_err(again)?;
        compare(&store, book).map_err(again)?;
        Ok(FolderState { position, torn })
    };
    catch_unwind(AssertUnwindSafe(judged)).unwrap_or_else(|_| Err("panicked".to_owned()))
}

/// The options with which the committer opens a folder: a small cache.
pub fn small_options() -> Options {
    let mut options = Options::default();
    options.cache_bytes = 8 << 20;
    options
}
