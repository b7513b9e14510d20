//! Arrivals that are held.

use indelible_http_peer::{Hold, Peer};

use crate::client::{Client, ok};

#[test]
fn arrivals_wait_before_and_after_their_effect() {
    let peer = Peer::start();
    let mut clients = [Client::of(&peer), Client::of(&peer)];
    peer.hold(Hold::BeforeProcessing);
    clients[0].post("answer", "a");
    clients[1].post("drop-after", "b");
    peer.wait_for_held(2);
    assert_eq!((peer.arrivals("a"), peer.processed("a")), (1, 0));
    assert_eq!((peer.arrivals("b"), peer.processed("b")), (1, 0));
    // On to the other point.
    peer.hold(Hold::BeforeAnswering);
    peer.wait_for_processed("a", 1);
    peer.wait_for_processed("b", 1);
    peer.wait_for_held(2);
    clients.iter_mut().for_each(Client::expect_silence);
    assert!(peer.log().iter().all(|arrival| arrival.processed && !arrival.answered));
    // Neither the fast path nor a question is held.
    let mut other = Client::of(&peer);
    other.send("GET /control/count/a HTTP/1.1\r\n\r\nGET /fast HTTP/1.1\r\n\r\n");
    other.expect("HTTP/1.1 200 OK");
    peer.release();
    clients[0].expect(ok("a", 1));
    clients[1].expect_closed();
    // Which of them was first is open.
    let answered = |key: &str| {
        peer.log().iter().any(|arrival| arrival.key.as_deref() == Some(key) && arrival.answered)
    };
    assert!(answered("a") && !answered("b"));
    assert_eq!(peer.held(), 0);
    // No request is held any more.
    clients[0].post("answer", "a");
    clients[0].expect(ok("a", 2));
}

/// A release lets every held request go, even if the next ones are held at once.
#[test]
fn a_release_is_not_missed() {
    let peer = Peer::start();
    peer.hold(Hold::BeforeAnswering);
    for count in 1..=50 {
        let mut client = Client::of(&peer);
        client.post("answer", "a");
        peer.wait_for_held(1);
        peer.release();
        peer.hold(Hold::BeforeAnswering);
        client.expect(ok("a", count));
    }
}

/// The client goes while its request is held: it had arrived, so it has its effect.
#[test]
fn a_client_that_goes_has_its_effect() {
    let peer = Peer::start();
    peer.hold(Hold::BeforeProcessing);
    let mut client = Client::of(&peer);
    client.post("answer", "a");
    peer.wait_for_held(1);
    drop(client);
    assert_eq!(peer.processed("a"), 0);
    peer.release();
    peer.wait_for_processed("a", 1);
}
