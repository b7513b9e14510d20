//! How a function ended, as data: what it returned, as it is, or a document for `--json`.

use std::io::Write;

use data_encoding::BASE64;
use indelible_api::call::{Failed, Payload};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::print;

/// The codecs of what people can read: a line end belongs behind it.
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

    /// JSON; nothing at all is null.
    pub(crate) fn json(value: Option<&RawValue>) -> Self {
        Self::new("json", value.map_or("null", RawValue::get))
    }

    /// As it came over the wire.
    pub(crate) fn payload(payload: &Payload) -> Result<Self, Failure> {
        let bytes = BASE64.decode(payload.base64.as_bytes());
        let bytes = bytes.map_err(|error| {
            Failure::new(format!("what it returned cannot be read: {error}"))
                .hint("--json prints it as it came")
        })?;
        Ok(Self::new(&payload.codec, bytes))
    }

    /// Text as it is, with a line end; anything else as it came.
    pub(crate) fn write(&self, out: &mut impl Write) -> Result<(), Failure> {
        print::bytes(&self.bytes, out)?;
        if TEXTS.contains(&self.codec.as_str()) { print::text("\n", out) } else { Ok(()) }
    }
}

/// What `--json` prints of a call, or of a run.
#[derive(Serialize)]
pub(crate) struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<&'static str>,
    #[serde(flatten)]
    pub(crate) end: End,
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
    /// What claims to be JSON and is not is bytes.
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

    /// The same for whoever reads it as text and as JSON.
    #[test]
    fn what_is_returned_is_written_as_it_is() {
        let check = |returned: Returned, text: &[u8], json: &str| {
            let mut out = Vec::new();
            returned.write(&mut out).unwrap();
            assert_eq!(out, text);
            let document = Document {
                execution_id: Some("ab".to_owned()),
                operation_id: None,
                verdict: Some("Fresh"),
                end: End::from(&returned),
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
}
