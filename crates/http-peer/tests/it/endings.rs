//! Behaviours that end the connection, and those of the client.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

use indelible_http_peer::{Hold, Peer, Port};

use crate::client::{Client, json, ok, post, usual};

/// Sends a behaviour and sees what comes when it was processed so often: as it is by itself, and as
/// it is told. None of them is an answer.
#[track_caller]
fn check(behaviour: &str, processed: bool, seen: impl Fn(&mut Client, usize)) {
    for (suffix, processed) in [("", processed), ("/processed", true), ("/unprocessed", false)] {
        let peer = Peer::start();
        let mut client = Client::of(&peer);
        client.post(&format!("{behaviour}{suffix}"), "k");
        let count = usize::from(processed);
        seen(&mut client, count);
        assert_eq!((peer.arrivals("k"), peer.processed("k")), (1, count), "{behaviour}{suffix}");
        let log = peer.log();
        assert_eq!((log[0].processed, log[0].answered), (processed, false), "{behaviour}{suffix}");
    }
}

#[test]
fn a_connection_is_closed_before_or_after_the_effect() {
    check("drop-before", false, |client, _| client.expect_closed());
    check("drop-after", true, |client, _| client.expect_closed());
}

#[test]
fn a_connection_is_reset() {
    check("reset", true, |client, _| client.expect_reset());
}

#[test]
fn an_answer_ends_in_its_middle() {
    check("half", true, |client, count| {
        let body = usual("k", count);
        let whole = json("200 OK", "", &body);
        client.expect(&whole[..whole.len() - body.len().div_ceil(2)]);
        client.expect_closed();
    });
    check("half-chunked", true, |client, count| {
        let body = usual("k", count);
        client.expect(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
             transfer-encoding: chunked\r\n\r\n",
        );
        client.expect(format!("{:x}\r\n{}", body.len(), &body[..body.len() / 2]));
        client.expect_closed();
    });
}

#[test]
fn what_comes_is_not_http() {
    check("bad", true, |client, _| {
        client.expect(b"\x00\xffHTPT/9.9 OK two hundred\n\n\x01\x02\r\r\n");
        client.expect_closed();
    });
}

/// Nothing comes, whatever the client does, until it goes.
#[test]
fn nothing_comes() {
    check("hang", true, |client, _| {
        // What it sends on is not taken for a request.
        client.post("answer", "k");
        client.finish();
        client.expect_closed();
    });
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.post("hang", "k");
    peer.wait_for_processed("k", 1);
    // The peer does one thing after the other: when it has answered another, it has done with this
    // one whatever it wanted to.
    let mut other = Client::of(&peer);
    for count in 1..=10 {
        other.post("answer", "other");
        other.expect(ok("other", count));
    }
    client.expect_silence();
}

/// The answer says nothing of it, and the connection is closed.
#[test]
fn an_idle_connection_is_closed() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.post("close-idle", "k");
    client.expect(ok("k", 1));
    client.expect_closed();
    assert!(peer.log()[0].answered);
}

#[test]
fn a_client_can_ask_for_the_end() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.send("GET /do/answer HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(client.rest().contains("\r\nconnection: close\r\n\r\n{"));
    let mut client = Client::of(&peer);
    client.send("GET /do/answer HTTP/1.0\r\n\r\n");
    assert!(client.rest().contains("\r\nconnection: close\r\n\r\n{"));
    // One that sends no more is answered nevertheless.
    let mut client = Client::of(&peer);
    client.post("answer", "k");
    client.finish();
    assert_eq!(client.rest(), ok("k", 1));
}

/// Wherever a client stops, what it did not finish has not arrived.
#[test]
fn a_part_of_a_request_is_no_arrival() {
    let peer = Peer::start();
    let request = post("answer", "k");
    for end in 0..request.len() {
        let mut client = Client::of(&peer);
        client.send(&request[..end]);
        client.finish();
        // The peer has read it all, and has nothing to say.
        client.expect_closed();
    }
    let mut client = Client::of(&peer);
    // What came before the part has.
    client.send(format!("{request}{}", &request[..request.len() - 1]));
    client.finish();
    assert_eq!(client.rest(), ok("k", 1));
    assert_eq!((peer.log().len(), peer.arrivals("k")), (1, 1));
}

/// Requests that come together are answered in their order, also after each other's parts.
#[test]
fn requests_can_come_together_and_in_parts() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    let all = [post("answer", "a"), post("status/500", "a"), post("keyed", "a")].concat();
    client.send(&all);
    let answers = [ok("a", 1), json("500 Internal Server Error", "", &usual("a", 1)), ok("a", 1)];
    client.expect(answers.concat());
    for byte in post("answer", "b").bytes() {
        client.send([byte]);
    }
    client.expect(ok("b", 1));
    assert_eq!(peer.log().len(), 4);
}

/// A peer that is down refuses, and has lost its connections, but not its memory.
#[test]
fn a_peer_that_is_down_refuses() {
    let peer = Peer::start();
    let address = peer.address();
    assert_eq!(peer.url("/do/answer"), format!("http://{address}/do/answer"));
    for count in 1..=20 {
        let mut client = Client::of(&peer);
        client.post("hang", "k");
        peer.wait_for_processed("k", count);
        peer.down();
        client.expect_closed();
        let refused = TcpStream::connect(address).map_err(|error| error.kind());
        assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
        peer.down();
        peer.up().unwrap();
        peer.up().unwrap();
    }
    assert_eq!(peer.address(), address);
    let mut client = Client::of(&peer);
    client.post("answer", "k");
    client.expect(ok("k", 21));
    // No other peer gets the port.
    assert!(Peer::start_on(address.port()).is_err());
}

/// A port that is kept refuses, and lets one listen, again and again.
#[test]
fn a_port_that_is_kept() {
    let port = Port::take(0).unwrap();
    for _ in 0..20 {
        let refused = TcpStream::connect(port.address()).map_err(|error| error.kind());
        assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
        let listener = TcpListener::bind(port.address()).unwrap();
        let stream = TcpStream::connect(port.address()).unwrap();
        drop((listener.accept().unwrap(), stream));
        assert!(TcpListener::bind(port.address()).is_err(), "one at a time");
        // A program that another test starts just now has a copy, which listens on.
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
    }
}

/// With a peer that is held, down takes those who are held with it: they have no effect.
#[test]
fn who_is_held_goes_down_with_it() {
    let peer = Peer::start();
    peer.hold(Hold::BeforeProcessing);
    let mut client = Client::of(&peer);
    client.post("answer", "k");
    peer.wait_for_held(1);
    peer.down();
    client.expect_closed();
    assert_eq!(peer.held(), 0);
    peer.release();
    peer.up().unwrap();
    let mut client = Client::of(&peer);
    client.post("answer", "k");
    client.expect(ok("k", 1));
    assert_eq!((peer.arrivals("k"), peer.processed("k")), (2, 1));
}

/// With the peer go its port and its connections.
#[test]
fn a_peer_that_is_gone_is_gone() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.post("hang", "k");
    peer.wait_for_processed("k", 1);
    drop(peer);
    client.expect_closed();
}
