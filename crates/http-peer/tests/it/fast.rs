//! The path for benchmarks.

use std::thread;

use indelible_http_peer::Peer;

use crate::client::{Client, ok, post};

const FAST: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                    content-length: 11\r\n\r\n{\"ok\":true}";

/// One by one, together, cut anywhere and between others: each is answered once, in its place.
#[test]
fn each_is_answered_once() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    let request = "POST /fast HTTP/1.1\r\nHost: x\r\ncontent-length: 2\r\n\r\n{}";
    client.send(request);
    client.expect(FAST);
    client.send(request.repeat(1000));
    client.expect(FAST.repeat(1000));
    for cut in 0..request.len() {
        let twice = request.repeat(2);
        let (first, second) = twice.split_at(request.len() + cut);
        client.send(first);
        client.expect(FAST);
        client.send(second);
        client.expect(FAST);
    }
    client.send([request, &post("answer", "k"), request].concat());
    client.expect([FAST, &ok("k", 1), FAST].concat());
    let count = 1 + 1000 + 2 * request.len() + 2;
    assert_eq!(peer.fast(), u64::try_from(count).unwrap());
    // They are not in the log.
    assert_eq!(peer.log().len(), 1);
    client.send("GET /fast HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert_eq!(client.rest(), FAST);
}

/// A client that writes far more than it reads does not lose an answer.
#[test]
fn a_client_that_does_not_read_loses_nothing() {
    let peer = Peer::start();
    let mut writer = Client::of(&peer);
    let mut reader = writer.clone();
    const REQUESTS: usize = 50_000;
    thread::scope(|scope| {
        scope.spawn(move || {
            let some = "GET /fast HTTP/1.1\r\n\r\n".repeat(100);
            (0..REQUESTS / 100).for_each(|_| writer.send(&some));
        });
        for _ in 0..REQUESTS {
            reader.expect(FAST);
        }
    });
    assert_eq!(peer.fast(), u64::try_from(REQUESTS).unwrap());
}
