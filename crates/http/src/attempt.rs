//! One attempt at an effect: at most one request on the wire, and how that ended (D5).

use std::sync::Arc;
use std::time::Duration;

use crate::request::Request;
use crate::response::Response;

/// One attempt.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// What is sent.
    pub request: Request,
    /// Sent as `Idempotency-Key` unless the request has one of its own: equal on every attempt.
    pub idempotency_key: String,
    /// Sent as `traceparent` unless the request has one of its own: the peer can join the trace. It
    /// is in no journal, and nothing depends on it.
    pub trace_parent: Option<String>,
    /// The names of the component that sends it. It may use only hosts and secrets that every one
    /// of these names is granted.
    pub components: Arc<[String]>,
    /// How long it may take, from the lookup of the name to the last byte of the answer.
    pub timeout: Duration,
    /// The largest body of an answer.
    pub response_bytes_max: usize,
    /// Whether it may be sent again when its outcome is unknown. If not, the sender does all it can
    /// to learn the outcome: it uses only a connection that the peer cannot be about to close, and
    /// still listens for an answer after the timeout.
    pub idem: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// A complete answer arrived.
    Answered(Response),
    /// An answer arrived whose body exceeds the limit. Given without its body.
    TooLarge(Response),
    /// Provably, no byte of the request left. Name lookup, connect, proxy or TLS handshake failed,
    /// or HTTP/2 said that the stream was refused; nothing else (D5).
    NotSent {
        /// Why, for people.
        why: String,
    },
    /// The request is not allowed or malformed: it was not sent, and never will be.
    Refused {
        /// Why, for people.
        why: String,
    },
    /// It may have arrived, and no complete answer did.
    Unknown {
        /// What happened, for people.
        why: String,
        /// Whether its time was over.
        timed_out: bool,
    },
}

/// Called with the end of an attempt: once, and a second time if it timed out, is not `idem`, and
/// an answer came after all.
pub type Report = Box<dyn FnMut(End) + Send>;

/// Sends requests.
pub trait Sender: Send + Sync + 'static {
    /// Makes one attempt. Returns at once; `report` is called from wherever it ended. Everything
    /// that the request depends on is durable: its first byte may leave now.
    fn send(&self, attempt: Attempt, report: Report);
}

/// Refuses everything: for an engine without a network.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNetwork;

impl Sender for NoNetwork {
    fn send(&self, _attempt: Attempt, mut report: Report) {
        report(End::Refused { why: "this engine sends no HTTP requests".to_owned() });
    }
}
