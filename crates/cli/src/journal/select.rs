//! Which execution of a file is meant.

use std::collections::BTreeSet;

use indelible_journal::JournalKey;

use super::text::count;
use crate::failure::Failure;

/// How many executions an error lists.
const LISTED_MAX: usize = 20;

/// How well a key fits what was asked for; the best fit wins, whatever comes first in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It begins so.
    Prefix,
    /// The short form that we print: first digits of the root, then the whole path.
    Short,
    /// The execution's id; there may be several attempts.
    Execution,
    /// The key itself.
    Key,
}

/// Follows the keys of a file as they come, and holds the one that is meant so far.
pub(super) struct Selection {
    wanted: Option<String>,
    seen: BTreeSet<JournalKey>,
    fit: Option<Fit>,
    /// All that fit so well, in the order of their first lines.
    fitting: Vec<JournalKey>,
}

impl Selection {
    pub(super) fn new(wanted: Option<String>) -> Self {
        Self { wanted, seen: BTreeSet::new(), fit: None, fitting: Vec::new() }
    }

    /// Takes note of a key, and says whether it is the one, as far as is known.
    pub(super) fn meets(&mut self, key: &JournalKey) -> bool {
        if !self.seen.contains(key) {
            self.seen.insert(key.clone());
            let fit = match &self.wanted {
                None => Some(Fit::Prefix),
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
        self.chosen() == Some(key)
    }

    /// The key that is meant, if it is one.
    pub(super) fn chosen(&self) -> Option<&JournalKey> {
        match self.fitting.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Whether there was no key at all.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Why there is none.
    pub(super) fn failure(&self, file: &str) -> Failure {
        let seen = count(self.seen.len() as u64, "execution");
        match &self.wanted {
            None => Failure::new(format!("{file} holds {seen}"))
                .list(listed(self.seen.iter()))
                .hint("name one with --execution; its first digits are enough"),
            Some(wanted) if self.fitting.is_empty() => {
                Failure::new(format!("none of {seen} in {file} is `{}`", wanted.escape_debug()))
                    .list(listed(self.seen.iter()))
                    .hint("--execution takes a key, an execution's id, or the beginning of one")
            }
            Some(wanted) => {
                let fitting = count(self.fitting.len() as u64, "execution");
                Failure::new(format!("`{}` means {fitting} in {file}", wanted.escape_debug()))
                    .list(listed(self.fitting.iter()))
                    .hint("give more digits, or the attempts after an @")
            }
        }
    }
}

fn listed<'a>(keys: impl ExactSizeIterator<Item = &'a JournalKey>) -> Vec<String> {
    let more = keys.len().saturating_sub(LISTED_MAX);
    let mut list: Vec<String> = keys.take(LISTED_MAX).map(JournalKey::to_string).collect();
    if more > 0 {
        list.push(format!("… and {more} more"));
    }
    list
}

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
    let same_attempts = wanted_attempts.is_none_or(|wanted| wanted == attempts);
    if !wanted.is_empty() && root.starts_with(wanted_root) && path == wanted_path && same_attempts {
        return Some(Fit::Short);
    }
    text.starts_with(wanted).then_some(Fit::Prefix)
}

/// The root's digits, and the path with its leading dot.
fn halves(id: &str) -> (&str, &str) {
    id.split_at(id.find('.').unwrap_or(id.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b9c4f1a2b";

    fn chosen(wanted: &str, keys: &[&str]) -> Option<String> {
        let mut selection = Selection::new(Some(wanted.to_owned()));
        for key in keys {
            selection.meets(&key.parse().unwrap());
        }
        selection.chosen().map(ToString::to_string)
    }

    #[test]
    fn the_best_fit_wins() {
        let (first, second) = (format!("{ROOT}@1"), format!("{ROOT}@2"));
        let (child, grandchild) = (format!("{ROOT}.1@1.1"), format!("{ROOT}.1.0@1.1.1"));
        let keys = [&*grandchild, &child, &first];
        assert_eq!(chosen("9c4f", &keys), Some(first.clone()), "the root before its children");
        assert_eq!(chosen(ROOT, &keys), Some(first.clone()));
        assert_eq!(chosen("9c4f1a2b.1", &keys), Some(child.clone()), "the form that we print");
        assert_eq!(chosen("9c4f1a2b.1.0@1.1.1", &keys), Some(grandchild.clone()));
        assert_eq!(chosen(&format!("{ROOT}.1.0@1"), &keys), Some(grandchild.clone()), "a prefix");
        assert_eq!(chosen("9c4e", &keys), None);
        assert_eq!(chosen("9c4f", &[&first, &second]), None, "two attempts");
        assert_eq!(chosen("9c4f@2", &[&first, &second]), Some(second));
        assert_eq!(chosen("", &[&first]), Some(first.clone()));
        assert_eq!(chosen("", &[&first, &child]), None);
    }
}
