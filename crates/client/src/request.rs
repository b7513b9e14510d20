//! A request before it is sent: its path, its name, its bytes. Every attempt sends the same.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use indelible_api::header;
use url::Url;

use crate::error::Invalid;
use crate::id::Identity;

/// The longest idempotency key that the server takes, in characters.
const KEY_CHARS_MAX: usize = 255;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const WASM: HeaderValue = HeaderValue::from_static("application/wasm");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A request that can be sent.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The name under which it may be sent again.
    pub(crate) identity: Option<Identity>,
    /// Whether it may be sent again: it only reads, or has a name (V-3).
    pub(crate) repeatable: bool,
    /// How long the answer may take, if not the usual time.
    pub(crate) timeout: Option<Duration>,
}

impl Request {
    /// A request that reads.
    pub(crate) fn get(uri: Uri) -> Self {
        Self {
            method: Method::GET,
            uri,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            identity: None,
            repeatable: true,
            timeout: None,
        }
    }

    /// A request that changes something. Without a name it is sent at most once.
    pub(crate) fn change(method: Method, uri: Uri) -> Self {
        Self { method, repeatable: false, ..Self::get(uri) }
    }

    /// With its name.
    pub(crate) fn named(mut self, identity: Identity) -> Result<Self, Invalid> {
        match &identity {
            Identity::Operation(id) => self.text(header::OPERATION_ID, &id.to_string())?,
            Identity::Key(key) => {
                let blank = key.trim().is_empty() || key.trim() != key;
                if blank || key.chars().count() > KEY_CHARS_MAX {
                    return Err(Invalid(format!(
                        "invalid idempotency key: use 1 to {KEY_CHARS_MAX} characters without \
                         spaces at either end"
                    )));
                }
                self.text(header::IDEMPOTENCY_KEY, key)?;
            }
            // It is in the body.
            Identity::Sequence { .. } => {}
        }
        self.identity = Some(identity);
        self.repeatable = true;
        Ok(self)
    }

    pub(crate) fn json(mut self, body: Vec<u8>) -> Self {
        self.headers.insert(CONTENT_TYPE, JSON);
        self.body = body.into();
        self
    }

    pub(crate) fn wasm(mut self, body: Bytes) -> Self {
        self.headers.insert(CONTENT_TYPE, WASM);
        self.body = body;
        self
    }

    pub(crate) fn events(mut self, last: Option<&str>) -> Result<Self, Invalid> {
        self.headers.insert(ACCEPT, EVENTS);
        if let Some(last) = last {
            self.text("last-event-id", last)?;
        }
        Ok(self)
    }

    /// With this header.
    pub(crate) fn text(&mut self, name: &'static str, value: &str) -> Result<(), Invalid> {
        let value = HeaderValue::try_from(value).map_err(|_| {
            Invalid(format!("{name} has a character that is not allowed in a header"))
        })?;
        self.headers.insert(HeaderName::from_static(name), value);
        Ok(())
    }
}

/// The address of a path. Segments are encoded: none of them can lead elsewhere.
pub(crate) fn uri(base: &Url, segments: &[&str], query: &[(&str, &str)]) -> Result<Uri, Invalid> {
    let mut url = base.clone();
    for segment in segments {
        // The first three would name another path, and the parser drops some of the others.
        if matches!(*segment, "" | "." | "..") || segment.chars().any(char::is_control) {
            return Err(Invalid(format!("{segment:?} is not allowed in a path")));
        }
    }
    url.path_segments_mut()
        .map_err(|()| Invalid("no path can be added to the server's address".to_owned()))?
        .push(indelible_api::VERSION)
        .extend(segments);
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    Uri::try_from(url.as_str()).map_err(|error| Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name cannot break out of its place in the path.
    #[test]
    fn segments_are_encoded() {
        let base = Url::parse("http://host:7070/under").unwrap();
        let text = |segments: &[&str]| uri(&base, segments, &[]).map(|uri| uri.to_string());
        assert_eq!(text(&["a", "b"]).unwrap(), "http://host:7070/under/v1/a/b");
        assert_eq!(
            text(&["a/b", "c?d#e%2f ü"]).unwrap(),
            "http://host:7070/under/v1/a%2Fb/c%3Fd%23e%252f%20%C3%BC"
        );
        for bad in ["", ".", "..", "a\nb", "\t"] {
            assert!(text(&[bad]).is_err(), "{bad:?}");
        }
        // An encoded dot is no dot to the server, because its percent sign is encoded too.
        assert_eq!(text(&["%2e%2e"]).unwrap(), "http://host:7070/under/v1/%252e%252e");
        let query = uri(&base, &["a"], &[("k", "v&w=1 2")]).unwrap();
        assert_eq!(query.query(), Some("k=v%26w%3D1+2"));
    }

    /// A key that no header can carry is refused before anything is sent.
    #[test]
    fn keys_are_checked() {
        let uri: Uri = "http://host/".parse().unwrap();
        let named = |key: &str| {
            Request::change(Method::POST, uri.clone()).named(Identity::Key(key.to_owned()))
        };
        assert!(named("order 7/é").unwrap().repeatable);
        for bad in ["", " ", " a", "a\r\nx: y", &"x".repeat(256)] {
            assert!(named(bad).is_err(), "{bad:?}");
        }
    }
}
