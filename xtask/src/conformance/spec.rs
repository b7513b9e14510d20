//! The requirements as `docs/spec` states them.

use std::collections::BTreeMap;

use super::Problem;
use super::id::Id;

/// How a requirement binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Must,
    Should,
    May,
    Definition,
    Api,
    Background,
}

impl Level {
    fn parse(text: &str) -> Option<Level> {
        Some(match text {
            "must" => Level::Must,
            "should" => Level::Should,
            "may" => Level::May,
            "definition" => Level::Definition,
            "api" => Level::Api,
            "background" => Level::Background,
            _ => return None,
        })
    }
}

/// One requirement and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) level: Level,
    pub(crate) is_built: bool,
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// All requirements, and what is wrong with how they are written.
#[derive(Debug, Default)]
pub(crate) struct Spec {
    pub(crate) requirements: BTreeMap<Id, Requirement>,
    pub(crate) problems: Vec<Problem>,
}

impl Spec {
    /// Adds the requirements of one file. Fenced code is an example and is skipped.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        let mut is_fenced = false;
        for (index, content) in text.lines().enumerate() {
            if content.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if !is_fenced && content.starts_with("- **") {
                self.add_line(path, index + 1, content);
            }
        }
    }

    fn add_line(&mut self, path: &str, line: usize, content: &str) {
        let added = parse_line(content).and_then(|(id, level, is_built)| {
            if let Some(first) = self.requirements.get(&id) {
                return Err(format!("{id} is already defined at {}:{}", first.path, first.line));
            }
            let requirement = Requirement { level, is_built, path: path.to_owned(), line };
            self.requirements.insert(id, requirement);
            Ok(())
        });
        if let Err(message) = added {
            self.problems.push(Problem { path: path.to_owned(), line, message });
        }
    }
}

/// The id, level and `built` of a line `- **ID** [level, built] text`.
fn parse_line(content: &str) -> Result<(Id, Level, bool), String> {
    const FORM: &str = "a requirement has the form `- **ID** [level] text`";
    let (id, rest) = content
        .strip_prefix("- **")
        .and_then(|rest| rest.split_once("** ["))
        .ok_or_else(|| FORM.to_owned())?;
    let (bracket, text) = rest.split_once("] ").ok_or_else(|| FORM.to_owned())?;
    if text.trim().is_empty() {
        return Err(FORM.to_owned());
    }
    let id = Id::parse(id).ok_or_else(|| format!("`{id}` is not an id of a known group"))?;
    let (level, is_built) = match bracket.split_once(", ") {
        None => (bracket, false),
        Some((level, "built")) => (level, true),
        Some((_, other)) => return Err(format!("`{other}` is not `built`")),
    };
    let level = Level::parse(level).ok_or_else(|| format!("`{level}` is not a level"))?;
    Ok((id, level, is_built))
}
