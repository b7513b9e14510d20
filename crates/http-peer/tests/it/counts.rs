//! Counts under many clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indelible_http_peer::Peer;

use crate::client::{Client, ok};

const CLIENTS: usize = 64;
const REQUESTS: usize = 25;

/// 64 clients at once: nothing is lost and nothing is counted twice, under a key of each, under one
/// of all, and under one that is processed once.
#[test]
fn counts_are_right_under_many_clients() {
    let peer = Peer::start();
    let called = Arc::new(AtomicUsize::new(0));
    let calls = called.clone();
    peer.on_arrival(move |_| {
        calls.fetch_add(1, Ordering::Relaxed);
    });
    thread::scope(|scope| {
        for own in 0..CLIENTS {
            let peer = &peer;
            scope.spawn(move || {
                let key = format!("client {own}");
                let mut client = Client::of(peer);
                for count in 1..=REQUESTS {
                    client.post("answer", &key);
                    client.expect(ok(&key, count));
                    client.post("keyed", "once");
                    client.expect(ok("once", 1));
                    client.post("status/503/processed", "shared");
                    client.expect("HTTP/1.1 503 ");
                    client = Client::of(peer);
                    client.post("drop-before", "dropped");
                    client.expect_closed();
                    client = Client::of(peer);
                }
            });
        }
    });
    for own in 0..CLIENTS {
        let key = format!("client {own}");
        assert_eq!((peer.arrivals(&key), peer.processed(&key)), (REQUESTS, REQUESTS));
    }
    let all = CLIENTS * REQUESTS;
    assert_eq!((peer.arrivals("once"), peer.processed("once")), (all, 1));
    assert_eq!((peer.arrivals("shared"), peer.processed("shared")), (all, all));
    assert_eq!((peer.arrivals("dropped"), peer.processed("dropped")), (all, 0));
    let log = peer.log();
    assert_eq!(log.len(), 4 * all);
    assert!(log.iter().enumerate().all(|(index, arrival)| arrival.number == index + 1));
    let mut nths: Vec<_> =
        log.iter().filter(|a| a.key.as_deref() == Some("shared")).map(|a| a.nth).collect();
    nths.sort_unstable();
    assert_eq!(nths, (1..=all).collect::<Vec<_>>());
    assert_eq!(called.load(Ordering::Relaxed), log.len());
}

/// Who is called for an arrival sees it in the log, and before it is processed.
#[test]
fn a_callback_comes_between_arrival_and_effect() {
    let peer = Arc::new(Peer::start());
    let (seen, looked) = std::sync::mpsc::channel();
    let weak = Arc::downgrade(&peer);
    peer.on_arrival(move |arrival| {
        let peer = weak.upgrade().unwrap();
        let key = arrival.key.as_deref().unwrap();
        seen.send((arrival.clone(), peer.arrivals(key), peer.processed(key))).unwrap();
    });
    let mut client = Client::of(&peer);
    client.post("answer", "a");
    client.expect(ok("a", 1));
    let (arrival, arrivals, processed) = looked.recv().unwrap();
    assert_eq!((arrival.number, arrival.processed, arrivals, processed), (1, false, 1, 0));
    // A panic in one closes the connection, and no more.
    peer.on_arrival(|arrival| assert_ne!(arrival.key.as_deref(), Some("b"), "on purpose"));
    client.post("answer", "b");
    client.expect_closed();
    let mut client = Client::of(&peer);
    client.post("answer", "c");
    client.expect(ok("c", 1));
    assert_eq!((peer.arrivals("b"), peer.processed("b")), (1, 0));
}
