//! The files of the log, and positions in them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What the names of segments end with.
const SUFFIX: &str = ".jsonl";

/// The numbers of the segments that there are, the oldest first. None if there is no folder.
pub(super) fn list(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.extend(entry?.file_name().to_str().and_then(number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Where a segment is.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}{SUFFIX}"))
}

/// The number of a segment, if this is exactly the name that this program would give it.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = digits.parse().ok()?;
    (number > 0 && digits == format!("{number:08}")).then_some(number)
}

/// A position between two lines: a segment, and how many of its bytes come before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPosition {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

impl LogPosition {
    /// Before everything.
    pub(crate) const FIRST: Self = Self { segment: 1, offset: 0 };
}

/// The text is not a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPositionError;

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.segment, self.offset)
    }
}

impl FromStr for LogPosition {
    type Err = LogPositionError;

    fn from_str(text: &str) -> Result<Self, LogPositionError> {
        let (segment, offset) = text.split_once('_').ok_or(LogPositionError)?;
        let place = Self {
            segment: segment.parse().map_err(|_| LogPositionError)?,
            offset: offset.parse().map_err(|_| LogPositionError)?,
        };
        // One spelling each.
        if place.to_string() == text { Ok(place) } else { Err(LogPositionError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that are not the program's own are passed over; places have one spelling.
    #[test]
    fn names_and_places() {
        assert_eq!(number("00000001.jsonl"), Some(1));
        assert_eq!(number("123456789.jsonl"), Some(123_456_789));
        for other in
            ["1.jsonl", "00000000.jsonl", "00000001.json", "0000000a.jsonl", "+0000001.jsonl"]
        {
            assert_eq!(number(other), None, "{other}");
        }
        let place = LogPosition { segment: 3, offset: 17 };
        assert_eq!(place.to_string().parse(), Ok(place));
        for other in ["", "_", "3", "3_", "_17", "03_17", "3_+17", "3_17_1", "-3_1", "3 _17"] {
            assert_eq!(other.parse::<LogPosition>(), Err(LogPositionError), "{other}");
        }
    }
}
