//! A file of JSON Lines, read line by line: it may be larger than memory.

#![expect(clippy::disallowed_methods, reason = "the CLI is a shell: it opens the user's file")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use indelible_journal::json::{self, ParseError};
use indelible_journal::{JournalKey, Record};

use crate::failure::Failure;

/// The longest line that is read. Payloads are bounded far below it; without a bound, a file
/// without line breaks would be read into memory whole.
const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The lines of one file.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    is_stdin: bool,
    number: u64,
    buffer: Vec<u8>,
    over: bool,
}

/// A line that could be read.
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    pub(super) key: JournalKey,
    pub(super) record: Record,
}

/// A line that could not.
#[derive(serde::Serialize)]
pub(super) struct Malformed {
    /// From 1.
    pub(super) line: u64,
    /// In bytes, from 1.
    pub(super) column: usize,
    pub(super) message: String,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let is_stdin = path.as_os_str() == "-";
        let (reader, name): (Box<dyn BufRead>, _) = if is_stdin {
            (Box::new(BufReader::new(io::stdin())), "standard input".to_owned())
        } else {
            let name = path.display().to_string();
            match File::open(path) {
                Ok(file) => (Box::new(BufReader::with_capacity(1 << 16, file)), name),
                Err(error) => {
                    return Err(Failure::new(format!("cannot read {name}: {error}"))
                        .hint("give a file of JSON Lines, or - for standard input"));
                }
            }
        };
        Ok(Self { reader, name, is_stdin, number: 0, buffer: Vec::new(), over: false })
    }

    /// What the file is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How it was named on the command line.
    pub(super) fn argument(&self) -> &str {
        if self.is_stdin { "-" } else { &self.name }
    }

    /// The next line; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Result<Line, Malformed>>, Failure> {
        if self.over {
            return Ok(None);
        }
        self.buffer.clear();
        let mut bounded = self.reader.by_ref().take(LINE_BYTES_MAX + 1);
        let count = bounded
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", self.name)))?;
        if count == 0 {
            self.over = true;
            return Ok(None);
        }
        self.number += 1;
        if count as u64 > LINE_BYTES_MAX {
            self.over = true;
            let message = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            return Ok(Some(Err(self.malformed(ParseError { column: 1, message }))));
        }
        Ok(Some(self.parse().map_err(|error| self.malformed(error))))
    }

    fn parse(&self) -> Result<Line, ParseError> {
        let text = std::str::from_utf8(&self.buffer).map_err(|error| ParseError {
            column: error.valid_up_to() + 1,
            message: "not UTF-8".to_owned(),
        })?;
        let (key, record) = json::parse_line(text)?;
        Ok(Line { number: self.number, key, record })
    }

    fn malformed(&self, error: ParseError) -> Malformed {
        Malformed { line: self.number, column: error.column, message: error.message }
    }

    /// The error of a line that could not be read, with its place.
    pub(super) fn describe(&self, malformed: &Malformed) -> String {
        let Malformed { line, column, message } = malformed;
        format!("{}, line {line}, column {column}: {message}", self.name)
    }

    /// The error of a file without a single line.
    pub(super) fn empty(&self) -> Failure {
        Failure::new(format!("{}: no events", self.name))
            .hint("an export has one event a line; see docs/formats/journal-jsonl.md")
    }
}
