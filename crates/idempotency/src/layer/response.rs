//! The handler's response as it is recorded, and as it is replayed.
//!
//! The form is described in `docs/formats/idempotency-response.md`.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use serde::{Deserialize, Serialize};

use super::encoded::Encoded;
use crate::json::{Json, Limits, serialize};
use crate::outcome::DecodeError;

/// The header that tells a replay from a first response; its value is `true`.
pub const REPLAYED_HEADER: &str = "idempotency-replayed";

/// The version that is written. Others are not read: there are none.
const VERSION: u32 = 1;

/// Version 1 of the recorded form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseV1 {
    version: u32,
    status: u16,
    headers: Vec<(String, Encoded)>,
    body: Encoded,
}

/// What every version has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Headers that belong to one connection or one moment, and are not recorded. `set-cookie` is among
/// them: a replay must not hand out the session that was opened for the first response.
const NOT_RECORDED: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    REPLAYED_HEADER,
];

/// The response in its recorded form.
pub(super) fn recorded(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Json {
    let named = named_by_connection(headers);
    let headers = headers
        .iter()
        .filter(|(name, _)| is_recorded(name) && !named.contains(name))
        .map(|(name, value)| (name.as_str().to_owned(), Encoded::of(value.as_bytes())))
        .collect();
    let status = status.as_u16();
    let response = ResponseV1 { version: VERSION, status, headers, body: Encoded::of(body) };
    serialize(&response)
        .and_then(|text| Json::parse_within(text, &Limits::NONE))
        .expect("texts and numbers have JSON")
}

fn is_recorded(name: &HeaderName) -> bool {
    let name = name.as_str();
    !NOT_RECORDED.contains(&name) && !name.starts_with("proxy-")
}

/// The headers that the response itself declares to be of its connection (RFC 9110, 7.6.1).
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect()
}

/// The response that was recorded. A value of another form was recorded by other code, or by a
/// later version (I-17).
pub(super) fn replayed(recorded: &Json) -> Result<Response<Full<Bytes>>, DecodeError> {
    let Version { version } = recorded.decode().map_err(unreadable)?;
    if version != VERSION {
        return Err(unreadable(format!(
            "it has version {version}; this build reads version {VERSION}"
        )));
    }
    let ResponseV1 { status, headers, body, .. } = recorded.decode().map_err(unreadable)?;
    let mut response = Response::new(Full::from(body.into_bytes().map_err(unreadable)?));
    *response.status_mut() = StatusCode::from_u16(status).map_err(unreadable)?;
    for (name, value) in headers {
        let name = HeaderName::try_from(name).map_err(unreadable)?;
        let value = value.into_bytes().map_err(unreadable)?;
        let value = HeaderValue::try_from(value).map_err(unreadable)?;
        response.headers_mut().append(name, value);
    }
    response.headers_mut().insert(REPLAYED_HEADER, HeaderValue::from_static("true"));
    Ok(response)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn unreadable(why: impl ToString) -> DecodeError {
    DecodeError { what: "response", why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    /// The recorded form, letter by letter: it is read by later versions.
    #[test]
    fn the_recorded_form() {
        let headers = headers(&[("content-type", b"text/plain"), ("x-raw", b"\xff")]);
        assert_eq!(
            recorded(StatusCode::CREATED, &headers, b"a\"\x00").as_str(),
            r#"{"version":1,"status":201,"headers":[["content-type",{"text":"text/plain"}],["x-raw",{"base64":"/w=="}]],"body":{"text":"a\"\u0000"}}"#
        );
        assert_eq!(
            recorded(StatusCode::OK, &HeaderMap::new(), b"\xfe").as_str(),
            r#"{"version":1,"status":200,"headers":[],"body":{"base64":"/g=="}}"#
        );
    }

    #[test]
    fn headers_of_a_connection_are_not_recorded() {
        let all = headers(&[
            ("connection", b"close, X-Hop"),
            ("x-hop", b"1"),
            ("keep-alive", b"timeout=5"),
            ("te", b"trailers"),
            ("trailer", b"x"),
            ("transfer-encoding", b"chunked"),
            ("upgrade", b"h2c"),
            ("proxy-authenticate", b"Basic"),
            ("proxy-connection", b"close"),
            ("date", b"Mon, 16 Nov 2026 08:00:00 GMT"),
            ("content-length", b"3"),
            ("set-cookie", b"session=1"),
            ("idempotency-replayed", b"true"),
            ("location", b"/a/1"),
            ("x-two", b"1"),
            ("x-two", b"2"),
        ]);
        let response = replayed(&recorded(StatusCode::OK, &all, b"")).unwrap();
        let kept = headers(&[
            ("location", b"/a/1"),
            ("x-two", b"1"),
            ("x-two", b"2"),
            (REPLAYED_HEADER, b"true"),
        ]);
        assert_eq!(response.headers(), &kept);
    }

    proptest! {
        /// I-11: what was recorded is replayed, byte by byte.
        #[test]
        fn what_was_recorded_is_replayed(
            status in 100_u16..1000,
            pairs in prop::collection::vec(("x-[a-z]{1,3}", "[\t -~\u{80}-\u{ff}]{0,9}"), 0..9),
            latin: bool,
            body: Vec<u8>,
        ) {
            let mut sent = HeaderMap::new();
            for (name, value) in &pairs {
                // As UTF-8, or a byte for a character.
                let value = match latin {
                    true => value.chars().map(|char| u32::from(char).to_le_bytes()[0]).collect(),
                    false => value.clone().into_bytes(),
                };
                let name: HeaderName = name.parse().unwrap();
                sent.append(name, HeaderValue::from_bytes(&value).unwrap());
            }
            let status = StatusCode::from_u16(status).unwrap();
            let response = replayed(&recorded(status, &sent, &body)).unwrap();
            sent.append(REPLAYED_HEADER, HeaderValue::from_static("true"));
            prop_assert_eq!(response.status(), status);
            prop_assert_eq!(response.headers(), &sent);
            let replayed = response.into_body().into_inner().unwrap_or_default();
            prop_assert_eq!(replayed, body);
        }
    }

    /// I-17: what is not in the recorded form is an error, never half a response.
    #[test]
    fn what_cannot_be_read() {
        for text in [
            "null",
            "{}",
            r#""a receipt""#,
            r#"{"version":2,"status":200,"headers":[],"body":{"text":""}}"#,
            r#"{"version":1,"status":200,"headers":[],"body":{"text":""},"more":1}"#,
            r#"{"version":1,"status":99,"headers":[],"body":{"text":""}}"#,
            r#"{"version":1,"status":200,"headers":[["a b",{"text":""}]],"body":{"text":""}}"#,
            r#"{"version":1,"status":200,"headers":[["a",{"text":"\n"}]],"body":{"text":""}}"#,
            r#"{"version":1,"status":200,"headers":[],"body":{"base64":"*"}}"#,
            r#"{"version":1,"status":200,"headers":[],"body":{"hex":""}}"#,
        ] {
            assert!(replayed(&Json::parse(text).unwrap()).is_err(), "{text}");
        }
    }
}
