//! What was printed, held against what the guide says.
//!
//! A guide shows what its author saw. An id, a time and a bar of a chart are others for each reader:
//! any of them is as good as any other (`alike`). For what else differs there is `…`.

use crate::guides::alike::alike;

/// Stands for any text in a line, and for any number of lines if it is one.
const ANY: char = '…';

/// Whether `printed` is what `expected` says, from the first line to the last.
pub(crate) fn matches(expected: &str, printed: &str) -> bool {
    all(&lines(expected), &lines(printed))
}

/// Whether `printed` begins with what `expected` says.
pub(crate) fn begins(expected: &str, printed: &str) -> bool {
    // A last line that is still being written is none yet.
    let whole = printed.rfind('\n').map_or("", |end| &printed[..=end]);
    let mut expected = lines(expected);
    expected.push(ANY.to_string());
    all(&expected, &lines(whole))
}

fn lines(text: &str) -> Vec<String> {
    text.trim_end().lines().map(alike).collect()
}

fn is_any(line: &str) -> bool {
    line.chars().eq([ANY])
}

fn all(expected: &[String], printed: &[String]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if is_any(first) => {
            (0..=printed.len()).any(|skipped| all(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, others)| same(first, line) && all(rest, others)),
    }
}

/// Whether a line is what is expected: its parts, in order, with anything between.
fn same(expected: &str, line: &str) -> bool {
    let mut parts = expected.split(ANY);
    let first = parts.next().unwrap_or_default();
    let Some(mut left) = line.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return left.is_empty();
    };
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines are compared as they are, except for blanks.
    #[test]
    fn the_same_or_not() {
        assert!(matches("a  x\nb\n", "a x  \nb\n\n"));
        assert!(matches("", ""));
        for (expected, printed) in
            [("a\n", "a\nb\n"), ("a\nb\n", "a\n"), ("a\n", "b\n"), ("", "a\n"), ("a b\n", "ab\n")]
        {
            assert!(!matches(expected, printed), "{expected:?} {printed:?}");
        }
    }

    /// A wildcard is any text in its line, also none, and nothing but that.
    #[test]
    fn wildcards() {
        assert!(matches("it … is over\n", "it now is over\n"));
        assert!(matches("…ab…b", "xab b"));
        assert!(matches("took…", "took"));
        assert!(!matches("it … is over\n", "it now goes on\n"));
        assert!(!matches("a…a\n", "a\n"), "the parts do not overlap");
        assert!(!matches("a … b\n", "a\n1\nb\n"));
    }

    /// As a line of its own it is any number of lines.
    #[test]
    fn lines_that_do_not_matter() {
        for printed in ["a\nb\n", "a\n1\nb\n", "a\nb\nb\n"] {
            assert!(matches("a\n…\nb\n", printed), "{printed}");
        }
        assert!(!matches("a\n…\nb\n", "a\nb\nc\n"));
        assert!(matches("…\n", ""));
    }

    /// A server goes on talking; half a line does not count.
    #[test]
    fn beginnings() {
        assert!(begins("http://…\n", "http://127.0.0.1:1\nlistening\n"));
        assert!(begins("…\nlistening\n", "http://127.0.0.1:1\nlistening\nmore"));
        assert!(!begins("a\nb\n", "a\nb"));
        assert!(!begins("b\n", "a\nb\n"));
    }
}
