//! Which requirements of `docs/spec` have code and which a test. This file owns the walk over the
//! tree; the parts below it are pure: text in, values out.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it reads the source tree")]

mod id;
mod modules;
mod reach;
mod report;
mod source;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, ensure};

use modules::module_of;
pub(crate) use report::Report;
use source::{Place, Source};
use spec::Spec;

/// The tool's own examples cite ids that do not exist, so its sources are left out.
const SELF: &str = "xtask/src/conformance";

/// What code must be reached from to count: the binary, and the libraries that services and guests
/// link themselves.
const ROOTS: [&str; 5] = [
    "crates/cli/src/main.rs",
    "crates/client/src/lib.rs",
    "crates/idempotency/src/lib.rs",
    "crates/sdk/src/lib.rs",
    "crates/sdk-macros/src/lib.rs",
];

/// Texts by path.
type Files = BTreeMap<String, String>;

/// The ids that sources cite, and the problems found.
#[derive(Debug, Default)]
struct Cited {
    code: BTreeSet<id::Id>,
    tests: BTreeSet<id::Id>,
    problems: Vec<String>,
}

/// Prints the report by `write` to `out` and what is wrong to `err`; false when anything is wrong.
pub(crate) fn run(
    root: &Path,
    write: fn(&Report, &mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<bool> {
    let mut spec = Spec::default();
    for (path, text) in files(root, "docs/spec", ".md")? {
        spec.add(&path, &text);
    }
    ensure!(!spec.requirements.is_empty(), "no requirements below {}/docs/spec", root.display());

    let mut sources = files(root, "crates", ".rs")?;
    sources.extend(files(root, "xtask", ".rs")?);
    sources.retain(|path, _| !path.starts_with(SELF));
    let cited = cited(&sources, &ROOTS, &spec)?;
    let report = Report::new(&spec, &cited.code, &cited.tests);
    write(&report, out)?;
    let problems = [&spec.problems[..], &cited.problems, &report.unproved(&spec)].concat();
    for problem in &problems {
        writeln!(err, "error: {problem}")?;
    }
    if !problems.is_empty() {
        writeln!(err, "hint: docs/spec/README.md says how requirements are written and cited")?;
    }
    Ok(problems.is_empty())
}

/// Sorts the citations of all sources by place. Reports citations of ids that the specification
/// does not define, and ids whose only code no root reaches.
fn cited(sources: &Files, roots: &[&str], spec: &Spec) -> anyhow::Result<Cited> {
    let sources = sources.iter().map(|(path, text)| Source::new(path, text));
    let sources: Vec<Source<'_>> = sources.collect::<anyhow::Result<_>>()?;
    let modules = modules::modules(&sources)?;
    let reached = reach::reached(&modules, roots);
    let mut cited = Cited::default();
    let mut unreached = BTreeMap::new();
    for source in &sources {
        let path = source.file;
        let is_code = module_of(path).is_some_and(|it| modules.contains_key(&it));
        let is_reached =
            |line| reached.get(path).is_some_and(|it| it.iter().any(|it| it.contains(&line)));
        for (id, line, place) in source.citations() {
            match place {
                _ if !spec.requirements.contains_key(&id) => cited.problems.push(format!(
                    "{path}:{line}: {id} is cited, but docs/spec does not define it"
                )),
                Place::Test => drop(cited.tests.insert(id)),
                Place::Code if is_reached(line) => drop(cited.code.insert(id)),
                Place::Code if is_code => drop(unreached.entry(id).or_insert((path, line))),
                Place::Code | Place::Elsewhere | Place::Reference => {}
            }
        }
    }
    for (id, (path, line)) in unreached.into_iter().filter(|(id, _)| !cited.code.contains(id)) {
        let problem = format!("{path}:{line}: {id} has code only where no binary reaches it");
        cited.problems.push(problem);
    }
    Ok(cited)
}

/// The texts of the files below `folder` whose names end so, by their paths from `root`.
pub(crate) fn files(root: &Path, folder: &str, end: &str) -> anyhow::Result<Files> {
    let mut found = Files::new();
    let entries = fs::read_dir(root.join(folder));
    for entry in entries.with_context(|| format!("cannot list {folder}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        if entry.file_type()?.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(root, &path, end)?);
        } else if name.ends_with(end) {
            let text = fs::read_to_string(entry.path());
            found.insert(path.clone(), text.with_context(|| format!("cannot read {path}"))?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
