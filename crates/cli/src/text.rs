//! Numbers and names for people, in columns that line up.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A duration as precise as people need it: `250us`, `12.5ms`, `4.204s`, `2m05s`, `3h02m`, `9d04h`.
/// Cut, not rounded, so that it never exceeds the real one.
pub(crate) fn duration(micros: u64) -> String {
    let secs = micros / 1_000_000;
    match micros {
        0 => "0s".to_owned(),
        1..1_000 => format!("{micros}us"),
        1_000..10_000 => format!("{}ms", decimals(micros / 10, 2)),
        10_000..100_000 => format!("{}ms", decimals(micros / 100, 1)),
        100_000..1_000_000 => format!("{}ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}s", decimals(micros / 1_000, 3)),
        _ => match secs {
            0..3_600 => two_units(secs, 60, 'm', 1, 's'),
            3_600..86_400 => two_units(secs, 3_600, 'h', 60, 'm'),
            _ => two_units(secs, 86_400, 'd', 3_600, 'h'),
        },
    }
}

/// A duration for an axis: as [`duration`], rounded to the last digit shown.
pub(crate) fn rounded(micros: u64) -> String {
    let step = match micros {
        0..10_000 => 10,
        10_000..100_000 => 100,
        100_000..60_000_000 => 1_000,
        60_000_000..3_600_000_000 => 1_000_000,
        3_600_000_000..86_400_000_000 => 60_000_000,
        _ => 3_600_000_000,
    };
    let step = if micros < 1_000 { 1 } else { step };
    duration(micros.saturating_add(step / 2) / step * step)
}

/// A whole number of `1 / 10^places`, without trailing zeros.
fn decimals(number: u64, places: usize) -> String {
    let unit = 10_u64.pow(places as u32);
    let (whole, rest) = (number / unit, number % unit);
    let mut text = whole.to_string();
    if rest > 0 {
        _ = write!(text, ".{rest:0places$}");
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

/// `2m05s`, or `2m` if the second unit is zero.
fn two_units(secs: u64, large: u64, large_name: char, small: u64, small_name: char) -> String {
    match secs % large / small {
        0 => format!("{}{large_name}", secs / large),
        rest => format!("{}{large_name}{rest:02}{small_name}", secs / large),
    }
}

/// A time since the start, for a column: `+1.204s`, `+2h03m04s`. With `total` under a second,
/// microseconds, because all would look the same otherwise.
pub(crate) fn offset(micros: u64, total: u64) -> String {
    let secs = micros / 1_000_000;
    if total < 1_000_000 {
        return format!("+{secs}.{:06}s", micros % 1_000_000);
    }
    match secs {
        0..3_600 => format!("+{secs}.{:03}s", micros / 1_000 % 1_000),
        3_600..86_400 => {
            format!("+{}h{:02}m{:02}s", secs / 3_600, secs / 60 % 60, secs % 60)
        }
        _ => format!("+{}d{:02}h{:02}m", secs / 86_400, secs / 3_600 % 24, secs / 60 % 60),
    }
}

/// `1 event`, `2 events`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// Control characters, and marks that break a line or change the text's direction: names and
/// reasons come from files, and must not rewrite the terminal.
pub(crate) fn rewrites(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text that cannot rewrite the terminal, in one line, at most `width_max` columns wide.
pub(crate) fn plain(text: &str, width_max: usize) -> String {
    // Characters without width would never fill the columns, so their number is bounded too.
    let end = text.char_indices().nth(4 * width_max + 1).map_or(text.len(), |(at, _)| at);
    let line = one_line(&text[..end]);
    let shown: String = line.chars().map(|c| if rewrites(c) { '\u{fffd}' } else { c }).collect();
    cut(&shown, width_max)
}

/// A text in one line: a line end, with the blanks around it, becomes one blank. Messages of
/// panics have several lines.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains('\n') {
        return Cow::Borrowed(text);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Cow::Owned(lines.collect::<Vec<_>>().join(" "))
}

/// How many columns of a terminal a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, padded with blanks to a width.
pub(crate) fn pad(text: &str, to: usize) -> String {
    format!("{text}{:1$}", "", to.saturating_sub(width(text)))
}

/// The longest beginning that fits a width.
pub(crate) fn head(text: &str, width_max: usize) -> &str {
    let mut left = width_max;
    let too_wide = |c: char| {
        let wide = c.width().unwrap_or(0);
        let too_wide = wide > left;
        left = left.saturating_sub(wide);
        too_wide
    };
    let mut shown = &text[..text.find(too_wide).unwrap_or(text.len())];
    // A sequence of characters may be wider than their widths added up.
    while width(shown) > width_max {
        let last = shown.char_indices().next_back();
        shown = &shown[..last.map_or(0, |(at, _)| at)];
    }
    shown
}

/// The text cut to a width, with `…` if it was longer.
pub(crate) fn cut(text: &str, width_max: usize) -> String {
    match width(text) <= width_max {
        true => text.to_owned(),
        false => format!("{}…", head(text, width_max.saturating_sub(1))),
    }
}

/// Items side by side, in lines of at most `width_max` columns where an item fits.
pub(crate) fn wrap(items: &[String], width_max: usize) -> String {
    const BETWEEN: &str = "   ";
    let mut text = String::new();
    let mut taken = 0;
    for item in items {
        let needed = BETWEEN.len() + width(item);
        if taken > 0 && taken + needed > width_max {
            text.push('\n');
            taken = 0;
        } else if taken > 0 {
            text.push_str(BETWEEN);
            taken += BETWEEN.len();
        }
        text.push_str(item);
        taken += width(item);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_fitting_unit() {
        let check = |micros, expected| assert_eq!(duration(micros), expected);
        check(0, "0s");
        check(999, "999us");
        check(1_000, "1ms");
        check(1_999, "1.99ms");
        check(12_500, "12.5ms");
        check(20_000, "20ms");
        check(438_592, "438ms");
        check(1_000_000, "1s");
        check(4_204_900, "4.204s");
        check(59_999_999, "59.999s");
        check(125_000_000, "2m05s");
        check(900_000_000, "15m");
        check(3_720_000_000, "1h02m");
        check(86_400_000_000, "1d");
        check(u64::MAX, "213503982d08h");
    }

    #[test]
    fn offsets_line_up() {
        let check = |micros, total, expected| assert_eq!(offset(micros, total), expected);
        check(0, 0, "+0.000000s");
        check(120, 999_999, "+0.000120s");
        check(1_204_999, 5_000_000, "+1.204s");
        check(3_723_000_000, 5_000_000_000, "+1h02m03s");
        check(90_000_000_000, 90_000_000_000, "+1d01h00m");
    }

    #[test]
    fn names_are_plain() {
        assert_eq!(plain("a\u{1b}b\u{202e}", 9), "a\u{fffd}b\u{fffd}");
        assert_eq!(plain("panicked at a.rs:1:\r\n  left: 1\n\n right: 2\n", 40), {
            "panicked at a.rs:1: left: 1 right: 2"
        });
        assert_eq!(plain("abcdef", 6), "abcdef");
        assert_eq!(plain("abcdefg", 6), "abcde…");
    }

    #[test]
    fn an_axis_is_rounded() {
        let check = |micros, expected| assert_eq!(rounded(micros), expected);
        check(0, "0s");
        check(999, "999us");
        check(1_999_999, "2s");
        check(499_999, "500ms");
        check(99_999, "100ms");
        check(1_675_776, "1.676s");
        check(59_999_999, "1m");
        check(86_399_999_999, "1d");
        check(u64::MAX, "213503982d08h");
    }

    #[test]
    fn widths_are_those_of_a_terminal() {
        assert_eq!(width("日本"), 4);
        assert_eq!(width("e\u{301}\u{200b}"), 1);
        assert_eq!(pad("日本", 6), "日本  ");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("👩\u{200d}👩\u{200d}👧 abc", 5), "👩\u{200d}👩\u{200d}…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!((head("日本語", 5), head("abc", 3), head("abc", 0)), ("日本", "abc", ""));
        assert_eq!(plain(&"\u{301}".repeat(1_000), 9).chars().count(), 37);
    }

    #[test]
    fn a_legend_wraps() {
        let items = ["a b", "c d", "日本"].map(str::to_owned);
        assert_eq!(wrap(&items, 9), "a b   c d\n日本");
        assert_eq!(wrap(&items, 1), "a b\nc d\n日本");
        assert_eq!(wrap(&items, 99), "a b   c d   日本");
    }
}
