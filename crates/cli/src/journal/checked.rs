//! One execution of a file, checked event by event, and the finding if some lines of the file
//! cannot be read.

use indelible_journal::{Entry, Event, Journal, JournalKey, Status, Timestamp, Violation};
use serde::{Serialize, Serializer};

use super::damage::Damage;
use super::input::Line;
use crate::text::plain;

/// A reason is one line, but it may contain text from the file.
const REASON_WIDTH_MAX: usize = 500;

/// An execution, as far as it is legal and can be read.
pub(super) struct CheckedExecution {
    journal: Journal,
    /// The execution's first line, and its last accepted one; 0 before there is one.
    first_line: u64,
    last_line: u64,
    stop: Option<Stop>,
    /// How many of its events were not checked: those after the refused one, or from the gap on.
    unchecked: u64,
}

enum Stop {
    Refused(IllegalEvent),
    /// Events are missing before this line, and an unreadable line comes before it.
    Gap(ReadingCutOff),
}

/// The first event that breaks a rule.
pub(super) struct IllegalEvent {
    pub(super) line: u64,
    pub(super) sequence: u64,
    pub(super) timestamp: Timestamp,
    pub(super) name: &'static str,
    pub(super) description: String,
    pub(super) violation: Violation,
}

/// Where reading was cut short.
#[derive(Serialize, Clone, Copy)]
pub(super) struct ReadingCutOff {
    /// The line that cannot be read.
    pub(super) malformed_line: u64,
    /// The execution's next readable line, if events are missing before it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<Next>,
}

#[derive(Serialize, Clone, Copy)]
pub(super) struct Next {
    #[serde(rename = "next_line")]
    pub(super) line: u64,
    #[serde(rename = "next_sequence")]
    pub(super) sequence: u64,
}

/// What is known of an execution.
pub(super) enum Finding<'a> {
    /// It is legal, and no event that has happened is missing.
    Ok,
    /// It breaks a rule.
    Bad(&'a IllegalEvent),
    /// It is legal as far as it can be read.
    Cut(ReadingCutOff),
}

impl Finding<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Finding::Ok => "ok",
            Finding::Bad(_) => "bad",
            Finding::Cut(_) => "cut",
        }
    }
}

impl CheckedExecution {
    pub(super) fn new(key: JournalKey) -> Self {
        let journal = Journal::new(key);
        Self { journal, first_line: 0, last_line: 0, stop: None, unchecked: 0 }
    }

    /// Takes the execution's next line, and returns the entry with its description. None if the
    /// check stops here, or has stopped before.
    pub(super) fn append(&mut self, line: Line, damage: &Damage) -> Option<(Entry, String)> {
        if self.stop.is_some() {
            self.unchecked += 1;
            return None;
        }
        if self.first_line == 0 {
            self.first_line = line.number;
        }
        if let Some(cut) = self.gap(&line, damage) {
            self.stop = Some(Stop::Gap(cut));
            self.unchecked += 1;
            return None;
        }
        let (sequence, timestamp) = (line.record.sequence.get(), line.record.timestamp);
        let again = sequence == 0
            && !self.journal.is_empty()
            && matches!(line.record.event, Event::ExecutionStarted(_));
        let (name, description) =
            (line.record.event.name(), line.record.event.describe().to_string());
        match self.journal.append_record(line.record) {
            Ok(entry) => {
                self.last_line = line.number;
                Some((entry, description))
            }
            Err(mut violation) => {
                if again {
                    let twice = "; the execution appears twice in this file, first from line";
                    violation.reason = format!("{}{twice} {}", violation.reason, self.first_line);
                }
                let line = line.number;
                let refused =
                    IllegalEvent { line, sequence, timestamp, name, description, violation };
                self.stop = Some(Stop::Refused(refused));
                None
            }
        }
    }

    /// Whether events are missing before this line that may be on an unreadable one.
    fn gap(&self, line: &Line, damage: &Damage) -> Option<ReadingCutOff> {
        let sequence = line.record.sequence.get();
        if sequence <= self.journal.len() || self.is_over() {
            return None;
        }
        let malformed_line = damage.first_after(self.last_line)?;
        Some(ReadingCutOff { malformed_line, next: Some(Next { line: line.number, sequence }) })
    }

    fn is_over(&self) -> bool {
        self.journal.status().is_some_and(Status::is_terminal)
    }

    /// The finding, once the file has been read.
    pub(super) fn finding(&self, damage: &Damage) -> Finding<'_> {
        match &self.stop {
            Some(Stop::Refused(refused)) => Finding::Bad(refused),
            Some(Stop::Gap(cut)) => Finding::Cut(*cut),
            None if self.is_over() => Finding::Ok,
            None => match damage.first_after(self.last_line) {
                Some(malformed_line) => Finding::Cut(ReadingCutOff { malformed_line, next: None }),
                None => Finding::Ok,
            },
        }
    }

    pub(super) fn key(&self) -> &JournalKey {
        self.journal.key()
    }

    pub(super) fn len(&self) -> u64 {
        self.journal.len()
    }

    pub(super) fn status(&self) -> Option<&'static str> {
        self.journal.status().map(Status::name)
    }

    pub(super) fn unchecked(&self) -> u64 {
        self.unchecked
    }
}

impl IllegalEvent {
    /// The reason, on one line without control characters.
    pub(super) fn reason(&self) -> String {
        plain(&self.violation.reason, REASON_WIDTH_MAX)
    }
}

/// The violation, with the refused event.
impl Serialize for IllegalEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            rule: &'static str,
            line: u64,
            sequence: u64,
            reason: &'a str,
            event: EventJson<'a>,
        }
        #[derive(Serialize)]
        struct EventJson<'a> {
            line: u64,
            sequence: u64,
            timestamp: String,
            event: &'static str,
            description: &'a str,
        }
        let event = EventJson {
            line: self.line,
            sequence: self.sequence,
            timestamp: self.timestamp.to_string(),
            event: self.name,
            description: &self.description,
        };
        let Violation { rule, sequence, reason } = &self.violation;
        let (rule, line, sequence) = (rule.id(), self.line, sequence.get());
        Json { rule, line, sequence, reason, event }.serialize(serializer)
    }
}

impl std::fmt::Display for ReadingCutOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "then line {} cannot be read", self.malformed_line)?;
        match self.next {
            Some(Next { line, sequence }) => {
                write!(f, ", and line {line} continues at sequence {sequence}")
            }
            None => Ok(()),
        }
    }
}
