//! One HTTP request to a collector: JSON there, a status back.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The most bytes of an answer that are read: it says how many spans were refused, and why.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The longest wait that a collector may ask for: the queue fills meanwhile.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// Where a collector listens.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    uri: Uri,
    authority: String,
    host: String,
    port: u16,
}

/// Why something is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid collector address {0:?}: use http://HOST[:PORT]/PATH")]
pub struct EndpointError(String);

/// What came of a request.
#[derive(Debug)]
pub(super) enum PostOutcome {
    /// The collector has it.
    Taken,
    /// It may work later, but not before this time.
    Later(Option<Duration>),
    /// It would not work later either.
    Refused,
}

impl Endpoint {
    pub(super) fn parse(text: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?.clone();
        if uri.scheme() != Some(&Scheme::HTTP) || authority.as_str().contains('@') {
            return Err(wrong());
        }
        // An address of version 6 stands in brackets, which are no part of it.
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(wrong());
        }
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self { uri, authority: authority.to_string(), host, port })
    }

    /// Sends a body. A connection of its own: batches are seconds apart, and one that stayed open
    /// might have been closed at the other end.
    pub(super) async fn post(&self, body: Bytes) -> PostOutcome {
        let Some(response) = self.ask(body).await else { return PostOutcome::Later(None) };
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|text| text.trim().parse().ok());
        let after = after.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
        // Read to its end, or the collector sees a connection that was cut.
        let _ = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        match status.as_u16() {
            200..=299 => PostOutcome::Taken,
            // Those that OTLP says to repeat, and no others.
            429 | 502 | 503 | 504 => PostOutcome::Later(after),
            _ => PostOutcome::Refused,
        }
    }

    async fn ask(&self, body: Bytes) -> Option<http::Response<hyper::body::Incoming>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.ok()?;
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        // The task ends with the answer, or when the answer is dropped.
        tokio::spawn(connection);
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::post(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("indelible/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .ok()?;
        sender.send_request(request).await.ok()
    }
}
