//! The report: totals for each section, what is missing, and which claims have no proof.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;

use super::id::{Id, ranges};
use super::spec::{Level, Requirement, Spec};

/// The sections of the report, in its order; see `Id::section`.
const SECTIONS: [&str; 7] = ["V", "J", "invariants", "I", "Q", "O", "C"];

const WIDTH_MAX: usize = 100;

/// The counts of one section. `background` requirements are counted but never missing.
#[derive(Serialize)]
pub(crate) struct Section {
    group: &'static str,
    requirements: usize,
    background: usize,
    with_code: usize,
    with_test: usize,
    built: usize,
    without_code: Vec<Id>,
    without_test: Vec<Id>,
}

/// The whole report, as it is printed.
#[derive(Serialize)]
pub(crate) struct Report {
    groups: [Section; SECTIONS.len()],
    /// Marked as built, without a test.
    built_without_test: Vec<Id>,
}

impl Report {
    pub(crate) fn new(spec: &Spec, code: &BTreeSet<Id>, tests: &BTreeSet<Id>) -> Report {
        let needs_proof = |it: &Requirement| it.level != Level::Background;
        let section = |group| {
            let members = || spec.requirements.iter().filter(|(id, _)| id.section() == group);
            let count = |is: &dyn Fn(&Id, &Requirement) -> bool| {
                members().filter(|(id, it)| is(id, it)).count()
            };
            let missing = |cited: &BTreeSet<Id>| {
                let needed = members().filter(|(id, it)| needs_proof(it) && !cited.contains(id));
                needed.map(|(id, _)| *id).collect()
            };
            Section {
                group,
                requirements: members().count(),
                background: count(&|_, it| !needs_proof(it)),
                with_code: count(&|id, _| code.contains(id)),
                with_test: count(&|id, _| tests.contains(id)),
                built: count(&|_, it| it.is_built),
                without_code: missing(code),
                without_test: missing(tests),
            }
        };
        let claimed = spec.requirements.iter().filter(|(_, it)| it.is_built && needs_proof(it));
        let unproved = claimed.filter(|(id, _)| !tests.contains(id)).map(|(id, _)| *id);
        Report { groups: SECTIONS.map(section), built_without_test: unproved.collect() }
    }

    /// A problem for each requirement that is claimed and not proved.
    pub(crate) fn unproved(&self, spec: &Spec) -> Vec<String> {
        let problem = |id: &Id| {
            let Requirement { path, line, .. } = &spec.requirements[id];
            format!("{path}:{line}: {id} is marked built, but the docs of no test cite it")
        };
        self.built_without_test.iter().map(problem).collect()
    }

    pub(crate) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "group       requirements  background  code  test  built")?;
        for it in &self.groups {
            writeln!(
                out,
                "{:<10}  {:>12}  {:>10}  {:>4}  {:>4}  {:>5}",
                it.group, it.requirements, it.background, it.with_code, it.with_test, it.built
            )?;
        }
        for section in self.groups.iter().filter(|it| it.built > 0) {
            writeln!(out)?;
            write_missing(out, section.group, "without code", &section.without_code)?;
            write_missing(out, section.group, "without test", &section.without_test)?;
        }
        Ok(())
    }

    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

/// `J without test: ...`, wrapped and indented.
fn write_missing(out: &mut dyn Write, name: &str, what: &str, ids: &[Id]) -> io::Result<()> {
    let ids = if ids.is_empty() { "none".to_owned() } else { ranges(ids) };
    let mut line = format!("{name} {what}:");
    for word in ids.split(' ') {
        if line.len() + 1 + word.len() > WIDTH_MAX {
            writeln!(out, "{line}")?;
            line = " ".to_owned();
        }
        line = format!("{line} {word}");
    }
    writeln!(out, "{line}")
}
