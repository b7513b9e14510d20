//! `indelible journal verify`: every execution in a file, checked against every rule.
//!
//! The file is streamed; what is kept is one journal's index for each execution. A bad execution
//! does not stop the others from being checked.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indelible_journal::JournalKey;
use serde::Serialize;

use super::VerifyArguments;
use super::checked::{Checked, Cut, Finding, Refused};
use super::damage::Malformed;
use super::input::Lines;
use crate::failure::{Failure, Verdict, quiet};
use crate::print;
use crate::text::count;

pub(super) fn run(arguments: &VerifyArguments, out: &mut impl Write) -> Result<Verdict, Failure> {
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
fn check(lines: &mut Lines) -> Result<Vec<Checked>, Failure> {
    let mut executions: Vec<Checked> = Vec::new();
    let mut places: BTreeMap<JournalKey, usize> = BTreeMap::new();
    while let Some(line) = lines.next()? {
        let place = *places.entry(line.key.clone()).or_insert_with(|| {
            executions.push(Checked::new(line.key.clone()));
            executions.len() - 1
        });
        executions[place].append(line, lines.damage());
    }
    Ok(executions)
}

fn write_text(checked: &Checked, lines: &Lines, out: &mut impl Write) -> io::Result<()> {
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

/// What is wrong, for stderr.
fn verdict(executions: &[Checked], lines: &Lines) -> Verdict {
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
        return Verdict::Well;
    }
    let failure = Failure::many(errors);
    Verdict::Wrong(match with("bad").next() {
        Some(first) => match name.command(&format!("show --execution {:#}", first.key())) {
            Some(command) => failure.hint(format!("{command} shows it up to there")),
            None => failure,
        },
        None => failure.hint(damage.hint()),
    })
}

fn write_json(executions: &[Checked], lines: &Lines, out: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Report<'a> {
        v: u32,
        ok: bool,
        complete: bool,
        executions: Vec<Execution<'a>>,
        malformed: &'a [Malformed],
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
        violation: Option<&'a Refused>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cut: Option<Cut>,
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
