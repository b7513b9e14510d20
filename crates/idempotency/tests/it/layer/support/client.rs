//! A client: one connection for each request.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A body in pieces; sent with a content-length only if it is known to be one.
pub(crate) struct Chunks {
    pieces: VecDeque<Bytes>,
    is_sized: bool,
}

impl Chunks {
    pub(crate) fn sized(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let pieces = if body.is_empty() { VecDeque::new() } else { VecDeque::from([body]) };
        Self { pieces, is_sized: true }
    }

    pub(crate) fn unsized_of(body: &[u8], size: usize) -> Self {
        let pieces = body.chunks(size).map(Bytes::copy_from_slice).collect();
        Self { pieces, is_sized: false }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_sized && self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_sized {
            SizeHint::with_exact(self.pieces.iter().map(|piece| piece.len() as u64).sum())
        } else {
            SizeHint::default()
        }
    }
}

/// A request with a key, bytes as they are.
pub(crate) fn request(
    method: &str,
    target: &str,
    key: &[u8],
    content_type: &str,
    body: Chunks,
) -> Request<Chunks> {
    let mut request = Request::new(body);
    *request.method_mut() = method.parse().unwrap();
    *request.uri_mut() = target.parse().unwrap();
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_static("localhost"));
    headers.insert("idempotency-key", HeaderValue::from_bytes(key).unwrap());
    headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
    request
}

/// `POST /` with a key and a JSON body.
pub(crate) fn post(key: &str, json: &str) -> Request<Chunks> {
    let body = Chunks::sized(json.to_owned());
    request("POST", "/", key.as_bytes(), "application/json", body)
}

/// Sends a request, and reads the response whole.
pub(crate) async fn send(
    address: SocketAddr,
    request: Request<Chunks>,
) -> Result<Response<Bytes>, hyper::Error> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    drop(sender);
    // The server may close first: then there is nothing more to know of it.
    let _ = connection.await.unwrap();
    Ok(Response::from_parts(parts, body))
}

pub(crate) fn text(response: &Response<Bytes>) -> &str {
    std::str::from_utf8(response.body()).unwrap()
}

/// The status and code of a problem document, which must be one in every respect.
pub(crate) fn code(response: &Response<Bytes>) -> (u16, String) {
    assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json", "{response:?}");
    assert!(!response.headers().contains_key("idempotency-replayed"), "{response:?}");
    let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    let status = response.status();
    assert_eq!(document["status"], status.as_u16());
    assert_eq!(document["type"], "about:blank");
    assert_eq!(document["title"], status.canonical_reason().unwrap());
    assert!(!document["detail"].as_str().unwrap().is_empty());
    assert_eq!(document.as_object().unwrap().len(), 5);
    let code = document["code"].as_str().unwrap();
    (status.as_u16(), code.strip_prefix("idempotency.").unwrap().to_owned())
}
