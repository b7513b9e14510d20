//! The unreadable lines of a file, and the errors about them.

use super::name::Name;
use crate::failure::Failure;
use crate::text::count;

/// A file with more unreadable lines is not an export with a few mistakes.
const MALFORMED_MAX: usize = 20;

/// A line that could not be read.
#[derive(serde::Serialize)]
pub(super) struct MalformedLine {
    /// From 1.
    pub(super) line: u64,
    /// In bytes, from 1.
    pub(super) column: usize,
    pub(super) message: String,
    /// Whether it looks like a line of JSON Lines, so that only this line is in doubt.
    #[serde(skip)]
    pub(super) plausible: bool,
}

/// All unreadable lines, in order.
#[derive(Default)]
pub(super) struct Damage {
    pub(super) malformed: Vec<MalformedLine>,
    /// Whether any line could be read.
    pub(super) some_read: bool,
}

impl Damage {
    pub(super) fn is_none(&self) -> bool {
        self.malformed.is_empty()
    }

    /// Whether there are too many: reading stops.
    pub(super) fn gave_up(&self) -> bool {
        self.malformed.len() >= MALFORMED_MAX
    }

    /// The first unreadable line after this one. The lines of an execution are in order, so events
    /// missing after a line can only be there.
    pub(super) fn first_after(&self, line: u64) -> Option<u64> {
        self.malformed.iter().map(|malformed| malformed.line).find(|malformed| *malformed > line)
    }

    /// No line was read, and the file does not begin as an export does.
    fn another_kind_of_file(&self) -> bool {
        !self.some_read && self.malformed.first().is_some_and(|first| !first.plausible)
    }

    /// One error for each unreadable line, or a single one for a file of another kind.
    pub(super) fn errors(&self, name: &Name) -> Vec<String> {
        let Some(first) = self.malformed.first() else { return Vec::new() };
        if self.another_kind_of_file() {
            let MalformedLine { line, column, message, .. } = first;
            return vec![format!(
                "{name} does not look like JSON Lines: line {line}, column {column}: {message}"
            )];
        }
        let mut errors = Vec::new();
        // The same mistake on line after line, such as another version, is reported once.
        for run in self.malformed.chunk_by(|a, b| a.message == b.message && a.line + 1 == b.line) {
            let MalformedLine { line, column, message, .. } = &run[0];
            let more = match run.len() as u64 - 1 {
                0 => String::new(),
                more => format!(" (and {} after it)", count(more, "line")),
            };
            errors.push(format!("{name}, line {line}, column {column}: {message}{more}"));
        }
        if self.gave_up() {
            errors.push(format!("{name}: {MALFORMED_MAX} malformed lines: the rest was not read"));
        }
        errors
    }

    /// What to do about unreadable lines.
    pub(super) fn hint(&self) -> &'static str {
        match self.another_kind_of_file() {
            true => "an export has one event a line; see docs/formats/journal-jsonl.md",
            false => "the format is described in docs/formats/journal-jsonl.md",
        }
    }

    /// The error if unreadable lines are the reason why nothing can be shown.
    pub(super) fn failure(&self, name: &Name) -> Failure {
        Failure::many(self.errors(name)).hint(self.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(lines: &[(u64, &str)], plausible: bool) -> Damage {
        let malformed = lines.iter().map(|(line, message)| MalformedLine {
            line: *line,
            column: 7,
            message: (*message).to_owned(),
            plausible,
        });
        Damage { malformed: malformed.collect(), some_read: false }
    }

    #[test]
    fn the_same_mistake_is_said_once() {
        let name = Name::new(std::path::Path::new("f"));
        let lines = [(1, "a"), (2, "a"), (3, "a"), (5, "a"), (6, "b")];
        let errors = damage(&lines, true).errors(&name);
        assert_eq!(
            errors,
            [
                "f, line 1, column 7: a (and 2 lines after it)",
                "f, line 5, column 7: a",
                "f, line 6, column 7: b",
            ]
        );
        let errors = damage(&lines, false).errors(&name);
        assert_eq!(errors, ["f does not look like JSON Lines: line 1, column 7: a"]);
    }

    #[test]
    fn what_is_missing_stands_after_the_last_line_read() {
        let damage = damage(&[(2, "a"), (4, "b")], true);
        assert_eq!(damage.first_after(1), Some(2));
        assert_eq!(damage.first_after(3), Some(4));
        assert_eq!(damage.first_after(5), None);
    }
}
