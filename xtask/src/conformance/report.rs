//! The report: totals for each section, what is missing, and which claims have no proof.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;

use super::Problem;
use super::id::{Id, ranges};
use super::spec::{Level, Requirement, Spec};

/// The sections of the report, each with the groups it counts.
const SECTIONS: [(&str, &[&str]); 7] = [
    ("V", &["V"]),
    ("J", &["J"]),
    ("invariants", &["S", "SE", "CF", "JS", "INV"]),
    ("I", &["I"]),
    ("Q", &["Q"]),
    ("O", &["O"]),
    ("C", &["C"]),
];

const WIDTH_MAX: usize = 100;

/// The counts of one section. `background` requirements are counted but never missing.
#[derive(Default, Serialize)]
pub(crate) struct Section {
    #[serde(rename = "group")]
    pub(crate) name: &'static str,
    pub(crate) requirements: usize,
    pub(crate) background: usize,
    pub(crate) with_code: usize,
    pub(crate) with_test: usize,
    pub(crate) built: usize,
    pub(crate) without_code: Vec<Id>,
    pub(crate) without_test: Vec<Id>,
}

/// The whole report, as it is printed.
#[derive(Serialize)]
pub(crate) struct Report {
    #[serde(rename = "groups")]
    pub(crate) sections: Vec<Section>,
    /// Marked as built, without a test.
    pub(crate) built_without_test: Vec<Id>,
}

impl Report {
    pub(crate) fn new(spec: &Spec, code: &BTreeSet<Id>, tests: &BTreeSet<Id>) -> Report {
        let mut built_without_test = Vec::new();
        let mut sections = Vec::new();
        for (name, groups) in SECTIONS {
            let mut section = Section { name, ..Section::default() };
            let members =
                spec.requirements.iter().filter(|(id, _)| groups.contains(&id.group.name()));
            for (&id, requirement) in members {
                section.count(id, requirement, code.contains(&id), tests.contains(&id));
                if requirement.is_built && needs_proof(requirement) && !tests.contains(&id) {
                    built_without_test.push(id);
                }
            }
            sections.push(section);
        }
        Report { sections, built_without_test }
    }

    /// A problem for each requirement that is claimed and not proved.
    pub(crate) fn unproved(&self, spec: &Spec) -> Vec<Problem> {
        let problem = |id: &Id| {
            let Requirement { path, line, .. } = spec.requirements.get(id)?;
            let message = format!("{id} is marked built, but the docs of no test cite it");
            Some(Problem { path: path.clone(), line: *line, message })
        };
        self.built_without_test.iter().filter_map(problem).collect()
    }

    pub(crate) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "group       requirements  background  code  test  built")?;
        for it in &self.sections {
            writeln!(
                out,
                "{:<10}  {:>12}  {:>10}  {:>4}  {:>4}  {:>5}",
                it.name, it.requirements, it.background, it.with_code, it.with_test, it.built
            )?;
        }
        for section in self.sections.iter().filter(|it| it.built > 0) {
            writeln!(out)?;
            write_missing(out, section.name, "without code", &section.without_code)?;
            write_missing(out, section.name, "without test", &section.without_test)?;
        }
        Ok(())
    }

    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

impl Section {
    fn count(&mut self, id: Id, requirement: &Requirement, has_code: bool, has_test: bool) {
        self.requirements += 1;
        self.with_code += usize::from(has_code);
        self.with_test += usize::from(has_test);
        self.built += usize::from(requirement.is_built);
        if !needs_proof(requirement) {
            self.background += 1;
            return;
        }
        if !has_code {
            self.without_code.push(id);
        }
        if !has_test {
            self.without_test.push(id);
        }
    }
}

fn needs_proof(requirement: &Requirement) -> bool {
    requirement.level != Level::Background
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
        line.push(' ');
        line.push_str(word);
    }
    writeln!(out, "{line}")
}
