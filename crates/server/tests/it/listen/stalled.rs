//! Peers that ask for much and read nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use indelible_server::listen::{Bounds, Peer};
use tokio::sync::mpsc;

use crate::listen::support::{Drops, LONGER, Running, SHORT, http2, large, request, text};

/// More than the kernel or a client buffers.
const LARGE: usize = 64 << 20;

#[tokio::test]
async fn an_answer_that_nobody_reads_is_given_up() {
    let mut drops = Drops::new();
    let maker = drops.maker();
    let service = move |request: Request<Incoming>, _: Peer| {
        let dropped = maker.make();
        async move {
            let bytes = request.uri().path()[1..].parse().unwrap();
            text(large(bytes, dropped))
        }
    };
    let bounds = Bounds { stall_time_max: LONGER, ..Bounds::default() };
    let server = Running::new(bounds, service).await;
    let mut client = server.client().await;
    client.send(format!("GET /{LARGE} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
    drops.next().await;
    assert!(client.rest().await.len() < LARGE);

    // In HTTP/2 the socket stays free: it is the stream that has no room.
    let (mut sender, connection) = http2(server.client().await.0).await;
    let response = sender.send_request(request(&format!("/{LARGE}"))).await.unwrap();
    drops.next().await;
    connection.await.unwrap();
    drop(response);
    assert_eq!(server.readings.stalled.get(), 2);

    // A client that reads gets all of it, also in HTTP/2, where it goes in pieces.
    let mut client = server.client().await;
    client.send("GET /1000000 HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(client.ok().await.len(), 1_000_000);
    let (mut sender, _connection) = http2(server.client().await.0).await;
    let response = sender.send_request(request("/1000000")).await.unwrap();
    assert_eq!(response.headers()["content-length"], "1000000");
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes().len(), 1_000_000);
    assert_eq!(server.readings.stalled.get(), 2);
}

/// What comes through a channel.
struct Events(mpsc::UnboundedReceiver<&'static str>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|next| next.map(|text| Ok(Frame::data(text.into()))))
    }
}

/// A service that has nothing to say yet is not a peer that does not read.
#[tokio::test]
async fn an_answer_that_takes_long_is_no_stall() {
    let (senders, mut made) = mpsc::unbounded_channel();
    let service = move |_: Request<Incoming>, _: Peer| {
        let (events, body) = mpsc::unbounded_channel();
        events.send("a").unwrap();
        senders.send(events).unwrap();
        async { Response::new(Events(body)) }
    };
    let bounds = Bounds { stall_time_max: SHORT, idle_time_max: LONGER, ..Bounds::default() };
    let server = Running::new(bounds, service).await;
    let (mut sender, _connection) = http2(server.client().await.0).await;
    let mut response = sender.send_request(request("/")).await.unwrap();
    let frame = response.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "a");
    let events = made.recv().await.unwrap();
    // Its end tells that more time passed than a stall may take.
    assert_eq!(server.client().await.rest().await, "");
    events.send("b").unwrap();
    let frame = response.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "b");
    assert_eq!((server.readings.stalled.get(), server.readings.idle_too_long.get()), (0, 1));
}
