//! An arrival as JSON: a line of `/control/log`, and what `echo` answers.

use bytes::Bytes;
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::Arrival;

#[derive(Serialize, Deserialize)]
struct Line {
    number: usize,
    nth: usize,
    key: Option<String>,
    method: String,
    path: String,
    headers: Vec<(String, Octets)>,
    body: Octets,
    processed: bool,
    answered: bool,
}

/// Bytes: a string where they are text, `{"base64": …}` where they are not.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Octets {
    Text(String),
    Base64 { base64: String },
}

impl Octets {
    fn of(bytes: &Bytes) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64 { base64: BASE64.encode(bytes) },
        }
    }

    fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(text.into()),
            Self::Base64 { base64 } => BASE64.decode(base64.as_bytes()).ok().map(Bytes::from),
        }
    }
}

/// The arrival as one line of JSON, without the line's end.
pub(crate) fn line(arrival: &Arrival) -> String {
    let Arrival { number, nth, key, method, path, headers, body, processed, answered } = arrival;
    let header = |(name, value): &(String, Bytes)| (name.clone(), Octets::of(value));
    let line = Line {
        number: *number,
        nth: *nth,
        key: key.clone(),
        method: method.clone(),
        path: path.clone(),
        headers: headers.iter().map(header).collect(),
        body: Octets::of(body),
        processed: *processed,
        answered: *answered,
    };
    serde_json::to_string(&line).expect("it has no map, and so nothing that JSON has not")
}

/// Reads an arrival from such a line.
pub(crate) fn parse(line: &str) -> Option<Arrival> {
    let line: Line = serde_json::from_str(line).ok()?;
    let Line { number, nth, key, method, path, headers, body, processed, answered } = line;
    let header = |(name, value): (String, Octets)| Some((name, value.bytes()?));
    let headers = headers.into_iter().map(header).collect::<Option<_>>()?;
    let body = body.bytes()?;
    Some(Arrival { number, nth, key, method, path, headers, body, processed, answered })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An arrival survives the trip through a line of the log, byte for byte.
    #[test]
    fn a_line_keeps_every_byte() {
        let arrival = Arrival {
            number: 3,
            nth: 2,
            key: Some("a \"key\"\n".into()),
            method: "POST".into(),
            path: "/do/answer?x=1".into(),
            headers: vec![
                ("A".into(), Bytes::from_static(b"\xff\x00")),
                ("b".into(), "ä".into()),
                ("c".into(), Bytes::new()),
            ],
            body: Bytes::from((0..=255).collect::<Vec<u8>>()),
            processed: true,
            answered: false,
        };
        let text = line(&arrival);
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(parse(&text), Some(arrival.clone()));
        let plain = Arrival { key: None, body: "{\"a\":1}".into(), ..arrival };
        assert!(line(&plain).contains(r#""body":"{\"a\":1}""#), "{}", line(&plain));
        assert_eq!(parse(&line(&plain)), Some(plain));
        assert_eq!(parse("{}"), None);
    }
}
