//! Connections on which something else follows HTTP, as WebSockets do.

use std::future::pending;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use indelible_server::listen::{Bounds, Peer, Service, Stopped, Upgrade};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::listen::support::{
    Client, Drops, LONGER, Maker, Running, SHORT, echo, text, until, within,
};
use crate::listen::tls::Identity;

const ASKS: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";

fn switching(upgrade: Upgrade) -> Response<Full<Bytes>> {
    let mut response = text("");
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let value = |text| http::HeaderValue::from_static(text);
    response.headers_mut().insert(header::CONNECTION, value("upgrade"));
    response.headers_mut().insert(header::UPGRADE, value("echo"));
    response.extensions_mut().insert(upgrade);
    response
}

/// Sends every byte back until the server stops, and takes its leave.
async fn repeat(request: Request<Incoming>, peer: Peer) -> Response<Full<Bytes>> {
    if !request.headers().contains_key(header::UPGRADE) {
        return echo(request, peer).await;
    }
    let mut draining = peer.draining;
    switching(Upgrade::new(|mut stream| async move {
        loop {
            tokio::select! {
                () = draining.begun() => break,
                byte = stream.read_u8() => {
                    let Ok(byte) = byte else { return };
                    stream.write_u8(byte).await.unwrap();
                }
            }
        }
        stream.write_all(b"bye").await.unwrap();
        stream.shutdown().await.unwrap();
    }))
}

/// A service that has the connection, and never lets go.
fn hold(drops: Maker) -> impl Service {
    move |_: Request<Incoming>, _: Peer| {
        let held = drops.make();
        async move {
            switching(Upgrade::new(|stream| async move {
                let _held = (held, stream);
                pending::<()>().await;
            }))
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Client<T> {
    async fn upgrade(&mut self, more: &str) {
        self.send(format!("{ASKS}{more}")).await;
        let (status, head, _) = self.answer().await;
        assert!(status == 101 && head.contains("upgrade: echo"), "{head}");
    }

    async fn exchange(&mut self, text: &str) {
        self.send(text).await;
        self.expect(text).await;
    }

    async fn expect(&mut self, text: &str) {
        let mut came = vec![0; text.len()];
        within("the same bytes", self.0.read_exact(&mut came)).await.unwrap();
        assert_eq!(came, text.as_bytes());
    }
}

async fn upgrade_and_stop(
    mut server: Running,
    mut client: Client<impl AsyncRead + AsyncWrite + Unpin>,
) {
    assert_eq!(client.get("/1").await, "/1");
    // What comes with the request belongs to what follows it.
    client.upgrade("early").await;
    client.expect("early").await;
    for text in ["a", "GET / HTTP/1.1\r\n\r\n", &"x".repeat(100_000)] {
        let (mut reads, mut writes) = tokio::io::split(&mut client.0);
        let mut came = vec![0; text.len()];
        let both = async {
            tokio::try_join!(writes.write_all(text.as_bytes()), reads.read_exact(&mut came))
        };
        within("the same bytes", both).await.unwrap();
        assert_eq!(came, text.as_bytes());
    }
    assert_eq!(server.readings.open.get(), 1);
    server.stop();
    assert_eq!(client.rest().await, "bye");
    assert_eq!(server.stopped().await, Stopped { cut: 0 });
    assert_eq!((server.readings.open.get(), server.readings.panicked.get()), (0, 0));
}

#[tokio::test]
async fn bytes_flow_both_ways_until_the_server_stops() {
    let server = Running::new(Bounds::default(), repeat).await;
    let client = server.client().await;
    upgrade_and_stop(server, client).await;
}

#[tokio::test]
async fn the_same_with_tls() {
    let identity = Identity::new();
    let server = Running::with_tls(Bounds::default(), Some(identity.tls()), repeat).await;
    let client = Client(identity.connect(&server, false, &["http/1.1"]).await);
    upgrade_and_stop(server, client).await;
}

#[tokio::test]
async fn a_connection_that_is_not_let_go_is_cut() {
    let mut drops = Drops::new();
    let bounds = Bounds { drain_time_max: LONGER, ..Bounds::default() };
    let mut server = Running::new(bounds, hold(drops.maker())).await;
    let mut client = server.client().await;
    client.upgrade("").await;
    server.stop();
    assert_eq!(client.rest().await, "");
    assert_eq!(server.stopped().await, Stopped { cut: 1 });
    drops.next().await;
    assert_eq!(server.readings.open.get(), 0);
}

/// A second signal.
#[tokio::test]
async fn a_server_that_is_dropped_cuts_it() {
    let mut drops = Drops::new();
    let server = Running::new(Bounds::default(), hold(drops.maker())).await;
    let mut client = server.client().await;
    client.upgrade("").await;
    server.abort();
    assert_eq!(client.rest().await, "");
    drops.next().await;
}

/// It has a place like any other, and is neither idle nor a head that is slow.
#[tokio::test]
async fn a_silent_one_stays_and_counts() {
    let bounds = Bounds {
        connections_max: 2,
        idle_time_max: LONGER,
        head_time_max: SHORT,
        park_time: SHORT,
        ..Bounds::default()
    };
    let server = Running::new(bounds, repeat).await;
    let mut client = server.client().await;
    client.upgrade("").await;
    client.exchange("a").await;
    // Their ends tell that more time passed than a connection may be idle.
    for _ in 0..2 {
        assert_eq!(server.client().await.rest().await, "");
    }
    client.exchange("b").await;
    until("the others ended", || server.readings.open.get() == 1).await;
    assert_eq!((server.readings.idle_too_long.get(), server.readings.heads_too_slow.get()), (2, 0));
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_cut() {
    let mut drops = Drops::new();
    let maker = drops.maker();
    let service = move |_: Request<Incoming>, _: Peer| {
        let held = maker.make();
        async move {
            switching(Upgrade::new(|mut stream| async move {
                while stream.write_all(&[b'x'; 1 << 16]).await.is_ok() {}
                drop(held);
            }))
        }
    };
    let bounds = Bounds { stall_time_max: LONGER, ..Bounds::default() };
    let server = Running::new(bounds, service).await;
    let mut client = server.client().await;
    client.upgrade("").await;
    drops.next().await;
    assert_eq!(server.readings.stalled.get(), 1);
}

/// An answer of another status is an answer, and a panic ends its connection alone.
#[tokio::test]
async fn what_goes_wrong_stays_with_its_connection() {
    let service = |request: Request<Incoming>, _: Peer| async move {
        let mut response = switching(Upgrade::new(|_| async { panic!("on purpose") }));
        if request.uri().path() == "/refused" {
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        response
    };
    let server = Running::new(Bounds::default(), service).await;
    let mut client = server.client().await;
    client.send(ASKS.replace("GET /", "GET /refused")).await;
    assert_eq!(client.answer().await.0, 403);
    assert_eq!(server.readings.panicked.get(), 0);
    let mut client = server.client().await;
    client.upgrade("").await;
    assert_eq!(client.rest().await, "");
    assert_eq!(server.readings.panicked.get(), 1);
    // One that did not ask for it has an end, too.
    let mut client = server.client().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    client.rest().await;
}
