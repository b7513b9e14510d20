//! Ids of requirements, the groups they belong to, and finding them in a text.

use std::fmt;
use std::str::FromStr;

/// What the letters of an id stand for, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    V,
    J,
    S,
    Se,
    Cf,
    Js,
    Inv,
    I,
    Q,
    O,
    C,
}

impl Group {
    const ALL: [(&str, Group); 11] = [
        ("V", Group::V),
        ("J", Group::J),
        ("S", Group::S),
        ("SE", Group::Se),
        ("CF", Group::Cf),
        ("JS", Group::Js),
        ("INV", Group::Inv),
        ("I", Group::I),
        ("Q", Group::Q),
        ("O", Group::O),
        ("C", Group::C),
    ];

    fn parse(letters: &str) -> Option<Group> {
        Self::ALL.iter().find(|(name, _)| *name == letters).map(|(_, group)| *group)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, group)| *group == self).map_or("", |(name, _)| name)
    }
}

/// The id of a requirement, such as the 61st of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) group: Group,
    pub(crate) number: u32,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.group.name(), self.number)
    }
}

/// The text is not an id of a known group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAnId;

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Id, NotAnId> {
        let (letters, digits) = text.split_once('-').ok_or(NotAnId)?;
        let group = Group::parse(letters).ok_or(NotAnId)?;
        let canonical = digits.bytes().all(|it| it.is_ascii_digit()) && !digits.starts_with('0');
        let number = digits.parse().ok().filter(|_| canonical).ok_or(NotAnId)?;
        Ok(Id { group, number })
    }
}

/// The ids in a text, each with its byte offset. An id is a whole word: letters, digits, `_` and
/// an inner `-` on either side make it part of a longer one.
pub(crate) fn find(text: &str) -> Vec<(usize, Id)> {
    let mut found = Vec::new();
    let mut offset = 0;
    for word in text.split(|it: char| !is_word(it)) {
        // A dash at the end of a word is punctuation.
        if let Ok(id) = word.trim_end_matches('-').parse() {
            found.push((offset, id));
        }
        offset += word.len() + text[offset + word.len()..].chars().next().map_or(0, char::len_utf8);
    }
    found
}

/// Whether an id behind `text` is a reference: the text ends in `see`, or it joins the id to a list
/// that began behind one.
pub(crate) fn leads_to_reference(text: &str, is_list: bool) -> bool {
    // Ids can be quoted, and a list can go on in the next line of a comment.
    let text = text.trim_matches(|it: char| it.is_whitespace() || "`!*".contains(it));
    let last = text.rsplit(|it| !is_word(it)).next().unwrap_or(text);
    last.eq_ignore_ascii_case("see")
        || (is_list && [",", "and", ", and", "to", "..", "/", "//", "///"].contains(&text))
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
