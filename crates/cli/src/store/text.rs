//! Sizes and columns for people.

use std::io::{self, Write};

/// How a column lines up.
#[derive(Clone, Copy)]
pub(super) enum Align {
    Left,
    Right,
}

/// Rows in columns, two spaces apart.
pub(super) fn columns<const N: usize>(
    rows: &[[String; N]],
    align: [Align; N],
    out: &mut impl Write,
) -> io::Result<()> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let mut line = String::new();
        for (index, text) in row.iter().enumerate() {
            let space = " ".repeat(widths[index].saturating_sub(text.len()));
            let gap = if index == 0 { "" } else { "  " };
            match align[index] {
                Align::Left => line.extend([gap, text, &space]),
                Align::Right => line.extend([gap, &space, text]),
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
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
