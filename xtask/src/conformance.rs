//! Which requirements of `docs/spec` have code and which a test. This file owns the walk over the
//! tree; the parts below it are pure: text in, values out.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it reads the source tree")]

mod id;
mod modules;
mod reach;
mod report;
mod scan;
mod spec;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use modules::Modules;
use reach::Roots;
use report::Report;
use scan::Citation;
use spec::Spec;
use tokens::{Place, Tokens};

/// Its examples cite ids that do not exist, so this tool does not look at itself.
const SELF: [&str; 2] = ["xtask/src/conformance.rs", "xtask/src/conformance/"];

/// What code must be reached from to count: the binary, and the libraries that services and guests
/// link themselves.
const ROOTS: Roots<'_> = Roots {
    binaries: &["crates/cli/src/main.rs"],
    libraries: &[
        "crates/client/src/lib.rs",
        "crates/idempotency/src/lib.rs",
        "crates/sdk/src/lib.rs",
        "crates/sdk-macros/src/lib.rs",
    ],
};

/// How the report is printed.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    Table,
    Json,
}

/// Something wrong at a line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// The sources of the tree: what each file cites, and the modules of all.
#[derive(Default)]
struct Sources {
    citations: Vec<(String, Vec<Citation>)>,
    modules: Modules,
}

impl Sources {
    fn add(&mut self, path: &str, source: &str) -> syn::Result<()> {
        let tokens = Tokens::new(source)?;
        self.citations.push((path.to_owned(), scan::scan(&tokens)));
        self.modules.add(path, &tokens)
    }
}

/// The ids that sources cite.
#[derive(Debug, Default)]
struct Cited {
    code: BTreeSet<id::Id>,
    tests: BTreeSet<id::Id>,
}

/// Prints the report to `out` and what is wrong to `err`; false when anything is wrong.
pub(crate) fn run(
    root: &Path,
    format: Format,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<bool> {
    let mut spec = Spec::default();
    for path in files(root, Path::new("docs/spec"), "md")? {
        spec.add(&path, &read(root, &path)?);
    }
    ensure!(!spec.requirements.is_empty(), "no requirements below {}/docs/spec", root.display());

    let mut problems = std::mem::take(&mut spec.problems);
    let cited = cited(&sources(root)?, &ROOTS, &spec, &mut problems);
    let report = Report::new(&spec, &cited.code, &cited.tests);
    match format {
        Format::Table => report.write_table(out)?,
        Format::Json => report.write_json(out)?,
    }

    problems.extend(report.unproved(&spec));
    for problem in &problems {
        writeln!(err, "error: {problem}")?;
    }
    if !problems.is_empty() {
        writeln!(err, "hint: docs/spec/README.md says how requirements are written and cited")?;
    }
    Ok(problems.is_empty())
}

/// Sorts the citations of all sources by place. Reports those of ids that nobody defined, and the ids
/// that are carried out only by code that nothing reaches.
fn cited(sources: &Sources, roots: &Roots<'_>, spec: &Spec, problems: &mut Vec<Problem>) -> Cited {
    let reached = reach::reached(&sources.modules, roots);
    let mut cited = Cited::default();
    let mut unreached = BTreeMap::new();
    for (path, citations) in &sources.citations {
        let is_code = sources.modules.is_code(path);
        for citation in citations {
            let id = citation.id;
            if !spec.requirements.contains_key(&id) {
                let message = format!("{id} is cited, but docs/spec does not define it");
                problems.push(Problem { path: path.clone(), line: citation.line, message });
                continue;
            }
            match citation.place {
                Place::Test => drop(cited.tests.insert(id)),
                Place::Code if is_code && reach::contains(&reached, path, citation.line) => {
                    cited.code.insert(id);
                }
                Place::Code if is_code => {
                    unreached.entry(id).or_insert((path, citation.line));
                }
                Place::Code | Place::Elsewhere | Place::Reference => {}
            }
        }
    }
    unreached.retain(|id, _| !cited.code.contains(id));
    problems.extend(unreached.into_iter().map(|(id, (path, line))| {
        let message = format!("{id} has code only where no binary reaches it");
        Problem { path: path.clone(), line, message }
    }));
    cited
}

fn sources(root: &Path) -> anyhow::Result<Sources> {
    let mut sources = Sources::default();
    for folder in ["crates", "xtask"] {
        for path in files(root, Path::new(folder), "rs")? {
            if !SELF.iter().any(|it| path.starts_with(it)) {
                let added = sources.add(&path, &read(root, &path)?);
                added.with_context(|| format!("cannot parse {path}"))?;
            }
        }
    }
    Ok(sources)
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

/// The files below `folder` that end in `extension`, relative to `root`, with `/`, sorted.
fn files(root: &Path, folder: &Path, extension: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder))
            .with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                if !is_skipped(&entry.file_name().to_string_lossy()) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|it| it == extension) {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_skipped(folder: &str) -> bool {
    folder == "target" || folder.starts_with('.')
}

#[cfg(test)]
mod tests;
