//! A new connection to an origin: lookup, the check of addresses, TCP, a proxy's tunnel, TLS and
//! HTTP's own start. If anything here fails, no byte of a request has left (D5).

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tracing::debug;
use url::Host;

use crate::config::Bounds;
use crate::grants::AttemptGrants;
use crate::message::Form;
use crate::proxy::{Proxies, Proxy, tunnel};
use crate::resolve::Lookups;
use crate::target::Origin;
use crate::tls::HTTP_2;
use crate::wire::{Socket, Wire};

/// The smallest buffer that hyper takes.
const BUFFER_BYTES_MIN: usize = 8 * 1024;

/// What connections are made with.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) lookups: Lookups,
    pub(crate) proxies: Proxies,
    pub(crate) tls: Arc<rustls::ClientConfig>,
    pub(crate) bounds: Bounds,
}

/// A connection that is ready for a request.
#[derive(Debug)]
pub(crate) struct ReadyConnection {
    pub(crate) link: Link,
    pub(crate) reach: Reach,
    pub(crate) wire: Arc<Wire>,
}

/// What a request is handed to.
#[derive(Debug)]
pub(crate) enum Link {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2 {
        sender: http2::SendRequest<Full<Bytes>>,
        /// How many requests the peer takes at once, as far as it has said.
        streams_max: Arc<AtomicUsize>,
    },
}

/// Where a connection leads: every request that reuses it is checked against this.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// The peer's address. Through a proxy: all addresses that the name has here, possibly none.
    pub(crate) addresses: Arc<[IpAddr]>,
    pub(crate) form: Form,
    /// For a proxy that reads the request.
    pub(crate) proxy_authorization: Option<HeaderValue>,
    /// Whether the end of the stream proves the end of an answer.
    pub(crate) tls: bool,
}

impl Reach {
    /// Whether this attempt may use it. An address may be granted to one component and not to the
    /// next.
    pub(crate) fn allowed(&self, granted: &AttemptGrants) -> bool {
        self.addresses.iter().all(|address| granted.address(*address).is_ok())
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// It is not allowed.
    Refused(String),
    /// It did not work.
    Failed(String),
}

use ConnectError::{Failed, Refused};

impl Connector {
    /// Connects to the origin, before the deadline.
    pub(crate) async fn open(
        &self,
        origin: &Origin,
        granted: &AttemptGrants,
        deadline: Instant,
    ) -> Result<ReadyConnection, ConnectError> {
        match self.proxies.of(origin) {
            None => {
                let found = self.addresses(&origin.host).await;
                let found = found.map_err(|error| lookup_failed(&origin.host, &error))?;
                let allowed = allowed(&found, origin, granted)?;
                let (stream, address) = self.dial(&allowed, origin.port, deadline).await?;
                self.start(stream, origin, Form::Path, Arc::new([address])).await
            }
            Some(proxy) => {
                // The proxy may connect to any of these addresses, so all are checked. A name that
                // only the proxy knows is the proxy's to check; a failed lookup may take long, so
                // it gets a part of the time.
                let part = deadline.saturating_duration_since(Instant::now()) / 4;
                let found = match timeout(part, self.addresses(&origin.host)).await {
                    Ok(Ok(found)) => found,
                    _ => Vec::new(),
                };
                for address in &found {
                    granted.address(*address).map_err(Refused)?;
                }
                let mut stream = self.dial_proxy(proxy, deadline).await?;
                let form = if origin.tls { Form::Path } else { Form::Whole };
                if origin.tls {
                    tunnel(&mut stream, proxy, origin).await.map_err(Failed)?;
                }
                let mut opened = self.start(stream, origin, form, found.into()).await?;
                if form == Form::Whole {
                    opened.reach.proxy_authorization = proxy.authorization.clone();
                }
                Ok(opened)
            }
        }
    }

    async fn addresses(&self, host: &Host<String>) -> io::Result<Vec<IpAddr>> {
        match host {
            Host::Domain(name) => self.lookups.find(name).await,
            Host::Ipv4(address) => Ok(vec![IpAddr::V4(*address)]),
            Host::Ipv6(address) => Ok(vec![IpAddr::V6(*address)]),
        }
    }

    async fn dial_proxy(
        &self,
        proxy: &Proxy,
        deadline: Instant,
    ) -> Result<TcpStream, ConnectError> {
        // The operator named the proxy, so its address is not checked.
        let found = self.addresses(&proxy.host).await;
        let found = found.map_err(|error| lookup_failed(&proxy.host, &error))?;
        Ok(self.dial(&found, proxy.port, deadline).await?.0)
    }

    /// Tries each address in turn, with a fair part of the time.
    async fn dial(
        &self,
        addresses: &[IpAddr],
        port: u16,
        deadline: Instant,
    ) -> Result<(TcpStream, IpAddr), ConnectError> {
        let mut why = "the host name has no address".to_owned();
        for (index, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let others = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            let part: Duration = (left / others).min(self.bounds.connect_time_max);
            let socket = SocketAddr::new(*address, port);
            match timeout(part, TcpStream::connect(socket)).await {
                Ok(Ok(stream)) => {
                    // A request is written in one piece: waiting for more bytes gains nothing.
                    stream.set_nodelay(true).map_err(|error| Failed(error.to_string()))?;
                    debug!(address = %socket, "connection opened");
                    return Ok((stream, *address));
                }
                Ok(Err(error)) => why = format!("cannot connect to {socket}: {error}"),
                Err(_) => why = format!("{socket} did not accept a connection in time"),
            }
            debug!(error = why, "connection cannot be opened");
        }
        Err(Failed(why))
    }

    async fn start(
        &self,
        stream: TcpStream,
        origin: &Origin,
        form: Form,
        addresses: Arc<[IpAddr]>,
    ) -> Result<ReadyConnection, ConnectError> {
        let mut reach = Reach { addresses, form, proxy_authorization: None, tls: origin.tls };
        let stream = Socket::new(stream);
        let wire = stream.wire();
        if !origin.tls {
            return Ok(ReadyConnection { link: self.http1(stream).await?, reach, wire });
        }
        let name = match &origin.host {
            Host::Domain(name) => ServerName::try_from(name.clone())
                .map_err(|_| Refused(format!("{name} is not a valid server name for TLS")))?,
            Host::Ipv4(address) => ServerName::from(IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::V6(*address)),
        };
        let connected = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        let stream = connected
            .map_err(|error| Failed(format!("the TLS handshake with {origin} failed: {error}")))?;
        if stream.get_ref().1.alpn_protocol() == Some(HTTP_2) {
            reach.form = Form::Http2;
            return Ok(ReadyConnection { link: self.http2(stream).await?, reach, wire });
        }
        Ok(ReadyConnection { link: self.http1(stream).await?, reach, wire })
    }

    async fn http1<S>(&self, stream: S) -> Result<Link, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let head = self.bounds.response_header_bytes_max;
        let mut builder = http1::Builder::new();
        builder
            .max_headers(self.bounds.response_headers_max)
            .max_header_size(head)
            // Bounds a response head that never ends.
            .max_buf_size(head.max(BUFFER_BYTES_MIN));
        let started = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = started.map_err(|error| Failed(error.to_string()))?;
        // Errors of the connection reach the request that it carries.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Link::Http1(sender))
    }

    async fn http2<S>(&self, stream: S) -> Result<Link, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let head = u32::try_from(self.bounds.response_header_bytes_max).unwrap_or(u32::MAX);
        builder.max_header_list_size(head);
        let started = builder.handshake(TokioIo::new(stream)).await;
        let (sender, mut connection) = started.map_err(|error| Failed(error.to_string()))?;
        let streams_max = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let told = streams_max.clone();
        tokio::spawn(poll_fn(move |context| {
            let polled = Future::poll(Pin::new(&mut connection), context);
            // The peer announces its limit some time after the start, and may change it.
            told.store(connection.current_max_send_streams(), Ordering::Relaxed);
            polled.map(drop)
        }));
        Ok(Link::Http2 { sender, streams_max })
    }
}

fn lookup_failed(host: &Host<String>, error: &io::Error) -> ConnectError {
    Failed(format!("cannot resolve the host name {host}: {error}"))
}

/// The addresses that may be connected to, in their order.
fn allowed(
    found: &[IpAddr],
    origin: &Origin,
    granted: &AttemptGrants,
) -> Result<Vec<IpAddr>, ConnectError> {
    let mut refused = None;
    let mut keep = |address: &&IpAddr| match granted.address(**address) {
        Ok(()) => true,
        Err(why) => {
            refused = Some(why);
            false
        }
    };
    let allowed: Vec<_> = found.iter().filter(|address| keep(address)).copied().collect();
    match refused {
        Some(why) if allowed.is_empty() => Err(Refused(format!("{origin}: {why}"))),
        _ => Ok(allowed),
    }
}
