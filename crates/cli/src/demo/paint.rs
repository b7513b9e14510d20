//! Lines with a little colour, cut to the width of the screen.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::event::Tone;

/// How a piece of a line looks. Nothing is said by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
}

impl From<Tone> for Style {
    fn from(tone: Tone) -> Self {
        match tone {
            Tone::Plain => Self::Plain,
            Tone::Good => Self::Good,
            Tone::Bad => Self::Bad,
        }
    }
}

/// A line of pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::default().then(Style::Plain, text)
    }

    /// What follows.
    pub(super) fn then(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// What follows at the right edge of the screen, if there is room.
    pub(super) fn right(self, columns: usize, style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        let gap = columns.saturating_sub(self.width() + text.width()).max(1);
        self.then(Style::Plain, " ".repeat(gap)).then(style, text)
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// As it is written: with colour or without, and no wider than this.
    pub(super) fn paint(&self, colour: bool, columns: usize) -> String {
        let (mut out, mut left) = (String::new(), columns);
        for (style, text) in &self.0 {
            let mut piece = String::new();
            for c in text.chars() {
                let width = c.width().unwrap_or(0);
                if width > left {
                    left = 0;
                    break;
                }
                left -= width;
                piece.push(c);
            }
            let code = match style {
                Style::Plain => "",
                Style::Strong => "1",
                Style::Faint => "2",
                Style::Good => "32",
                Style::Bad => "31",
            };
            if colour && !code.is_empty() && !piece.is_empty() {
                _ = write!(out, "\x1b[{code}m{piece}\x1b[0m");
            } else {
                out.push_str(&piece);
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

/// A bar of so many columns.
pub(super) fn bar(part: u32, whole: u32, columns: usize) -> (String, String) {
    let filled = columns * part.min(whole) as usize / whole.max(1) as usize;
    ("█".repeat(filled), "░".repeat(columns - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines fit, with colour and without, and colour adds nothing to their width.
    #[test]
    fn lines_fit() {
        let line = Line::new("日本").then(Style::Good, "good").right(12, Style::Faint, "end");
        assert_eq!(line.paint(false, 12), "日本good end");
        assert_eq!(line.paint(false, 7), "日本goo");
        assert_eq!(line.paint(true, 7), "日本\u{1b}[32mgoo\u{1b}[0m");
        assert_eq!(line.paint(false, 3), "日", "half a character is none");
        assert_eq!(Line::new("x").right(5, Style::Plain, "y").paint(false, 80), "x   y");
    }

    #[test]
    fn bars_are_full_in_the_end() {
        assert_eq!(bar(0, 60, 4), (String::new(), "░░░░".to_owned()));
        assert_eq!(bar(59, 60, 4), ("███".to_owned(), "░".to_owned()));
        assert_eq!(bar(60, 60, 4), ("████".to_owned(), String::new()));
        assert_eq!(bar(0, 0, 1), (String::new(), "░".to_owned()));
    }
}
