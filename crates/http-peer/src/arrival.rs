//! `Arrival`: what the peer knows of a request that arrived.

use bytes::Bytes;

/// A request that arrived, complete with its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Its place among all arrivals, from 1.
    pub number: usize,
    /// Its place among the arrivals of its key, from 1. Without a key: of its path.
    pub nth: usize,
    /// The value of `Idempotency-Key`, without the quotes around it if there are any.
    pub key: Option<String>,
    /// The method, as it came.
    pub method: String,
    /// The path with its query, as it came.
    pub path: String,
    /// In the order in which they came; names and values as they came.
    pub headers: Vec<(String, Bytes)>,
    /// The body, without the marks of chunks.
    pub body: Bytes,
    /// Whether it had its effect at the peer.
    pub processed: bool,
    /// Whether a whole answer was handed to the operating system. It is true no later than the
    /// client can have the last byte; whether the client ever looks, the peer cannot know.
    pub answered: bool,
}

impl Arrival {
    /// The value of the first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
