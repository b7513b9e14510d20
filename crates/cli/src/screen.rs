//! How wide what is written may be.

/// Below this nothing can be drawn; above, bars only get longer.
const COLUMNS_RANGE: std::ops::RangeInclusive<usize> = 40..=1_000;
/// How wide a drawing is when nobody says.
const COLUMNS_DEFAULT: usize = 100;

/// What stdout is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) is_terminal: bool,
    pub(crate) columns: usize,
}

impl Screen {
    /// The terminal's own width, or else the variable `COLUMNS`, or else 100.
    pub(crate) fn new(terminal: Option<usize>, variable: Option<&str>) -> Self {
        // A terminal that does not know its width says 0.
        let known = terminal.filter(|columns| *columns > 0);
        let variable = variable.and_then(|columns| columns.trim().parse().ok());
        let columns = known.or(variable).filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT);
        let columns = columns.clamp(*COLUMNS_RANGE.start(), *COLUMNS_RANGE.end());
        Self { is_terminal: terminal.is_some(), columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_knows_best() {
        let check = |terminal, variable, is_terminal, columns| {
            assert_eq!(Screen::new(terminal, variable), Screen { is_terminal, columns });
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
}
