//! Requests that are too slow, too large, or mean two things.

use http::Request;
use hyper::body::Incoming;
use indelible_server::listen::{Bounds, Peer};
use tokio::io::AsyncWriteExt as _;

use crate::listen::support::{Running, SHORT, echo, http2, request, text, within};

#[tokio::test]
async fn a_head_that_comes_slowly_ends_its_connection_and_an_idle_one_stays() {
    let bounds = Bounds { head_time_max: SHORT, park_time: SHORT, ..Bounds::default() };
    let server = Running::new(bounds, echo).await;
    let mut idle = server.client().await;
    assert_eq!(idle.get("/1").await, "/1");
    let mut fresh = server.client().await;
    // The first of a connection, and one that comes later.
    let mut slow = server.client().await;
    slow.send("GET / HT").await;
    assert_eq!(slow.rest().await, "");
    let mut slow = server.client().await;
    slow.get("/2").await;
    slow.send("G").await;
    assert_eq!(slow.rest().await, "");
    // What might become HTTP/2.
    let mut slow = server.client().await;
    slow.send("PRI * HTTP/2.0\r\n").await;
    assert_eq!(slow.rest().await, "");
    // What begins in the bytes of another.
    let mut slow = server.client().await;
    slow.send("GET /2 HTTP/1.1\r\nhost: a\r\n\r\nGET").await;
    assert_eq!(slow.ok().await, "/2");
    assert_eq!(slow.rest().await, "");
    assert_eq!(server.readings.heads_too_slow.get(), 4);
    // A byte now and then does not help.
    let mut slow = server.client().await;
    slow.send("GET / HTTP/1.1\r\nx: ").await;
    let ended = async {
        while slow.0.write_all(b"x").await.is_ok() && server.readings.heads_too_slow.get() < 5 {
            tokio::task::yield_now().await;
        }
    };
    within("it is too slow", ended).await;
    slow.rest().await;
    assert_eq!(server.readings.heads_too_slow.get(), 5);
    assert_eq!(idle.get("/3").await, "/3");
    assert_eq!(fresh.get("/4").await, "/4");
    assert_eq!(server.readings.open.get(), 2);
}

#[tokio::test]
async fn heads_have_a_size() {
    let server = Running::new(Bounds::default(), echo).await;
    let long =
        |bytes: usize| format!("GET /1 HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(bytes));
    let many = |count: usize| format!("GET /1 HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(count));
    for good in [long(30 * 1024), many(100)] {
        let mut client = server.client().await;
        client.send(good).await;
        assert_eq!(client.ok().await, "/1");
    }
    for bad in [long(64 * 1024), many(101)] {
        let mut client = server.client().await;
        client.send(&bad[..bad.len().min(40 * 1024)]).await;
        assert_eq!(client.answer().await.0, 431);
        assert_eq!(client.rest().await, "");
    }
    let mut client = server.client().await;
    client.send(format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(40 * 1024))).await;
    assert_eq!(client.answer().await.0, 431);

    let (mut sender, _) = http2(server.client().await.0).await;
    let with = |count: usize| {
        let mut request = request("/1");
        for number in 0..count {
            let name = http::HeaderName::try_from(format!("x-{number}")).unwrap();
            request.headers_mut().append(name, http::HeaderValue::from_static("y"));
        }
        request
    };
    assert_eq!(sender.send_request(with(90)).await.unwrap().status(), 200);
    assert_eq!(sender.send_request(with(150)).await.unwrap().status(), 431);
    let mut large = request("/1");
    large.headers_mut().insert("x", "x".repeat(40 * 1024).parse().unwrap());
    // The client knows the limit, or the server says it.
    if let Ok(response) = sender.send_request(large).await {
        assert_eq!(response.status(), 431);
    }
}

/// What two readers could understand in two ways is refused, or is the last of its connection: a
/// second request that hides in it is never answered.
#[tokio::test]
async fn no_request_hides_in_another() {
    let server = Running::new(Bounds::default(), echo).await;
    let hidden = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";
    let shapes = [
        (
            "two lengths",
            "POST /1 HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 0\r\n\r\n",
        ),
        ("a list of lengths", "POST /1 HTTP/1.1\r\nhost: a\r\ncontent-length: 0, 5\r\n\r\n"),
        ("a signed length", "POST /1 HTTP/1.1\r\nhost: a\r\ncontent-length: +0\r\n\r\n"),
        ("a folded header", "POST /1 HTTP/1.1\r\nhost: a\r\nx: y\r\n content-length: 40\r\n\r\n"),
        ("a space before the colon", "POST /1 HTTP/1.1\r\nhost: a\r\ncontent-length : 40\r\n\r\n"),
        ("a space before the first header", "POST /1 HTTP/1.1\r\n content-length: 40\r\n\r\n"),
        (
            "chunks that are not last",
            "POST /1 HTTP/1.1\r\ntransfer-encoding: chunked, x\r\n\r\n0\r\n\r\n",
        ),
        ("an unknown encoding", "POST /1 HTTP/1.1\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n"),
        ("chunks in HTTP/1.0", "POST /1 HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("a carriage return in a value", "POST /1 HTTP/1.1\r\nx: a\rcontent-length: 40\r\n\r\n"),
        ("a zero in a value", "POST /1 HTTP/1.1\r\nx: a\0b\r\n\r\n"),
        ("a line feed in a name", "POST /1 HTTP/1.1\r\nx\n: a\r\n\r\n"),
        ("a control character in the path", "POST /1\x01 HTTP/1.1\r\n\r\n"),
        ("spaces in the path", "POST /1 /2 HTTP/1.1\r\n\r\n"),
    ];
    for (what, shape) in shapes {
        let mut client = server.client().await;
        client.send(format!("{shape}{hidden}")).await;
        let (status, head, _) = client.answer().await;
        assert_eq!(status, 400, "{what}: {head}");
        assert_eq!(client.rest().await, "", "{what}");
    }
    // Chunks win over a length, and nothing comes after them.
    for order in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
    ] {
        let mut client = server.client().await;
        client
            .send(format!("POST /1 HTTP/1.1\r\nhost: a\r\n{order}\r\n\r\n0\r\n\r\n{hidden}"))
            .await;
        let (status, head, body) = client.answer().await;
        assert!(status == 400 || body == "/1" && head.contains("connection: close"), "{head}");
        assert_eq!(client.rest().await, "", "{order}");
    }
    // A line feed alone ends a line, as the standard allows, and the body is what the length says.
    let mut client = server.client().await;
    client.send(format!("POST /1 HTTP/1.1\nhost: a\ncontent-length: 33\n\n{hidden}")).await;
    assert_eq!(hidden.len(), 33);
    let (status, _, body) = client.answer().await;
    assert_eq!((status, body.as_str()), (200, "/1"));
    assert!(!client.get("/2").await.contains("hidden"));
}

/// What a caller sends cannot become a header of an answer: such a value is none.
#[tokio::test]
async fn no_header_is_injected() {
    let service = |request: Request<Incoming>, _: Peer| async move {
        let mut response = text("");
        if let Some(value) = request.headers().get("x") {
            response.headers_mut().insert("x", value.clone());
        }
        let decoded = request.uri().query().unwrap_or_default().replace("%0d%0a", "\r\n");
        match http::HeaderValue::try_from(decoded) {
            Ok(value) => drop(response.headers_mut().insert("y", value)),
            Err(_) => *response.status_mut() = http::StatusCode::BAD_REQUEST,
        }
        response
    };
    let server = Running::new(Bounds::default(), service).await;
    let mut client = server.client().await;
    client.send("GET /?a%0d%0aset-cookie:b HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let (status, head, _) = client.answer().await;
    assert!(status == 400 && !head.contains("set-cookie"), "{head}");
    client.send("GET /?a HTTP/1.1\r\nhost: a\r\nx: a\rset-cookie: b\r\n\r\n").await;
    let (status, head, _) = client.answer().await;
    assert!(status == 400 && !head.contains("set-cookie"), "{head}");
}

/// Streams that are opened and reset at once end their connection, and no other client's.
#[tokio::test]
async fn streams_that_are_reset_at_once_end_their_connection() {
    let server = Running::new(Bounds::default(), echo).await;
    let mut other = server.client().await;
    assert_eq!(other.get("/1").await, "/1");
    let mut client = server.client().await;
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..200 {
        let stream = 2 * number + 1;
        // :method GET, :scheme http, :path /, :authority a.
        bytes.extend(frame(1, 5, stream, &[0x82, 0x86, 0x84, 0x41, 1, b'a']));
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    client.send(bytes).await;
    let rest = client.rest().await;
    // GOAWAY with ENHANCE_YOUR_CALM.
    assert!(rest.as_bytes().windows(4).any(|four| four == [0, 0, 0, 11]), "{:?}", rest.as_bytes());
    assert_eq!(other.get("/2").await, "/2");
}
