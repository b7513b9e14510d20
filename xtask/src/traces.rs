//! `cargo xtask traces`: replays traces of the journal's formal model through the real journal.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it reads the trace files")]

mod model;
mod run;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;

use run::{Verdict, run};

/// What all traces of a run should come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Expect {
    /// Every step accepted, status and next child equal after each.
    Legal,
    /// Refused exactly at `refused_at`, with one of `violates`.
    Illegal,
}

/// Prints a line for each trace; false when one is not as expected.
pub(crate) fn check(
    files: &[PathBuf],
    expect: Option<Expect>,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let (mut total, mut unexpected) = (0, 0);
    for path in files {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let place = || format!("{}, line {}", path.display(), index + 1);
            let trace: model::Trace = serde_json::from_str(line).with_context(place)?;
            let verdict = run(&trace).with_context(place)?;
            let complaint = expect.and_then(|expect| complaint(expect, &trace, &verdict));
            total += 1;
            match complaint {
                None => writeln!(out, "{}: {verdict}", trace.name)?,
                Some(complaint) => {
                    unexpected += 1;
                    writeln!(out, "{}: {verdict} -- NOT AS EXPECTED: {complaint}", trace.name)?;
                }
            }
        }
    }
    if total == 0 {
        bail!("no traces in what was given");
    }
    match expect {
        None => writeln!(out, "{total} traces")?,
        Some(_) => writeln!(out, "{} passed, {unexpected} failed", total - unexpected)?,
    }
    Ok(unexpected == 0)
}

/// How a verdict differs from what is expected of the trace.
fn complaint(expect: Expect, trace: &model::Trace, verdict: &Verdict) -> Option<String> {
    match (expect, verdict) {
        (Expect::Legal, Verdict::Accepted) => None,
        (Expect::Legal, _) => Some("every step should be accepted".to_owned()),
        (Expect::Illegal, Verdict::Refused { step, violation }) => {
            let Some(refused_at) = trace.refused_at else {
                return Some("the trace does not say where it is illegal".to_owned());
            };
            if *step != refused_at {
                Some(format!("step {refused_at} should be refused"))
            } else if !trace.violates.iter().any(|id| *id == violation.0) {
                Some(format!("it should break one of {}", trace.violates.join(", ")))
            } else {
                None
            }
        }
        (Expect::Illegal, _) => Some(match trace.refused_at {
            Some(step) => format!("step {step} should be refused"),
            None => "the trace does not say where it is illegal".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check_fixture(name: &str, expect: Expect) -> (bool, String) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
        let mut out = Vec::new();
        let passed = check(&[path], Some(expect), &mut out).unwrap();
        (passed, String::from_utf8(out).unwrap())
    }

    /// C-15, C-16, C-22, J-8, J-31, J-32, J-33, J-34, J-35, J-36, J-37, J-38, J-39, J-40, J-41,
    /// J-42, J-43, J-44, J-45, J-46, J-47, J-48, J-49, J-50, J-51, J-52: what the model allows is
    /// accepted, with the model's status and next child after every step.
    #[test]
    fn legal_traces_of_the_model_are_accepted() {
        let (passed, out) = check_fixture("legal.jsonl", Expect::Legal);
        assert!(passed, "{out}");
        assert!(out.ends_with("110 passed, 0 failed\n"), "{out}");
    }

    /// SE-1, SE-2, SE-3, SE-4, CF-1, CF-2, CF-3, CF-4, JS-1, JS-2, JS-3, JS-4, JS-5, JS-7, S-2,
    /// S-4, S-5, C-17, C-19, C-20: what the model forbids is refused there, for that reason.
    #[test]
    fn illegal_traces_of_the_model_are_refused() {
        let (passed, out) = check_fixture("illegal.jsonl", Expect::Illegal);
        assert!(passed, "{out}");
        assert!(out.ends_with("44 passed, 0 failed\n"), "{out}");
    }

    /// The command can fail: each file under the other expectation does, everywhere.
    #[test]
    fn the_wrong_expectation_fails() {
        let (passed, out) = check_fixture("legal.jsonl", Expect::Illegal);
        assert!(!passed && out.ends_with("0 passed, 110 failed\n"), "{out}");
        let (passed, out) = check_fixture("illegal.jsonl", Expect::Legal);
        assert!(!passed && out.ends_with("0 passed, 44 failed\n"), "{out}");
    }
}
