//! What came back.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Failure;
use crate::payload::Payload;

/// The answer to a request, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// In the order in which they came; names in small letters.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

/// The codec of answers.
const CODEC: u8 = 6;

/// The version of their bytes.
const VERSION: u8 = 1;

impl Response {
    /// One with this status, and nothing else: what a test or a reconciler answers with.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to a value as JSON, with the header that says so.
    ///
    /// # Panics
    /// The value has no form in JSON, a map with keys that are not text for example.
    #[must_use]
    pub fn with_json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        let body = Payload::json(value).expect("the caller gives what has a form in JSON");
        self.with_body(body.bytes).with_header("content-type", "application/json")
    }

    /// Whether the status says that it worked: 200 to 299.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// The body as text; what is no text is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is not, or not of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// The answer that a failure carries: that of a gateway, for example, that got none itself.
    #[must_use]
    pub fn of(failure: &Failure) -> Option<Self> {
        failure.payload.clone().and_then(|payload| Self::read(payload).ok())
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is one of many decoders")]
    pub(super) fn read(payload: Payload) -> Result<Self, String> {
        if payload.codec != CODEC {
            return Err(format!(
                "a response was expected, but the bytes have codec {}",
                payload.codec
            ));
        }
        parse(&payload.bytes).ok_or_else(|| "the bytes of the response are cut off".to_owned())
    }
}

fn parse(bytes: &[u8]) -> Option<Response> {
    let (version, mut rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    let (status, after) = rest.split_first_chunk::<2>()?;
    rest = after;
    let count = number(&mut rest)?;
    let mut headers = Vec::new();
    for _ in 0..count {
        let name = String::from_utf8(list(&mut rest)?.to_vec()).ok()?;
        headers.push((name, list(&mut rest)?.to_vec()));
    }
    Some(Response { status: u16::from_be_bytes(*status), headers, body: rest.to_vec() })
}

/// Unsigned LEB128.
fn number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0_usize;
    for shift in (0..28).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn list<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(bytes)?;
    let (list, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_an_answer_are_read() {
        let bytes = b"\x01\x00\xc8\x01\x01a\x01b{\"x\":1}".to_vec();
        let read = |bytes: &[u8]| Response::read(Payload { codec: CODEC, bytes: bytes.to_vec() });
        let response = read(&bytes).unwrap();
        assert_eq!((response.status, response.header("A")), (200, Some("b")));
        assert!(response.is_success());
        assert_eq!(response.json::<serde_json::Value>().unwrap()["x"], 1);
        for cut in 0..8 {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(read(b"\x02\x00\xc8\x00").is_err());
        assert!(Response::read(Payload::raw(bytes)).is_err());
    }
}
