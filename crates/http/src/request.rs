//! What a guest wants to be sent.
//!
//! A header's value and the body are lists of parts: bytes, or the name of a secret. A secret is
//! put in only when the request leaves, so it is in no journal. Parts, rather than marks within a
//! text, so that no text a guest got from elsewhere can name a secret.

use bytes::Bytes;

use crate::bytes_format::{Malformed, Reader, Writer};

const VERSION: u8 = 1;
const BYTES: u8 = 0;
const SECRET: u8 = 1;

/// The most headers of a request.
pub const HEADERS_MAX: usize = 256;

/// The most parts of a header or a body.
pub const PARTS_MAX: usize = 1_024;

/// The longest label, in bytes.
pub const LABEL_BYTES_MAX: usize = 160;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// Where to: absolute, `http` or `https`.
    pub url: String,
    /// In this order.
    pub headers: Vec<Header>,
    /// All parts together; none: no body.
    pub body: Vec<Part>,
}

/// A header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name, in any case.
    pub name: String,
    /// Its value: all parts together.
    pub value: Vec<Part>,
}

/// A part of a header's value, or of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Bytes(Bytes),
    /// The secret of this name.
    Secret(String),
}

impl Request {
    /// Its bytes, as they are journaled.
    pub fn encode(&self) -> Bytes {
        let body: usize = self.body.iter().map(Part::len).sum();
        let mut out = Writer::new(VERSION, 128 + self.url.len() + body);
        out.bytes(self.method.as_bytes());
        out.bytes(self.url.as_bytes());
        out.count(self.headers.len());
        for header in &self.headers {
            out.bytes(header.name.as_bytes());
            write_parts(&mut out, &header.value);
        }
        write_parts(&mut out, &self.body);
        out.done()
    }

    /// The request of these bytes.
    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(VERSION, bytes)?;
        let (method, url) = (reader.text()?, reader.text()?);
        let mut headers = Vec::new();
        for _ in 0..reader.count()? {
            let name = reader.text()?;
            headers.push(Header { name, value: read_parts(&mut reader)? });
        }
        let body = read_parts(&mut reader)?;
        reader.end()?;
        Ok(Self { method, url, headers, body })
    }

    /// Its name in a journal: the method, and the URL without its query, which is often private. A
    /// replay compares labels, so the recipe never changes.
    pub fn label(&self) -> String {
        let place = self.url.split(['?', '#']).next().unwrap_or_default();
        let printable = |c: char| if c.is_control() { '?' } else { c };
        let mut label: String = format!("{} {place}", self.method).chars().map(printable).collect();
        label.truncate(label.floor_char_boundary(LABEL_BYTES_MAX));
        if label.trim().is_empty() { "HTTP".to_owned() } else { label }
    }

    /// The host in its URL, and the port if there is one; without user, path and query, which may
    /// be private.
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
        authority.rsplit('@').next().unwrap_or_default()
    }

    /// Whether it has a header of this name.
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|header| header.name.eq_ignore_ascii_case(name))
    }
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Secret(name) => name.len(),
        }
    }
}

fn write_parts(out: &mut Writer, parts: &[Part]) {
    out.count(parts.len());
    for part in parts {
        match part {
            Part::Bytes(bytes) => {
                out.u8(BYTES);
                out.bytes(bytes);
            }
            Part::Secret(name) => {
                out.u8(SECRET);
                out.bytes(name.as_bytes());
            }
        }
    }
}

fn read_parts(reader: &mut Reader) -> Result<Vec<Part>, Malformed> {
    let mut parts = Vec::new();
    for _ in 0..reader.count()? {
        parts.push(match reader.u8()? {
            BYTES => Part::Bytes(reader.bytes()?),
            SECRET => Part::Secret(reader.text()?),
            _ => return Err(Malformed("a part is of unknown kind")),
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        let part = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200).prop_map(|b| Part::Bytes(b.into())),
            "[A-Z_]{1,12}".prop_map(Part::Secret),
        ];
        prop::collection::vec(part, 0..4)
    }

    fn requests() -> impl Strategy<Value = Request> {
        let header = (".{0,20}", parts()).prop_map(|(name, value)| Header { name, value });
        ("[A-Z]{0,9}", ".{0,40}", prop::collection::vec(header, 0..5), parts())
            .prop_map(|(method, url, headers, body)| Request { method, url, headers, body })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(request in requests()) {
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }

        #[test]
        fn whatever_is_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let bytes = Bytes::from([&[VERSION][..], &bytes].concat());
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes);
            }
        }
    }

    /// The bytes of version 1, as they are described: they must still read.
    #[test]
    fn version_1_reads() {
        let bytes = Bytes::from_static(
            b"\x01\x04POST\x0chttp://a.b/c\x01\x01x\x02\x00\x02ab\x01\x03KEY\x01\x00\x02{}",
        );
        let text = |text: &'static str| Part::Bytes(Bytes::from_static(text.as_bytes()));
        let value = vec![text("ab"), Part::Secret("KEY".into())];
        let request = Request {
            method: "POST".into(),
            url: "http://a.b/c".into(),
            headers: vec![Header { name: "x".into(), value }],
            body: vec![text("{}")],
        };
        assert_eq!(Request::decode(&bytes), Ok(request.clone()));
        assert_eq!(request.encode(), bytes);
        for cut in 0..bytes.len() {
            assert!(Request::decode(&bytes.slice(..cut)).is_err(), "{cut} bytes of it");
        }
    }

    #[test]
    fn a_host_is_a_host_alone() {
        for (url, host) in [
            ("https://a.b/c?token=1", "a.b"),
            ("https://user:secret@a.b:8080?token=1", "a.b:8080"),
            ("http://[::1]:80/@x", "[::1]:80"),
            ("a.b#user@c", "a.b"),
            ("", ""),
        ] {
            let (method, url) = ("GET".to_owned(), url.to_owned());
            assert_eq!(Request { method, url, headers: vec![], body: vec![] }.host(), host);
        }
    }

    #[test]
    fn a_label_tells_where_to_and_no_more() {
        let label = |method: &str, url: &str| {
            let (method, url) = (method.into(), url.into());
            Request { method, url, headers: vec![], body: vec![] }.label()
        };
        assert_eq!(label("GET", "https://a.b/c?token=1"), "GET https://a.b/c");
        assert_eq!(label("GET", "https://a.b/\n"), "GET https://a.b/?");
        assert_eq!(label("", ""), "HTTP");
        assert_eq!(label("PUT", &"ä".repeat(500)).len(), LABEL_BYTES_MAX);
    }
}
