//! The body of an answer on its way out: how long it waits for a peer that reads slowly, and when
//! the request is over.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::watch::{BodyId, Watch};

/// A request that is not answered in full; over when it is dropped.
pub(super) struct Request(Arc<Watch>);

impl Request {
    pub(super) fn begin(watch: Arc<Watch>) -> Self {
        watch.began();
        Self(watch)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// The body of an answer.
pub(super) struct AnswerBody<B> {
    /// None is an empty body of our own.
    body: Option<Pin<Box<B>>>,
    /// What was taken from the body and does not fit into a piece.
    rest: Bytes,
    piece_bytes_max: usize,
    waits: Option<BodyId>,
    request: Request,
}

impl<B: Body<Data = Bytes>> AnswerBody<B> {
    pub(super) fn new(body: Option<B>, piece_bytes_max: usize, request: Request) -> Self {
        let body = body.map(Box::pin);
        let mut sent = Self { body, rest: Bytes::new(), piece_bytes_max, waits: None, request };
        if !sent.is_end_stream() {
            sent.waits = Some(sent.request.0.body_waits(None));
        }
        sent
    }

    /// A piece of what is left.
    fn piece(&mut self) -> Bytes {
        let bytes = self.rest.len().min(self.piece_bytes_max);
        self.rest.split_to(bytes)
    }
}

impl<B: Body<Data = Bytes>> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let polled = if this.rest.is_empty() {
            match this.body.as_mut().map(|body| body.as_mut().poll_frame(context)) {
                None => Poll::Ready(None),
                Some(Poll::Ready(Some(Ok(frame)))) => match frame.into_data() {
                    Ok(bytes) => {
                        this.rest = bytes;
                        Poll::Ready(Some(Ok(Frame::data(this.piece()))))
                    }
                    Err(trailers) => Poll::Ready(Some(Ok(trailers))),
                },
                Some(other) => other,
            }
        } else {
            Poll::Ready(Some(Ok(Frame::data(this.piece()))))
        };
        let more = matches!(polled, Poll::Ready(Some(Ok(_)))) && !self.is_end_stream();
        if more {
            self.waits = Some(self.request.0.body_waits(self.waits));
        } else if let Some(id) = self.waits {
            // The service has no bytes yet, so the peer is not the one to wait for.
            self.request.0.body_waits_no_more(id);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        if rest > 0 {
            let (lower, upper) = (hint.lower(), hint.upper());
            hint = SizeHint::new();
            if let Some(upper) = upper {
                hint.set_upper(upper.saturating_add(rest));
            }
            hint.set_lower(lower.saturating_add(rest));
        }
        hint
    }
}

impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        if let Some(id) = self.waits {
            self.request.0.body_waits_no_more(id);
        }
    }
}
