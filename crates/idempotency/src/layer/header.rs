//! The caller's key as it stands in the header.

use std::borrow::Cow;

use http::HeaderMap;

use super::problem::Problem;

/// The header that carries the key.
pub const KEY_HEADER: &str = "idempotency-key";

/// The text of the key, still to be judged by I-6; none if there is no header.
///
/// A value in quotes is a string of structured headers (RFC 9651), which is what the IETF's draft
/// asks for; a bare one is what most clients send. Both spellings of a key are one key.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, Problem> {
    let mut values = headers.get_all(KEY_HEADER).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(invalid("the header Idempotency-Key appears more than once"));
    }
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| invalid("the idempotency key is not UTF-8"))?;
    let text = text.trim();
    match text.strip_prefix('"') {
        None => Ok(Some(Cow::Borrowed(text))),
        Some(rest) => unquoted(rest)
            .map(|text| Some(Cow::Owned(text)))
            .ok_or_else(|| invalid("the idempotency key is not a valid quoted string")),
    }
}

fn invalid(why: &str) -> Problem {
    Problem::KeyInvalid(why.to_owned())
}

/// What stands between the quotes; none if it is no string, or something comes after it.
fn unquoted(rest: &str) -> Option<String> {
    let mut text = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => match chars.next()? {
                escaped @ ('"' | '\\') => text.push(escaped),
                _ => return None,
            },
            plain @ ' '..='~' => text.push(plain),
            _ => return None,
        }
    }
    chars.next().is_none().then_some(text)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&[u8]]) -> Result<Option<String>, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(KEY_HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        key(&headers).map(|key| key.map(Cow::into_owned))
    }

    #[test]
    fn bare_and_quoted() {
        assert_eq!(read(&[]), Ok(None));
        for (value, text) in [
            (r"abc", "abc"),
            (r" abc ", "abc"),
            (r#""abc""#, "abc"),
            (r#"  "abc"  "#, "abc"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#""""#, ""),
            (r#"a"b"#, r#"a"b"#),
            (r"a\b", r"a\b"),
            ("ключ", "ключ"),
        ] {
            assert_eq!(read(&[value.as_bytes()]), Ok(Some(text.to_owned())), "{value}");
        }
    }

    #[test]
    fn refused() {
        for value in [
            r#"""#,
            r#""abc"#,
            r#""abc"; v=1"#,
            r#""abc"d"#,
            r#""a\bc""#,
            r#""abc\"#,
            r#""abc\""#,
            "\"a\tb\"",
            r#""é""#,
        ] {
            assert!(read(&[value.as_bytes()]).is_err(), "{value}");
        }
        assert!(read(&[b"a\xff"]).is_err());
        assert!(read(&[b"a", b"a"]).is_err());
    }
}
