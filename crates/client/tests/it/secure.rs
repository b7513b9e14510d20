//! TLS and HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use indelible_client::{BuildError, Cause, Client, Error};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use crate::support::quick;

/// The versions in which requests came.
type Versions = Arc<Mutex<Vec<Version>>>;

async fn serve<S>(stream: S, versions: Versions)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        versions.lock().unwrap().push(request.version());
        let body = r#"{"actor":"client:ci","roles":[],"namespaces":[]}"#;
        let response = Response::builder()
            .header("content-type", "application/json; charset=utf-8")
            .body(Full::new(body.as_bytes()))
            .unwrap();
        async { Ok::<_, Infallible>(response) }
    });
    // A client that goes away is no failure of this one.
    drop(
        auto::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await,
    );
}

/// A server with a certificate of its own, and the certificate.
async fn tls_server(protocols: &[&[u8]]) -> (SocketAddr, String, Versions) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = signing_key.serialize_der().try_into().unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let versions = Versions::default();
    let seen = Arc::clone(&versions);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, seen).await;
                }
            });
        }
    });
    (address, cert.pem(), versions)
}

/// With TLS, the server chooses between HTTP/2 and HTTP/1.1.
#[tokio::test]
async fn tls_with_both_versions() {
    for (protocols, version) in [
        (&[&b"h2"[..], b"http/1.1"][..], Version::HTTP_2),
        (&[&b"http/1.1"[..]][..], Version::HTTP_11),
    ] {
        let (address, pem, versions) = tls_server(protocols).await;
        let builder = Client::builder(format!("https://localhost:{}", address.port()));
        let client = builder.token("secret-7").roots_pem(pem.as_bytes()).unwrap().build().unwrap();
        for _ in 0..2 {
            assert_eq!(client.whoami().await.unwrap().actor, "client:ci");
        }
        assert_eq!(*versions.lock().unwrap(), [version, version]);
    }
}

/// A server that cannot prove who it is gets no request.
#[tokio::test]
async fn a_stranger_gets_nothing() {
    let (address, _, versions) = tls_server(&[b"h2"]).await;
    let CertifiedKey { cert, .. } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let builder = Client::builder(format!("https://localhost:{}", address.port()));
    let builder = builder.token("secret-7").retries(quick()).roots(vec![cert.der().clone()]);
    let error = builder.build().unwrap().whoami().await.unwrap_err();
    let Error::Transport(lost) = error else { panic!("{error:?}") };
    assert!(matches!(lost.source, Cause::Connect(_)), "{lost:?}");
    assert!(!format!("{lost:?} {lost}").contains("secret-7"));
    assert_eq!(*versions.lock().unwrap(), []);
}

/// HTTP/2 also without TLS, if the client is told so.
#[tokio::test]
async fn http2_without_tls() -> Result<(), BuildError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let versions = Versions::default();
    let seen = Arc::clone(&versions);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, seen).await;
    });
    let client = Client::builder(format!("http://{address}")).http2_only().build()?;
    client.whoami().await.unwrap();
    client.clone().whoami().await.unwrap();
    assert_eq!(*versions.lock().unwrap(), [Version::HTTP_2, Version::HTTP_2]);
    Ok(())
}
