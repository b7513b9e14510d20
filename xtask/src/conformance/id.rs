//! Ids of requirements, the groups they belong to, and finding them in a text.

use std::fmt;

use serde::{Serialize, Serializer};

/// The letters of ids, in the order of the report.
const GROUPS: [&str; 11] = ["V", "J", "S", "SE", "CF", "JS", "INV", "I", "Q", "O", "C"];

/// The id of a requirement, such as the 61st of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    /// An index in `GROUPS`.
    group: usize,
    number: u32,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", GROUPS[self.group], self.number)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Id {
    /// `None` if the text is not an id of a known group.
    pub(crate) fn parse(text: &str) -> Option<Id> {
        let (letters, digits) = text.split_once('-')?;
        let group = GROUPS.iter().position(|it| *it == letters)?;
        let number = digits.parse().ok().filter(|it| *it > 0 && u32::to_string(it) == digits)?;
        Some(Id { group, number })
    }

    /// The section of the report that counts it.
    pub(crate) fn section(self) -> &'static str {
        let group = GROUPS[self.group];
        if ["S", "SE", "CF", "JS", "INV"].contains(&group) { "invariants" } else { group }
    }
}

/// The ids in a text, each with its byte offset. An id is a whole word: letters, digits, `_` and
/// an inner `-` on either side make it part of a longer one.
pub(crate) fn find(text: &str) -> impl Iterator<Item = (usize, Id)> {
    let mut end = 0;
    text.split_inclusive(|it: char| !is_word(it)).filter_map(move |part| {
        end += part.len();
        // A dash at the end of a word is punctuation.
        let word = part.trim_end_matches(|it: char| !is_word(it)).trim_end_matches('-');
        Some((end - part.len(), Id::parse(word)?))
    })
}

/// Whether an id after `text` is a reference: the text ends in `see`, or continues a list that
/// began after `see`.
pub(crate) fn leads_to_reference(text: &str, is_list: bool) -> bool {
    // A list can go on in the next line of a comment, and its ids can be quoted.
    let is_text = |it: &&str| !["//", "///", "//!"].contains(it);
    let text = text.split_whitespace().filter(is_text).collect::<Vec<_>>().join(" ");
    let text = text.trim_matches([' ', '`', '!', '*']);
    text.rsplit(|it| !is_word(it)).next().is_some_and(|it| it.eq_ignore_ascii_case("see"))
        || (is_list && [",", "and", ", and", "to", "..", "/"].contains(&text))
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_' || it == '-'
}

/// Ids in order, with runs of three or more as ranges.
pub(crate) fn ranges(ids: &[Id]) -> String {
    let mut parts = Vec::new();
    for run in ids.chunk_by(|a, b| a.group == b.group && a.number + 1 == b.number) {
        match run {
            [first, _, .., last] => parts.push(format!("{first}..{last}")),
            few => parts.extend(few.iter().map(Id::to_string)),
        }
    }
    parts.join(", ")
}
