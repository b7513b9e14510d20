//! A peer with TLS, and the authority that vouches for it.

use std::future::Future;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::support::{Arrivals, Peer};

/// An authority of a test's own.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// What a peer of these names needs.
    pub(crate) fn acceptor(&self, names: &[&str], alpn: &[&str]) -> TlsAcceptor {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A peer that does this with each connection whose handshake went well.
pub(crate) async fn tls_peer<F, R>(
    authority: &Authority,
    names: &[&str],
    alpn: &[&str],
    handle: F,
) -> Peer
where
    F: Fn(TlsStream<TcpStream>, Arrivals) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let acceptor = authority.acceptor(names, alpn);
    Peer::start(move |stream, arrivals| {
        let (acceptor, handle) = (acceptor.clone(), handle.clone());
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                handle(stream, arrivals).await;
            }
        }
    })
    .await
}
