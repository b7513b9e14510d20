//! Answers: a status, headers, and a body that is whole or comes as it happens.

use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};
use indelible_api::call::Verdict;
use indelible_api::{Code, Problem, header, problem};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

/// An answer.
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Body,
}

/// How long a caller is asked to wait before it asks again, in seconds. Most causes pass within
/// milliseconds; the others need an operator.
const RETRY_AFTER_SECONDS: &str = "1";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Answer {
    /// JSON.
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        let bytes = serde_json::to_vec(body).expect("wire types are JSON");
        Self::of(status, JSON, bytes.into())
    }

    /// 200 with JSON.
    pub(crate) fn ok(body: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// Bytes of another kind.
    pub(crate) fn of(status: StatusCode, kind: HeaderValue, body: Bytes) -> Self {
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert(CONTENT_TYPE, kind);
        Self { status, headers, body: Body(Kind::Whole(Some(body))) }
    }

    /// No body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Body(Kind::Whole(None)) }
    }

    /// Events as they happen.
    pub(crate) fn events(pieces: Pieces) -> Self {
        let mut answer = Self::pieces(HeaderValue::from_static("text/event-stream"), pieces);
        // A proxy that collects an answer before it passes it on would show nothing.
        let buffering = HeaderName::from_static("x-accel-buffering");
        answer.headers.insert(buffering, HeaderValue::from_static("no"));
        answer
    }

    /// Bytes of some kind, piece by piece.
    pub(crate) fn pieces(kind: HeaderValue, pieces: Pieces) -> Self {
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert(CONTENT_TYPE, kind);
        Self { status: StatusCode::OK, headers, body: Body(Kind::Pieces(Some(pieces))) }
    }

    /// A problem document.
    pub(crate) fn problem(problem: &Problem) -> Self {
        let status = StatusCode::from_u16(problem.status).expect("codes have good statuses");
        let bytes = serde_json::to_vec(problem).expect("wire types are JSON");
        let kind = HeaderValue::from_static(problem::MEDIA_TYPE);
        let mut answer = Self::of(status, kind, bytes.into());
        if problem.retryable {
            answer.headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        if problem.code == Code::Unauthenticated {
            answer.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(verdict) = problem.verdict {
            answer = answer.verdict(verdict);
        }
        answer
    }

    /// Adds the verdict of the request's start.
    pub(crate) fn verdict(mut self, verdict: Verdict) -> Self {
        let name = HeaderName::from_static(header::VERDICT);
        self.headers.insert(name, HeaderValue::from_static(verdict.as_str()));
        self
    }

    /// Adds the whole id that the id in the path stands for.
    pub(crate) fn id(mut self, id: &impl Display) -> Self {
        let id = HeaderValue::from_str(&id.to_string()).expect("ids are plain text");
        self.headers.insert(HeaderName::from_static(header::ID), id);
        self
    }

    /// Adds the path at which the outcome can be asked for.
    pub(crate) fn location(mut self, path: &str) -> Self {
        let path = HeaderValue::from_str(path).expect("ids are plain text");
        self.headers.insert(LOCATION, path);
        self
    }

    /// The methods that a path takes.
    pub(crate) fn allow(mut self, methods: &str) -> Self {
        let methods = HeaderValue::from_str(methods).expect("methods are plain text");
        self.headers.insert(ALLOW, methods);
        self
    }

    /// How many bytes it has, if it is whole.
    pub(crate) fn bytes(&self) -> usize {
        match &self.body.0 {
            Kind::Whole(Some(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    /// Ties the permit to the body's bytes: it is given back when the last byte is sent or dropped.
    pub(crate) fn within(mut self, room: OwnedSemaphorePermit) -> Self {
        if let Kind::Whole(Some(bytes)) = &mut self.body.0 {
            *bytes = Bytes::from_owner(BudgetedBytes { bytes: std::mem::take(bytes), _room: room });
        }
        self
    }

    /// As it is sent.
    pub(crate) fn into_response(self) -> Response<Body> {
        let Self { status, mut headers, body } = self;
        // An answer holds only at this moment and for this credential.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Bytes, and the permit that counts them.
struct BudgetedBytes {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body that was cut off after its head was sent: the connection is closed, so that its reader does
/// not take what came for the whole.
#[derive(Debug, thiserror::Error)]
#[error("the response was cut short: {0}")]
pub(crate) struct CutOff(pub(crate) String);

/// The body of an answer.
pub(crate) struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    /// None at the end.
    Pieces(Option<Pieces>),
}

/// The rest of a body: the next piece, which is made when the client has taken the one before, and
/// the pieces after it. `None` is the end.
pub(crate) struct Pieces(Pin<Box<dyn Future<Output = Option<Piece>> + Send>>);

type Piece = (Result<Bytes, CutOff>, Option<Pieces>);

impl Pieces {
    pub(crate) fn new(next: impl Future<Output = Option<Piece>> + Send + 'static) -> Self {
        Self(Box::pin(next))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Pieces(rest) => {
                let Some(Pieces(next)) = rest else { return Poll::Ready(None) };
                let (piece, behind) = ready!(next.as_mut().poll(context)).unzip();
                *rest = behind.flatten();
                Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Pieces(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}
