//! What answers requests, and what it is told about where they come from.

use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;

/// What answers requests. A function of a request and its peer is one.
pub trait Service: Clone + Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Answers a request. The future is dropped when the peer is gone.
    fn call(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

impl<F, R, B> Service for F
where
    F: Fn(Request<Incoming>, Peer) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Body = B;

    fn call(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<B>> + Send + 'static {
        self(request, peer)
    }
}

type GoOn = dyn FnOnce(TokioIo<Upgraded>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send;

/// What runs on an HTTP/1.1 connection after 101 (Switching Protocols), as an extension of that
/// answer. It holds the connection's permit. It is dropped when the connection is cut: when the
/// peer takes nothing for too long, or when the server's time to drain is over.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<Box<GoOn>>>>);

impl Upgrade {
    /// Has the function read and write what follows.
    pub fn new<R: Future<Output = ()> + Send + 'static>(
        go_on: impl FnOnce(TokioIo<Upgraded>) -> R + Send + 'static,
    ) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(|stream| Box::pin(go_on(stream)))))))
    }

    pub(super) fn take(&self) -> Option<Box<GoOn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Where a request comes from.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The other end of the connection; a proxy, if there is one.
    pub address: SocketAddr,
    /// Whether the connection is secured.
    pub tls: bool,
    /// Whether the server is stopping.
    pub draining: Draining,
}

/// How far the server is with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    Draining,
    Cutting,
}

/// Tells that the server is stopping: a request that waits for something should be answered now.
#[derive(Debug, Clone)]
pub struct Draining(pub(super) watch::Receiver<Phase>);

impl Draining {
    /// Whether the server is stopping.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow() != Phase::Serving || self.0.has_changed().is_err()
    }

    /// Waits until the server is stopping.
    pub async fn begun(&mut self) {
        // An error means that the server is gone, so it is not serving.
        drop(self.0.wait_for(|phase| *phase != Phase::Serving).await);
    }

    /// Waits for a later phase than this one. A server that is gone counts as cutting.
    pub(super) async fn after(&mut self, phase: Phase) -> Phase {
        self.0.wait_for(|now| *now > phase).await.map_or(Phase::Cutting, |now| *now)
    }
}
