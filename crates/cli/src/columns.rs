//! Rows in aligned columns, cut to fit a terminal. In a pipe they are whole.

use crate::screen::{Screen, Tone};
use crate::text::{cut, pad, width};

/// The blanks between two columns.
const GAP: usize = 2;

/// A column of a table.
pub(crate) struct Column {
    title: &'static str,
    right: bool,
    /// The width to which the column may be cut if there is no room.
    narrow: Option<usize>,
}

pub(crate) struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Column {
    pub(crate) const fn left(title: &'static str) -> Self {
        Self { title, right: false, narrow: None }
    }

    pub(crate) const fn right(title: &'static str) -> Self {
        Self { title, right: true, narrow: None }
    }

    /// Lets the column be cut if there is no room.
    pub(crate) const fn or_narrow(self, narrow: usize) -> Self {
        Self { narrow: Some(narrow), ..self }
    }
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: None }
    }

    pub(crate) fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Some(tone) }
    }
}

/// The lines of a table, with a line of titles if any column has one. A column whose cells are all
/// empty is left out.
pub(crate) fn lines<const N: usize>(
    columns: &[Column; N],
    rows: &[[Cell; N]],
    screen: Screen,
) -> Vec<String> {
    let widths = widths(columns, rows, screen);
    let last = widths.iter().rposition(|width| *width > 0).unwrap_or(0);
    let line = |cells: [(&str, Option<Tone>); N]| {
        let mut line = String::new();
        for (place, (text, tone)) in cells.into_iter().enumerate() {
            if widths[place] == 0 {
                continue;
            }
            if !line.is_empty() {
                line.push_str(&" ".repeat(GAP));
            }
            let text = cut(text, widths[place]);
            let blanks = " ".repeat(widths[place] - width(&text));
            let painted = tone.map_or_else(|| text.clone(), |tone| screen.paint(tone, &text));
            match (columns[place].right, place == last) {
                (true, _) => line.extend([blanks, painted]),
                (false, false) => line.extend([painted, blanks]),
                (false, true) => line.push_str(&painted),
            }
        }
        line.truncate(line.trim_end_matches(' ').len());
        line
    };
    let titled = columns.iter().any(|column| !column.title.is_empty());
    let title = titled
        .then(|| line(std::array::from_fn(|place| (columns[place].title, Some(Tone::Faint)))));
    let rows = rows
        .iter()
        .map(|row| line(std::array::from_fn(|place| (row[place].text.as_str(), row[place].tone))));
    title.into_iter().chain(rows).collect()
}

/// The width of each column; 0 leaves it out.
fn widths<const N: usize>(columns: &[Column; N], rows: &[[Cell; N]], screen: Screen) -> [usize; N] {
    let mut widths: [usize; N] = std::array::from_fn(|place| {
        let widest = rows.iter().map(|row| width(&row[place].text)).max().unwrap_or(0);
        if widest == 0 { 0 } else { widest.max(columns[place].title.len()) }
    });
    if !screen.is_terminal {
        return widths;
    }
    let used = |widths: &[usize; N]| {
        let there = widths.iter().filter(|width| **width > 0).count();
        widths.iter().sum::<usize>() + GAP * there.saturating_sub(1)
    };
    for (place, column) in columns.iter().enumerate() {
        let excess = used(&widths).saturating_sub(screen.columns);
        if let Some(narrow) = column.narrow {
            widths[place] = widths[place].saturating_sub(excess).max(narrow.min(widths[place]));
        }
    }
    // Columns on the right that still do not fit are cut: better than rows that wrap.
    let mut left = screen.columns;
    for width in &mut widths {
        *width = (*width).min(left);
        left = left.saturating_sub(if *width > 0 { *width + GAP } else { 0 });
    }
    widths
}

/// A label and its values, as at the head of a page; further values are below the first.
pub(crate) fn labelled(label: &str, values: &[String], screen: Screen) -> Vec<String> {
    let lines = values.iter().enumerate().map(|(place, value)| {
        let label = if place == 0 { label } else { "" };
        let line = format!("{}{value}", screen.paint(Tone::Faint, &pad(label, LABEL)));
        line.trim_end().to_owned()
    });
    lines.collect()
}

/// The width of the labels of a page.
pub(crate) const LABEL: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] =
        [Column::left("id"), Column::left("function").or_narrow(6), Column::right("took")];

    fn table(rows: &[[&str; 3]], terminal: Option<usize>) -> Vec<String> {
        let rows: Vec<_> = rows.iter().map(|row| row.map(Cell::new)).collect();
        lines(&COLUMNS, &rows, Screen::new(terminal, None))
    }

    /// Columns line up for every script; in a pipe nothing is cut.
    #[test]
    fn columns_line_up() {
        let rows = [["9c4f1a2b", "日本語", "1s"], ["9c4f1a2c", "charge_the_card", "12.5ms"]];
        assert_eq!(
            table(&rows, None),
            [
                "id        function           took",
                "9c4f1a2b  日本語               1s",
                "9c4f1a2c  charge_the_card  12.5ms",
            ]
        );
    }

    /// On a terminal the columns that may be narrow are cut first, then those on the right.
    #[test]
    fn a_terminal_is_not_overrun() {
        let name = "a_function_with_a_very_long_name_indeed".repeat(2);
        let rows =
            [["9c4f1a2b", name.as_str(), "12.5ms"], ["9c4f1a2c", "日本語".repeat(9).leak(), ""]];
        for columns in [40, 60, 90] {
            for line in table(&rows, Some(columns)) {
                assert!(width(&line) <= columns, "{line:?}");
            }
        }
        assert_eq!(table(&rows, Some(40))[1], "9c4f1a2b  a_function_with_a_ver…  12.5ms");
        let wide = "x".repeat(60);
        assert_eq!(table(&[[wide.as_str(), "f", "1s"]], Some(40))[1].chars().count(), 40);
    }

    /// A column without anything in it takes no room.
    #[test]
    fn an_empty_column_is_left_out() {
        assert_eq!(table(&[["1", "", "2s"]], None), ["id  took", "1     2s"]);
        assert_eq!(table(&[], None), [""]);
    }
}
