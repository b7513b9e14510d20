//! `indelible journal verify`: every execution in a file, checked against every rule.
//!
//! The file is streamed; what is kept is one journal's index for each execution. A bad execution
//! does not stop the others from being checked.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indelible_journal::{Journal, JournalKey, Status, Violation};
use serde::Serialize;

use super::VerifyArguments;
use super::input::{Line, Lines, Malformed};
use super::text::{count, plain};
use crate::failure::{Failure, Verdict, quiet};

/// A file with more broken lines than this is not an export with a few mistakes.
const MALFORMED_MAX: usize = 20;
/// A reason is one line, but it is not ours.
const REASON_CHARS_MAX: usize = 500;

/// One execution, as far as it is legal.
struct Checked {
    journal: Journal,
    violation: Option<(u64, Violation)>,
    /// Its events after the violation: nothing can be said about them.
    unchecked: u64,
}

#[derive(Default)]
struct Findings {
    /// In the order of their first lines.
    executions: Vec<Checked>,
    malformed: Vec<Malformed>,
    /// Reading stopped: too many lines were malformed.
    gave_up: bool,
}

pub(super) fn run(arguments: &VerifyArguments, out: &mut impl Write) -> Result<Verdict, Failure> {
    let mut lines = Lines::open(&arguments.file)?;
    let findings = check(&mut lines)?;
    if findings.executions.is_empty() && findings.malformed.is_empty() {
        return Err(lines.empty());
    }
    let written = if arguments.json {
        findings.write_json(out)
    } else {
        findings.executions.iter().try_for_each(|checked| checked.write(out))
    };
    quiet(written).map_err(|error| Failure::output(&error))?;
    Ok(findings.verdict(&lines))
}

fn check(lines: &mut Lines) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let mut places: BTreeMap<JournalKey, usize> = BTreeMap::new();
    while let Some(line) = lines.next()? {
        match line {
            Ok(line) => {
                let place = *places.entry(line.key.clone()).or_insert_with(|| {
                    findings.executions.push(Checked::new(line.key.clone()));
                    findings.executions.len() - 1
                });
                findings.executions[place].append(line);
            }
            Err(malformed) => {
                findings.malformed.push(malformed);
                if findings.malformed.len() == MALFORMED_MAX {
                    findings.gave_up = true;
                    break;
                }
            }
        }
    }
    Ok(findings)
}

impl Checked {
    fn new(key: JournalKey) -> Self {
        Self { journal: Journal::new(key), violation: None, unchecked: 0 }
    }

    fn append(&mut self, line: Line) {
        if self.violation.is_some() {
            self.unchecked += 1;
        } else if let Err(violation) = self.journal.append_record(line.record) {
            self.violation = Some((line.number, violation));
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let key = self.journal.key();
        match &self.violation {
            None => {
                let status = self.journal.status().map_or("-", Status::name);
                writeln!(out, "ok   {key}  {status}  {}", count(self.journal.len(), "event"))
            }
            Some((line, violation)) => {
                let Violation { rule, sequence, reason } = violation;
                let reason = plain(reason, REASON_CHARS_MAX);
                write!(out, "bad  {key}  {rule} at line {line}, sequence {sequence}: {reason}")?;
                match self.unchecked {
                    0 => writeln!(out),
                    more => writeln!(out, " ({} after it not checked)", count(more, "event")),
                }
            }
        }
    }
}

impl Findings {
    fn verdict(&self, lines: &Lines) -> Verdict {
        let mut errors: Vec<String> = self.malformed.iter().map(|m| lines.describe(m)).collect();
        if self.gave_up {
            errors.push(format!("{MALFORMED_MAX} malformed lines: the rest was not read"));
        }
        let bad = self.executions.iter().find(|checked| checked.violation.is_some());
        if let Some(first) = bad {
            let bad = self.executions.iter().filter(|checked| checked.violation.is_some()).count();
            let all = count(self.executions.len() as u64, "execution");
            errors.push(format!("{}: {bad} of {all} not legal", lines.name()));
            return Verdict::Wrong(Failure::many(errors).hint(format!(
                "`indelible journal show {} --execution {:#}` shows it up to there",
                lines.argument(),
                first.journal.key()
            )));
        }
        if errors.is_empty() {
            return Verdict::Well;
        }
        Verdict::Wrong(
            Failure::many(errors).hint("the format is described in docs/formats/journal-jsonl.md"),
        )
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Report<'a> {
            ok: bool,
            executions: Vec<Execution>,
            malformed: &'a [Malformed],
        }
        #[derive(Serialize)]
        struct Execution {
            execution: String,
            ok: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            status: Option<&'static str>,
            length: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            violation: Option<super::show::Refusal>,
            #[serde(skip_serializing_if = "Option::is_none")]
            unchecked: Option<u64>,
        }
        let executions: Vec<Execution> = self
            .executions
            .iter()
            .map(|checked| Execution {
                execution: checked.journal.key().to_string(),
                ok: checked.violation.is_none(),
                status: checked.journal.status().map(Status::name),
                length: checked.journal.len(),
                violation: checked
                    .violation
                    .as_ref()
                    .map(|(line, violation)| super::show::Refusal::new(*line, violation)),
                unchecked: checked.violation.as_ref().map(|_| checked.unchecked),
            })
            .collect();
        let ok = self.malformed.is_empty() && executions.iter().all(|execution| execution.ok);
        let report = Report { ok, executions, malformed: &self.malformed };
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)
    }
}
