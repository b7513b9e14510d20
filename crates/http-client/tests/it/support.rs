//! A client under test, and peers that do exactly what a test says: real listeners on loopback.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use indelible_http::{Attempt, End, Header, Part, Request, Sender};
use indelible_http_client::{AddressFuture, Client, Config, Grant, Grants, Network, Resolve};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The component that sends, unless a test says otherwise.
pub(crate) const COMPONENT: &str = "shop";

/// Long enough that it never passes where it must not.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Short enough to wait for, where it must pass.
pub(crate) const SHORT: Duration = Duration::from_millis(60);

/// A grant for these hosts on this machine, with and without TLS.
pub(crate) fn grant(hosts: &[&str]) -> Grant {
    Grant {
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        networks: Network::loopback().to_vec(),
        plain_http: true,
        ..Grant::default()
    }
}

/// A configuration that grants it to [`COMPONENT`]. Roots are the test's own.
pub(crate) fn config(grant: Grant) -> Config {
    let mut config =
        Config { grants: Grants::from_iter([(COMPONENT, grant)]), ..Config::default() };
    config.roots.system = false;
    config
}

/// A client that may send to these hosts.
pub(crate) fn client(hosts: &[&str]) -> Client {
    Client::start(config(grant(hosts))).unwrap()
}

/// A client that may send to this peer.
pub(crate) fn client_for(peer: &Peer) -> Client {
    client(&[&peer.address.to_string()])
}

pub(crate) fn text(text: &str) -> Part {
    Part::Bytes(Bytes::copy_from_slice(text.as_bytes()))
}

/// A request, to be changed by a test.
pub(crate) fn request(method: &str, url: &str) -> Request {
    Request { method: method.into(), url: url.into(), headers: vec![], body: vec![] }
}

pub(crate) fn header(name: &str, value: &str) -> Header {
    Header { name: name.into(), value: vec![text(value)] }
}

/// An attempt at it, to be changed by a test.
pub(crate) fn attempt(request: Request) -> Attempt {
    Attempt {
        request,
        idempotency_key: "key-1".into(),
        trace_parent: None,
        components: [COMPONENT.to_owned()].into(),
        timeout: LONG,
        response_bytes_max: 1 << 20,
        idem: true,
    }
}

/// Makes the attempt; the ends come in the order in which they are told.
pub(crate) fn send(client: &Client, attempt: Attempt) -> UnboundedReceiver<End> {
    let (tell, told) = unbounded_channel();
    client.send(attempt, Box::new(move |end| drop(tell.send(end))));
    told
}

/// Makes the attempt and waits for its end.
pub(crate) async fn end(client: &Client, attempt: Attempt) -> End {
    send(client, attempt).recv().await.expect("every attempt ends")
}

/// The same, for a request as it is.
pub(crate) async fn ask(client: &Client, method: &str, url: &str) -> End {
    end(client, attempt(request(method, url))).await
}

/// The status and the body of an answer.
#[track_caller]
pub(crate) fn answered(end: &End) -> (u16, String) {
    match end {
        End::Answered(response) => {
            (response.status, String::from_utf8_lossy(&response.body).into_owned())
        }
        other => panic!("no answer: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn refused(end: &End) -> &str {
    match end {
        End::Refused { why } => why,
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn not_sent(end: &End) -> &str {
    match end {
        End::NotSent { why } => why,
        other => panic!("not proven unsent: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn unknown(end: &End) -> &str {
    match end {
        End::Unknown { why, .. } => why,
        other => panic!("not unknown: {other:?}"),
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// Its first line.
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The value of a header, which must be there once at most.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        let first = values.next();
        assert!(values.next().is_none(), "{name} twice in {}", self.head);
        first
    }
}

/// What has arrived at a peer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals(Arc<Mutex<Vec<Seen>>>);

impl Arrivals {
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The only one.
    #[track_caller]
    pub(crate) fn one(&self) -> Seen {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    pub(crate) fn add(&self, seen: Seen) {
        self.0.lock().unwrap().push(seen);
    }
}

/// A peer: a listener, and what it does with each connection.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) arrivals: Arrivals,
    pub(crate) connections: Arc<Mutex<usize>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peer {
    /// Does this with each connection.
    pub(crate) async fn start<F, R>(handle: F) -> Self
    where
        F: Fn(TcpStream, Arrivals) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (arrivals, connections) = (Arrivals::default(), Arc::new(Mutex::new(0)));
        let (log, count) = (arrivals.clone(), connections.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                stream.set_nodelay(true).unwrap();
                tokio::spawn(handle(stream, log.clone()));
            }
        });
        Self { address, arrivals, connections, task }
    }

    /// Answers every request with these bytes, and goes on or closes.
    pub(crate) async fn answering(
        answer: impl Fn(&Seen) -> Answer + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |mut stream, arrivals| {
            let answer = answer.clone();
            async move {
                while let Some(seen) = read_request(&mut stream).await {
                    let answer = answer(&seen);
                    arrivals.add(seen);
                    if stream.write_all(&answer.bytes).await.is_err() || answer.then_close {
                        break;
                    }
                }
                // What the peer still sends must not make this a reset.
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Accepts no more.
    pub(crate) fn stop(&self) {
        self.task.abort();
    }

    pub(crate) fn connection_count(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

/// What a peer writes.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) then_close: bool,
}

impl Answer {
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then_close: false }
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        let length = body.len();
        Self::raw(format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}"))
    }

    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        let head = format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\n");
        Self::raw(format!("{head}Content-Length: 5\r\n\r\nmoved"))
    }

    pub(crate) fn then_close(self) -> Self {
        Self { then_close: true, ..self }
    }
}

/// Reads one request, with its body; nothing, if the connection ends before.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let mut seen = Seen { head: String::from_utf8(head).unwrap(), body: vec![] };
    if let Some(length) = seen.header("content-length") {
        seen.body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut seen.body).await.ok()?;
    }
    Some(seen)
}

/// Names for tests, with the addresses that a test gives them.
#[derive(Debug, Default)]
pub(crate) struct Names(pub(crate) Vec<(&'static str, Vec<IpAddr>)>);

impl Names {
    pub(crate) fn of(names: &[(&'static str, &[&str])]) -> Arc<Self> {
        let parsed = |addresses: &[&str]| addresses.iter().map(|a| a.parse().unwrap()).collect();
        Arc::new(Self(names.iter().map(|(name, all)| (*name, parsed(all))).collect()))
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> AddressFuture<'a> {
        let found = self.0.iter().find(|(own, _)| *own == name).map(|(_, all)| all.clone());
        Box::pin(async { found.ok_or_else(|| std::io::Error::other("no such name")) })
    }
}
