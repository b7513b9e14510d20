//! Which execution of a file is meant.

use std::collections::BTreeMap;

use indelible_journal::{Event, JournalKey, Record, Status};

use super::name::Name;
use crate::columns::{Cell, Column, lines};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::{count, plain};

/// How many executions an error lists.
const LISTED_MAX: usize = 20;
/// A listed name is cut here.
const NAME_WIDTH_MAX: usize = 40;
/// Stands for the root's digits in tables.
const ROOT: &str = "root";

/// How well a key matches; the best match wins, whatever its place in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The key begins with the wanted text.
    Beginning,
    /// The first digits of the root, or `root`, then the whole path; attempts may be left out.
    Short,
    /// The execution's id; several attempts may have it.
    Execution,
    /// The key itself.
    Key,
}

/// What an error lists of an execution.
struct ExecutionSummary {
    function: Option<String>,
    status: &'static str,
}

/// Collects the keys of a file, and the best match so far.
pub(super) struct Selection {
    wanted: Option<String>,
    seen: BTreeMap<JournalKey, ExecutionSummary>,
    fit: Option<Fit>,
    /// All keys that match that well.
    fitting: Vec<JournalKey>,
}

impl Selection {
    pub(super) fn new(wanted: Option<String>) -> Self {
        Self { wanted, seen: BTreeMap::new(), fit: None, fitting: Vec::new() }
    }

    /// Takes note of a line, and returns whether it belongs to the best match so far.
    pub(super) fn meets(&mut self, key: &JournalKey, record: &Record) -> bool {
        match self.seen.get_mut(key) {
            Some(seen) => seen.note(&record.event),
            None => {
                let mut seen = ExecutionSummary { function: None, status: "-" };
                seen.note(&record.event);
                self.seen.insert(key.clone(), seen);
                self.consider(key);
            }
        }
        self.chosen() == Some(key)
    }

    fn consider(&mut self, key: &JournalKey) {
        let fit = match &self.wanted {
            None => Some(Fit::Beginning),
            Some(wanted) => fit(wanted, key),
        };
        if fit.is_some() && fit >= self.fit {
            if fit > self.fit {
                self.fitting.clear();
                self.fit = fit;
            }
            self.fitting.push(key.clone());
        }
    }

    /// The selected key, if exactly one matches.
    pub(super) fn chosen(&self) -> Option<&JournalKey> {
        match self.fitting.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Why no key is selected, after other errors.
    pub(super) fn failure(&self, mut errors: Vec<String>, file: &Name) -> Failure {
        let seen = count(self.seen.len() as u64, "execution");
        let (error, list, hint) = match &self.wanted {
            None => (
                format!("{file} holds {seen}"),
                self.listed(self.seen.keys().collect()),
                "choose one with --execution; its first digits are enough",
            ),
            Some(wanted) if self.fitting.is_empty() => (
                format!("none of {seen} in {file} matches `{}`", wanted.escape_debug()),
                self.listed(self.seen.keys().collect()),
                "--execution takes a key, an execution's id, or the beginning of one",
            ),
            Some(wanted) => {
                let mut fitting: Vec<&JournalKey> = self.fitting.iter().collect();
                fitting.sort();
                let many = count(fitting.len() as u64, "execution");
                (
                    format!("`{}` matches {many} in {file}", wanted.escape_debug()),
                    self.listed(fitting),
                    "give more digits, or add the attempts after an @",
                )
            }
        };
        errors.push(error);
        Failure::many(errors).list(list).hint(hint)
    }

    /// Keys, functions and statuses, in columns.
    fn listed(&self, keys: Vec<&JournalKey>) -> Vec<String> {
        let more = keys.len().saturating_sub(LISTED_MAX);
        let rows: Vec<[Cell; 3]> = keys
            .into_iter()
            .take(LISTED_MAX)
            .map(|key| {
                let seen = &self.seen[key];
                let function = seen.function.as_deref().unwrap_or("-");
                [&key.to_string(), function, seen.status].map(Cell::new)
            })
            .collect();
        let columns = [""; 3].map(Column::left);
        let mut list = lines(&columns, &rows, Screen::new(None, None));
        if more > 0 {
            list.push(format!("… and {more} more"));
        }
        list
    }
}

impl ExecutionSummary {
    /// Updates the status after an event, legal or not.
    fn note(&mut self, event: &Event) {
        if let Event::ExecutionStarted(started) = event {
            let name = plain(started.function_name.as_str(), NAME_WIDTH_MAX);
            self.function.get_or_insert(name);
        }
        self.status = match event {
            Event::ExecutionStarted(_)
            | Event::ExecutionResumed
            | Event::ExecutionAwaiting { .. }
            | Event::CancelRequested { .. }
            | Event::ExecutionCompleted { .. }
            | Event::ExecutionFailed { .. }
            | Event::ExecutionCancelled { .. } => Status::Running.after(event).name(),
            _ => self.status,
        };
    }
}

/// How well a key matches `ROOT.PATH@ATTEMPTS`, whose end may be left out.
fn fit(wanted: &str, key: &JournalKey) -> Option<Fit> {
    let text = key.to_string();
    let (id, attempts) = text.split_once('@')?;
    if wanted == text {
        return Some(Fit::Key);
    }
    if wanted == id {
        return Some(Fit::Execution);
    }
    let (wanted_id, wanted_attempts) = match wanted.split_once('@') {
        Some((id, attempts)) => (id, Some(attempts)),
        None => (wanted, None),
    };
    let (root, path) = halves(id);
    let (wanted_root, wanted_path) = halves(wanted_id);
    if wanted_root.is_empty() || !(wanted_root == ROOT || root.starts_with(wanted_root)) {
        return None;
    }
    match wanted_attempts {
        None if path == wanted_path => Some(Fit::Short),
        None => path.starts_with(wanted_path).then_some(Fit::Beginning),
        Some(_) if path != wanted_path => None,
        Some(wanted) if attempts == wanted => Some(Fit::Short),
        Some(wanted) => attempts.starts_with(wanted).then_some(Fit::Beginning),
    }
}

/// The root's digits, and the path with its leading dot.
fn halves(id: &str) -> (&str, &str) {
    id.split_at(id.find('.').unwrap_or(id.len()))
}

#[cfg(test)]
mod tests {
    use indelible_journal::{Sequence, Timestamp};

    use super::*;

    const HASH: &str = "9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b";

    fn chosen(wanted: &str, keys: &[&str]) -> Option<String> {
        let mut selection = Selection::new(Some(wanted.to_owned()));
        let (sequence, timestamp) = (Sequence::new(0), Timestamp::EPOCH);
        let record = Record { sequence, timestamp, event: Event::ExecutionResumed };
        for key in keys {
            selection.meets(&key.parse().unwrap(), &record);
        }
        selection.chosen().map(ToString::to_string)
    }

    #[test]
    fn the_best_fit_wins() {
        let (first, second) = (format!("{HASH}@1"), format!("{HASH}@2"));
        let (child, grandchild) = (format!("{HASH}.1@1.1"), format!("{HASH}.1.0@1.1.1"));
        let keys = [&*grandchild, &child, &first];
        assert_eq!(chosen("9c4f", &keys), Some(first.clone()), "the root before its children");
        assert_eq!(chosen(HASH, &keys), Some(first.clone()));
        assert_eq!(chosen("9c4f1a2b.1", &keys), Some(child.clone()), "the form that we print");
        assert_eq!(chosen("9c4f1a2b.1.0@1.1.1", &keys), Some(grandchild.clone()));
        assert_eq!(chosen(&format!("{HASH}.1.0@1"), &keys), Some(grandchild.clone()), "beginning");
        assert_eq!(chosen("9c4f.1.0@1", &keys), Some(grandchild.clone()), "the same in short");
        assert_eq!(chosen("9c4f.1.", &keys), Some(grandchild.clone()));
        assert_eq!(chosen("9c4e", &keys), None);
        assert_eq!(chosen("9c4f", &[&first, &second]), None, "two attempts");
        assert_eq!(chosen("9c4f@2", &[&first, &second]), Some(second));
    }

    #[test]
    fn root_stands_for_the_digits_of_the_only_tree() {
        let (first, child) = (format!("{HASH}@1"), format!("{HASH}.1@1.1"));
        let other = child.replace("9c", "ab");
        assert_eq!(chosen("root", &[&child, &first]), Some(first.clone()));
        assert_eq!(chosen("root.1", &[&first, &child]), Some(child.clone()));
        assert_eq!(chosen("root.1@1.1", &[&first, &child]), Some(child.clone()));
        assert_eq!(chosen("root.1", &[&first, &child, &other]), None, "two trees");
        assert_eq!(chosen("roo", &[&first]), None);
        assert_eq!(chosen(".1", &[&first, &child]), None);
    }
}
