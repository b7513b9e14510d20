//! A file of JSON Lines, read line by line: the file may be larger than memory.

#![expect(clippy::disallowed_methods, reason = "the CLI is a shell: it opens the user's file")]

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use indelible_journal::json::{self, ParseError};
use indelible_journal::{JournalKey, Record};

use super::damage::{Damage, MalformedLine};
use super::name::Name;
use crate::failure::Failure;

/// The longest line that is read, with its line break. Payloads are bounded far below it; without a
/// bound, a file without line breaks would be read into memory whole.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The lines of a file, and its unreadable ones.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    name: Name,
    number: u64,
    buffer: Vec<u8>,
    over: bool,
    damage: Damage,
}

pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    pub(super) key: JournalKey,
    pub(super) record: Record,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = Name::new(path);
        let reader: Box<dyn BufRead> = if name.is_stdin() {
            Box::new(BufReader::new(io::stdin()))
        } else {
            match File::open(path) {
                Ok(file) => Box::new(BufReader::with_capacity(1 << 16, file)),
                Err(error) => {
                    return Err(Failure::new(format!("cannot read {name}: {error}"))
                        .hint("give a file of JSON Lines, or - for standard input"));
                }
            }
        };
        let (number, buffer, damage) = (0, Vec::new(), Damage::default());
        Ok(Self { reader, name, number, buffer, over: false, damage })
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    /// The unreadable lines so far.
    pub(super) fn damage(&self) -> &Damage {
        &self.damage
    }

    /// The next readable line; none at the end, or after too many unreadable ones.
    pub(super) fn next(&mut self) -> Result<Option<Line>, Failure> {
        while !self.over && !self.damage.gave_up() {
            self.buffer.clear();
            let read = read_line(&mut self.reader, &mut self.buffer, LINE_BYTES_MAX)
                .map_err(|error| Failure::new(format!("cannot read {}: {error}", self.name)))?;
            self.number += 1;
            let parsed = match read {
                Read::Nothing => {
                    self.over = true;
                    break;
                }
                Read::TooLong => {
                    // The end of the line may be far away, so nothing after it is read.
                    self.over = true;
                    let max = LINE_BYTES_MAX;
                    let message = format!("longer than {max} bytes; nothing after it was read");
                    Err(ParseError { column: 1, message })
                }
                Read::Line => parse(&self.buffer, self.number),
            };
            match parsed {
                Ok((key, record)) => {
                    self.damage.some_read = true;
                    return Ok(Some(Line { number: self.number, key, record }));
                }
                Err(ParseError { column, message }) => {
                    let (line, plausible) = (self.number, plausible(&self.buffer));
                    self.damage.malformed.push(MalformedLine { line, column, message, plausible });
                }
            }
        }
        Ok(None)
    }

    /// The error for a file without any line.
    pub(super) fn empty(&self) -> Failure {
        Failure::new(format!("{}: no events", self.name))
            .hint("an export has one event a line; see docs/formats/journal-jsonl.md")
    }
}

fn parse(line: &[u8], number: u64) -> Result<(JournalKey, Record), ParseError> {
    let kind = match line {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] if number == 1 => "; it is UTF-16",
        [0x1f, 0x8b, ..] if number == 1 => "; it is compressed with gzip",
        _ => "",
    };
    let text = std::str::from_utf8(line).map_err(|error| ParseError {
        column: error.valid_up_to() + 1,
        message: format!("not UTF-8{kind}"),
    })?;
    json::parse_line(text)
}

/// Whether a line that is no event still looks like JSON Lines: an object that begins on this line
/// with more than its brace, unlike pretty-printed JSON.
fn plausible(line: &[u8]) -> bool {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    line.strip_prefix(b"{").is_some_and(|rest| matches!(rest.trim_ascii_start(), [b'"' | b'}', ..]))
}

/// The result of [`read_line`].
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Nothing,
    Line,
    TooLong,
}

/// Reads a line of at most `max` bytes. `read_until` would double the buffer beyond that.
fn read_line(reader: &mut impl BufRead, buffer: &mut Vec<u8>, max: usize) -> io::Result<Read> {
    loop {
        let part = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            part => part?,
        };
        if part.is_empty() {
            return Ok(if buffer.is_empty() { Read::Nothing } else { Read::Line });
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let part = &part[..end.map_or(part.len(), |end| end + 1)];
        let needed = buffer.len() + part.len();
        if needed > max {
            return Ok(Read::TooLong);
        }
        if needed > buffer.capacity() {
            let target = needed.max((2 * buffer.capacity()).min(max));
            buffer.reserve_exact(target - buffer.len());
        }
        buffer.extend_from_slice(part);
        let count = part.len();
        reader.consume(count);
        if end.is_some() {
            return Ok(Read::Line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_bounded_and_so_is_its_buffer() {
        let mut buffer = Vec::new();
        let mut read = |bytes: &[u8]| {
            buffer.clear();
            // Small reads make the buffer grow step by step.
            let mut reader = BufReader::with_capacity(3, bytes);
            let read = read_line(&mut reader, &mut buffer, 20).unwrap();
            assert!(buffer.capacity() <= 20, "{}", buffer.capacity());
            (read, String::from_utf8(buffer.clone()).unwrap())
        };
        assert_eq!(read(b""), (Read::Nothing, String::new()));
        assert_eq!(read(b"a\nb"), (Read::Line, "a\n".to_owned()));
        assert_eq!(read(b"b"), (Read::Line, "b".to_owned()));
        assert_eq!(read(&[b'x'; 20]).0, Read::Line);
        assert_eq!(read(&[b'x'; 21]).0, Read::TooLong);
        assert_eq!(read(&[b'x'; 100]).0, Read::TooLong);
    }

    #[test]
    fn other_kinds_of_files_are_told_from_broken_lines() {
        assert!(plausible(b"{\"v\":2}\n"));
        assert!(plausible(b" { \"v\":2,\"exec") && plausible(b"{}"));
        assert!(!plausible(b"{\n") && !plausible(b"  \"v\": 2,\n") && !plausible(b"\x1f\x8b"));
        assert_eq!(
            parse(b"\x1f\x8b", 1).unwrap_err().message,
            "not UTF-8; it is compressed with gzip"
        );
        assert_eq!(parse(b"\xff\xfe{\0", 1).unwrap_err().message, "not UTF-8; it is UTF-16");
        assert_eq!(parse(b"\xff\xfe{\0", 2).unwrap_err().message, "not UTF-8");
    }
}
