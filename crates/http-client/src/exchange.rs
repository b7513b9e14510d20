//! One request on one connection, and what came of it.
//!
//! This relies on hyper 1.12. A request that is handed to `try_send_request` waits in a channel
//! until the connection's task takes it out. Only when it is still in there, because the connection
//! ended first, does hyper give it back: in `client/dispatch.rs` when the channel is dropped
//! (`Envelope::drop`), and in `proto/h1/dispatch.rs` when a connection fails that carries no
//! request (`recv_msg`, without a callback). Once taken out, the request is split into head and
//! body and cannot be given back, whether a byte of it was written or not; then the socket knows
//! (`wire.rs`). So there are two cases: (1) the request is given back, or fails before a byte was
//! written: nothing left; (2) anything else: it may have left.
//!
//! It relies on h2 0.4.20, too. A stream fails with the peer's GOAWAY only if its id is above the
//! last one that the GOAWAY names (`recv_go_away` in `proto/streams/streams.rs`), or if it was
//! never opened. Streams that the peer was working on fail with an I/O error when the connection
//! ends.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::Reason;
use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use http::response::Parts;
use http::{Method, StatusCode, Version};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use indelible_http::Response;

use crate::message::Outgoing;
use crate::pool::Lease;

/// How a request on a connection ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A complete answer.
    Answered(Response),
    /// An answer whose body is too large.
    TooLarge(Response),
    /// The connection had ended or was about to: no byte of the request left.
    HandedBack(String),
    /// The peer refused the stream, or sent GOAWAY before it: it has not processed the request, and
    /// never will.
    StreamRefused,
    /// The request may have been processed, and there is no complete answer.
    Unknown(String),
}

/// Whether a request is on its way; read by the attempt when it is cut off.
#[derive(Debug, Default)]
pub(crate) struct InFlightRequest(AtomicBool);

impl InFlightRequest {
    /// Whether a byte of it may have left.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, value: bool) {
        self.0.store(value, Ordering::Release);
    }
}

/// Sends a request on a connection and reads the answer. The connection may carry another request
/// only after a complete answer.
pub(crate) async fn exchange(
    outgoing: Outgoing,
    lease: &mut Lease,
    handed_over: &InFlightRequest,
    body_max: usize,
) -> Outcome {
    let method = outgoing.method().clone();
    let was = handed_over.get();
    handed_over.set(true);
    let wire = lease.wire().clone();
    let written = wire.written();
    let sent = match lease {
        Lease::Http1 { connection, .. } => connection.sender.try_send_request(outgoing).await,
        Lease::Http2 { stream, .. } => stream.sender().try_send_request(outgoing).await,
    };
    match sent {
        Ok(response) => {
            let (parts, body) = response.into_parts();
            if let Lease::Http1 { connection, .. } = lease {
                connection.closed_after = closed_after(&parts.headers);
            }
            read_answer(&method, parts, body, lease.reach().tls, body_max).await
        }
        Err(error) if error.message().is_some() || wire.written() == written => {
            handed_over.set(was);
            Outcome::HandedBack(described(error.error()))
        }
        Err(error) if is_refused(error.error()) => {
            handed_over.set(was);
            Outcome::StreamRefused
        }
        Err(error) => Outcome::Unknown(described(error.error())),
    }
}

/// RST_STREAM with REFUSED_STREAM, or a GOAWAY that names an earlier stream as the last one.
fn is_refused(error: &hyper::Error) -> bool {
    let error = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    error.is_some_and(|error| {
        let reset = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        error.is_remote() && (reset || error.is_go_away())
    })
}

/// When the peer closes this connection if it is idle, by `Keep-Alive: timeout=SECONDS`. Values that
/// make no sense announce nothing.
fn closed_after(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("keep-alive").into_iter().filter_map(|value| value.to_str().ok());
    let parameters = values.flat_map(|value| value.split(',')).filter_map(|it| it.split_once('='));
    let timeouts = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"));
    let seconds = timeouts.filter_map(|(_, value)| value.trim().trim_matches('"').parse().ok());
    seconds.min().map(Duration::from_secs)
}

async fn read_answer(
    method: &Method,
    parts: Parts,
    body: Incoming,
    tls: bool,
    body_max: usize,
) -> Outcome {
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Outcome::Unknown("the peer asked to switch to another protocol".to_owned());
    }
    let is_http1 = parts.version <= Version::HTTP_11;
    let coding = parts.headers.get(TRANSFER_ENCODING);
    if is_http1 && coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        return Outcome::Unknown("the response has an unknown transfer encoding".to_owned());
    }
    // Without a length, only the end of the connection ends the body, and a cut connection looks
    // the same. TLS tells the two apart; without it, the answer is believed only for methods that
    // change nothing.
    let until_close = is_http1
        && coding.is_none()
        && !parts.headers.contains_key(CONTENT_LENGTH)
        && !body.is_end_stream();
    if until_close && !tls && method != Method::GET && method != Method::HEAD {
        return Outcome::Unknown("the response does not declare its length".to_owned());
    }
    if body.size_hint().lower() > body_max as u64 {
        return Outcome::TooLarge(response(&parts, Bytes::new()));
    }
    match read(body, body_max).await {
        Ok(Some(body)) => Outcome::Answered(response(&parts, body)),
        Ok(None) => Outcome::TooLarge(response(&parts, Bytes::new())),
        Err(error) => Outcome::Unknown(format!("the response was cut off: {}", described(&error))),
    }
}

/// The whole body; `None` if it exceeds `max`.
async fn read(mut body: Incoming, max: usize) -> Result<Option<Bytes>, hyper::Error> {
    // Most bodies come in one piece, which needs no copy.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if first.len() + all.len() + piece.len() > max {
            return Ok(None);
        }
        if first.is_empty() && all.is_empty() {
            first = piece;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&piece);
        }
    }
    Ok(Some(if all.is_empty() { first } else { all.freeze() }))
}

fn response(parts: &Parts, body: Bytes) -> Response {
    let headers = parts.headers.iter().map(|(name, value)| {
        // Copied: a slice would keep the whole head in memory.
        (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes()))
    });
    Response { status: parts.status.as_u16(), headers: headers.collect(), body }
}

/// An error with its causes, for people.
fn described(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
