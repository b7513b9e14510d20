//! TLS: who the server is, and what it offers.
#![expect(clippy::disallowed_methods, reason = "the certificate and its key are files")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// In the order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate and its key: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. There is no early data, which
/// a stranger could send again.
#[derive(Clone)]
pub struct Tls(pub(super) TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Tls")
    }
}

/// Why there is no TLS. No message shows anything of a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The chain has no certificate.
    #[error("the certificate chain has no certificate in PEM")]
    NoCertificate,
    /// There is no private key.
    #[error("the key file has no private key in PEM")]
    NoKey,
    /// They do not go together, or are of a kind that is not known.
    #[error("the certificate and the private key cannot be used together")]
    Unusable(#[source] rustls::Error),
}

impl Tls {
    /// From two PEM files: the chain, the server's own certificate first, and its key.
    pub fn from_files(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            let failed = |source| TlsError::File { path: path.to_owned(), source };
            std::fs::read(path).map_err(failed)
        };
        Self::from_pem(&read(chain)?, &read(key)?)
    }

    /// From the text of such files.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|_| TlsError::NoCertificate)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(TlsError::Unusable)?;
        config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}
