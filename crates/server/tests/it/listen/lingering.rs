//! Answers that are given before the body of their request was read: they arrive, also where the
//! client writes all of it first, and such clients hold no connection for long.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use indelible_server::listen::{Bounds, Peer, Stopped};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::listen::support::{Client, Running, SHORT, http2, request, text, until, within};
use crate::listen::tls::Identity;

/// More than all buffers of a connection hold.
const LARGE: usize = 32 << 20;

/// So many times in a row: whether a reset overtakes an answer is a race.
const TIMES: usize = 20;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

const DETAIL: &str = r#"{"code":"payload-too-large"}"#;

/// Says that a body is too large, and reads none of it.
async fn refuse(request: Request<Incoming>, _: Peer) -> Response<Full<Bytes>> {
    if request.uri().path() == "/small" {
        return text("small");
    }
    let mut response = text(DETAIL);
    *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
    response
}

fn head(length: usize, more: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n{more}\r\n")
}

/// Writes everything, and only then reads the answer and the end.
async fn write_then_read(mut client: Client<impl AsyncRead + AsyncWrite + Unpin>) {
    let body = vec![b'x'; LARGE];
    let writing = async {
        client.0.write_all(head(LARGE, "").as_bytes()).await?;
        client.0.write_all(&body).await?;
        client.0.flush().await
    };
    within("all of it is written", writing).await.unwrap();
    let (status, _, body) = client.answer().await;
    assert_eq!((status, body.as_str()), (413, DETAIL));
    let mut rest = Vec::new();
    within("a good end", client.0.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_client_that_writes_before_it_reads_gets_the_answer() {
    let server = Running::new(Bounds::default(), refuse).await;
    for _ in 0..TIMES {
        write_then_read(server.client().await).await;
    }
}

#[tokio::test]
async fn the_same_with_tls() {
    let identity = Identity::new();
    let server = Running::with_tls(Bounds::default(), Some(identity.tls()), refuse).await;
    for old in [false, true] {
        for _ in 0..TIMES / 4 {
            write_then_read(Client(identity.connect(&server, old, &["http/1.1"]).await)).await;
        }
    }
}

/// HTTP/2 ends the stream alone (RST_STREAM with NO_ERROR), and the connection goes on.
#[tokio::test]
async fn the_same_with_http2() {
    let server = Running::new(Bounds::default(), refuse).await;
    let (mut sender, _) = http2(server.client().await.0).await;
    for _ in 0..TIMES {
        let mut large = request("/");
        *large.method_mut() = http::Method::POST;
        *large.body_mut() = Full::new(Bytes::from(vec![b'x'; LARGE]));
        let response = within("an answer", sender.send_request(large)).await.unwrap();
        assert_eq!(response.status(), 413);
        let body = within("its body", response.into_body().collect()).await.unwrap();
        assert_eq!(body.to_bytes(), DETAIL);
        let small = within("another", sender.send_request(request("/small"))).await.unwrap();
        assert_eq!(small.status(), 200);
    }
    assert_eq!(server.readings.accepted.get(), 1);
}

/// A head that is too large is answered too.
#[tokio::test]
async fn a_head_that_is_too_large_is_told_so() {
    let server = Running::new(Bounds::default(), refuse).await;
    for _ in 0..TIMES {
        let mut client = server.client().await;
        client.send("GET / HTTP/1.1\r\nx: ").await;
        client.send("x".repeat(4 << 20)).await;
        assert_eq!(client.answer().await.0, 431);
    }
}

/// Who asks before it sends a body is answered at once, and not told to go on.
#[tokio::test]
async fn who_asks_first_sends_nothing() {
    let server = Running::new(Bounds::default(), refuse).await;
    let mut client = server.client().await;
    client.send(head(LARGE, "expect: 100-continue\r\n")).await;
    let (status, _, body) = client.answer().await;
    assert_eq!((status, body.as_str()), (413, DETAIL));
    assert_eq!(client.rest().await, "");
}

/// Each bound by itself ends a client that goes on: its bytes, its time, and its silence.
#[tokio::test]
async fn a_client_that_never_stops_is_closed() {
    let endless = Bounds {
        linger_bytes_max: usize::MAX,
        linger_time_max: LONG,
        linger_silence_max: LONG,
        ..Bounds::default()
    };
    for (name, bounds, sends) in [
        ("bytes", Bounds { linger_bytes_max: 1 << 20, ..endless.clone() }, true),
        ("time", Bounds { linger_time_max: SHORT, ..endless.clone() }, true),
        ("silence", Bounds { linger_silence_max: SHORT, ..endless }, false),
    ] {
        let server = Running::new(bounds, refuse).await;
        let mut client = server.client().await;
        client.send(head(usize::MAX >> 1, "")).await;
        assert_eq!(client.answer().await.0, 413, "{name}");
        if sends {
            let sending = async { while client.0.write_all(&[b'x'; 1 << 14]).await.is_ok() {} };
            within(name, sending).await;
        }
        until(name, || server.readings.open.get() == 0).await;
    }
}

/// A connection that lingers has a place like any other, and does not outlive the server.
#[tokio::test]
async fn a_connection_that_lingers_counts_and_ends_with_the_server() {
    let bounds = Bounds {
        connections_max: 1,
        linger_time_max: LONG,
        linger_silence_max: LONG,
        drain_time_max: LONG,
        ..Bounds::default()
    };
    let mut server = Running::new(bounds, refuse).await;
    let mut first = server.client().await;
    first.send(head(LARGE, "")).await;
    assert_eq!(first.answer().await.0, 413);
    assert_eq!(first.rest().await, "");
    let mut second = server.client().await;
    second.send(head(LARGE, "")).await;
    assert_eq!((server.readings.open.get(), server.readings.accepted.get()), (1, 1));
    drop(first);
    assert_eq!(second.answer().await.0, 413);
    assert_eq!(second.rest().await, "");
    assert_eq!(server.readings.open.get(), 1);
    server.stop();
    // Sooner than the bounds would have ended it.
    assert_eq!(server.stopped().await, Stopped { cut: 0 });
}
