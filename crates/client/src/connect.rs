//! Connections: a pool over HTTP/1.1 and HTTP/2, with and without TLS.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::error::BuildError;

/// What sends requests.
pub(crate) type Connections = Pool<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Idle connections that are kept; more are closed after use.
const IDLE_MAX: usize = 64;

/// How long an idle connection is kept: shorter than servers and proxies keep theirs.
const IDLE_FOR: Duration = Duration::from_secs(50);

/// Which certificates TLS trusts.
#[derive(Debug, Clone, Default)]
pub(crate) enum Roots {
    /// The system's roots; where there are none, Mozilla's, built in.
    #[default]
    System,
    /// Only these roots.
    Only(Vec<CertificateDer<'static>>),
}

/// Makes the pool. Without TLS, the system's roots are not read.
pub(crate) fn connections(
    roots: &Roots,
    tls: bool,
    connect_timeout: Duration,
    http2_only: bool,
) -> Result<Connections, BuildError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Small requests are sent at once.
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_timeout));
    let store = if tls { store(roots)? } else { RootCertStore::empty() };
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| BuildError::Roots(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    let https = HttpsConnectorBuilder::new().with_tls_config(config);
    let https = if tls { https.https_only() } else { https.https_or_http() };
    let https = https.enable_all_versions().wrap_connector(tcp);
    // The pool repeats a request by itself only if it was handed back unsent, because an idle
    // connection had ended.
    Ok(Pool::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .pool_max_idle_per_host(IDLE_MAX)
        .http2_only(http2_only)
        .build(https))
}

fn store(roots: &Roots) -> Result<RootCertStore, BuildError> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::Only(roots) => {
            for root in roots {
                store.add(root.clone()).map_err(|error| BuildError::Roots(error.to_string()))?;
            }
            if store.is_empty() {
                return Err(BuildError::Roots("no certificates were found".to_owned()));
            }
        }
        Roots::System => {
            // Some of a system's roots may be unreadable or of a kind that rustls does not know.
            let found = rustls_native_certs::load_native_certs();
            let (added, _ignored) = store.add_parsable_certificates(found.certs);
            if added == 0 {
                store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            }
        }
    }
    Ok(store)
}
