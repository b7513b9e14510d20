//! The request that leaves, made of what a guest wants: checked, with secrets in their place.

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, PROXY_AUTHORIZATION, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use http_body_util::Full;
use indelible_http::{Attempt, HEADERS_MAX, Part};

use crate::connect::Reach;
use crate::grants::AttemptGrants;
use crate::secrets::{Used, Vault};
use crate::target::Target;

/// The most bytes of a request's headers, names and values together.
pub const REQUEST_HEADER_BYTES_MAX: usize = 64 * 1024;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const OWN_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("indelible/", env!("CARGO_PKG_VERSION")));
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const NO_BYTES: HeaderValue = HeaderValue::from_static("0");

/// Headers that frame a message or are for one hop: a guest that could set them could hide a second
/// request in the first.
const NOT_FOR_GUESTS: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What hyper sends.
pub(crate) type Outgoing = http::Request<Full<Bytes>>;

/// How the target stands in a request's first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// HTTP/1 to the peer itself, or through a tunnel: the path alone.
    Path,
    /// HTTP/1 to a proxy that reads the request: all of it.
    Whole,
    /// HTTP/2: all of it, and no `Host`.
    Http2,
}

/// A request, ready to be sent; redirections and new connections send it again.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) method: Method,
    headers: HeaderMap,
    body: Bytes,
    /// Headers for the first origin only: a redirection to another drops them.
    bound: Vec<HeaderName>,
    pub(crate) used: Used,
}

impl Message {
    /// Makes the message for its first target. The error says why it must not leave.
    pub(crate) fn new(
        attempt: &Attempt,
        target: &Target,
        granted: &AttemptGrants,
        vault: &Vault,
    ) -> Result<Self, String> {
        let request = &attempt.request;
        let method = method(&request.method)?;
        let mut used = Used::default();
        let mut join = |parts: &[Part]| join(parts, target, granted, vault, &mut used);
        if request.headers.len() > HEADERS_MAX {
            return Err(format!("the request has more than {HEADERS_MAX} headers"));
        }
        let mut headers = HeaderMap::with_capacity(request.headers.len() + 4);
        let mut bound = vec![AUTHORIZATION, COOKIE, IDEMPOTENCY_KEY];
        let mut bytes = 0;
        for header in &request.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes())
                .map_err(|_| format!("`{}` is not a header's name", header.name.escape_debug()))?;
            if NOT_FOR_GUESTS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
                return Err(format!("guests may not set the header `{name}`"));
            }
            // A line end within the value, of a secret too, would be the start of another header.
            let mut value = HeaderValue::from_maybe_shared(join(&header.value)?).map_err(|_| {
                format!("the value of the header `{name}` has a character that is not allowed")
            })?;
            if header.value.iter().any(|part| matches!(part, Part::Secret(_))) {
                value.set_sensitive(true);
                bound.push(name.clone());
            }
            bytes += name.as_str().len() + value.len();
            headers.append(name, value);
        }
        if bytes > REQUEST_HEADER_BYTES_MAX {
            return Err(format!(
                "the headers of the request have more than {REQUEST_HEADER_BYTES_MAX} bytes"
            ));
        }
        let body = join(&request.body)?;
        if !headers.contains_key(IDEMPOTENCY_KEY) {
            let value = HeaderValue::from_str(&attempt.idempotency_key).map_err(
                |_| "the idempotency key has a character that is not allowed in a header",
            )?;
            headers.insert(IDEMPOTENCY_KEY, value);
        }
        if let Some(trace_parent) = &attempt.trace_parent
            && !headers.contains_key(TRACE_PARENT)
        {
            let value = HeaderValue::from_str(trace_parent)
                .map_err(|_| "the trace has a character that is not allowed in a header")?;
            headers.insert(TRACE_PARENT, value);
        }
        headers.entry(USER_AGENT).or_insert(OWN_USER_AGENT);
        headers.entry(ACCEPT).or_insert(ANYTHING);
        // hyper adds the length of a body that there is. These methods are expected to have one.
        if body.is_empty() && [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
            headers.insert(CONTENT_LENGTH, NO_BYTES);
        }
        Ok(Self { method, headers, body, bound, used })
    }

    /// As hyper sends it.
    pub(crate) fn outgoing(&self, target: &Target, reach: &Reach) -> Result<Outgoing, String> {
        let form = reach.form;
        let cannot = |_| "the URL has a character that is not allowed in a request".to_owned();
        let mut headers = self.headers.clone();
        let uri = if form == Form::Path {
            Uri::from(target.path.clone())
        } else {
            let whole = Uri::builder()
                .scheme(target.origin.scheme())
                .authority(target.origin.authority())
                .path_and_query(target.path.clone());
            whole.build().map_err(cannot)?
        };
        if form != Form::Http2 {
            let host = HeaderValue::from_maybe_shared(Bytes::from(target.origin.authority()));
            headers.insert(
                HOST,
                host.map_err(|_| {
                    "the host has a character that is not allowed in a header".to_owned()
                })?,
            );
        }
        if let Some(authorization) = &reach.proxy_authorization {
            headers.insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let mut outgoing = Outgoing::new(Full::new(self.body.clone()));
        *outgoing.method_mut() = self.method.clone();
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = headers;
        Ok(outgoing)
    }

    /// Whether a redirection may be followed: only for methods that change nothing.
    pub(crate) fn may_follow(&self) -> bool {
        (self.method == Method::GET || self.method == Method::HEAD) && self.body.is_empty()
    }

    /// Drops the headers that were for the first origin only.
    pub(crate) fn change_origin(&mut self) {
        for name in &self.bound {
            self.headers.remove(name);
        }
    }
}

fn method(text: &str) -> Result<Method, String> {
    let method = Method::from_bytes(text.as_bytes());
    let shown = text.escape_debug();
    match method {
        Ok(Method::CONNECT | Method::TRACE) => {
            Err(format!("guests may not use the method {shown}"))
        }
        // Peers tell `get` from `GET`, and so must the check of which methods may be repeated.
        Ok(method) if !text.bytes().any(|byte| byte.is_ascii_lowercase()) => Ok(method),
        _ => Err(format!("`{shown}` is not a method in capital letters")),
    }
}

fn join(
    parts: &[Part],
    target: &Target,
    granted: &AttemptGrants,
    vault: &Vault,
    used: &mut Used,
) -> Result<Bytes, String> {
    if let [Part::Bytes(bytes)] = parts {
        return Ok(bytes.clone());
    }
    let mut joined = BytesMut::new();
    for part in parts {
        match part {
            Part::Bytes(bytes) => joined.extend_from_slice(bytes),
            Part::Secret(name) => {
                granted.secret(name, &target.origin)?;
                let secret =
                    vault.get(name).ok_or_else(|| format!("there is no secret `{name}`"))?;
                joined.extend_from_slice(secret.bytes());
                used.add(name, secret);
            }
        }
    }
    Ok(joined.freeze())
}
