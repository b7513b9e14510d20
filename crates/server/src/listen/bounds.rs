//! The limits of connections, each with its reason.

use std::time::Duration;

/// The smallest buffer that hyper takes.
const HEAD_BYTES_MIN: usize = 8 * 1024;

/// The limits of connections.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The most connections at a time. Past it the accept loop waits, and others queue in the
    /// kernel: a client that comes late is served late, and not refused. Fewer are taken if the
    /// process may not have as many descriptors.
    pub connections_max: usize,
    /// The most bytes of a request's line and headers. A credential and a few headers take one or
    /// two kilobytes. It is also the most that is buffered of an HTTP/1 connection in either
    /// direction; at least 8 KiB.
    pub head_bytes_max: usize,
    /// The most headers of a request. A hundred is twice what browsers and proxies add up to.
    pub headers_max: usize,
    /// For how long a head may take from its first byte, so that a peer that sends it byte by
    /// byte does not hold a connection.
    pub head_time_max: Duration,
    /// For how long a connection may be without a request. Longer than clients keep theirs.
    pub idle_time_max: Duration,
    /// After how long without a request an HTTP/1 connection gives its buffers back. It gets them
    /// again with the next request, which takes a few microseconds; without them, ten thousand
    /// idle connections take some tens of megabytes (see `connection`).
    pub park_time: Duration,
    /// For how long a TLS handshake may take: a few round trips.
    pub handshake_time_max: Duration,
    /// For how long a peer may take nothing of what is written to it, before the connection is
    /// cut. What waits to be sent is memory.
    pub stall_time_max: Duration,
    /// The most bytes that are read and dropped from a peer that sends on after its last answer
    /// (see `linger`). Four times the largest body that a path takes by default: a component with
    /// all of its debug information is told that it is too large, and not reset.
    pub linger_bytes_max: usize,
    /// For how long such a peer may send on in all: as long as a body may take to arrive.
    pub linger_time_max: Duration,
    /// For how long such a peer may be silent without closing the connection: some round trips,
    /// and a packet that was lost and is sent again.
    pub linger_silence_max: Duration,
    /// The most requests at a time on an HTTP/2 connection.
    pub streams_max: u32,
    /// The most bytes of a body that come on an HTTP/2 stream before a service reads them.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection.
    pub connection_window_bytes: u32,
    /// The most bytes of an answer that wait in an HTTP/2 stream, and the largest piece in which
    /// they are handed over.
    pub stream_send_bytes_max: usize,
    /// Streams that a peer opened and reset before hyper looked at them (rapid reset): past it,
    /// the connection ends. What h2 has by default.
    pub pending_resets_max: usize,
    /// Streams that were reset for a peer's mistakes: past it, the connection ends. What hyper has
    /// by default.
    pub mistakes_max: usize,
    /// For how long requests under way may go on after the server was told to stop.
    pub drain_time_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            head_bytes_max: 32 * 1024,
            headers_max: 100,
            head_time_max: Duration::from_secs(10),
            idle_time_max: Duration::from_secs(600),
            park_time: Duration::from_secs(2),
            handshake_time_max: Duration::from_secs(10),
            stall_time_max: Duration::from_secs(30),
            linger_bytes_max: 128 << 20,
            linger_time_max: Duration::from_secs(30),
            linger_silence_max: Duration::from_secs(5),
            streams_max: 128,
            stream_window_bytes: 128 * 1024,
            connection_window_bytes: 256 * 1024,
            stream_send_bytes_max: 16 * 1024,
            pending_resets_max: 20,
            mistakes_max: 1024,
            drain_time_max: Duration::from_secs(30),
        }
    }
}

/// A limit that nothing could be served within.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {given}, but must be from {min} to {max}")]
pub struct BoundsError {
    name: &'static str,
    given: usize,
    min: usize,
    max: usize,
}

impl Bounds {
    /// Whether something can be served within them.
    pub(super) fn check(&self) -> Result<(), BoundsError> {
        let within = |name, given: usize, min, max| {
            let good = (min..=max).contains(&given);
            if good { Ok(()) } else { Err(BoundsError { name, given, min, max }) }
        };
        let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let window_max = (1 << 31) - 1;
        within("connections_max", self.connections_max, 1, 1 << 20)?;
        within("head_bytes_max", self.head_bytes_max, HEAD_BYTES_MIN, 1 << 24)?;
        within("headers_max", self.headers_max, 1, 1 << 14)?;
        within("streams_max", size(self.streams_max), 1, 1 << 16)?;
        within("stream_window_bytes", size(self.stream_window_bytes), 1, window_max)?;
        within("connection_window_bytes", size(self.connection_window_bytes), 65_535, window_max)?;
        within("stream_send_bytes_max", self.stream_send_bytes_max, 1, window_max)
    }
}
