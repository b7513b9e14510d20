//! `indelible journal show`: one execution of a file, as a table or as bars over time.

use std::io::Write;

use indelible_journal::{Entry, Event, JournalKey, Record, Started, Timestamp};

use super::checked::{CheckedExecution, Finding};
use super::damage::Damage;
use super::input::{Line, Lines};
use super::select::Selection;
use super::spans::Timeline;
use super::{Drawing, ShowArguments, document, table, timeline};
use crate::failure::{CommandEnd, Failure, quiet};
use crate::screen::Screen;

/// One execution, as far as it is legal and can be read.
pub(super) struct ExecutionView {
    pub(super) checked: CheckedExecution,
    pub(super) rows: Vec<Row>,
}

/// An event, and the status after it.
pub(super) struct Row {
    pub(super) entry: Entry,
    pub(super) description: String,
    pub(super) state: &'static str,
}

pub(super) fn run(
    arguments: ShowArguments,
    screen: Screen,
    out: &mut impl Write,
) -> Result<CommandEnd, Failure> {
    let mut lines = Lines::open(&arguments.file)?;
    let mut selection = Selection::new(arguments.execution);
    let mut shown: Option<ExecutionView> = None;
    while let Some(line) = lines.next()? {
        if selection.meets(&line.key, &line.record) {
            let shown = match &mut shown {
                Some(shown) if *shown.key() == line.key => shown,
                other => other.insert(ExecutionView::new(line.key.clone())),
            };
            shown.append(line, lines.damage());
        } else if selection.chosen().is_none() {
            // Several executions match so far: rows of none are kept.
            shown = None;
        }
    }
    let (name, damage) = (lines.name(), lines.damage());
    let Some(shown) = shown else {
        return Err(match selection.is_empty() {
            true if damage.is_none() => lines.empty(),
            true => damage.failure(name),
            false => selection.failure(damage.errors(name), name),
        });
    };

    let written = match (arguments.timeline, arguments.json) {
        (false, false) => table::write(&shown, damage, screen, out),
        (true, false) => timeline::write(&shown, damage, screen.columns, out),
        (timeline, true) => {
            let spans = timeline.then(|| Timeline::of(&shown));
            document::write(&shown, spans, damage, out)
        }
    };
    quiet(written).map_err(|error| Failure::output(&error))?;

    let mut errors = damage.errors(name);
    if let Finding::Bad(refused) = shown.checked.finding(damage) {
        let (rule, sequence) = (refused.violation.rule, refused.violation.sequence);
        let (line, reason) = (refused.line, refused.reason());
        errors.push(format!("{name}, line {line}: {rule} at sequence {sequence}: {reason}"));
    }
    if errors.is_empty() {
        return Ok(CommandEnd::Well);
    }
    let failure = Failure::many(errors);
    Ok(CommandEnd::Wrong(match name.command("verify") {
        Some(command) => failure.hint(format!("{command} checks all of it")),
        None => failure,
    }))
}

/// Draws a journal that was not read from a file.
pub(super) fn draw(
    key: &JournalKey,
    records: impl IntoIterator<Item = Record>,
    how: Drawing,
    screen: Screen,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let damage = Damage::default();
    let mut shown = ExecutionView::new(key.clone());
    for (number, record) in (1..).zip(records) {
        shown.append(Line { number, key: key.clone(), record }, &damage);
    }
    let written = match how {
        Drawing::Table => table::write(&shown, &damage, screen, out),
        Drawing::Timeline => timeline::write(&shown, &damage, screen.columns, out),
    };
    quiet(written).map_err(|error| Failure::output(&error))
}

impl ExecutionView {
    fn new(key: JournalKey) -> Self {
        Self { checked: CheckedExecution::new(key), rows: Vec::new() }
    }

    fn append(&mut self, line: Line, damage: &Damage) {
        if let Some((entry, description)) = self.checked.append(line, damage) {
            let state = self.status();
            self.rows.push(Row { entry, description, state });
        }
    }

    pub(super) fn key(&self) -> &JournalKey {
        self.checked.key()
    }

    pub(super) fn status(&self) -> &'static str {
        self.checked.status().unwrap_or("-")
    }

    /// The execution's start, if its first event is legal.
    pub(super) fn started(&self) -> Option<&Started> {
        match self.rows.first()?.entry.event() {
            Event::ExecutionStarted(started) => Some(started),
            _ => None,
        }
    }

    /// A time in microseconds since the first event; none if there is no event.
    pub(super) fn since_start(&self, at: Timestamp) -> Option<u64> {
        let start = self.rows.first()?.entry.timestamp();
        Some(at.saturating_since(start).get())
    }

    /// The time of a row in microseconds since the first.
    pub(super) fn micros(&self, row: &Row) -> u64 {
        self.since_start(row.entry.timestamp()).unwrap_or(0)
    }

    /// The time from the first event to the last, in microseconds.
    pub(super) fn total(&self) -> u64 {
        self.rows.last().map_or(0, |row| self.micros(row))
    }
}
