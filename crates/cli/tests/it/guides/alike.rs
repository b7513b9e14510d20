//! What is another each time, made alike: ids, times, bars, and how far columns are apart.

/// Fewer hexadecimal digits are a number or a word.
const ID_DIGITS_MIN: usize = 8;

/// Longer ones first: the first that fits is taken.
const UNITS: [&str; 7] = ["min", "us", "ms", "s", "m", "h", "d"];

/// A line with a sign in the place of each of them.
pub(crate) fn alike(line: &str) -> String {
    let line = line.replace("just now", "1 s ago");
    let mut out = String::new();
    let mut left = line.trim();
    while let Some(next) = left.chars().next() {
        let within_a_word = out.chars().next_back().is_some_and(char::is_alphanumeric);
        let (length, sign) = match next {
            _ if blanks(left) > 0 => (blanks(left), " "),
            _ if bars(left) > 0 => (bars(left), "█"),
            _ if within_a_word => (next.len_utf8(), ""),
            _ => [(time(left), "TIME"), (id(left), "ID"), (duration(left), "LENGTH")]
                .into_iter()
                .find(|(length, _)| *length > 0)
                .unwrap_or((next.len_utf8(), "")),
        };
        match sign {
            "" => out.push(next),
            sign => out.push_str(sign),
        }
        left = &left[length..];
    }
    // A bar may begin later or end earlier: the blanks around it belong to it.
    out.replace(" █", "█").replace("█ ", "█").replace("██", "█")
}

/// How many bytes of blanks a text begins with.
fn blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// How many bytes of a bar it begins with.
fn bars(text: &str) -> usize {
    text.len() - text.trim_start_matches(['█', '─', '░', '▒']).len()
}

/// How many digits of this kind it begins with.
fn digits(text: &str, kind: fn(&char) -> bool) -> usize {
    text.chars().take_while(kind).count()
}

/// A part is over where no letter and no digit follows.
fn over(text: &str, length: usize) -> usize {
    let follows = text[length..].chars().next();
    if follows.is_some_and(char::is_alphanumeric) { 0 } else { length }
}

/// A moment: `2026-11-17T04:05:19.67Z`.
fn time(text: &str) -> usize {
    let kind = |c: &char| c.is_ascii_digit() || "-T:.".contains(*c);
    let length = digits(text, kind);
    let is_time = text[..length].contains('T') && text[length..].starts_with('Z');
    if is_time { over(text, length + 1) } else { 0 }
}

/// An id: hexadecimal digits, perhaps with hyphens between.
fn id(text: &str) -> usize {
    let kind = |c: &char| c.is_ascii_digit() || ('a'..='f').contains(c) || *c == '-';
    let length = digits(text, kind);
    let long = digits(text, char::is_ascii_hexdigit) >= ID_DIGITS_MIN;
    let is_id = long && text[..length].contains(|c: char| c.is_ascii_digit());
    if is_id { over(text, length) } else { 0 }
}

/// How long, or how long ago: `+0.000213s`, `304us`, `59 min`.
fn duration(text: &str) -> usize {
    let sign = usize::from(text.starts_with('+'));
    let number = digits(&text[sign..], |c| c.is_ascii_digit() || *c == '.');
    if number == 0 || text[sign..].starts_with('.') {
        return 0;
    }
    let number = sign + number;
    let number = number + usize::from(text[number..].starts_with(' '));
    UNITS
        .iter()
        .filter(|unit| text[number..].starts_with(**unit))
        .map(|unit| over(text, number + unit.len()))
        .find(|length| *length > 0)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader sees differs from what the author saw in these.
    #[test]
    fn what_differs_each_time() {
        for (one, other) in [
            ("id 42b09db8  took", "id 79a3171bab9c55e2652cf35db68c703a  took"),
            ("op 01a1e7ae-42b6-717f-b529-644a209f25df", "op 02a1e7ae-42b6-717f-b529-644a209f25df"),
            ("at 2026-11-17T04:05:19Z, just now", "at 2027-01-01T00:00:00.123456Z, 32 s ago"),
            ("+0.000213s  x  304us", "+1.5s x  2.5ms"),
            ("due in 59 min (2026-11-17T05:05:19Z)", "due in 5 s (2026-11-17T05:05:20Z)"),
            ("a  ░░███──█   ✓ 1s", "a █  ✓ 15ms"),
            ("a  ██>  … 62.8ms", "a   ───>  … 1h"),
            ("component=f61b7e83)", "component=963edbe4)"),
        ] {
            assert_eq!(alike(one), alike(other));
        }
    }

    /// And whatever else differs is something else.
    #[test]
    fn what_does_not() {
        for (one, other) in [
            ("8 events", "9 events"),
            ("charged 500", "charged 501"),
            ("card 1-500", "card 1-501"),
            ("decade", "faced"),
            ("a  ██  ✓ 1s", "a  ██  ✗ 1s"),
            ("order  ██", "orders  ██"),
            ("79a3171b.0", "79a3171b.1"),
            ("http://127.0.0.1:7070", "http://127.0.0.1:7071"),
            ("2 shops", "3 shops"),
        ] {
            assert_ne!(alike(one), alike(other));
        }
    }
}
