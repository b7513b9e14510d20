//! The journals of a run: drawn, exported, and searched for signals.
#![expect(clippy::disallowed_methods, reason = "it writes the file that was named")]

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use indelible_journal::{Event, ExecutionId, JournalKey, Record, SignalName, json};
use indelible_records::{executions, journals};
use indelible_store::{ReadError, Store};

use crate::failure::Failure;
use crate::journal::{self, Drawing};
use crate::screen::Screen;

/// How many rows are read at a time.
const ROWS_MAX: usize = 256;

/// Draws the last attempt at an execution, as `indelible journal show --timeline` does.
pub(super) fn draw(
    store: &Store,
    execution: &ExecutionId,
    screen: Screen,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let Some(key) = latest(store, execution)? else { return Ok(()) };
    journal::draw(&key, records(store, &key)?, Drawing::Timeline, screen, out)
}

/// Writes all journals of a tree to a file, as JSON Lines.
pub(super) fn export(store: &Store, execution: &ExecutionId, file: &Path) -> Result<(), Failure> {
    let mut lines = Vec::new();
    let mut last: Option<JournalKey> = None;
    loop {
        let page = executions::tree(store, execution.root(), last.as_ref(), ROWS_MAX);
        let page = page.map_err(|error| unreadable(&error))?.value;
        for row in &page {
            for record in records(store, &row.key)? {
                json::write_line(&row.key, &record, &mut lines);
            }
        }
        match page.last() {
            Some(row) => last = Some(row.key.clone()),
            None => break,
        }
    }
    fs::write(file, lines).map_err(|error| {
        Failure::new(format!("cannot write {}: {error}", file.display()))
            .hint("give a file in a folder that you can write to")
    })
}

/// How many signals of each name have arrived.
pub(super) fn signals(
    store: &Store,
    execution: &ExecutionId,
) -> Result<HashMap<SignalName, usize>, Failure> {
    let mut arrived = HashMap::new();
    let Some(key) = latest(store, execution)? else { return Ok(arrived) };
    for record in records(store, &key)? {
        if let Event::SignalDelivered { signal_name, .. } = record.event {
            *arrived.entry(signal_name).or_default() += 1;
        }
    }
    Ok(arrived)
}

fn latest(store: &Store, execution: &ExecutionId) -> Result<Option<JournalKey>, Failure> {
    let row = executions::latest(store, execution).map_err(|error| unreadable(&error))?;
    Ok(row.value.map(|row| row.key))
}

fn records(store: &Store, key: &JournalKey) -> Result<Vec<Record>, Failure> {
    let mut records = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let page = journals::read(store, key, from, ROWS_MAX);
        let page = page.map_err(|error| unreadable(&error))?.value;
        records.extend(page.records);
        next = page.next;
    }
    Ok(records)
}

fn unreadable(error: &ReadError) -> Failure {
    Failure::new(format!("cannot read the journal of the execution: {error}"))
        .hint("find the damage with `indelible store check`")
}
