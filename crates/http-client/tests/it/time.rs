//! Attempts whose time is over, answers that come late, and clients that are stopped.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indelible_http::{Attempt, End};
use indelible_http_client::{AddressFuture, Client, Resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::support::*;

/// A peer that answers when it is told to: each request comes out as the connection to answer on.
async fn slow_peer() -> (Peer, UnboundedReceiver<TcpStream>) {
    let (give, given) = unbounded_channel();
    let peer = Peer::start(move |mut stream, arrivals| {
        let give = give.clone();
        async move {
            if let Some(seen) = read_request(&mut stream).await {
                arrivals.add(seen);
                give.send(stream).unwrap();
            }
        }
    })
    .await;
    (peer, given)
}

fn short(peer: &Peer, idem: bool) -> Attempt {
    let mut attempt = attempt(request("POST", &peer.url("/")));
    attempt.timeout = SHORT;
    attempt.idem = idem;
    attempt
}

#[track_caller]
fn timed_out(end: &End) {
    assert!(matches!(end, End::Unknown { timed_out: true, .. }), "{end:?}");
}

/// The client has closed its side.
async fn is_closed(stream: &mut TcpStream) {
    assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn when_the_time_is_over_the_connection_goes() {
    let (peer, mut given) = slow_peer().await;
    let client = client_for(&peer);
    timed_out(&end(&client, short(&peer, true)).await);
    is_closed(&mut given.recv().await.unwrap()).await;
    peer.arrivals.one();
}

#[tokio::test]
async fn a_late_answer_is_told_after_all() {
    let (peer, mut given) = slow_peer().await;
    let client = client_for(&peer);
    let mut told = send(&client, short(&peer, false));
    timed_out(&told.recv().await.unwrap());
    let mut stream = given.recv().await.unwrap();
    stream.write_all(&Answer::text(200, "late").bytes).await.unwrap();
    assert_eq!(answered(&told.recv().await.unwrap()), (200, "late".to_owned()));
    assert!(told.recv().await.is_none(), "told twice, and no more");
    peer.arrivals.one();
}

#[tokio::test]
async fn half_a_late_answer_is_not_told() {
    let (peer, mut given) = slow_peer().await;
    let client = client_for(&peer);
    let mut told = send(&client, short(&peer, false));
    timed_out(&told.recv().await.unwrap());
    let mut stream = given.recv().await.unwrap();
    let answer = Answer::text(200, "late").bytes;
    stream.write_all(&answer[..answer.len() - 1]).await.unwrap();
    drop(stream);
    assert!(told.recv().await.is_none());
}

/// A late answer that leads elsewhere is not followed, and is none.
#[tokio::test]
async fn a_late_redirection_is_not_followed() {
    let (peer, mut given) = slow_peer().await;
    let client = client_for(&peer);
    let mut attempt = short(&peer, false);
    attempt.request.method = "GET".into();
    let mut told = send(&client, attempt);
    timed_out(&told.recv().await.unwrap());
    let mut stream = given.recv().await.unwrap();
    stream.write_all(&Answer::redirect(302, "/other").bytes).await.unwrap();
    assert!(told.recv().await.is_none());
    peer.arrivals.one();
}

#[tokio::test]
async fn so_many_are_listened_for_and_so_long() {
    let (peer, mut given) = slow_peer().await;
    let mut config = config(grant(&[&peer.address.to_string()]));
    config.bounds.late_listeners_max = 1;
    config.bounds.in_flight_per_origin_max = 1;
    let client = Client::start(config.clone()).unwrap();
    let mut first = send(&client, short(&peer, false));
    timed_out(&first.recv().await.unwrap());
    let mut first_stream = given.recv().await.unwrap();
    // It has given its room back, and there is none to listen for another.
    let mut second = send(&client, short(&peer, false));
    timed_out(&second.recv().await.unwrap());
    is_closed(&mut given.recv().await.unwrap()).await;
    assert!(second.recv().await.is_none());
    first_stream.write_all(&Answer::text(200, "late").bytes).await.unwrap();
    answered(&first.recv().await.unwrap());

    config.bounds.late_answer_max = Duration::from_millis(20);
    let client = Client::start(config).unwrap();
    let mut told = send(&client, short(&peer, false));
    timed_out(&told.recv().await.unwrap());
    is_closed(&mut given.recv().await.unwrap()).await;
    assert!(told.recv().await.is_none());
    assert_eq!(peer.arrivals.count(), 3);
}

/// Names that are never found, and how often they were asked for.
#[derive(Debug, Default)]
struct Nowhere(AtomicUsize);

impl Resolve for Nowhere {
    fn resolve<'a>(&'a self, name: &'a str) -> AddressFuture<'a> {
        if name == "here.test" {
            return Box::pin(std::future::ready(Ok(vec![IpAddr::from([127, 0, 0, 1])])));
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending::<std::io::Result<Vec<IpAddr>>>())
    }
}

/// A lookup takes a thread of the system's for as long as it hangs. However many requests need the
/// name, and however many of them give up, it is looked up once; other names are found meanwhile.
#[tokio::test]
async fn a_name_that_is_not_found_takes_one_lookup() {
    let peer = Peer::answering(|_| Answer::text(200, "here")).await;
    let here = format!("here.test:{}", peer.address.port());
    let mut config = config(grant(&["nowhere.test", &here]));
    let nowhere = Arc::new(Nowhere::default());
    config.resolver = nowhere.clone();
    let client = Client::start(config).unwrap();
    for _ in 0..3 {
        let mut attempt = attempt(request("POST", "http://nowhere.test/"));
        attempt.timeout = SHORT;
        let all: Vec<_> = (0..100).map(|_| send(&client, attempt.clone())).collect();
        assert_eq!(answered(&ask(&client, "POST", &format!("http://{here}/")).await).1, "here");
        for mut told in all {
            not_sent(&told.recv().await.unwrap());
        }
    }
    assert_eq!(nowhere.0.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn time_that_is_over_before_anything_left_is_not_sent() {
    // A peer that accepts, and never says a word of TLS.
    let peer = Peer::start(|stream, _| async move {
        let (_stream, _): (_, ()) = (stream, std::future::pending().await);
    })
    .await;
    let mut config = config(grant(&[&peer.address.to_string(), "nowhere.test"]));
    config.resolver = Arc::new(Nowhere::default());
    let client = Client::start(config).unwrap();
    for url in [format!("https://{}/", peer.address), "http://nowhere.test/".to_owned()] {
        let mut attempt = attempt(request("POST", &url));
        attempt.timeout = SHORT;
        attempt.idem = false;
        let mut told = send(&client, attempt);
        not_sent(&told.recv().await.unwrap());
        assert!(told.recv().await.is_none());
    }
    assert_eq!((peer.connection_count(), peer.arrivals.count()), (1, 0));
}

#[tokio::test]
async fn who_waits_for_room_has_sent_nothing() {
    let (peer, mut given) = slow_peer().await;
    let mut config = config(grant(&[&peer.address.to_string()]));
    config.bounds.in_flight_per_origin_max = 1;
    let client = Client::start(config).unwrap();
    let mut first = send(&client, attempt(request("POST", &peer.url("/"))));
    let mut stream = given.recv().await.unwrap();
    not_sent(&end(&client, short(&peer, false)).await);
    stream.write_all(&Answer::text(200, "first").bytes).await.unwrap();
    answered(&first.recv().await.unwrap());
    peer.arrivals.one();
}

#[tokio::test]
async fn a_client_that_is_dropped_ends_what_is_on_its_way() {
    let (peer, mut given) = slow_peer().await;
    let mut config = config(grant(&[&peer.address.to_string(), "nowhere.test"]));
    config.resolver = Arc::new(Nowhere::default());
    let client = Client::start(config).unwrap();
    let mut sent = send(&client, attempt(request("POST", &peer.url("/"))));
    let mut waiting = send(&client, attempt(request("POST", "http://nowhere.test/")));
    let _stream = given.recv().await.unwrap();
    drop(client);
    assert!(matches!(sent.recv().await.unwrap(), End::Unknown { timed_out: false, .. }));
    not_sent(&waiting.recv().await.unwrap());
    peer.arrivals.one();
}
