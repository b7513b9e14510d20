//! A line of the log as it stands in a file, which is for ever: `docs/formats/logs.md`.

use std::collections::BTreeMap;

use indelible_api::log::{Level, LogLine};
use indelible_journal::{ExecutionId, RootHash, Timestamp};
use indelible_runtime::world;
use serde::Deserialize;

/// What every line of this version begins with, up to the id of its execution. So a reader can skip
/// lines of other trees without parsing them.
const BEGINS: &str = r#"{"v":1,"execution_id":""#;

/// Marks a text that was cut.
const MARK: &str = "…";

/// A field is written only if at least so many bytes are left: fewer would show nothing of it.
const FIELD_BYTES_MIN: usize = 32;

/// The most bytes of a line beside its texts: ids are at most 63 calls deep.
const FRAME_BYTES_MAX: usize = 2_048;

/// The smallest bound of a line that makes sense.
pub(super) const LINE_BYTES_MIN: usize = FRAME_BYTES_MAX + 1_024;

/// Writes a line, with the line feed behind it, of at most so many bytes: what does not fit is cut.
pub(super) fn write(out: &mut Vec<u8>, at: Timestamp, line: &world::LogLine<'_>, bytes_max: usize) {
    let mut room = bytes_max.max(LINE_BYTES_MIN) - FRAME_BYTES_MAX;
    let mut cut = false;
    let (execution, attempts) = (line.key.execution_id(), line.key.attempts());
    let mut text = format!(
        "{BEGINS}{execution}\",\"attempts\":\"{attempts}\",\"at\":\"{at}\",\"level\":\"{}\",\
         \"message\":\"",
        level(line.level).as_str()
    );
    cut |= put(&mut text, line.message, &mut room);
    text.push_str("\",\"fields\":{");
    // Of fields with the same name, the last one counts.
    let fields: BTreeMap<_, _> = line.fields.iter().map(|(name, value)| (name, value)).collect();
    for (index, (name, value)) in fields.into_iter().enumerate() {
        if room < FIELD_BYTES_MIN {
            cut = true;
            break;
        }
        // Quotes, colon and comma around the texts.
        room -= 6;
        text.push_str(if index == 0 { "\"" } else { ",\"" });
        cut |= put(&mut text, name, &mut room);
        text.push_str("\":\"");
        cut |= put(&mut text, value, &mut room);
        text.push('"');
    }
    text.push_str(if cut { "},\"cut\":true}\n" } else { "}}\n" });
    out.extend_from_slice(text.as_bytes());
}

/// Appends a text. Control characters are escaped, also those that JSON allows, so that a terminal
/// that shows the file gets plain text only. True: the text was cut.
fn put(out: &mut String, text: &str, room: &mut usize) -> bool {
    let begins = out.len();
    // Where to cut if the next character does not fit.
    let mut fits = out.len();
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
        if out.len() - begins > *room {
            out.truncate(fits);
            out.push_str(MARK);
            *room = 0;
            return true;
        }
        if out.len() - begins + MARK.len() <= *room {
            fits = out.len();
        }
    }
    *room -= out.len() - begins;
    false
}

fn level(level: world::Level) -> Level {
    match level {
        world::Level::Trace => Level::Trace,
        world::Level::Debug => Level::Debug,
        world::Level::Info => Level::Info,
        world::Level::Warn => Level::Warn,
        world::Level::Error => Level::Error,
    }
}

/// Whether a line belongs to a tree, as far as its first bytes say.
pub(super) fn may_be_of(line: &[u8], root: &RootHash) -> bool {
    let id = line.strip_prefix(BEGINS.as_bytes());
    id.and_then(|id| id.get(..64)).is_some_and(|id| {
        let digits = id.as_chunks::<2>().0.iter().zip(root.as_bytes());
        let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
        digits.into_iter().all(|(text, byte)| *text == [digit(byte >> 4), digit(byte & 15)])
    })
}

/// A line of a file; none if it is torn, or of a version that is not known.
pub(super) fn read(line: &[u8]) -> Option<(ExecutionId, LogLine)> {
    #[derive(Deserialize)]
    struct Versioned {
        v: u32,
        #[serde(flatten)]
        line: LogLine,
    }
    let Versioned { v: 1, line } = serde_json::from_slice(line).ok()? else { return None };
    Some((line.execution_id.parse().ok()?, line))
}

#[cfg(test)]
mod tests {
    use indelible_journal::{Attempts, JournalKey, PromiseId};

    use super::*;

    fn key(root: u8, path: &[u32]) -> JournalKey {
        let promise = PromiseId::new(RootHash::from_bytes([root; 32]), path);
        let execution = ExecutionId::new(promise.expect("it is short")).expect("it is short");
        let attempts = vec!["1"; path.len() + 1].join(".").parse::<Attempts>();
        JournalKey::new(execution, attempts.expect("they are some")).expect("they fit")
    }

    fn written(message: &str, fields: &[(String, String)], bytes_max: usize) -> Vec<u8> {
        let key = key(0xab, &[0, 7]);
        let line = world::LogLine { key: &key, level: world::Level::Warn, message, fields };
        let mut out = Vec::new();
        write(&mut out, Timestamp::EPOCH, &line, bytes_max);
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        assert_eq!(out.pop(), Some(b'\n'));
        out
    }

    /// What was logged reads back as it was, whatever is in it, and the file has no control
    /// characters.
    #[test]
    fn lines_read_back() {
        let hostile = "a\"b\\c\n\r\t\u{0}\u{1b}[2J\u{7f}\u{9b}\u{2028}é🦀\"}\n{\"v\":1";
        let fields = [(hostile.to_owned(), hostile.to_owned()), ("n".to_owned(), String::new())];
        let line = written(hostile, &fields, 1 << 20);
        let text = String::from_utf8(line.clone()).expect("it is text");
        assert!(!text.contains(char::is_control), "{text:?}");
        let (execution, read) = read(&line).expect("it is a line");
        assert_eq!(execution, *key(0xab, &[0, 7]).execution_id());
        assert_eq!((read.message.as_str(), read.attempts.as_str()), (hostile, "1.1.1"));
        assert_eq!(read.fields, fields.into_iter().collect());
        assert_eq!((read.level, read.cut), (Level::Warn, false));
        assert!(may_be_of(&line, &RootHash::from_bytes([0xab; 32])));
        assert!(!may_be_of(&line, &RootHash::from_bytes([0xac; 32])));
    }

    /// A line is never longer than its bound, says that it was cut, and is still a line.
    #[test]
    fn long_lines_are_cut() {
        for bytes_max in [0, LINE_BYTES_MIN, LINE_BYTES_MIN + 1, 10_000] {
            let bound = bytes_max.max(LINE_BYTES_MIN);
            for filling in ["x", "\u{1}", "é", "🦀", "\""] {
                let long = filling.repeat(20_000);
                let line = written(&long, &[("a".to_owned(), "b".to_owned())], bytes_max);
                assert!(line.len() < bound, "{} {bytes_max}", line.len());
                let (_, read) = read(&line).expect("it is a line");
                assert!(read.cut && read.message.ends_with(MARK), "{filling}");
                assert!(long.starts_with(read.message.trim_end_matches(MARK)));
                let many = [(long.clone(), long.clone()), ("z".to_owned(), long.clone())];
                let line = written("short", &many, bytes_max);
                assert!(line.len() < bound, "{} {bytes_max}", line.len());
                let (_, read) = super::read(&line).expect("it is a line");
                assert!(read.cut && read.message == "short" && read.fields.len() == 1);
            }
        }
        // What just fits is whole.
        let room = LINE_BYTES_MIN - FRAME_BYTES_MAX;
        for (length, cut) in [(room - 1, false), (room, false), (room + 1, true)] {
            let line = written(&"x".repeat(length), &[], 0);
            assert_eq!(read(&line).expect("it is a line").1.cut, cut, "{length}");
        }
    }

    /// The id of the deepest possible execution fits into the frame.
    #[test]
    fn the_deepest_execution_fits() {
        let key = key(0xab, &[u32::MAX; 62]);
        let line =
            world::LogLine { key: &key, level: world::Level::Error, message: "", fields: &[] };
        let mut out = Vec::new();
        write(&mut out, Timestamp::MAX, &line, 0);
        assert!(out.len() < FRAME_BYTES_MAX, "{}", out.len());
    }

    /// A torn line, one of another version, and other text are skipped.
    #[test]
    fn what_is_no_line_is_none() {
        let line = written("a", &[], 0);
        for end in 0..line.len() {
            assert_eq!(read(&line[..end]), None, "{end}");
        }
        let newer = String::from_utf8(line).expect("it is text").replace("\"v\":1", "\"v\":2");
        assert_eq!(read(newer.as_bytes()), None);
        for wrong in [&b""[..], b"\0\0\0\0", b"{}", b"[1]", b"\xff"] {
            assert_eq!(read(wrong), None);
        }
    }
}
