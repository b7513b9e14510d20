//! Bytes that are no request.

use indelible_http_peer::Peer;

use crate::client::{Client, ok};

/// A refusal is told, the connection ends, nothing has arrived, and the peer serves on.
#[test]
fn garbage_is_refused_and_survived() {
    let peer = Peer::start();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    let cases: [(&[u8], &str); 8] = [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a handshake", "400 Bad Request"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400 Bad Request"),
        (b"GET\r\n\r\n", "400 Bad Request"),
        (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", "400 Bad Request"),
        (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", "413 Content Too Large"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", "400 Bad Request"),
        (long.as_bytes(), "431 Request Header Fields Too Large"),
        (many.as_bytes(), "431 Request Header Fields Too Large"),
    ];
    for (bytes, status) in cases {
        let mut client = Client::of(&peer);
        client.send(bytes);
        client.finish();
        let expected =
            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        assert_eq!(client.rest(), expected);
    }
    assert_eq!(peer.log(), []);
    let mut client = Client::of(&peer);
    client.post("answer", "a");
    client.expect(ok("a", 1));
    // What follows a request is refused after it was answered.
    client.post("answer", "a");
    client.send("\0\0\0");
    client.expect(ok("a", 2));
    client.expect("HTTP/1.1 400 ");
    assert_eq!(peer.log().len(), 2);
}

/// Bytes from a generator, with pieces of real requests between them.
#[test]
fn random_bytes_are_survived() {
    let peer = Peer::start();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let pieces: [&[u8]; 7] = [
        b"POST /do/answer HTTP/1.1\r\n",
        b"GET /control/log HTTP/1.1\r\n",
        b"content-length: 3\r\n",
        b"transfer-encoding: chunked\r\n",
        b"\r\n",
        b"1\r\n",
        b"GET /fast HTTP/1.1\r\n\r\n",
    ];
    for _ in 0..500 {
        let mut bytes = Vec::new();
        for _ in 0..random() % 12 {
            match random() % 9 {
                which @ 0..7 => bytes.extend_from_slice(pieces[which as usize]),
                _ => bytes.extend_from_slice(&random().to_le_bytes()),
            }
        }
        let mut client = Client::of(&peer);
        client.send(&bytes);
        client.finish();
        client.end();
    }
    let mut client = Client::of(&peer);
    client.post("answer", "k");
    client.expect(ok("k", 1));
}
