//! `indelible journal verify`: every execution in a file, checked against every rule.
//!
//! The file is streamed; one journal's index is kept for each execution. A bad execution does not
//! stop the check of the others.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indelible_journal::JournalKey;
use serde::Serialize;

use super::VerifyArguments;
use super::checked::{CheckedExecution, Finding, IllegalEvent, ReadingCutOff};
use super::damage::MalformedLine;
use super::input::Lines;
use crate::failure::{CommandEnd, Failure, quiet};
use crate::print;
use crate::text::count;

pub(super) fn run(
    arguments: &VerifyArguments,
    out: &mut impl Write,
) -> Result<CommandEnd, Failure> {
    let mut lines = Lines::open(&arguments.file)?;
    let executions = check(&mut lines)?;
    if executions.is_empty() && lines.damage().is_none() {
        return Err(lines.empty());
    }
    let written = if arguments.json {
        write_json(&executions, &lines, out)
    } else {
        executions.iter().try_for_each(|checked| write_text(checked, &lines, out))
    };
    quiet(written).map_err(|error| Failure::output(&error))?;
    Ok(verdict(&executions, &lines))
}

/// All executions, in the order of their first lines.
fn check(lines: &mut Lines) -> Result<Vec<CheckedExecution>, Failure> {
    let mut executions: Vec<CheckedExecution> = Vec::new();
    let mut places: BTreeMap<JournalKey, usize> = BTreeMap::new();
    while let Some(line) = lines.next()? {
        let place = *places.entry(line.key.clone()).or_insert_with(|| {
            executions.push(CheckedExecution::new(line.key.clone()));
            executions.len() - 1
        });
        executions[place].append(line, lines.damage());
    }
    Ok(executions)
}

fn write_text(checked: &CheckedExecution, lines: &Lines, out: &mut impl Write) -> io::Result<()> {
    let (key, finding) = (checked.key(), checked.finding(lines.damage()));
    let (verdict, length) = (finding.name(), count(checked.len(), "event"));
    let status = checked.status().unwrap_or("-");
    let unchecked = count(checked.unchecked(), "event");
    write!(out, "{verdict:3}  {key}  ")?;
    match finding {
        Finding::Ok => write!(out, "{status}  {length}")?,
        Finding::Cut(cut) => {
            write!(out, "{status}  {length}, {cut}")?;
            if checked.unchecked() > 0 {
                write!(out, " ({unchecked} not checked)")?;
            }
        }
        Finding::Bad(refused) => {
            let (rule, sequence) = (refused.violation.rule, refused.violation.sequence);
            let (line, reason) = (refused.line, refused.reason());
            write!(out, "{rule} at line {line}, sequence {sequence}: {reason}")?;
            if checked.unchecked() > 0 {
                write!(out, " ({unchecked} after it not checked)")?;
            }
        }
    }
    writeln!(out)
}

/// The errors, for stderr.
fn verdict(executions: &[CheckedExecution], lines: &Lines) -> CommandEnd {
    let (name, damage) = (lines.name(), lines.damage());
    let with = |verdict: &'static str| {
        executions.iter().filter(move |checked| checked.finding(damage).name() == verdict)
    };
    let (bad, cut) = (with("bad").count(), with("cut").count());
    let all = count(executions.len() as u64, "execution");
    let mut errors = damage.errors(name);
    if bad > 0 {
        errors.push(format!("{name}: {bad} of {all} not legal"));
    }
    if cut > 0 {
        errors.push(format!("{name}: {cut} of {all} cut short by a line that cannot be read"));
    }
    if errors.is_empty() {
        return CommandEnd::Well;
    }
    let failure = Failure::many(errors);
    CommandEnd::Wrong(match with("bad").next() {
        Some(first) => match name.command(&format!("show --execution {:#}", first.key())) {
            Some(command) => failure.hint(format!("{command} shows it up to there")),
            None => failure,
        },
        None => failure.hint(damage.hint()),
    })
}

fn write_json(
    executions: &[CheckedExecution],
    lines: &Lines,
    out: &mut impl Write,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Report<'a> {
        v: u32,
        ok: bool,
        complete: bool,
        executions: Vec<Execution<'a>>,
        malformed: &'a [MalformedLine],
    }
    #[derive(Serialize)]
    struct Execution<'a> {
        execution: String,
        verdict: &'static str,
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
        length: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        violation: Option<&'a IllegalEvent>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cut: Option<ReadingCutOff>,
        #[serde(skip_serializing_if = "Option::is_none")]
        unchecked: Option<u64>,
    }
    let damage = lines.damage();
    let executions: Vec<Execution<'_>> = executions
        .iter()
        .map(|checked| {
            let finding = checked.finding(damage);
            let (verdict, ok) = (finding.name(), matches!(finding, Finding::Ok));
            let (violation, cut) = match finding {
                Finding::Ok => (None, None),
                Finding::Bad(refused) => (Some(refused), None),
                Finding::Cut(cut) => (None, Some(cut)),
            };
            Execution {
                execution: checked.key().to_string(),
                verdict,
                ok,
                status: checked.status(),
                length: checked.len(),
                violation,
                cut,
                unchecked: (!ok).then_some(checked.unchecked()),
            }
        })
        .collect();
    let complete = damage.is_none();
    let ok = complete && executions.iter().all(|execution| execution.ok);
    let malformed = &damage.malformed;
    let report = Report { v: print::VERSION, ok, complete, executions, malformed };
    print::pretty(&report, out)
}
