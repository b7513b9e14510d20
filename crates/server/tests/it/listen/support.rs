//! A server on loopback, and clients that see every byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use indelible_http_peer::Port;
use indelible_server::listen::{Bounds, Peer, Readings, Server, Service, Stopped, Tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Shorter than a client waits, and long enough to be told from nothing.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

/// A limit that must not pass too early: longer than a busy machine keeps a thread waiting.
pub(crate) const LONGER: Duration = Duration::from_secs(1);

/// How long is waited for what must come, so that a test that fails ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What must come.
pub(crate) async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let came = tokio::time::timeout(PATIENCE, coming).await;
    came.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Looks until it is so.
pub(crate) async fn until(what: &str, look: impl Fn() -> bool) {
    let looking = async {
        while !look() {
            tokio::task::yield_now().await;
        }
    };
    within(what, looking).await;
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) readings: Arc<Readings>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Stopped>,
    /// Kept, so that no other socket gets the port when the server has stopped.
    _port: Port,
}

impl Running {
    pub(crate) async fn new(bounds: Bounds, service: impl Service) -> Self {
        Self::with_tls(bounds, None, service).await
    }

    pub(crate) async fn with_tls(bounds: Bounds, tls: Option<Tls>, service: impl Service) -> Self {
        let port = Port::take(0).unwrap();
        let address = port.address();
        let listener = TcpListener::bind(address).await.unwrap();
        let server = Server::new(bounds, tls).unwrap();
        let readings = server.readings();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(listener, service, async {
            drop(stopped.await);
        }));
        Self { address, readings, stop: Some(stop), serving, _port: port }
    }

    pub(crate) async fn client(&self) -> Client<TcpStream> {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// As if the program had dropped it.
    pub(crate) fn abort(&self) {
        self.serving.abort();
    }

    pub(crate) async fn stopped(&mut self) -> Stopped {
        within("the server stops", &mut self.serving).await.unwrap()
    }
}

/// A client that writes and reads bytes.
pub(crate) struct Client<T>(pub(crate) T);

impl<T: AsyncRead + AsyncWrite + Unpin> Client<T> {
    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.0.write_all(text.as_ref()).await.unwrap();
    }

    /// An answer with a length: its status, its head in lower case, and its body.
    pub(crate) async fn answer(&mut self) -> (u16, String, String) {
        within("an answer", self.read_answer()).await
    }

    async fn read_answer(&mut self) -> (u16, String, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = self.0.read_u8().await;
            head.push(byte.unwrap_or_else(|error| {
                panic!("{error} after {}", String::from_utf8_lossy(&head))
            }));
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).await.unwrap();
        (status, head, String::from_utf8(body).unwrap())
    }

    pub(crate) async fn ok(&mut self) -> String {
        let (status, head, body) = self.answer().await;
        assert_eq!(status, 200, "{head}");
        body
    }

    pub(crate) async fn get(&mut self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        self.ok().await
    }

    /// All that comes until the other end closes or resets.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        drop(within("the connection ends", self.0.read_to_end(&mut rest)).await);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

pub(crate) type Sender = http2::SendRequest<Full<Bytes>>;

/// An HTTP/2 client, and its end.
pub(crate) async fn http2<T>(stream: T) -> (Sender, JoinHandle<()>)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let builder = http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(async { drop(connection.await) }))
}

pub(crate) fn request(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://a{path}")).body(Full::default()).unwrap()
}

pub(crate) fn text(text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(text.into()))
}

/// Answers with the path.
pub(crate) async fn echo(request: Request<Incoming>, _: Peer) -> Response<Full<Bytes>> {
    text(request.uri().path().to_owned())
}

/// Says when it is dropped.
pub(crate) struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

pub(crate) struct Drops {
    sender: mpsc::UnboundedSender<()>,
    receiver: mpsc::UnboundedReceiver<()>,
}

/// Makes things whose end can be waited for.
#[derive(Clone)]
pub(crate) struct Maker(mpsc::UnboundedSender<()>);

impl Maker {
    pub(crate) fn make(&self) -> Dropped {
        Dropped(self.0.clone())
    }
}

impl Drops {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver }
    }

    pub(crate) fn maker(&self) -> Maker {
        Maker(self.sender.clone())
    }

    pub(crate) async fn next(&mut self) {
        within("it is dropped", self.receiver.recv()).await.unwrap();
    }
}

/// A service that says when it has a request, and never answers.
pub(crate) fn silent(came: mpsc::UnboundedSender<()>, drops: Maker) -> impl Service {
    move |_: Request<Incoming>, _: Peer| {
        let (came, held) = (came.clone(), drops.make());
        async move {
            came.send(()).unwrap();
            std::future::pending::<()>().await;
            drop(held);
            text("")
        }
    }
}

/// Bytes that say when their last reference is dropped.
pub(crate) fn large(bytes: usize, dropped: Dropped) -> Bytes {
    struct Owner(Vec<u8>, #[expect(dead_code, reason = "it is dropped")] Dropped);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Owner(vec![b'x'; bytes], dropped))
}
