//! Numbers about connections, for the server to show.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number.
#[derive(Debug, Default)]
pub struct Reading(AtomicU64);

impl Reading {
    /// What it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn take_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Numbers about connections. All but `open` and `parked` only grow.
#[derive(Debug, Default)]
pub struct Readings {
    /// Connections that there are.
    pub open: Reading,
    /// Those of them that have no buffers, since nothing was asked for a while.
    pub parked: Reading,
    /// Connections that were taken.
    pub accepted: Reading,
    /// Times that the system did not hand out a connection.
    pub accept_failed: Reading,
    /// TLS handshakes that failed or took too long.
    pub tls_failed: Reading,
    /// Connections that were ended since a head took too long.
    pub heads_too_slow: Reading,
    /// Connections that were told to end since nothing was asked.
    pub idle_too_long: Reading,
    /// Connections that were cut since the peer took nothing of what was written to it.
    pub stalled: Reading,
    /// Services that panicked.
    pub panicked: Reading,
    /// Connections that were cut when the time to drain was over.
    pub cut: Reading,
}
