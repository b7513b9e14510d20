//! Peers that close idle connections: a request that is not `idem` never meets one that is closing,
//! so nothing becomes unknown that could be known.
//!
//! `INDELIBLE_REQUESTS=10000` sends so many to each kind of peer, and to peers that wait for one and
//! five seconds, too.

use std::time::Duration;

use bytes::Bytes;
use indelible_http::{Attempt, End};
use indelible_http_client::{Client, Config};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::support::*;
use crate::tls_peer::{Authority, tls_peer};

const PEER_WAITS: Duration = Duration::from_millis(25);

/// How many requests a sequence has, one after the other; as many sequences as it takes run at once.
const IN_SEQUENCE: usize = 20;

fn not_idem(url: &str) -> Attempt {
    Attempt { idem: false, ..attempt(request("POST", url)) }
}

/// Answers requests, and closes the connection when none has begun to come for so long.
async fn serve_http1(mut stream: TcpStream, all: Arrivals, wait: Duration) {
    while let Ok(Ok(1)) = timeout(wait, stream.peek(&mut [0])).await {
        let Some(seen) = read_request(&mut stream).await else { return };
        let answer = Answer::text(200, seen.line());
        all.add(seen);
        if stream.write_all(&answer.bytes).await.is_err() {
            return;
        }
    }
}

/// The same with HTTP/2. It takes back the connection without a GOAWAY, which would prove what was
/// not processed.
async fn serve_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    all: Arrivals,
    wait: Duration,
) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Ok(Some(Ok((request, mut answer)))) = timeout(wait, connection.accept()).await {
        let head = format!("POST {} HTTP/2.0\r\n", request.uri().path());
        all.add(Seen { head, body: vec![] });
        let mut body = answer.send_response(http::Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"done"), true).unwrap();
    }
}

/// Sends requests in sequences, each with pauses around the time after which the peer closes, and
/// some without: none of them is unknown.
async fn none_is_unknown(peer: &Peer, config: Config, url: String, wait: Duration, count: usize) {
    let sequence = async |number: usize| {
        // Its own client, and so its own connection: one that is shared is never idle. On threads
        // of its own: a peer whose timer has fired, and that gets to close only after others on its
        // thread, would have been sent a request by one of them.
        let client = Client::start(config.clone()).unwrap();
        let mut ends = Vec::new();
        for index in 0..IN_SEQUENCE {
            ends.push(end(&client, not_idem(&url)).await);
            let pause = match (number + index) % 6 {
                0 => Duration::ZERO,
                1 => Duration::from_millis(5),
                // From 2 ms before until 2 ms after.
                _ => {
                    wait + Duration::from_micros(((number * 613 + index * 271) % 4_000) as u64)
                        - Duration::from_millis(2)
                }
            };
            sleep(pause).await;
        }
        ends
    };
    let mut all = Vec::new();
    for ends in futures_of((0..count / IN_SEQUENCE).map(sequence)).await {
        all.extend(ends);
    }
    let answered = all.iter().filter(|end| matches!(end, End::Answered(_))).count();
    let unknown: Vec<_> = all.iter().filter(|end| matches!(end, End::Unknown { .. })).collect();
    assert!(unknown.is_empty(), "{} of {}: {:?}", unknown.len(), all.len(), unknown[0]);
    assert_eq!(peer.arrivals.count(), answered);
    // What finds no connection that stays open is told as not sent, which is known as well.
    assert!(answered > all.len() * 9 / 10, "{answered} of {}", all.len());
}

/// All of them, at once, on this task.
async fn futures_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, done) in &mut futures {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    futures.into_iter().map(|(_, done)| done.expect("all are done")).collect()
}

/// How long peers wait, and how many requests they get.
fn loads() -> Vec<(Duration, usize)> {
    let asked =
        std::env::var_os("INDELIBLE_REQUESTS").map(|n| n.to_str().unwrap().parse().unwrap());
    match asked {
        None => vec![(PEER_WAITS, 1_000)],
        Some(count) => [25, 1_000, 5_000].map(|ms| (Duration::from_millis(ms), count)).to_vec(),
    }
}

#[tokio::test]
async fn a_peer_that_closes_idle_connections_makes_nothing_unknown() {
    for (wait, count) in loads() {
        let peer = Peer::start(move |stream, all| serve_http1(stream, all, wait)).await;
        let config = config(grant(&[&peer.address.to_string()]));
        none_is_unknown(&peer, config, peer.url("/"), wait, count).await;
    }
}

#[tokio::test]
async fn nor_does_one_with_http2() {
    for (wait, count) in loads() {
        let authority = Authority::new();
        let serve = move |stream, all| serve_http2(stream, all, wait);
        let peer = tls_peer(&authority, &["a.test"], &["h2"], serve).await;
        let host = format!("a.test:{}", peer.address.port());
        let mut config = config(grant(&[&host]));
        config.roots.add_pem(authority.pem().as_bytes()).unwrap();
        config.resolver = Names::of(&[("a.test", &["127.0.0.1"])]);
        none_is_unknown(&peer, config, format!("https://{host}/"), wait, count).await;
    }
}

/// Whether any of twenty requests, one after the other with a short pause, uses the connection of one
/// before. A connection may be given back after the next request has left, so not all of them do.
async fn reuses(idem: bool, silent_max: Duration, keep_alive: &str) -> bool {
    const REQUESTS: usize = 20;
    let head = format!("HTTP/1.1 200 X\r\nContent-Length: 0\r\n{keep_alive}\r\n");
    let peer = Peer::answering(move |_| Answer::raw(head.clone())).await;
    let mut config = config(grant(&[&peer.address.to_string()]));
    config.bounds.idle_time_not_idem = silent_max;
    let client = Client::start(config).unwrap();
    for _ in 0..REQUESTS {
        let attempt = Attempt { idem, ..attempt(request("POST", &peer.url("/"))) };
        answered(&end(&client, attempt).await);
        sleep(Duration::from_millis(3)).await;
    }
    peer.connection_count() < REQUESTS
}

#[tokio::test]
async fn a_connection_that_was_silent_too_long_carries_only_what_is_idem() {
    let short = Duration::from_millis(1);
    assert!(reuses(false, LONG, "").await);
    assert!(!reuses(false, short, "").await);
    assert!(reuses(true, short, "").await);
}

#[tokio::test]
async fn what_a_peer_announces_is_honoured_for_all() {
    for (keep_alive, expected) in [
        ("Keep-Alive: timeout=0\r\n", false),
        ("keep-alive: max=100, TIMEOUT=0\r\n", false),
        ("Keep-Alive: timeout=60\r\nKeep-Alive: timeout=0\r\n", false),
        ("Keep-Alive: timeout=3600, max=7\r\n", true),
        ("Keep-Alive: timeout=soon\r\n", true),
        ("Keep-Alive: timeout\r\n", true),
    ] {
        for idem in [true, false] {
            assert_eq!(reuses(idem, LONG, keep_alive).await, expected, "{keep_alive}");
        }
    }
}

const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(payload);
    bytes
}

/// A peer of HTTP/2 that reads this many requests, says that this stream was the last one that it
/// looks at, and closes.
async fn going_away(streams: usize, last: u32, reason: u32) -> Vec<End> {
    let authority = Authority::new();
    let peer = tls_peer(&authority, &["a.test"], &["h2"], move |mut stream, _| async move {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        stream.write_all(&frame(4, &[])).await.unwrap();
        let mut seen = 0;
        while seen < streams {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.unwrap();
            seen += usize::from(head[3] == HEADERS);
        }
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend_from_slice(&reason.to_be_bytes());
        stream.write_all(&frame(GOAWAY, &payload)).await.unwrap();
        stream.shutdown().await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let host = format!("a.test:{}", peer.address.port());
    let mut config = config(grant(&[&host]));
    config.roots.add_pem(authority.pem().as_bytes()).unwrap();
    config.resolver = Names::of(&[("a.test", &["127.0.0.1"])]);
    // All on one connection, however slowly they are sent.
    config.bounds.idle_time_not_idem = LONG;
    let client = Client::start(config).unwrap();
    let url = format!("https://{host}/");
    let told: Vec<_> = (0..streams).map(|_| send(&client, not_idem(&url))).collect();
    let mut ends = Vec::new();
    for mut told in told {
        ends.push(told.recv().await.unwrap());
    }
    ends
}

/// Streams above the last one of a GOAWAY were not processed and never will be; the peer may have
/// been at work on the others.
#[tokio::test]
async fn a_goaway_tells_what_was_not_processed() {
    for reason in [0, 11] {
        for (last, unsent_expected) in [(0, 5), (1, 4), (5, 2), (9, 0), (0x7fff_ffff, 0)] {
            let ends = going_away(5, last, reason).await;
            let unsent = ends.iter().filter(|end| matches!(end, End::NotSent { .. })).count();
            let unknown = ends.iter().filter(|end| matches!(end, End::Unknown { .. })).count();
            assert_eq!(
                (unsent, unknown),
                (unsent_expected, 5 - unsent_expected),
                "{last}: {ends:?}"
            );
        }
    }
}
