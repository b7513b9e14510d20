//! Lines with a little colour, cut to the width of the screen.

use crate::screen::{Screen, Tone};
use crate::text::{head, width};

/// A line in pieces. Colour never carries information alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Option<Tone>, String)>);

impl Line {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::default().then(None, text)
    }

    /// Appends a piece.
    pub(super) fn then(mut self, tone: impl Into<Option<Tone>>, text: impl Into<String>) -> Self {
        self.0.push((tone.into(), text.into()));
        self
    }

    /// Appends a piece at the right edge of the screen, if there is room.
    pub(super) fn right(
        self,
        columns: usize,
        tone: impl Into<Option<Tone>>,
        text: impl Into<String>,
    ) -> Self {
        let text = text.into();
        let gap = columns.saturating_sub(self.width() + width(&text)).max(1);
        self.then(None, " ".repeat(gap)).then(tone, text)
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| width(text)).sum()
    }

    /// The line in the colours of the screen, cut to this width.
    pub(super) fn paint(&self, screen: Screen, columns: usize) -> String {
        let (mut out, mut left) = (String::new(), columns);
        for (tone, text) in &self.0 {
            let piece = head(text, left);
            // After a piece that was cut, nothing follows.
            left = if piece == text { left - width(piece) } else { 0 };
            match tone {
                Some(tone) if !piece.is_empty() => out.push_str(&screen.paint(*tone, piece)),
                _ => out.push_str(piece),
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

/// The filled and the empty part of a bar of so many columns.
pub(super) fn bar(part: u32, whole: u32, columns: usize) -> (String, String) {
    let filled = columns * part.min(whole) as usize / whole.max(1) as usize;
    ("█".repeat(filled), "░".repeat(columns - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines fit, with colour and without, and colour adds no width.
    #[test]
    fn lines_fit() {
        let screen = Screen::new(None, None);
        let colours = Screen { colours: true, ..screen };
        let line = Line::new("日本").then(Tone::Good, "good").right(12, Tone::Faint, "end");
        assert_eq!(line.paint(screen, 12), "日本good end");
        assert_eq!(line.paint(screen, 7), "日本goo");
        assert_eq!(line.paint(colours, 7), "日本\u{1b}[32mgoo\u{1b}[0m");
        assert_eq!(line.paint(screen, 3), "日", "half a character is none");
        assert_eq!(Line::new("x").right(5, None, "y").paint(screen, 80), "x   y");
    }

    #[test]
    fn bars_are_full_in_the_end() {
        assert_eq!(bar(0, 60, 4), (String::new(), "░░░░".to_owned()));
        assert_eq!(bar(59, 60, 4), ("███".to_owned(), "░".to_owned()));
        assert_eq!(bar(60, 60, 4), ("████".to_owned(), String::new()));
        assert_eq!(bar(0, 0, 1), (String::new(), "░".to_owned()));
    }
}
