//! TLS with certificates of the test's own: whom the client believes, and what it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indelible_http::End;
use indelible_http_client::Client;
use tokio::io::AsyncWriteExt;
use tokio::sync::Barrier;

use crate::support::*;
use crate::tls_peer::{Authority, tls_peer};

async fn peer(authority: &Authority, names: &[&str], alpn: &[&str]) -> Peer {
    tls_peer(authority, names, alpn, |mut stream, arrivals| async move {
        while let Some(seen) = read_request(&mut stream).await {
            let name = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
            let closes = seen.line().contains("/close");
            let cuts = seen.line().contains("/cut");
            arrivals.add(seen);
            if closes || cuts {
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nall of it").await.unwrap();
                if closes {
                    stream.shutdown().await.unwrap();
                } else {
                    stream.flush().await.unwrap();
                }
                return;
            }
            stream.write_all(&Answer::text(200, &name).bytes).await.unwrap();
        }
    })
    .await
}

fn client(authority: &Authority, hosts: &[&str]) -> Client {
    let mut config = config(grant(hosts));
    config.roots.add_pem(authority.pem().as_bytes()).unwrap();
    config.resolver = Names::of(&[("a.test", &["127.0.0.1"]), ("b.test", &["127.0.0.1"])]);
    Client::start(config).unwrap()
}

#[tokio::test]
async fn the_name_that_is_checked_is_the_name_that_is_asked_for() {
    let authority = Authority::new();
    for alpn in [&[][..], &["http/1.1"]] {
        let peer = peer(&authority, &["a.test", "127.0.0.1"], alpn).await;
        let port = peer.address.port();
        let (a, b) = (format!("a.test:{port}"), format!("b.test:{port}"));
        let address = peer.address.to_string();
        let client = client(&authority, &[&a, &b, &address]);
        for _ in 0..5 {
            let end = ask(&client, "POST", &format!("https://{a}/")).await;
            assert_eq!(answered(&end), (200, "a.test".to_owned()));
        }
        answered(&ask(&client, "POST", &format!("https://{address}/")).await);
        // The same peer under a name that its certificate does not have.
        not_sent(&ask(&client, "POST", &format!("https://{b}/")).await);
        assert_eq!(peer.arrivals.count(), 6);
        assert!(peer.arrivals.all().iter().all(|seen| seen.line() == "POST / HTTP/1.1"));
    }
}

#[tokio::test]
async fn a_stranger_is_not_believed() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let peer = peer(&stranger, &["a.test"], &[]).await;
    let host = format!("a.test:{}", peer.address.port());
    let client = client(&authority, &[&host]);
    let end = ask(&client, "POST", &format!("https://{host}/")).await;
    assert!(not_sent(&end).contains("TLS"), "{end:?}");
    assert_eq!(peer.arrivals.count(), 0);
}

#[tokio::test]
async fn a_peer_without_tls_gets_no_request() {
    let peer = Peer::answering(|_| Answer::text(200, "")).await;
    let plain = Peer::start(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Speak up\r\n\r\n").await;
    })
    .await;
    for peer in [&peer, &plain] {
        let address = peer.address.to_string();
        let client = client(&Authority::new(), &[&address]);
        let mut attempt = attempt(request("POST", &format!("https://{address}/")));
        attempt.timeout = SHORT;
        not_sent(&end(&client, attempt).await);
        assert_eq!(peer.arrivals.count(), 0);
    }
}

/// TLS says when a stream is complete: an answer that ends with it is one, for every method; one
/// that was cut is not.
#[tokio::test]
async fn the_end_of_a_stream_is_told_from_a_cut() {
    let authority = Authority::new();
    let peer = peer(&authority, &["a.test"], &[]).await;
    let host = format!("a.test:{}", peer.address.port());
    let client = client(&authority, &[&host]);
    for method in ["GET", "POST"] {
        let end = ask(&client, method, &format!("https://{host}/close")).await;
        assert_eq!(answered(&end), (200, "all of it".to_owned()), "{method}");
        let end = ask(&client, method, &format!("https://{host}/cut")).await;
        assert!(matches!(end, End::Unknown { timed_out: false, .. }), "{method}: {end:?}");
    }
    assert_eq!(peer.arrivals.count(), 4);
}

/// Nothing leads out of TLS.
#[tokio::test]
async fn no_redirection_leads_out_of_tls() {
    let plain = Peer::answering(|_| Answer::text(200, "plain")).await;
    let (authority, to) = (Authority::new(), plain.url("/"));
    let peer = tls_peer(&authority, &["a.test"], &[], move |mut stream, arrivals| {
        let to = to.clone();
        async move {
            arrivals.add(read_request(&mut stream).await.unwrap());
            stream.write_all(&Answer::redirect(302, &to).bytes).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    })
    .await;
    let host = format!("a.test:{}", peer.address.port());
    let client = client(&authority, &[&host, &plain.address.to_string()]);
    let end = ask(&client, "GET", &format!("https://{host}/")).await;
    assert_eq!(answered(&end), (302, "moved".to_owned()));
    assert_eq!((peer.arrivals.count(), plain.connection_count()), (1, 0));
    answered(&ask(&client, "GET", &plain.url("/")).await);
}

/// A peer that shares no connections is given several at once: from the second on, its handshakes
/// wait for each other, and so do its answers.
#[tokio::test]
async fn without_http_2_each_request_has_a_connection() {
    let (handshakes, answers) = (Arc::new(Barrier::new(7)), Arc::new(Barrier::new(8)));
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["a.test"], &["http/1.1"]);
    let is_first = Arc::new(AtomicBool::new(true));
    let peer = Peer::start(move |stream, arrivals| {
        let (handshakes, answers, acceptor) =
            (handshakes.clone(), answers.clone(), acceptor.clone());
        let is_first = is_first.swap(false, Ordering::Relaxed);
        async move {
            if !is_first {
                handshakes.wait().await;
            }
            let mut stream = acceptor.accept(stream).await.unwrap();
            while let Some(seen) = read_request(&mut stream).await {
                arrivals.add(seen);
                answers.wait().await;
                stream.write_all(&Answer::text(200, "").bytes).await.unwrap();
            }
        }
    })
    .await;
    let host = format!("a.test:{}", peer.address.port());
    let client = client(&authority, &[&host]);
    let post = || send(&client, attempt(request("POST", &format!("https://{host}/"))));
    for mut told in (0..8).map(|_| post()).collect::<Vec<_>>() {
        answered(&told.recv().await.unwrap());
    }
    assert_eq!((peer.connection_count(), peer.arrivals.count()), (8, 8));
}
