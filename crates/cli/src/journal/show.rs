//! `indelible journal show`: one execution of a file, as a table or as bars over time.

use std::io::{self, Write};

use indelible_journal::{Entry, Event, Journal, JournalKey, Started, Status, Timestamp, Violation};
use serde::Serialize;

use super::ShowArguments;
use super::input::{Line, Lines};
use super::select::Selection;
use super::spans::Timeline;
use super::text::plain;
use super::{table, timeline};
use crate::failure::{Failure, Verdict, quiet};

/// A reason is one line, but it is not ours.
const REASON_CHARS_MAX: usize = 500;

/// One execution, as far as it is legal.
pub(super) struct Shown {
    journal: Journal,
    pub(super) rows: Vec<Row>,
    pub(super) refused: Option<Refused>,
}

/// An event, and where it left the execution.
pub(super) struct Row {
    pub(super) entry: Entry,
    pub(super) description: String,
    pub(super) state: &'static str,
}

/// The first event that may not stand where it stands.
pub(super) struct Refused {
    pub(super) timestamp: Timestamp,
    pub(super) description: String,
    pub(super) violation: Violation,
    line: u64,
}

/// A violation, as JSON.
#[derive(Serialize)]
pub(super) struct Refusal {
    rule: &'static str,
    line: u64,
    sequence: u64,
    reason: String,
}

impl Refusal {
    pub(super) fn new(line: u64, violation: &Violation) -> Self {
        Self {
            rule: violation.rule.id(),
            line,
            sequence: violation.sequence.get(),
            reason: violation.reason.clone(),
        }
    }
}

pub(super) fn run(
    arguments: ShowArguments,
    columns: usize,
    out: &mut impl Write,
) -> Result<Verdict, Failure> {
    let mut lines = Lines::open(&arguments.file)?;
    let mut selection = Selection::new(arguments.execution);
    let mut shown: Option<Shown> = None;
    let mut malformed = None;
    while let Some(line) = lines.next()? {
        match line {
            Ok(line) if selection.meets(&line.key) => {
                let shown = match &mut shown {
                    Some(shown) if *shown.key() == line.key => shown,
                    other => other.insert(Shown::new(line.key.clone())),
                };
                shown.append(line);
            }
            Ok(_) => {
                // Several are meant so far: nothing is kept of either.
                if selection.chosen().is_none() {
                    shown = None;
                }
            }
            Err(error) => {
                malformed = Some(lines.describe(&error));
                break;
            }
        }
    }
    let Some(shown) = shown else {
        return Err(match malformed {
            Some(error) => {
                Failure::new(error).hint("the format is described in docs/formats/journal-jsonl.md")
            }
            None if selection.is_empty() => lines.empty(),
            None => selection.failure(lines.name()),
        });
    };

    let written = match (arguments.timeline, arguments.json) {
        (false, false) => table::write(&shown, columns, out),
        (true, false) => timeline::write(&shown, &Timeline::of(&shown), columns, out),
        (false, true) => shown.write_json(Body::Events(shown.events()), out),
        (true, true) => shown.write_json(Body::Spans(Timeline::of(&shown)), out),
    };
    quiet(written).map_err(|error| Failure::output(&error))?;

    let mut errors = Vec::new();
    if let Some(Refused { line, violation, .. }) = &shown.refused {
        let violation = plain(&violation.to_string(), REASON_CHARS_MAX);
        errors.push(format!("{}, line {line}: {violation}", lines.name()));
    }
    errors.extend(malformed);
    if errors.is_empty() {
        return Ok(Verdict::Well);
    }
    let hint = format!("`indelible journal verify {}` checks all of it", lines.argument());
    Ok(Verdict::Wrong(Failure::many(errors).hint(hint)))
}

impl Shown {
    fn new(key: JournalKey) -> Self {
        Self { journal: Journal::new(key), rows: Vec::new(), refused: None }
    }

    fn append(&mut self, line: Line) {
        if self.refused.is_some() {
            return;
        }
        let description = line.record.event.describe().to_string();
        let timestamp = line.record.timestamp;
        match self.journal.append_record(line.record) {
            Ok(entry) => {
                let state = self.status();
                self.rows.push(Row { entry, description, state });
            }
            Err(violation) => {
                let line = line.number;
                self.refused = Some(Refused { timestamp, description, violation, line });
            }
        }
    }

    pub(super) fn key(&self) -> &JournalKey {
        self.journal.key()
    }

    pub(super) fn status(&self) -> &'static str {
        self.journal.status().map_or("-", Status::name)
    }

    /// What it was started with, if its first event is legal.
    pub(super) fn started(&self) -> Option<&Started> {
        match self.rows.first()?.entry.event() {
            Event::ExecutionStarted(started) => Some(started),
            _ => None,
        }
    }

    /// When it began.
    pub(super) fn start(&self) -> Timestamp {
        self.rows.first().map_or(Timestamp::EPOCH, |row| row.entry.timestamp())
    }

    /// A time, in microseconds since it began.
    pub(super) fn micros(&self, at: Timestamp) -> u64 {
        at.saturating_since(self.start()).get()
    }

    /// From its first event to its last, in microseconds.
    pub(super) fn total(&self) -> u64 {
        self.rows.last().map_or(0, |row| self.micros(row.entry.timestamp()))
    }

    fn events(&self) -> Vec<JsonEvent<'_>> {
        self.rows
            .iter()
            .map(|row| JsonEvent {
                sequence: row.entry.sequence().get(),
                time_us: self.micros(row.entry.timestamp()),
                event: row.entry.event().name(),
                description: &row.description,
                state: row.state,
            })
            .collect()
    }

    fn write_json(&self, body: Body<'_>, out: &mut impl Write) -> io::Result<()> {
        let started = self.started();
        let document = Document {
            execution: self.key().to_string(),
            function: started.map(|started| started.function_name.as_str()),
            component: started.map(|started| started.component_digest.to_string()),
            attempts: self.key().attempts().to_string(),
            status: self.status(),
            length: self.journal.len(),
            started: self.rows.first().map(|row| row.entry.timestamp().to_string()),
            duration_us: self.total(),
            body,
            violation: self
                .refused
                .as_ref()
                .map(|refused| Refusal::new(refused.line, &refused.violation)),
        };
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    }
}

#[derive(Serialize)]
struct Document<'a> {
    execution: String,
    function: Option<&'a str>,
    component: Option<String>,
    attempts: String,
    status: &'static str,
    length: u64,
    started: Option<String>,
    duration_us: u64,
    #[serde(flatten)]
    body: Body<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<Refusal>,
}

/// One field, by what was asked for.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Body<'a> {
    Events(Vec<JsonEvent<'a>>),
    Spans(Timeline),
}

#[derive(Serialize)]
struct JsonEvent<'a> {
    sequence: u64,
    time_us: u64,
    event: &'static str,
    description: &'a str,
    state: &'static str,
}
