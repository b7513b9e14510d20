//! What a peer may take of the server before it has said anything of worth.

use std::time::Duration;

/// Bounds of connections.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The most connections. Further ones wait in the system's queue.
    pub connections_max: usize,
    /// The most bytes of a request's head.
    pub head_bytes_max: usize,
    /// The most headers.
    pub headers_max: usize,
    /// For how long a head, and a TLS handshake, may take: whoever is slower holds a place that
    /// others could use.
    pub head_time_max: Duration,
    /// For how long a peer may take nothing of an answer.
    pub stall_max: Duration,
    /// HTTP/2: the most requests at once on a connection.
    pub streams_max: u32,
    /// HTTP/2: how much of a body may come before it is read.
    pub window_bytes: u32,
    /// HTTP/2: how much of an answer is kept for a peer that reads slowly.
    pub send_bytes_max: usize,
    /// HTTP/2: the most streams that a peer may open and drop before the connection ends.
    pub resets_max: usize,
    /// HTTP/2: how often it is looked whether the peer is there.
    pub ping_every: Duration,
    /// The most bytes of bodies in memory, of all connections together.
    pub body_bytes_max: usize,
    /// For how long a stop waits for requests under way.
    pub drain_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            head_bytes_max: 32 << 10,
            headers_max: 100,
            head_time_max: Duration::from_secs(30),
            stall_max: Duration::from_secs(30),
            streams_max: 128,
            window_bytes: 256 << 10,
            send_bytes_max: 64 << 10,
            resets_max: 64,
            ping_every: Duration::from_secs(60),
            body_bytes_max: 256 << 20,
            drain_max: Duration::from_secs(10),
        }
    }
}
