//! How a client is set up: every bound by name, and what it gets from outside.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::grants::Grants;
use crate::proxy::Proxies;
use crate::resolve::{Resolve, SystemResolver};
use crate::secrets::{SecretError, SecretSource};

/// How a client is set up. By default it may send nothing: it is granted nothing.
#[derive(Debug, Clone)]
pub struct Config {
    /// The threads that it starts.
    pub threads: usize,
    /// What each component may do.
    pub grants: Grants,
    /// Where each secret comes from, by its name.
    pub secrets: BTreeMap<String, SecretSource>,
    /// Which requests go through a proxy.
    pub proxies: Proxies,
    /// Which certificates TLS trusts.
    pub roots: Roots,
    /// What finds the addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// The bounds.
    pub bounds: Bounds,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            threads: 1,
            grants: Grants::default(),
            secrets: BTreeMap::new(),
            proxies: Proxies::default(),
            roots: Roots::default(),
            resolver: Arc::new(SystemResolver),
            bounds: Bounds::default(),
        }
    }
}

/// Which certificates TLS trusts.
#[derive(Debug, Clone)]
pub struct Roots {
    /// Trust the system's roots, also from `SSL_CERT_FILE` and `SSL_CERT_DIR`; Mozilla's, if it has
    /// none.
    pub system: bool,
    /// Further roots to trust.
    pub extra: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// Adds the certificates of a PEM text.
    pub fn add_pem(&mut self, pem: &[u8]) -> Result<(), RootsError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match read {
            Ok(certificates) if !certificates.is_empty() => {
                self.extra.extend(certificates);
                Ok(())
            }
            _ => Err(RootsError("the text has no certificate".to_owned())),
        }
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self { system: true, extra: Vec::new() }
    }
}

/// Roots that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificates cannot be used: {0}")]
pub struct RootsError(pub(crate) String);

/// The bounds of a client. The largest body of an answer is the attempt's own.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Requests on their way at once; more wait, within their time.
    pub in_flight_max: usize,
    /// Requests on their way to one origin; with HTTP/1, this many connections. By default as many
    /// as an engine has in flight at once: a request that waits here is already written as started,
    /// so that a crash makes its outcome unknown.
    pub in_flight_per_origin_max: usize,
    /// Requests at once on one HTTP/2 connection, if the peer allows as many.
    pub streams_per_connection_max: usize,
    /// Idle connections that are kept.
    pub idle_max: usize,
    /// Idle connections that are kept to one origin.
    pub idle_per_origin_max: usize,
    /// How long an idle connection is kept; less if the peer announces that it closes it sooner.
    pub idle_time: Duration,
    /// How long a connection may have been silent to carry a request that is not `idem`. A peer
    /// that closes an idle connection while such a request is on its way makes the outcome unknown
    /// though nothing happened. No healthy peer closes a connection so soon after an answer, and
    /// an answer that leads to the next request does so within a sync of the disk.
    pub idle_time_not_idem: Duration,
    /// The longest that one address is given to accept a connection.
    pub connect_time_max: Duration,
    /// How long an attempt still listens for an answer after its timeout.
    pub late_answer_max: Duration,
    /// How many attempts listen at once after their timeouts.
    pub late_listeners_max: usize,
    /// An answer's headers, in bytes.
    pub response_header_bytes_max: usize,
    /// An answer's headers.
    pub response_headers_max: usize,
    /// How many redirections are followed.
    pub redirects_max: usize,
    /// Threads that wait for the system's lookup of names.
    pub lookup_threads_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            in_flight_max: 4_096,
            in_flight_per_origin_max: 1_024,
            streams_per_connection_max: 100,
            idle_max: 1_024,
            idle_per_origin_max: 64,
            idle_time: Duration::from_secs(30),
            idle_time_not_idem: Duration::from_millis(10),
            connect_time_max: Duration::from_secs(10),
            late_answer_max: Duration::from_secs(10 * 60),
            late_listeners_max: 256,
            response_header_bytes_max: 64 * 1024,
            response_headers_max: 256,
            redirects_max: 10,
            lookup_threads_max: 32,
        }
    }
}

/// A client that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its threads cannot be started.
    #[error("the threads of the HTTP client cannot be started")]
    Threads(#[source] io::Error),
    /// A secret cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The roots of TLS cannot be used.
    #[error(transparent)]
    Roots(#[from] RootsError),
}
