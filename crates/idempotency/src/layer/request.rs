//! The recorded form of an HTTP request: the parts of it that a repetition is compared by.
//!
//! `docs/formats/idempotency-response.md` describes the form. It never changes, because stored
//! records are compared with requests of later versions.

use data_encoding::HEXLOWER;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::encoded::Encoded;
use crate::json::{Json, Limits};
use crate::request::Request;

/// The recorded form of a request whose body is not JSON: enough to tell it from a different one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Opaque<'a> {
    method: &'a str,
    target: &'a str,
    content_type: Option<Encoded>,
    body_bytes: usize,
    body_sha256: String,
}

/// The recorded form: method, path and query, and the body. A JSON body is compared by its value
/// (I-7), any other body by its bytes and its content type. Other headers are left out, because
/// some, such as a trace id or a date, differ between repetitions (I-25).
pub(super) fn recorded(parts: &Parts, body: &[u8]) -> Request {
    let method = parts.method.as_str();
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let text = match json(parts, body) {
        Some(json) => {
            // `json` has checked that the body is one complete JSON value. So a fragment such as
            // `1,"target":"/b"` cannot add members to the object around it.
            let (method, target) = (quoted(method), quoted(target));
            format!(r#"{{"method":{method},"target":{target},"body":{json}}}"#)
        }
        None => {
            let content_type = parts.headers.get(CONTENT_TYPE);
            let opaque = Opaque {
                method,
                target,
                content_type: content_type.map(|value| Encoded::of(value.as_bytes())),
                body_bytes: body.len(),
                body_sha256: HEXLOWER.encode(&Sha256::digest(body)),
            };
            serde_json::to_string(&opaque).expect("texts and numbers can be written as JSON")
        }
    };
    Request::parse(text, &Limits::NONE).expect("its parts are valid JSON")
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text can be written as JSON")
}

/// The body as JSON, if its content type says so and it is valid JSON.
fn json(parts: &Parts, body: &[u8]) -> Option<Json> {
    let content_type = parts.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    if !is_json(content_type) {
        return None;
    }
    // The body's size was bounded when it was read.
    let limits = Limits { bytes_max: usize::MAX, ..Limits::default() };
    Json::parse_within(std::str::from_utf8(body).ok()?, &limits).ok()
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some(("application", "json")) => true,
        Some((_, kind)) => kind.ends_with("+json"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::RequestHash;

    fn parts(method: &str, target: &str, content_type: Option<&str>) -> Parts {
        let mut request = http::Request::builder().method(method).uri(target);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        request.body(()).unwrap().into_parts().0
    }

    const JSON: Option<&str> = Some("application/json");

    fn hash(method: &str, target: &str, content_type: Option<&str>, body: &[u8]) -> RequestHash {
        recorded(&parts(method, target, content_type), body).hash()
    }

    /// I-7: the same JSON value, written differently, is the same request.
    #[test]
    fn json_is_compared_by_value() {
        let first = hash("POST", "/a", JSON, br#"{"a":1,"b":[1.0,2]}"#);
        for (content_type, body) in [
            ("application/json", r#" {"b": [1, 2e0], "\u0061": 1} "#),
            ("Application/JSON; charset=utf-8", r#"{"a":1,"b":[1,2]}"#),
            ("application/vnd.shop+json", r#"{"a":1,"b":[1,2]}"#),
        ] {
            assert_eq!(hash("POST", "/a", Some(content_type), body.as_bytes()), first);
        }
        assert_ne!(hash("POST", "/a", JSON, br#"{"a":1,"b":[2,1]}"#), first);
        assert_ne!(hash("PUT", "/a", JSON, br#"{"a":1,"b":[1,2]}"#), first);
        assert_ne!(hash("POST", "/b", JSON, br#"{"a":1,"b":[1,2]}"#), first);
        assert_ne!(hash("POST", "/a?x=1", JSON, br#"{"a":1,"b":[1,2]}"#), first);
        assert_ne!(hash("POST", "/a", Some("text/plain"), br#"{"a":1,"b":[1,2]}"#), first);
    }

    #[test]
    fn other_bodies_are_compared_by_bytes_and_type() {
        let first = hash("POST", "/a", Some("text/plain"), b"a b");
        assert_eq!(hash("POST", "/a", Some("text/plain"), b"a b"), first);
        assert_ne!(hash("POST", "/a", Some("text/plain"), b"a  b"), first);
        assert_ne!(hash("POST", "/a", Some("text/html"), b"a b"), first);
        assert_ne!(hash("POST", "/a", None, b"a b"), first);
    }

    /// A body that is not valid JSON is recorded as bytes, and cannot alter the record around it.
    #[test]
    fn no_json_is_bytes() {
        for body in [
            &b""[..],
            b"{",
            b"1,\"target\":\"/b\"",
            b"1}",
            b"{\"a\":1,\"a\":2}",
            b"\xff",
            b"\xef\xbb\xbf1",
            &[b'['; 100_000],
        ] {
            let request = recorded(&parts("POST", "/a", JSON), body);
            assert!(request.json().as_str().contains("bodySha256"), "{}", request.json());
        }
    }

    proptest! {
        /// Whatever is sent as JSON is recorded, as JSON if it is, and as bytes if it is not.
        #[test]
        fn anything_is_recorded(body in "[\\[\\]{}:,\"\\\\0-9eE+.\\-a-u \n\u{0}\u{feff}\u{1f600}]{0,40}") {
            let request = recorded(&parts("POST", "/a", JSON), body.as_bytes());
            let is_json = Json::parse(body.as_str()).is_ok();
            prop_assert_eq!(request.json().as_str().contains("\"body\":"), is_json);
            prop_assert_eq!(request.json().as_str().contains("\"bodySha256\":"), !is_json);
        }

        #[test]
        fn any_bytes_are_recorded(body: Vec<u8>) {
            let twice = [0, 1].map(|_| recorded(&parts("POST", "/a", JSON), &body).hash());
            prop_assert_eq!(twice[0], twice[1]);
        }
    }

    /// The recorded form, letter by letter: it is compared with by later versions.
    #[test]
    fn the_recorded_form() {
        assert_eq!(
            recorded(&parts("POST", "/a?b=%22", JSON), b" {\"z\": 1.50} ").json().as_str(),
            r#"{"method":"POST","target":"/a?b=%22","body": {"z": 1.50} }"#
        );
        assert_eq!(
            recorded(&parts("DELETE", "/a", None), b"").json().as_str(),
            r#"{"method":"DELETE","target":"/a","contentType":null,"bodyBytes":0,"bodySha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#
        );
        assert_eq!(
            recorded(&parts("POST", "/a", Some("text/plain")), b"abc").json().as_str(),
            r#"{"method":"POST","target":"/a","contentType":{"text":"text/plain"},"bodyBytes":3,"bodySha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}"#
        );
    }
}
