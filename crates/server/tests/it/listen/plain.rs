//! What well-behaved clients do.

use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use indelible_server::listen::{Bounds, Peer, Server};
use tokio::sync::mpsc;

use crate::listen::support::{Drops, LONGER, Running, echo, http2, request, silent, text};

#[tokio::test]
async fn a_connection_is_kept_and_takes_requests_in_advance() {
    let server = Running::new(Bounds::default(), echo).await;
    let mut client = server.client().await;
    assert_eq!(client.get("/1").await, "/1");
    assert_eq!(client.get("/2").await, "/2");
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    client.send(format!("{}{}{}", one("/3"), one("/4"), one("/5"))).await;
    for path in ["/3", "/4", "/5"] {
        assert_eq!(client.ok().await, path);
    }
    client.send("GET /6 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert_eq!(client.ok().await, "/6");
    assert_eq!(client.rest().await, "");
    assert_eq!(server.readings.accepted.get(), 1);
}

#[tokio::test]
async fn http2_without_tls_is_known_by_its_first_bytes() {
    let service = |request: Request<Incoming>, peer: Peer| async move {
        assert!(!peer.tls && peer.address.ip().is_loopback() && !peer.draining.has_begun());
        text(format!("{:?} {}", request.version(), request.uri().path()))
    };
    let server = Running::new(Bounds::default(), service).await;
    let (sender, _) = http2(server.client().await.0).await;
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..200 {
        let mut sender = sender.clone();
        asked.spawn(async move {
            sender.ready().await.unwrap();
            let response = sender.send_request(request(&format!("/{number}"))).await.unwrap();
            assert_eq!(response.version(), Version::HTTP_2);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, format!("{:?} /{number}", Version::HTTP_2));
        });
    }
    while let Some(one) = asked.join_next().await {
        one.unwrap();
    }
    assert_eq!(server.readings.accepted.get(), 1);
}

/// A function that does not persist is released when its caller goes away; for that, the future is
/// dropped.
#[tokio::test]
async fn a_caller_that_goes_away_is_noticed() {
    let (came, mut comes) = mpsc::unbounded_channel();
    let mut drops = Drops::new();
    let server = Running::new(Bounds::default(), silent(came, drops.maker())).await;
    let mut client = server.client().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    comes.recv().await.unwrap();
    drop(client);
    drops.next().await;

    let (mut sender, connection) = http2(server.client().await.0).await;
    let asking = tokio::spawn(async move { drop(sender.send_request(request("/")).await) });
    comes.recv().await.unwrap();
    asking.abort();
    drops.next().await;
    connection.abort();
}

#[tokio::test]
async fn a_panic_stays_with_its_request() {
    let service = |request: Request<Incoming>, peer: Peer| async move {
        assert_ne!(request.uri().path(), "/panic", "on purpose");
        echo(request, peer).await
    };
    let server = Running::new(Bounds::default(), service).await;
    let mut client = server.client().await;
    client.send("GET /panic HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(client.answer().await.0, 500);
    assert_eq!(client.get("/1").await, "/1");

    let (mut sender, _) = http2(server.client().await.0).await;
    assert_eq!(sender.send_request(request("/panic")).await.unwrap().status(), 500);
    assert_eq!(sender.send_request(request("/2")).await.unwrap().status(), 200);
    assert_eq!(server.readings.panicked.get(), 2);
}

/// No client is refused: those over the bound are served later.
#[tokio::test]
async fn more_connections_than_there_may_be_wait() {
    let (came, mut comes) = mpsc::unbounded_channel();
    let drops = Drops::new();
    let bounds = Bounds { connections_max: 2, ..Bounds::default() };
    let server = Running::new(bounds, silent(came, drops.maker())).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = server.client().await;
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        clients.push(client);
    }
    for _ in 0..2 {
        comes.recv().await.unwrap();
    }
    assert_eq!((server.readings.open.get(), server.readings.accepted.get()), (2, 2));
    drop(clients.drain(..2));
    for _ in 0..2 {
        comes.recv().await.unwrap();
    }
    assert_eq!((server.readings.open.get(), server.readings.accepted.get()), (2, 4));
}

#[tokio::test]
async fn what_is_idle_for_long_is_told_to_end() {
    let bounds = Bounds { idle_time_max: LONGER, ..Bounds::default() };
    let server = Running::new(bounds, echo).await;
    let mut fresh = server.client().await;
    assert_eq!(fresh.rest().await, "");
    let mut used = server.client().await;
    assert_eq!(used.get("/1").await, "/1");
    assert_eq!(used.rest().await, "");
    let (mut sender, connection) = http2(server.client().await.0).await;
    assert_eq!(sender.send_request(request("/2")).await.unwrap().status(), 200);
    connection.await.unwrap();
    assert_eq!(server.readings.idle_too_long.get(), 3);
}

#[test]
fn bounds_that_nothing_fits_into_are_refused() {
    let refused = |bounds| Server::new(bounds, None).unwrap_err().to_string();
    let none = Bounds { connections_max: 0, ..Bounds::default() };
    assert_eq!(refused(none), "connections_max is 0, but must be from 1 to 1048576");
    let small = Bounds { head_bytes_max: 100, ..Bounds::default() };
    assert!(refused(small).starts_with("head_bytes_max is 100"));
}
