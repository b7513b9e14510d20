//! What answers requests, and what it is told about where they come from.

use std::error::Error;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
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

/// Tells that the server is stopping: whoever waits for something should answer now.
#[derive(Debug, Clone)]
pub struct Draining(pub(super) watch::Receiver<Phase>);

impl Draining {
    /// Whether the server is stopping.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow() != Phase::Serving || self.0.has_changed().is_err()
    }

    /// Waits until the server is stopping.
    pub async fn begun(&mut self) {
        // A server that is gone is not serving.
        drop(self.0.wait_for(|phase| *phase != Phase::Serving).await);
    }

    /// Waits until the server is further with its end than this. One that is gone cuts everything.
    pub(super) async fn after(&mut self, phase: Phase) -> Phase {
        self.0.wait_for(|now| *now > phase).await.map_or(Phase::Cutting, |now| *now)
    }
}
