//! Which requirements of `docs/spec` have code and which a test. This file owns the walk over the
//! tree; the parts below it are pure: text in, values out.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it reads the source tree")]

mod id;
mod lexer;
mod report;
mod scan;
mod spec;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use report::Report;
use scan::{Place, Scan};
use spec::Spec;

/// Its examples cite ids that do not exist, so this tool does not look at itself.
const SELF: [&str; 2] = ["xtask/src/conformance.rs", "xtask/src/conformance/"];

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
    let cited = cited(&sources(root)?, &spec, &mut problems);
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

/// Sorts the citations of all sources by place, and reports those of ids that nobody defined.
fn cited(sources: &[(String, Scan)], spec: &Spec, problems: &mut Vec<Problem>) -> Cited {
    let test_paths: Vec<String> =
        sources.iter().flat_map(|(path, scan)| test_module_paths(path, scan)).collect();
    let mut cited = Cited::default();
    for (path, scan) in sources {
        let is_code = is_below_src(path) && !is_test_file(path, &test_paths);
        for citation in &scan.citations {
            let id = citation.id;
            if !spec.requirements.contains_key(&id) {
                let message = format!("{id} is cited, but docs/spec does not define it");
                problems.push(Problem { path: path.clone(), line: citation.line, message });
                continue;
            }
            match citation.place {
                Place::Test => drop(cited.tests.insert(id)),
                Place::Code if is_code => drop(cited.code.insert(id)),
                Place::Code | Place::Elsewhere | Place::Reference => {}
            }
        }
    }
    cited
}

fn is_below_src(path: &str) -> bool {
    path.split('/').any(|part| part == "src")
}

/// Where the bodies of `#[cfg(test)] mod name;` are, without the ending: `a/b.rs` gives
/// `a/b/name`, and `a/lib.rs` gives `a/name`.
fn test_module_paths(path: &str, scan: &Scan) -> Vec<String> {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let folder = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    scan.test_modules.iter().map(|name| format!("{folder}/{name}")).collect()
}

fn is_test_file(path: &str, test_paths: &[String]) -> bool {
    test_paths.iter().any(|test| {
        path.strip_prefix(test.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

fn sources(root: &Path) -> anyhow::Result<Vec<(String, Scan)>> {
    let mut sources = Vec::new();
    for folder in ["crates", "xtask"] {
        for path in files(root, Path::new(folder), "rs")? {
            if !SELF.iter().any(|it| path.starts_with(it)) {
                let scan = scan::scan(&read(root, &path)?);
                sources.push((path, scan));
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
