//! Sizes and columns for people.

use std::io::{self, Write};

use crate::columns::{Cell, Column, lines};
use crate::screen::Screen;

/// Writes rows in columns, uncut.
pub(super) fn write_columns<const N: usize>(
    columns: &[Column; N],
    rows: impl Iterator<Item = [String; N]>,
    out: &mut impl Write,
) -> io::Result<()> {
    let rows: Vec<_> = rows.map(|row| row.map(Cell::new)).collect();
    let lines = lines(columns, &rows, Screen::new(None, None));
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// A size: `512 B`, `4.0 KiB`, `1.2 GiB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A size is shown in the unit that keeps it short.
    #[test]
    fn sizes() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1 << 20, "1.0 MiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (1_288_490_189, "1.2 GiB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }
}
