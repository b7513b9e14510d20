//! Peers that do not keep to HTTP, or never come to an end.

use indelible_http::End;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

/// Writes a start, and then the same for ever.
async fn endless(start: &'static str, then: &'static str) -> Peer {
    Peer::start(move |mut stream, arrivals| async move {
        arrivals.add(read_request(&mut stream).await.unwrap());
        let mut next = stream.write_all(start.as_bytes()).await;
        let then = then.repeat(200);
        while next.is_ok() {
            next = stream.write_all(then.as_bytes()).await;
        }
    })
    .await
}

#[tokio::test]
async fn endless_headers_are_cut_off() {
    for (start, then) in [
        ("HTTP/1.1 200 OK\r\n", "X-More: and more\r\n"),
        ("HTTP/1.1 200 OK\r\nX-More: ", "and more "),
        ("HTTP/1.1 200 ", "OK "),
    ] {
        let peer = endless(start, then).await;
        unknown(&ask(&client_for(&peer), "POST", &peer.url("/")).await);
        peer.arrivals.one();
    }
}

#[tokio::test]
async fn too_many_headers_are_no_answer() {
    let peer = Peer::answering(|seen| {
        let count = seen.header("x-count").unwrap().parse().unwrap();
        let headers = "X: y\r\n".repeat(count);
        Answer::raw(format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 0\r\n\r\n"))
    })
    .await;
    let client = client_for(&peer);
    for (count, fits) in [("255", true), ("256", false)] {
        let mut post = request("POST", &peer.url("/"));
        post.headers = vec![header("x-count", count)];
        let end = end(&client, attempt(post)).await;
        assert_eq!(matches!(end, End::Answered(_)), fits, "{count}: {end:?}");
    }
    assert_eq!(peer.arrivals.count(), 2);
}

#[tokio::test]
async fn an_endless_body_is_too_large() {
    for (start, then) in [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nmore\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n", "more"),
    ] {
        let peer = endless(start, then).await;
        let end = ask(&client_for(&peer), "POST", &peer.url("/")).await;
        assert!(matches!(end, End::TooLarge(_)), "{end:?}");
        peer.arrivals.one();
    }
}

/// Trailers, extensions of chunks and interim answers have no end either.
#[tokio::test]
async fn other_endless_things_end() {
    for (start, then) in [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", "X-More: x\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "extension"),
    ] {
        let peer = endless(start, then).await;
        unknown(&ask(&client_for(&peer), "POST", &peer.url("/")).await);
        peer.arrivals.one();
    }
    for (start, then) in [
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        // A chunk's length that never ends takes no room, only time.
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0"),
    ] {
        let peer = endless(start, then).await;
        let mut attempt = attempt(request("POST", &peer.url("/")));
        attempt.timeout = SHORT;
        let end = end(&client_for(&peer), attempt).await;
        assert!(matches!(end, End::Unknown { timed_out: true, .. }), "{end:?}");
        peer.arrivals.one();
    }
}

#[tokio::test]
async fn what_is_not_http_is_no_answer() {
    for answer in [
        "\r\n\r\n\r\n\r\n",
        "hello\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "\0\0\0\0\0\0\0\0\0\0\0\0",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 99 X\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 2000 X\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 X\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 X\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 X\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nabc",
        "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
        "HTTP/1.1 200 X\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        "HTTP/1.1 200 X\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 X\r\nBad Header: x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 X\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ] {
        let peer = Peer::answering(move |_| Answer::raw(answer).then_close()).await;
        let end = ask(&client_for(&peer), "POST", &peer.url("/")).await;
        assert!(matches!(end, End::Unknown { timed_out: false, .. }), "{answer:?}: {end:?}");
        peer.arrivals.one();
    }
}

/// What a peer sends beyond its answer is not the answer to the next request.
#[tokio::test]
async fn an_answer_that_nobody_asked_for_answers_nothing() {
    let peer = Peer::answering(|seen| {
        let mut answer = Answer::text(200, seen.line());
        answer.bytes.extend(Answer::text(200, "unasked").bytes);
        answer
    })
    .await;
    let client = client_for(&peer);
    for index in 0..100 {
        let end = ask(&client, "POST", &peer.url(&format!("/{index}"))).await;
        assert_eq!(answered(&end).1, format!("POST /{index} HTTP/1.1"));
    }
    assert_eq!(peer.arrivals.count(), 100);
    assert_eq!(peer.connection_count(), 100, "none is used again");
}

/// A byte now and then keeps no attempt alive.
#[tokio::test]
async fn slow_bytes_do_not_extend_the_time() {
    let peer = Peer::start(|mut stream, arrivals| async move {
        arrivals.add(read_request(&mut stream).await.unwrap());
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        // Faster than any time-out, slower than the end of the body.
        let mut tick = tokio::time::interval(SHORT / 20);
        loop {
            tick.tick().await;
            if stream.write_all(b"x").await.is_err() {
                return;
            }
        }
    })
    .await;
    let mut attempt = attempt(request("POST", &peer.url("/")));
    attempt.timeout = SHORT;
    let end = end(&client_for(&peer), attempt).await;
    assert!(matches!(end, End::Unknown { timed_out: true, .. }), "{end:?}");
    peer.arrivals.one();
}

/// A peer that answers before it has read everything has answered.
#[tokio::test]
async fn an_early_answer_is_an_answer() {
    let peer = Peer::start(|mut stream, _| async move {
        let mut start = [0; 4];
        stream.read_exact(&mut start).await.unwrap();
        stream.write_all(&Answer::text(413, "too much").bytes).await.unwrap();
        stream.flush().await.unwrap();
        // Reads the rest, so that nothing is reset.
        let mut rest = vec![0; 1 << 16];
        while let Ok(1..) = stream.read(&mut rest).await {}
    })
    .await;
    let mut post = request("POST", &peer.url("/"));
    post.body = vec![text(&"x".repeat(8 << 20))];
    let end = end(&client_for(&peer), attempt(post)).await;
    assert_eq!(answered(&end), (413, "too much".to_owned()));
    assert_eq!(peer.connection_count(), 1);
}
