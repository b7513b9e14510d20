//! How wide output may be, and whether it may have colours.

/// Narrower than this nothing can be drawn; wider, bars only get longer.
const COLUMNS_RANGE: std::ops::RangeInclusive<usize> = 40..=1_000;
/// The width if neither a terminal nor `COLUMNS` gives one.
const COLUMNS_DEFAULT: usize = 100;

/// What stdout can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) is_terminal: bool,
    pub(crate) columns: usize,
    /// Whether colours are shown. No information may depend on them.
    pub(crate) colours: bool,
}

/// The meanings that have a colour, the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// A person should look at it.
    Warn,
    /// It goes on.
    Busy,
    /// Less important than the rest.
    Faint,
    /// More important than the rest.
    Strong,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warn => "33",
            Self::Busy => "36",
            Self::Faint => "2",
            Self::Strong => "1",
        }
    }
}

impl Screen {
    /// The terminal's own width, or else the variable `COLUMNS`, or else 100.
    pub(crate) fn new(terminal: Option<usize>, variable: Option<&str>) -> Self {
        // A terminal that does not know its width reports 0.
        let known = terminal.filter(|columns| *columns > 0);
        let variable = variable.and_then(|columns| columns.trim().parse().ok());
        let columns = known.or(variable).filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT);
        let columns = columns.clamp(*COLUMNS_RANGE.start(), *COLUMNS_RANGE.end());
        Self { is_terminal: terminal.is_some(), columns, colours: false }
    }

    /// Colours are for terminals that support them, unless `NO_COLOR` turns them off.
    pub(crate) fn with_colours(self, no_color: Option<&str>, term: Option<&str>) -> Self {
        let unwanted = no_color.is_some_and(|value| !value.is_empty());
        Self { colours: self.is_terminal && !unwanted && term != Some("dumb"), ..self }
    }

    /// The text in a tone, or without if there are no colours.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if self.colours {
            format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code())
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_knows_best() {
        let check = |terminal, variable, is_terminal, columns| {
            let expected = Screen { is_terminal, columns, colours: false };
            assert_eq!(Screen::new(terminal, variable), expected);
        };
        check(Some(132), Some("80"), true, 132);
        check(Some(0), Some("80"), true, 80);
        check(None, Some("80"), false, 80);
        check(None, Some("wide"), false, 100);
        check(None, Some("0"), false, 100);
        check(None, None, false, 100);
        check(Some(7), None, true, 40);
        check(None, Some("100000"), false, 1_000);
    }

    #[test]
    fn colours_are_for_those_who_want_them() {
        let colours = |terminal, no_color, term| {
            Screen::new(terminal, None).with_colours(no_color, term).colours
        };
        assert!(colours(Some(80), None, Some("xterm")));
        assert!(colours(Some(80), Some(""), None));
        assert!(!colours(Some(80), Some("1"), Some("xterm")));
        assert!(!colours(Some(80), None, Some("dumb")));
        assert!(!colours(None, None, Some("xterm")));
        let screen = Screen::new(None, None);
        assert_eq!(screen.paint(Tone::Bad, "x"), "x");
        assert_eq!(
            Screen { colours: true, ..screen }.paint(Tone::Bad, "x"),
            "\u{1b}[31mx\u{1b}[0m"
        );
    }
}
