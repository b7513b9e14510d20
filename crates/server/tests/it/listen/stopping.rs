//! The end of a server: in good order, and at once.

use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use indelible_server::listen::{Bounds, Peer, Stopped};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::listen::support::{Drops, LONGER, Running, echo, http2, request, silent, text, within};

#[tokio::test]
async fn what_is_under_way_is_answered_and_what_is_idle_is_closed() {
    let (come, mut came) = mpsc::unbounded_channel();
    let service = move |request: Request<Incoming>, peer: Peer| {
        let come = come.clone();
        async move {
            if request.uri().path() == "/wait" {
                come.send(()).unwrap();
                // As a long poll does.
                peer.draining.clone().begun().await;
                assert!(peer.draining.has_begun());
                return text("early");
            }
            echo(request, peer).await
        }
    };
    let bounds = Bounds { drain_time_max: Duration::from_secs(600), ..Bounds::default() };
    let mut server = Running::new(bounds, service).await;
    let mut idle = server.client().await;
    assert_eq!(idle.get("/1").await, "/1");
    let mut fresh = server.client().await;
    let (mut sender, idle_2) = http2(server.client().await.0).await;
    assert_eq!(sender.send_request(request("/2")).await.unwrap().status(), 200);
    let mut waiting = server.client().await;
    waiting.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let (mut sender_2, waiting_2) = http2(server.client().await.0).await;
    let asked_2 = tokio::spawn(async move {
        let response = sender_2.send_request(request("/wait")).await.unwrap();
        http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes()
    });
    for _ in 0..2 {
        came.recv().await.unwrap();
    }
    server.stop();
    let (status, head, body) = waiting.answer().await;
    assert_eq!((status, body.as_str()), (200, "early"));
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(waiting.rest().await, "");
    assert_eq!(asked_2.await.unwrap(), "early");
    assert_eq!((idle.rest().await, fresh.rest().await), (String::new(), String::new()));
    idle_2.await.unwrap();
    waiting_2.await.unwrap();
    assert_eq!(server.stopped().await, Stopped { cut: 0 });
    assert_eq!(server.readings.open.get(), 0);
    // A program that another test starts just now has a copy of the listener for a moment.
    let refuses = async { while TcpStream::connect(server.address).await.is_ok() {} };
    within("nobody listens", refuses).await;
}

#[tokio::test]
async fn what_does_not_end_is_cut() {
    let (came, mut comes) = mpsc::unbounded_channel();
    let mut drops = Drops::new();
    let bounds = Bounds { drain_time_max: LONGER, ..Bounds::default() };
    let mut server = Running::new(bounds, silent(came, drops.maker())).await;
    let mut client = server.client().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let (mut sender, _) = http2(server.client().await.0).await;
    let asked = tokio::spawn(async move { sender.send_request(request("/")).await });
    let mut idle = server.client().await;
    for _ in 0..2 {
        comes.recv().await.unwrap();
    }
    server.stop();
    assert_eq!(idle.rest().await, "");
    assert_eq!(client.rest().await, "");
    assert!(asked.await.unwrap().is_err());
    assert_eq!(server.stopped().await, Stopped { cut: 2 });
    assert_eq!((server.readings.cut.get(), server.readings.open.get()), (2, 0));
    for _ in 0..2 {
        drops.next().await;
    }
}

/// A second signal: the server does not wait for the first stop.
#[tokio::test]
async fn a_server_that_is_dropped_cuts_everything() {
    let (came, mut comes) = mpsc::unbounded_channel();
    let mut drops = Drops::new();
    let server = Running::new(Bounds::default(), silent(came, drops.maker())).await;
    let mut client = server.client().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    comes.recv().await.unwrap();
    server.abort();
    assert_eq!(client.rest().await, "");
    drops.next().await;
}
