//! The requirements as `docs/spec` states them.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail, ensure};
use clap::ValueEnum;

use super::id::Id;

/// How a requirement binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Must,
    Should,
    May,
    Definition,
    Api,
    Background,
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
    pub(crate) problems: Vec<String>,
}

impl Spec {
    /// Adds the requirements of one file. Fenced code is an example and is skipped.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        let mut is_fenced = false;
        for (line, content) in (1..).zip(text.lines()) {
            if content.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if let Some(content) = content.strip_prefix("- **").filter(|_| !is_fenced)
                && let Err(message) = self.add_line(path, line, content)
            {
                self.problems.push(format!("{path}:{line}: {message}"));
            }
        }
    }

    /// Adds the requirement of a line `- **ID** [level, built] text`.
    fn add_line(&mut self, path: &str, line: usize, content: &str) -> anyhow::Result<()> {
        const FORM: &str = "a requirement has the form `- **ID** [level] text`";
        let (id, rest) = content.split_once("** [").context(FORM)?;
        let (bracket, text) = rest.split_once("] ").context(FORM)?;
        ensure!(!text.trim().is_empty(), FORM);
        let id = Id::parse(id).with_context(|| format!("`{id}` is not an id of a known group"))?;
        let (level, built) = bracket.split_once(", ").unwrap_or((bracket, "built"));
        ensure!(built == "built", "`{built}` is not `built`");
        let is_built = level != bracket;
        let level =
            Level::from_str(level, false).map_err(|_| anyhow!("`{level}` is not a level"))?;
        if let Some(Requirement { path, line, .. }) = self.requirements.get(&id) {
            bail!("{id} is already defined at {path}:{line}");
        }
        self.requirements.insert(id, Requirement { level, is_built, path: path.to_owned(), line });
        Ok(())
    }
}
