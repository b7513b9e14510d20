//! `cargo xtask tidy`: house rules that no other tool knows. A file says what it owns and is not too
//! long, and comments have subjects.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it reads the source tree")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Past this many lines a reader no longer finds their way.
const FILE_LINES_MAX: usize = 900;

/// Words that stand where a comment should say tree, caller, worker, row, lock or commit.
const NO_SUBJECTS: [&str; 4] = ["nobody", "whoever", "somebody", "everybody"];

/// Comments in which such a word is right: the end of a path, and a part of the line.
const ALLOWED: [(&str, &str); 0] = [];

/// Prints every problem of every Rust file; true if there is none.
pub(crate) fn run(root: &Path, err: &mut dyn Write) -> anyhow::Result<bool> {
    let mut clean = true;
    for folder in ["crates", "examples", "guests", "xtask"] {
        for path in rust_files(&root.join(folder))? {
            let text = fs::read_to_string(&path)?;
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            for problem in problems(&shown, &text) {
                clean = false;
                writeln!(err, "error: {shown}{problem}")?;
            }
        }
    }
    Ok(clean)
}

fn problems(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push(": does not open with a `//!` line that says what it owns".to_owned());
    }
    // What a tool wrote is read by tools.
    if text.starts_with("//! Generated") {
        return problems;
    }
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        problems.push(format!(": has {lines} lines; split it before {FILE_LINES_MAX}"));
    }
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = comment(line) else { continue };
        let allowed = |(file, part): &(&str, &str)| path.ends_with(file) && line.contains(part);
        for word in words_without_subject(comment) {
            if !ALLOWED.iter().any(allowed) {
                let number = index + 1;
                problems.push(format!(":{number}: \"{word}\": say which caller, worker or row"));
            }
        }
    }
    problems
}

/// The comment of a line: what follows the first `//` that no string literal holds. A literal over
/// several lines is taken for code, which at worst finds a word too many.
fn comment(line: &str) -> Option<&str> {
    let quotes = |text: &str| text.matches('"').count() - text.matches("\\\"").count();
    let is_quoted = |at: usize| quotes(&line[..at]) % 2 == 1;
    let (at, _) = line.match_indices("//").find(|(at, _)| !is_quoted(*at))?;
    Some(&line[at..])
}

fn words_without_subject(comment: &str) -> impl Iterator<Item = &'static str> {
    let words = comment.split(|char: char| !char.is_alphanumeric()).map(str::to_ascii_lowercase);
    words.filter_map(|word| NO_SUBJECTS.into_iter().find(|refused| *refused == word))
}

fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            // What a compiler wrote is no source.
            if path.ends_with("target") {
                continue;
            }
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The house rules can be broken.
    #[test]
    fn tidy_finds_problems() {
        let count = |text: &str| problems("crates/a/src/lib.rs", text).len();
        assert_eq!(count("//! Owns nothing.\n"), 0);
        assert_eq!(count("fn main() {}\n"), 1);
        assert_eq!(count(&"//! Too long.\n".repeat(FILE_LINES_MAX + 1)), 1);
        assert_eq!(count(&"//! Generated.\n".repeat(FILE_LINES_MAX + 1)), 0);
    }

    /// A comment needs a subject; a string, a longer word and an address do not count.
    #[test]
    fn tidy_finds_comments_without_subject() {
        let found = |line: &str| problems("a.rs", &format!("//! Owns nothing.\n{line}\n"));
        assert_eq!(found("let row = 1; // Nobody has it.").len(), 1);
        assert_eq!(found("/// Whoever waits, and somebody else.").len(), 2);
        assert!(found("/// A.")[..].is_empty());
        assert!(found("print(\"nobody // somebody\");").is_empty());
        assert!(found("let url = \"http://a\"; // A busybody.").is_empty());
        assert!(found("// A row.\n/// everybody").iter().all(|problem| problem.starts_with(":3:")));
    }
}
