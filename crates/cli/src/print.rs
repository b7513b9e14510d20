//! Writing: data to stdout, messages to stderr, and nothing that moves the terminal's cursor.

use std::io::{self, Write};
use std::os::fd::AsFd as _;

use serde::Serialize;
use tokio::io::{Interest, Ready};
use tokio::net::unix::pipe;

use crate::failure::{Failure, quiet, stop_when_unread};
use crate::text::rewrites;

/// The version of what `--json` prints: `docs/formats/cli-json.md`.
pub(crate) const VERSION: u32 = 1;

/// An object that `--json` prints.
#[derive(Serialize)]
struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    value: T,
}

/// Writes data as a JSON object, on a line of its own.
pub(crate) fn object(value: impl Serialize, out: &mut impl Write) -> Result<(), Failure> {
    text(&line(value)?, out)
}

/// A JSON object as a line.
pub(crate) fn line(value: impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(&Versioned { v: VERSION, value });
    line.map(|line| line + "\n").map_err(|error| Failure::output(&error.into()))
}

/// Writes data as a JSON object over several lines.
pub(crate) fn pretty(document: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// Reports what was done: a JSON object for a program, a message on stderr for a person.
pub(crate) fn done(
    value: impl Serialize,
    words: &str,
    json: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if json {
        return object(value, out);
    }
    tell(words);
    Ok(())
}

/// Writes text for people, as it is.
pub(crate) fn text(text: &str, out: &mut impl Write) -> Result<(), Failure> {
    bytes(text.as_bytes(), out)
}

/// Writes bytes, as they are.
pub(crate) fn bytes(bytes: &[u8], out: &mut impl Write) -> Result<(), Failure> {
    quiet(out.write_all(bytes)).map_err(|error| Failure::output(&error))
}

/// Writes a part of output that is produced only while stdout is read.
pub(crate) fn part(bytes: impl AsRef<[u8]>, out: &mut impl Write) -> Result<(), Failure> {
    stop_when_unread(out.write_all(bytes.as_ref()))
}

/// Whether the reader of stdout is gone. A command that has nothing to write would not notice
/// otherwise. Waits while the reader is slow. If stdout is not a pipe, the answer is no.
pub(crate) async fn is_reader_gone() -> bool {
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    // The descriptor is only polled, so its flags stay as they are: other processes may share it.
    let pipe = stdout.and_then(|stdout| pipe::Sender::from_file_unchecked(stdout.into()));
    match pipe {
        Ok(pipe) => pipe.ready(Interest::WRITABLE).await.is_ok_and(Ready::is_write_closed),
        Err(_) => false,
    }
}

/// Writes a message for people that is about the output before it, and so comes after it.
pub(crate) fn note(text: &str, out: &mut impl Write) {
    // What cannot be written now fails again, and is reported, when the command ends.
    _ = out.flush();
    tell(text);
}

/// Writes a message for people to stderr.
pub(crate) fn tell(text: &str) {
    // If stderr is closed there is no other place to say so.
    _ = writeln!(io::stderr(), "{}", lines(text));
}

/// Several lines, each made plain: the frames of a trap are one below the other.
pub(crate) fn lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// One line, whatever the text has in it: text of a guest must not move the cursor.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if rewrites(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object has its version first, and its fields are not changed.
    #[test]
    fn objects_have_a_version() {
        #[derive(Serialize)]
        struct Data {
            raw: Box<serde_json::value::RawValue>,
        }
        let raw = serde_json::from_str("1.50").unwrap();
        let mut out = Vec::new();
        object(Data { raw }, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"v\":1,\"raw\":1.50}\n");
    }

    /// Without a reader, a finished command still succeeds; output that follows something ends.
    #[test]
    fn a_reader_that_is_gone() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(text("a", &mut Gone).is_ok());
        assert_eq!(part("a", &mut Gone).unwrap_err().code(), 0);
    }

    #[test]
    fn text_stays_where_it_is() {
        assert_eq!(plain("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(lines("a\u{7}\n  b"), "a\\u{7}\n  b");
    }
}
