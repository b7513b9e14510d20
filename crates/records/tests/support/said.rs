//! What a committer said before it came to an end, and whether what it left agrees with it.
#![allow(clippy::unwrap_used, reason = "a test helper: a panic is how a test fails")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use indelible_records::{check, executions};
use indelible_store::embedded::{self, EmbeddedBackend, Options, Recovered};
use indelible_store::{Scan, Store, Table};

use super::work::{Book, Rows, Work};
use super::{LOG, log_key, log_tables, read_log_key, read_log_value};

/// What committers said of one folder, one after the other.
#[derive(Clone, Default)]
pub(crate) struct Said {
    /// Position to thread and number.
    accepted: BTreeMap<u64, (u64, u64)>,
    /// Accepted by one that ended before they were durable, and not found by the next.
    gone: Vec<(u64, u64)>,
    pub(crate) durable: u64,
}

impl Said {
    pub(crate) fn line(&mut self, line: &str) {
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

    pub(crate) fn lines(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }

    /// The folder was opened at a position: what is there from now on is what was there then.
    pub(crate) fn opened(&mut self, position: u64) {
        assert!(position >= self.durable, "{} was durable; {position} is left", self.durable);
        let gone = self.accepted.split_off(&(position + 1));
        self.gone.extend(gone.into_values());
        self.durable = position;
    }

    /// Everything durable is there and whole, what is there is a prefix of what was accepted, and
    /// everything in the store agrees with everything else. The position, or what is wrong.
    pub(crate) fn verify(&self, store: &Store) -> Result<u64, String> {
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

/// Every row of every table is what the batches that are there leave, and there is no other.
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
pub(crate) struct Found {
    pub(crate) position: u64,
    pub(crate) torn: Option<Recovered>,
}

/// The round of the batches that [`judge`] adds; no committer has it.
const AFTERWARDS: u64 = 1 << 40;

/// Opens what is left of a folder, verifies it, goes on for a batch, closes and opens it once more
/// and verifies it again. What it found, or what is wrong.
pub(crate) fn judge(data: &Path, said: &Said, book: &Book) -> Result<Found, String> {
    let judged = || -> Result<Found, String> {
        let refused = |error: &dyn std::fmt::Display| format!("refused: {error}");
        let options = small_options();
        let tables = log_tables();
        let engine = EmbeddedBackend::open(data, &tables, &options).map_err(|e| refused(&e))?;
        let torn = engine.recovered().cloned();
        let store = Store::start(Arc::new(engine), &tables, options.bounds);
        let store = store.map_err(|e| refused(&e))?;
        let mut said = said.clone();
        let position = said.verify(&store)?;
        compare(&store, book)?;
        said.opened(position);

        let mut work = Work::new(AFTERWARDS + position, book.large());
        let added = store.submit_blocking(work.next()).map_err(|e| refused(&e))?;
        said.line(&format!("accepted {added} {} 0", AFTERWARDS + position));
        store.durable(added).wait().map_err(|e| refused(&e))?;
        said.line(&format!("durable {added}"));
        store.close().map_err(|e| refused(&e))?;
        let again = |error: String| format!("after recovery: {error}");
        let store = embedded::open(data, &tables, &options).map_err(|e| again(refused(&e)))?;
        said.verify(&store).map_err(again)?;
        compare(&store, book).map_err(again)?;
        Ok(Found { position, torn })
    };
    catch_unwind(AssertUnwindSafe(judged)).unwrap_or_else(|_| Err("panicked".to_owned()))
}

/// As the committer opens a folder, with a small cache.
pub(crate) fn small_options() -> Options {
    let mut options = Options::default();
    options.cache_bytes = 8 << 20;
    options
}
