//! How a function ended, as data: its result as it is, or a document for `--json`.

use std::io::Write;

use data_encoding::BASE64;
use indelible_api::call::{Failed, Payload};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::print;
use crate::text::count;

/// The codecs whose bytes are text: a line end is written after them.
const TEXTS: [&str; 2] = ["json", "text"];

/// What a function returned.
pub(crate) struct Returned {
    codec: String,
    bytes: Vec<u8>,
}

impl Returned {
    pub(crate) fn new(codec: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { codec: codec.into(), bytes: bytes.into() }
    }

    /// JSON; no value is null.
    pub(crate) fn json(value: Option<&RawValue>) -> Self {
        Self::new("json", value.map_or("null", RawValue::get))
    }

    /// A payload, as it came over the wire.
    pub(crate) fn payload(payload: &Payload) -> Result<Self, Failure> {
        let bytes = BASE64.decode(payload.base64.as_bytes());
        let bytes = bytes.map_err(|error| {
            Failure::new(format!("the return value cannot be read: {error}"))
                .hint("print it unchanged with --json")
        })?;
        Ok(Self::new(&payload.codec, bytes))
    }

    /// Writes text with a line end, and other bytes as they are. A terminal gets readable text
    /// only, and nothing that moves the cursor: functions return what they like.
    pub(crate) fn write(&self, is_terminal: bool, out: &mut impl Write) -> Result<(), Failure> {
        match (TEXTS.contains(&self.codec.as_str()), is_terminal) {
            (true, true) => {
                let text = print::lines(&String::from_utf8_lossy(&self.bytes));
                print::text(&format!("{text}\n"), out)
            }
            (true, false) => {
                print::bytes(&self.bytes, out)?;
                print::text("\n", out)
            }
            (false, true) => {
                let bytes = count(self.bytes.len() as u64, "byte");
                let what = format!("the return value is {bytes} of codec {}, not text", self.codec);
                Err(Failure::new(what).hint("redirect standard output to a file, or use --json"))
            }
            (false, false) => print::bytes(&self.bytes, out),
        }
    }
}

/// The document that `--json` prints for a call or a run.
#[derive(Serialize)]
pub(crate) struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<&'static str>,
    /// None while the execution goes on.
    #[serde(flatten)]
    pub(crate) end: Option<End>,
}

/// How it ended: one of the three.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// It returned JSON.
    Result(Box<RawValue>),
    /// It returned something else.
    ResultPayload(Payload),
    /// It did not return.
    Error(Failed),
}

impl From<&Returned> for End {
    /// A result that claims to be JSON and is not is written as a payload.
    fn from(returned: &Returned) -> Self {
        match serde_json::from_slice(&returned.bytes) {
            Ok(value) if returned.codec == "json" => Self::Result(value),
            _ => Self::ResultPayload(Payload {
                codec: returned.codec.clone(),
                base64: BASE64.encode(&returned.bytes),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and JSON output carry the same result.
    #[test]
    fn what_is_returned_is_written_as_it_is() {
        let check = |returned: Returned, text: &[u8], json: &str| {
            let mut out = Vec::new();
            returned.write(false, &mut out).unwrap();
            assert_eq!(out, text);
            let document = Document {
                execution_id: Some("ab".to_owned()),
                operation_id: None,
                verdict: Some("Fresh"),
                end: Some(End::from(&returned)),
            };
            let mut out = Vec::new();
            print::object(document, &mut out).unwrap();
            let expected =
                format!("{{\"v\":1,\"execution_id\":\"ab\",\"verdict\":\"Fresh\",{json}}}\n");
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(Returned::json(None), b"null\n", r#""result":null"#);
        check(Returned::new("json", "[1.50]"), b"[1.50]\n", r#""result":[1.50]"#);
        let text = r#""result_payload":{"codec":"text","base64":"aGk="}"#;
        check(Returned::new("text", "hi"), b"hi\n", text);
        let raw = r#""result_payload":{"codec":"raw","base64":"/w=="}"#;
        check(Returned::new("raw", [0xff]), &[0xff], raw);
        let payload = Payload { codec: "raw".to_owned(), base64: "/w==".to_owned() };
        check(Returned::payload(&payload).unwrap(), &[0xff], raw);
    }

    /// A terminal gets no raw bytes, and its cursor is not moved; a file gets everything.
    #[test]
    fn a_terminal_is_left_alone() {
        let written = |codec: &str, text: &str, is_terminal| {
            let mut out = Vec::new();
            let written = Returned::new(codec, text).write(is_terminal, &mut out);
            written.map(|()| String::from_utf8(out).unwrap()).map_err(|error| error.to_string())
        };
        let hostile = "a\u{1b}[2J\nb\u{9b}\u{202e}";
        for codec in ["text", "json"] {
            let harmless = "a\\u{1b}[2J\nb\\u{9b}\\u{202e}\n";
            assert_eq!(written(codec, hostile, true).unwrap(), harmless);
            assert_eq!(written(codec, hostile, false).unwrap(), format!("{hostile}\n"));
        }
        assert_eq!(written("json", "[1.50]", true).unwrap(), "[1.50]\n");
        assert_eq!(written("cbor", hostile, false).unwrap(), hostile);
        assert_eq!(
            written("cbor", "abc", true).unwrap_err(),
            "error: the return value is 3 bytes of codec cbor, not text\nhint: redirect standard output to a file, \
             or use --json\n"
        );
    }
}
