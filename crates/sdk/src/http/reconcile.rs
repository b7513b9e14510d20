//! Whether a request happened: what a reconciler is asked, and what it says.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeStruct as _};

use super::Response;

/// A request of unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The `Idempotency-Key` that it was sent with.
    pub idempotency_key: String,
    /// The attempt whose outcome is unknown, from 1.
    pub attempt: u32,
    /// How often the reconciler was asked about this attempt, from 1.
    pub question: u32,
    /// Its method.
    pub method: String,
    /// Where it was sent to.
    pub url: String,
    /// Its headers. A secret is `[secret NAME]`.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// Its body, if that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Its body in base64, if that is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

/// Whether a request happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reconciled {
    /// It did, and the function that sent it gets this answer.
    Happened(Response),
    /// It did not. Believed when it is said twice, late enough.
    DidNotHappen,
    /// Ask again later.
    NotKnownYet,
}

/// As the host reads it: headers and body are text.
impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers: Vec<(&str, String)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect();
        let mut out = serializer.serialize_struct("Response", 3)?;
        out.serialize_field("status", &self.status)?;
        out.serialize_field("headers", &headers)?;
        match std::str::from_utf8(&self.body) {
            Ok(body) => out.serialize_field("body", body)?,
            Err(_) => out.serialize_field("body_base64", &base64(&self.body))?,
        }
        out.end()
    }
}

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Form {
            status: u16,
            #[serde(default)]
            headers: Vec<(String, String)>,
            #[serde(default)]
            body: String,
            body_base64: Option<String>,
        }
        let form = Form::deserialize(deserializer)?;
        if form.body_base64.is_some() {
            return Err(de::Error::custom("only a response whose body is text can be read back"));
        }
        let header = |(name, value): (String, String)| (name, value.into_bytes());
        let headers = form.headers.into_iter().map(header).collect();
        Ok(Self { status: form.status, headers, body: form.body.into_bytes() })
    }
}

/// The alphabet of base64 (RFC 4648), for bodies that are no text.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let number = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for place in 0..4 {
            let letter = ALPHABET[(number >> (18 - 6 * place)) as usize & 0x3f];
            text.push(if place <= chunk.len() { letter as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_json_as_the_host_reads_it() {
        let json = |reconciled: &Reconciled| serde_json::to_string(reconciled).unwrap();
        assert_eq!(json(&Reconciled::DidNotHappen), "\"did-not-happen\"");
        assert_eq!(json(&Reconciled::NotKnownYet), "\"not-known-yet\"");
        let headers = vec![("a".to_owned(), b"b".to_vec())];
        let text = Reconciled::Happened(Response { status: 201, headers, body: b"{}".to_vec() });
        let expected = r#"{"happened":{"status":201,"headers":[["a","b"]],"body":"{}"}}"#;
        assert_eq!(json(&text), expected);
        assert_eq!(serde_json::from_str::<Reconciled>(expected).unwrap(), text);
        let raw = |body: &[u8]| {
            json(&Reconciled::Happened(Response { body: body.to_vec(), ..Response::default() }))
        };
        assert!(raw(&[0xff]).contains("\"body_base64\":\"/w==\""));
        assert!(raw(&[0xff, 0xfe]).contains("\"//4=\""));
        assert!(raw(&[0xff, 0xfe, 0xfd]).contains("\"//79\""));
    }
}
