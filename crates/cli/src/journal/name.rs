//! The name of a file: in messages, and in commands that can be pasted into a shell.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::text::rewrites;

/// The file of one command; `-` is standard input.
pub(super) struct Name(PathBuf);

impl Name {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(super) fn is_stdin(&self) -> bool {
        self.0.as_os_str() == "-"
    }

    /// A command on the same file, for a hint; none for standard input, which has been read.
    pub(super) fn command(&self, command: &str) -> Option<String> {
        if self.is_stdin() {
            return None;
        }
        let bytes = self.0.as_os_str().as_encoded_bytes();
        let dashes = if bytes.starts_with(b"-") { "-- " } else { "" };
        Some(format!("`indelible journal {command} {dashes}{}`", quoted(bytes)))
    }
}

/// For messages: without control characters.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_stdin() {
            return f.write_str("standard input");
        }
        self.0.to_string_lossy().chars().try_for_each(|c| match rewrites(c) {
            true => write!(f, "{}", c.escape_unicode()),
            false => write!(f, "{c}"),
        })
    }
}

/// One word of a POSIX shell; `$'…'` only for text that other quotes cannot show.
fn quoted(bytes: &[u8]) -> String {
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(safe) => text.to_owned(),
        Ok(text) if !text.chars().any(rewrites) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let escaped = bytes.iter().map(|byte| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                byte => format!("\\{byte:03o}"),
            });
            format!("$'{}'", escaped.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let check = |path: &str, expected: &str| {
            let command = Name::new(Path::new(path)).command("verify").unwrap();
            assert_eq!(command, format!("`indelible journal verify {expected}`"));
        };
        check("a/b-1.jsonl", "a/b-1.jsonl");
        check("my file", "'my file'");
        check("it's", r"'it'\''s'");
        check("-x", "-- -x");
        check("- x", "-- '- x'");
        check("a\u{1b}[2J'\\", r"$'a\033[2J\'\\'");
        check("日本", "'日本'");
        assert!(Name::new(Path::new("-")).command("verify").is_none());
        assert_eq!(quoted(b"\xff"), r"$'\377'");
    }

    #[test]
    fn a_message_shows_no_control_characters() {
        assert_eq!(Name::new(Path::new("a\u{1b}\n")).to_string(), "a\\u{1b}\\u{a}");
        assert_eq!(Name::new(Path::new("-")).to_string(), "standard input");
    }
}
