//! Suggests the known name that a misspelt one may stand for.

/// The known name that is nearest to `written`, if it is near enough: two mistakes at most, and at
/// most one for every three letters.
pub(crate) fn nearest<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let far = (written.chars().count() / 3).min(2);
    let mut best = None;
    for name in known {
        let distance = mistakes(written, name);
        if distance <= far && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Counts the letters that are missing, added, different, or swapped with their neighbour.
pub(crate) fn mistakes(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // The rows for the letters of `a` before the last but one, before the last, and up to it.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let change = above[j] + usize::from(letter != other);
            let mut least = change.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["listen", "data", "keys", "host_names", "retention"];
        for (written, meant) in [
            ("listn", Some("listen")),
            ("lisetn", Some("listen")),
            ("Listen", Some("listen")),
            ("hostnames", Some("host_names")),
            ("host-names", Some("host_names")),
            ("retentoin", Some("retention")),
            ("key", Some("keys")),
            ("seeds", None),
            ("port", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
    }

    #[test]
    fn mistakes_are_counted() {
        for (a, b, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("ab", "ba", 1),
            ("ordr", "order", 1),
            ("odrer", "order", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((mistakes(a, b), mistakes(b, a)), (count, count), "{a} {b}");
        }
    }
}
