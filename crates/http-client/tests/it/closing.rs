//! Peers that close connections, at the worst of moments: nothing arrives twice, and whatever is
//! not answered is told as it is.

use std::collections::HashMap;

use indelible_http::End;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

/// Sends many, some at a time, and checks each end against what has arrived.
async fn check(peer: &Peer, at_once: usize) -> HashMap<&'static str, usize> {
    let client = client_for(peer);
    let mut ends = Vec::new();
    for from in (0..400).step_by(at_once) {
        let url = |index| peer.url(&format!("/{index}"));
        let sent = (from..from + at_once)
            .map(|index| (index, send(&client, attempt(request("POST", &url(index))))));
        for (index, mut told) in sent.collect::<Vec<_>>() {
            ends.push((index, told.recv().await.unwrap()));
            assert!(told.recv().await.is_none(), "told once");
        }
    }
    let arrivals = peer.arrivals.all();
    let mut kinds = HashMap::new();
    for (index, end) in ends {
        let line = format!("POST /{index} HTTP/1.1");
        let arrived = arrivals.iter().filter(|seen| seen.line() == line).count();
        let kind = match end {
            End::Answered(response) => {
                assert_eq!((arrived, &*response.body), (1, line.as_bytes()));
                "answered"
            }
            End::Unknown { .. } => {
                assert!(arrived <= 1, "{line} arrived {arrived} times");
                "unknown"
            }
            End::NotSent { .. } => {
                assert_eq!(arrived, 0, "{line}");
                "not sent"
            }
            other => panic!("{other:?}"),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// The peer closes each connection as soon as it has answered, and does not say so: the next
/// request finds it closed, or closing.
#[tokio::test]
async fn a_peer_that_closes_idle_connections_sees_nothing_twice() {
    for at_once in [1, 8] {
        let peer = Peer::answering(|seen| Answer::text(200, seen.line()).then_close()).await;
        let kinds = check(&peer, at_once).await;
        assert!(kinds["answered"] > 0, "{kinds:?}");
    }
}

/// The peer closes when the first byte of the second request comes, and resets the connection by
/// leaving the rest unread.
#[tokio::test]
async fn a_peer_that_closes_in_the_face_of_a_request_sees_nothing_twice() {
    for at_once in [1, 8] {
        let peer = Peer::start(|mut stream, arrivals| async move {
            let Some(seen) = read_request(&mut stream).await else { return };
            let answer = Answer::text(200, seen.line());
            arrivals.add(seen);
            let _ = stream.write_all(&answer.bytes).await;
            let _ = stream.read_u8().await;
        })
        .await;
        let kinds = check(&peer, at_once).await;
        assert!(kinds["answered"] > 0 && kinds["unknown"] > 0, "{kinds:?}");
    }
}

/// The peer takes the second request of a connection and closes without an answer: it happened,
/// and asking again would do it again.
#[tokio::test]
async fn a_request_that_was_taken_is_not_sent_again() {
    for at_once in [1, 8] {
        let peer = Peer::start(|mut stream, arrivals| async move {
            let Some(seen) = read_request(&mut stream).await else { return };
            let answer = Answer::text(200, seen.line());
            arrivals.add(seen);
            let _ = stream.write_all(&answer.bytes).await;
            if let Some(seen) = read_request(&mut stream).await {
                arrivals.add(seen);
            }
        })
        .await;
        let kinds = check(&peer, at_once).await;
        assert!(kinds["answered"] > 0 && kinds["unknown"] > 0, "{kinds:?}");
    }
}

/// A connection that was open and has ended carries nothing; a new one takes its place without a
/// word.
#[tokio::test]
async fn a_connection_that_has_ended_is_replaced() {
    let (closed, mut has_closed) = tokio::sync::mpsc::unbounded_channel();
    let peer = Peer::start(move |mut stream, arrivals| {
        let closed = closed.clone();
        async move {
            let seen = read_request(&mut stream).await.unwrap();
            let answer = Answer::text(200, seen.line());
            arrivals.add(seen);
            stream.write_all(&answer.bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            // The client has seen it, and closed its side.
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
            closed.send(()).unwrap();
        }
    })
    .await;
    let client = client_for(&peer);
    for _ in 0..20 {
        assert_eq!(answered(&ask(&client, "POST", &peer.url("/")).await).0, 200);
        has_closed.recv().await.unwrap();
    }
    assert_eq!((peer.arrivals.count(), peer.connection_count()), (20, 20));
}

/// A peer that accepts and closes at once has read nothing: whatever is told, nothing arrived.
#[tokio::test]
async fn a_peer_that_closes_at_once_gets_nothing() {
    let peer = Peer::start(|stream, _| async move { drop(stream) }).await;
    let client = client_for(&peer);
    for _ in 0..100 {
        let end = ask(&client, "POST", &peer.url("/")).await;
        assert!(matches!(end, End::Unknown { .. } | End::NotSent { .. }), "{end:?}");
    }
    assert_eq!(peer.arrivals.count(), 0);
}
