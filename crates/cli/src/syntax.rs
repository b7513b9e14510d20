//! Why a file is no valid TOML: the place and kind of the mistake. The message of `toml` itself
//! shows the whole line, which may have a secret.

/// As `LINE:COLUMN: why`, both from 1, the column in characters.
pub(crate) fn at(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = &text.as_bytes()[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    format!("{line}:{column}: {}", without_values(error.message()))
}

/// A message about a wrong value shows the value: only what was expected is kept.
fn without_values(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    let of_a_value =
        message.starts_with("invalid type: ") || message.starts_with("invalid value: ");
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if of_a_value => format!("expected {expected}"),
        _ if of_a_value => "another value is expected".to_owned(),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A file of named texts, such as one with secrets.
    fn told(text: &str) -> String {
        at(text, &toml::from_str::<BTreeMap<String, String>>(text).unwrap_err())
    }

    /// Line and column are those that an editor shows, and no value is shown.
    #[test]
    fn where_and_not_what() {
        assert_eq!(told("a = \"x\"\nb = 7\n"), "2:5: expected a string");
        assert!(told("a = \"é\" x").starts_with("1:9: "), "{}", told("a = \"é\" x"));
        for text in ["a = hunter2", "a = 'hunter2", "a = [\"hunter2\"]", "a = 'x' hunter2"] {
            assert!(!told(text).contains("hunter2"), "{}", told(text));
        }
        let text = "a = \"hunter2, expected x\"";
        let error = toml::from_str::<BTreeMap<String, u8>>(text).unwrap_err();
        assert_eq!(at(text, &error), "1:5: expected u8");
        assert_eq!(without_values("invalid value: hunter2"), "another value is expected");
    }
}
