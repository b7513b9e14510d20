//! Requests and answers without TLS: what is on the wire, and what is reported.

use std::sync::Arc;
use std::time::Duration;

use indelible_http::{Attempt, End, Header, Part};
use indelible_http_client::Client;
use tokio::io::AsyncWriteExt;
use tokio::sync::Barrier;

use crate::support::*;

#[tokio::test]
async fn a_request_arrives_as_it_was_wanted() {
    let peer = Peer::answering(|_| Answer::text(201, "made")).await;
    let client = client_for(&peer);
    let mut post = request("POST", &peer.url("/orders?a=b"));
    post.headers = vec![header("X-One", "1"), header("x-two", "a"), header("X-Two", "b")];
    post.body = vec![text("{\"n\":"), text("1}")];
    let attempt = Attempt { trace_parent: Some("00-trace".into()), ..attempt(post) };
    let end = end(&client, attempt).await;
    assert_eq!(answered(&end), (201, "made".to_owned()));
    let seen = peer.arrivals.one();
    assert_eq!(seen.line(), "POST /orders?a=b HTTP/1.1");
    assert_eq!(seen.header("host"), Some(&*peer.address.to_string()));
    assert_eq!(seen.header("idempotency-key"), Some("key-1"));
    assert_eq!(seen.header("traceparent"), Some("00-trace"));
    assert_eq!(seen.header("user-agent"), Some("indelible/0.1.0"));
    assert_eq!(seen.header("accept"), Some("*/*"));
    assert_eq!(seen.header("x-one"), Some("1"));
    assert!(seen.head.contains("x-two: a\r\nx-two: b\r\n"), "{}", seen.head);
    assert_eq!(seen.header("content-length"), Some("7"));
    assert_eq!(seen.header("transfer-encoding"), None);
    assert_eq!(seen.header("accept-encoding"), None);
    assert_eq!(seen.body, b"{\"n\":1}");
}

#[tokio::test]
async fn what_a_guest_gives_stands_before_what_is_usual() {
    let peer = Peer::answering(|_| Answer::text(200, "")).await;
    let client = client_for(&peer);
    let mut get = request("GET", &peer.url("/"));
    get.headers = vec![
        header("Idempotency-Key", "own"),
        header("USER-AGENT", "me"),
        header("Accept", "text/html"),
        header("TraceParent", "own"),
    ];
    let attempt = Attempt { trace_parent: Some("00-trace".into()), ..attempt(get) };
    assert_eq!(answered(&end(&client, attempt).await).0, 200);
    let seen = peer.arrivals.one();
    assert_eq!(seen.header("idempotency-key"), Some("own"));
    assert_eq!(seen.header("traceparent"), Some("own"));
    assert_eq!(seen.header("user-agent"), Some("me"));
    assert_eq!(seen.header("accept"), Some("text/html"));
    assert_eq!(seen.header("content-length"), None);
}

#[tokio::test]
async fn a_post_without_a_body_says_so() {
    let peer = Peer::answering(|_| Answer::text(200, "")).await;
    let client = client_for(&peer);
    for method in ["POST", "PUT", "PATCH"] {
        assert_eq!(answered(&ask(&client, method, &peer.url("/")).await).0, 200);
    }
    assert_eq!(answered(&ask(&client, "DELETE", &peer.url("/")).await).0, 200);
    let lengths: Vec<_> = peer.arrivals.all();
    let lengths: Vec<_> = lengths.iter().map(|seen| seen.header("content-length")).collect();
    assert_eq!(lengths, [Some("0"), Some("0"), Some("0"), None]);
}

#[tokio::test]
async fn an_answers_headers_are_in_small_letters() {
    let peer = Peer::answering(|_| {
        Answer::raw("HTTP/1.1 404 Gone\r\nX-One: 1\r\nSet-Cookie: a\r\nSET-COOKIE: b\r\nContent-Length: 0\r\n\r\n")
    })
    .await;
    let End::Answered(response) = ask(&client_for(&peer), "GET", &peer.url("/")).await else {
        panic!("no answer");
    };
    let headers: Vec<_> =
        response.headers.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
    let expected: [(&str, &[u8]); 4] =
        [("x-one", b"1"), ("set-cookie", b"a"), ("set-cookie", b"b"), ("content-length", b"0")];
    assert_eq!(headers, expected);
    assert_eq!(response.status, 404);
}

#[tokio::test]
async fn connections_are_used_again() {
    let peer = Peer::answering(|seen| Answer::text(200, seen.line())).await;
    let client = client_for(&peer);
    for index in 0..50 {
        let (status, body) = answered(&ask(&client, "GET", &peer.url(&format!("/{index}"))).await);
        assert_eq!((status, body), (200, format!("GET /{index} HTTP/1.1")));
    }
    assert_eq!(peer.arrivals.count(), 50);
    // The next request may be there before the connection of the one before is ready again.
    assert!(peer.connection_count() < 10, "{} connections", peer.connection_count());
}

#[tokio::test]
async fn bodies_come_in_every_framing() {
    let peer = Peer::answering(|seen| match seen.line().split(' ').nth(1).unwrap() {
        "/chunked" => Answer::raw(
            "HTTP/1.1 200 X\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: x\r\n\r\n",
        ),
        "/length" => Answer::text(200, "abcde"),
        "/none" => Answer::raw("HTTP/1.1 204 X\r\n\r\n"),
        "/same" => Answer::raw("HTTP/1.1 304 X\r\nContent-Length: 700\r\n\r\n"),
        "/early" => Answer::raw(
            "HTTP/1.1 100 X\r\n\r\nHTTP/1.1 103 X\r\nLink: x\r\n\r\nHTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\nok",
        ),
        other => panic!("{other}"),
    })
    .await;
    let client = client_for(&peer);
    for (path, expected) in [
        ("/chunked", (200, "abcde")),
        ("/length", (200, "abcde")),
        ("/none", (204, "")),
        ("/same", (304, "")),
        ("/early", (200, "ok")),
    ] {
        let end = ask(&client, "POST", &peer.url(path)).await;
        assert_eq!(answered(&end), (expected.0, expected.1.to_owned()), "{path}");
    }
    assert_eq!(answered(&ask(&client, "HEAD", &peer.url("/same")).await).0, 304);
    assert_eq!(peer.arrivals.count(), 6);
}

/// An answer that only the end of the connection ends may have been cut: it counts where asking
/// again does no harm.
#[tokio::test]
async fn an_answer_without_a_length_is_believed_for_get_alone() {
    let peer =
        Peer::answering(|_| Answer::raw("HTTP/1.0 200 OK\r\n\r\nall of it").then_close()).await;
    let client = client_for(&peer);
    let end = ask(&client, "GET", &peer.url("/")).await;
    assert_eq!(answered(&end), (200, "all of it".to_owned()));
    assert_eq!(answered(&ask(&client, "HEAD", &peer.url("/")).await).0, 200);
    for method in ["POST", "PUT", "DELETE"] {
        unknown(&ask(&client, method, &peer.url("/")).await);
    }
    assert_eq!(peer.arrivals.count(), 5);
}

#[tokio::test]
async fn an_answer_that_is_too_large_comes_without_its_body() {
    let peer = Peer::answering(|seen| match seen.line().split(' ').nth(1).unwrap() {
        "/length" => Answer::text(200, "123456789"),
        "/chunked" => Answer::raw(
            "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n0\r\n\r\n",
        ),
        _ => Answer::text(200, "12345678"),
    })
    .await;
    let client = client_for(&peer);
    for (path, fits) in [("/length", false), ("/chunked", false), ("/fits", true)] {
        let mut attempt = attempt(request("GET", &peer.url(path)));
        attempt.response_bytes_max = 8;
        match end(&client, attempt).await {
            End::TooLarge(response) if !fits => {
                assert_eq!((response.status, response.body.len()), (200, 0));
            }
            End::Answered(response) if fits => assert_eq!(response.body.len(), 8),
            other => panic!("{path}: {other:?}"),
        }
    }
    assert_eq!(peer.arrivals.count(), 3);
}

#[tokio::test]
async fn what_cannot_be_connected_to_was_not_sent() {
    let peer = Peer::answering(|_| Answer::text(200, "")).await;
    let url = peer.url("/");
    let client = client(&[&peer.address.to_string(), "no-such-name.invalid"]);
    drop(peer);
    // The listener is gone when its task has ended.
    tokio::task::yield_now().await;
    not_sent(&ask(&client, "POST", &url).await);
    let why = ask(&client, "POST", "http://no-such-name.invalid/").await;
    assert!(not_sent(&why).contains("no-such-name.invalid"), "{why:?}");
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let peer = Peer::answering(|_| Answer::text(200, "")).await;
    let client = client_for(&peer);
    let url = peer.url("/");
    for name in [
        "Connection",
        "Content-Length",
        "Expect",
        "Host",
        "Keep-Alive",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "HTTP2-Settings",
        "",
        "a b",
        "a:b",
        "a\r\nb",
        "ä",
        ":path",
    ] {
        let mut get = request("GET", &url);
        get.headers = vec![header(name, "1")];
        refused(&end(&client, attempt(get)).await);
    }
    for value in ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "\x7f"] {
        let mut get = request("GET", &url);
        let value = vec![text("x"), text(value)];
        get.headers = vec![Header { name: "x".into(), value }];
        refused(&end(&client, attempt(get)).await);
    }
    for method in ["", "get", "CONNECT", "TRACE", "GET /x HTTP/1.1\r\n\r\nGET", "G T", "GET\r\n"] {
        refused(&ask(&client, method, &url).await);
    }
    for path in ["/#x", "/ x", "/\r\nX: y"] {
        refused(&ask(&client, "GET", &peer.url(path)).await);
    }
    refused(&ask(&client, "GET", &url.replace("http://", "http://u:p@")).await);
    let mut get = request("GET", &url);
    get.headers = vec![Header { name: "x".into(), value: vec![Part::Secret("KEY".into())] }];
    assert!(refused(&end(&client, attempt(get)).await).contains("`KEY`"));
    let mut keyless = attempt(request("GET", &url));
    keyless.idempotency_key = "a\r\nb".into();
    refused(&end(&client, keyless).await);
    assert_eq!(peer.arrivals.count(), 0);
    assert_eq!(peer.connection_count(), 0);
}

/// Connections wait for a next request for a while, and only so many of them.
#[tokio::test]
async fn idle_connections_are_closed() {
    let (closed, mut has_closed) = tokio::sync::mpsc::unbounded_channel();
    let barrier = Arc::new(Barrier::new(8));
    let peer = Peer::start(move |mut stream, arrivals| {
        let (closed, barrier) = (closed.clone(), barrier.clone());
        async move {
            while let Some(seen) = read_request(&mut stream).await {
                arrivals.add(seen);
                barrier.wait().await;
                stream.write_all(&Answer::text(200, "").bytes).await.unwrap();
            }
            closed.send(()).unwrap();
        }
    })
    .await;
    let mut config = config(grant(&[&peer.address.to_string()]));
    config.bounds.idle_per_origin_max = 2;
    let client = Client::start(config.clone()).unwrap();
    let eight = |client: &Client| {
        let post = || send(client, attempt(request("POST", &peer.url("/"))));
        (0..8).map(|_| post()).collect::<Vec<_>>()
    };
    for mut told in eight(&client) {
        answered(&told.recv().await.unwrap());
    }
    for _ in 0..6 {
        has_closed.recv().await.unwrap();
    }
    assert!(has_closed.try_recv().is_err(), "two are kept");
    drop(client);
    for _ in 0..2 {
        has_closed.recv().await.unwrap();
    }

    config.bounds.idle_per_origin_max = 64;
    config.bounds.idle_time = Duration::from_millis(1);
    let client = Client::start(config).unwrap();
    for mut told in eight(&client) {
        answered(&told.recv().await.unwrap());
    }
    for _ in 0..8 {
        has_closed.recv().await.unwrap();
    }
    assert_eq!((peer.connection_count(), peer.arrivals.count()), (16, 16));
}
