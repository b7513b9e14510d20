//! How foreign text is shown in errors: short, and never with a character that a terminal, a log
//! or a right-to-left reader would act on.

use std::fmt;

/// So many characters of foreign text are shown at most.
const SHOWN_CHARS_MAX: usize = 40;

/// Foreign text, quoted and made harmless.
pub(crate) struct QuotedText<'a>(pub(crate) &'a str);

impl fmt::Display for QuotedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        let mut chars = self.0.chars();
        for char in chars.by_ref().take(SHOWN_CHARS_MAX) {
            if is_harmless(char) {
                write!(f, "{char}")?;
            } else {
                write!(f, "{}", char.escape_unicode())?;
            }
        }
        if chars.next().is_some() {
            f.write_str("…")?;
        }
        f.write_str("\"")
    }
}

/// Letters and digits of any script pass. Characters that are invisible, change the direction of
/// text or end the quotation do not.
fn is_harmless(char: char) -> bool {
    match char {
        ' ' => true,
        '"' | '\\' => false,
        _ if char.is_ascii() => char.is_ascii_graphic(),
        _ => char.is_alphanumeric(),
    }
}

#[cfg(test)]
mod tests {
    use super::QuotedText;

    #[test]
    fn nothing_that_acts_is_shown() {
        let shown = |text: &str| QuotedText(text).to_string();
        assert_eq!(shown("plain text-1"), "\"plain text-1\"");
        assert_eq!(shown("naïve 日本"), "\"naïve 日本\"");
        assert_eq!(shown("a\u{1b}[2J"), "\"a\\u{1b}[2J\"");
        assert_eq!(shown("a\u{9b}b\u{202e}c"), "\"a\\u{9b}b\\u{202e}c\"");
        assert_eq!(shown("\"; DROP"), "\"\\u{22}; DROP\"");
        assert_eq!(shown(&"x".repeat(100)), format!("\"{}…\"", "x".repeat(40)));
    }
}
