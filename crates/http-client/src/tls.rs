//! TLS: which roots are trusted, and which protocols are offered.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use crate::config::{Roots, RootsError};

/// What HTTP/2 is called in a TLS handshake.
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// One configuration for all connections. It sends no early data: an attacker could replay it, and
/// a request is never sent twice here. rustls sends none unless it is told to.
pub(crate) fn config(roots: &Roots) -> Result<Arc<ClientConfig>, RootsError> {
    let mut store = RootCertStore::empty();
    for root in &roots.extra {
        store.add(root.clone()).map_err(|error| RootsError(error.to_string()))?;
    }
    if roots.system {
        // Some of a system's roots may be unreadable or of a kind that rustls does not know.
        let found = rustls_native_certs::load_native_certs();
        let (added, _ignored) = store.add_parsable_certificates(found.certs);
        if added == 0 {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| RootsError(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
    Ok(Arc::new(config))
}
