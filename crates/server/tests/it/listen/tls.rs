//! TLS, with both protocols.

use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use indelible_server::listen::{Bounds, Peer, Tls, TlsError};
use rcgen::{CertificateParams, KeyPair};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

use crate::listen::support::{Client, Running, SHORT, http2, request, text};

pub(crate) struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, key: key.serialize_pem() }
    }

    pub(crate) fn tls(&self) -> Tls {
        let folder = tempfile::tempdir().unwrap();
        let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
        std::fs::write(&chain, &self.certificate).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        Tls::from_files(&chain, &key).unwrap()
    }

    pub(crate) async fn connect(
        &self,
        server: &Running,
        old: bool,
        alpn: &[&str],
    ) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()).unwrap();
        let versions = if old { [&version::TLS12] } else { [&version::TLS13] };
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

#[tokio::test]
async fn both_protocols_and_versions() {
    let identity = Identity::new();
    let service = |request: Request<Incoming>, peer: Peer| async move {
        assert!(peer.tls);
        text(format!("{:?}", request.version()))
    };
    let server = Running::with_tls(Bounds::default(), Some(identity.tls()), service).await;
    for old in [true, false] {
        for alpn in [&["http/1.1"][..], &[]] {
            let mut client = Client(identity.connect(&server, old, alpn).await);
            assert_eq!(client.get("/").await, "HTTP/1.1");
            assert_eq!(client.get("/").await, "HTTP/1.1");
        }
        let stream = identity.connect(&server, old, &["h2", "http/1.1"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (mut sender, _) = http2(stream).await;
        let response = sender.send_request(request("/")).await.unwrap();
        assert_eq!(response.version(), http::Version::HTTP_2);
    }
    assert_eq!(server.readings.tls_failed.get(), 0);
}

#[tokio::test]
async fn a_handshake_that_fails_or_stops_ends_its_connection() {
    let identity = Identity::new();
    let service = |_: Request<Incoming>, _: Peer| async { text("") };
    let bounds = Bounds { handshake_time_max: SHORT, ..Bounds::default() };
    let server = Running::with_tls(bounds, Some(identity.tls()), service).await;
    let mut plain = server.client().await;
    plain.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(!plain.rest().await.contains("HTTP"));
    let mut silent = server.client().await;
    assert_eq!(silent.rest().await, "");
    assert_eq!(server.readings.tls_failed.get(), 2);
}

#[test]
fn files_that_are_wrong_are_refused_without_a_word_of_the_key() {
    let (one, other) = (Identity::new(), Identity::new());
    let tls = |chain: &str, key: &str| Tls::from_pem(chain.as_bytes(), key.as_bytes());
    assert!(tls(&one.certificate, &one.key).is_ok());
    assert!(matches!(tls("", &one.key), Err(TlsError::NoCertificate)));
    assert!(matches!(tls(&one.key, &one.key), Err(TlsError::NoCertificate)));
    assert!(matches!(tls(&one.certificate, ""), Err(TlsError::NoKey)));
    let mixed = tls(&one.certificate, &other.key).unwrap_err();
    assert!(matches!(mixed, TlsError::Unusable(_)), "{mixed}");
    let missing = Tls::from_files("/nowhere/chain.pem".as_ref(), "/nowhere/key.pem".as_ref());
    assert_eq!(missing.unwrap_err().to_string(), "/nowhere/chain.pem cannot be read");
    let cut = &one.key[..one.key.len() / 2];
    let shown = format!("{:?}", tls(&one.certificate, cut).unwrap_err());
    assert!(!shown.contains(&one.key[40..60]), "{shown}");
}
