//! Requests through a proxy: a small one that works, and some that do not.

use indelible_http_client::{Client, Config, Grant, Proxies, Proxy};
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use crate::support::*;
use crate::tls_peer::{Authority, tls_peer};

/// `me:secret`, as it is sent.
const AUTHORIZATION: &str = "Basic bWU6c2VjcmV0";

/// A proxy that makes tunnels to this machine, whatever the name, and answers what it can read.
async fn proxy() -> Peer {
    Peer::start(|mut stream, arrivals| async move {
        while let Some(seen) = read_request(&mut stream).await {
            arrivals.add(seen.clone());
            let Some(to) = seen.line().strip_prefix("CONNECT ") else {
                let answer = Answer::text(200, seen.line().split(' ').nth(1).unwrap());
                stream.write_all(&answer.bytes).await.unwrap();
                continue;
            };
            let port: u16 = to.split([':', ' ']).nth(1).unwrap().parse().unwrap();
            let mut peer = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            let _ = copy_bidirectional(&mut stream, &mut peer).await;
            return;
        }
    })
    .await
}

fn through(proxy: &Peer, grant: Grant) -> Config {
    let mut config = config(grant);
    let proxy = Proxy::parse(&format!("http://me:secret@{}", proxy.address)).unwrap();
    config.proxies = Proxies { http: Some(proxy.clone()), https: Some(proxy), except: vec![] };
    config
}

#[tokio::test]
async fn tls_goes_through_a_tunnel() {
    let authority = Authority::new();
    let peer =
        tls_peer(&authority, &["a.test", "unknown.test"], &[], |mut stream, arrivals| async move {
            while let Some(seen) = read_request(&mut stream).await {
                arrivals.add(seen);
                stream.write_all(&Answer::text(200, "through").bytes).await.unwrap();
            }
        })
        .await;
    let (proxy, port) = (proxy().await, peer.address.port());
    let mut config = through(&proxy, grant(&[&format!("*.test:{port}")]));
    config.roots.add_pem(authority.pem().as_bytes()).unwrap();
    config.resolver = Names::of(&[("a.test", &["127.0.0.1"])]);
    let client = Client::start(config).unwrap();
    // The second name is known to the proxy alone.
    for name in ["a.test", "unknown.test"] {
        for _ in 0..3 {
            let end = ask(&client, "POST", &format!("https://{name}:{port}/x")).await;
            assert_eq!(answered(&end), (200, "through".to_owned()));
        }
    }
    let tunnels = proxy.arrivals.all();
    assert!(tunnels.iter().any(|seen| seen.line() == format!("CONNECT a.test:{port} HTTP/1.1")));
    for tunnel in tunnels {
        assert_eq!(tunnel.header("proxy-authorization"), Some(AUTHORIZATION));
        assert_eq!(tunnel.header("idempotency-key"), None);
    }
    assert_eq!(peer.arrivals.count(), 6);
    for seen in peer.arrivals.all() {
        assert_eq!(seen.line(), "POST /x HTTP/1.1");
        assert_eq!(seen.header("proxy-authorization"), None);
    }
}

#[tokio::test]
async fn without_tls_the_proxy_reads_the_request() {
    let proxy = proxy().await;
    let mut config = through(&proxy, grant(&["unknown.test"]));
    config.resolver = Names::of(&[]);
    let client = Client::start(config).unwrap();
    let end = ask(&client, "POST", "http://unknown.test/a?b").await;
    assert_eq!(answered(&end), (200, "http://unknown.test/a?b".to_owned()));
    let seen = proxy.arrivals.one();
    assert_eq!(seen.line(), "POST http://unknown.test/a?b HTTP/1.1");
    assert_eq!(seen.header("host"), Some("unknown.test"));
    assert_eq!(seen.header("proxy-authorization"), Some(AUTHORIZATION));
    assert_eq!(seen.header("idempotency-key"), Some("key-1"));
}

/// A proxy is no way around the ranges of addresses.
#[tokio::test]
async fn a_proxy_is_not_asked_for_what_is_not_granted() {
    let proxy = proxy().await;
    let hosts = ["10.0.0.1", "169.254.169.254", "inside.test", "mixed.test"];
    let mut config = through(&proxy, Grant { networks: vec![], ..grant(&hosts) });
    config.resolver =
        Names::of(&[("inside.test", &["127.0.0.1"]), ("mixed.test", &["1.1.1.1", "10.0.0.1"])]);
    let client = Client::start(config).unwrap();
    for host in hosts {
        for scheme in ["http", "https"] {
            refused(&ask(&client, "GET", &format!("{scheme}://{host}/")).await);
        }
    }
    refused(&ask(&client, "GET", "https://other.test/").await);
    assert_eq!((proxy.connection_count(), proxy.arrivals.count()), (0, 0));
}

#[tokio::test]
async fn what_is_excepted_goes_straight() {
    let proxy = proxy().await;
    let peer = Peer::answering(|_| Answer::text(200, "straight")).await;
    let mut config = config(grant(&[&peer.address.to_string()]));
    let variables = |name: &str| match name {
        "http_proxy" => Some(format!("http://{}", proxy.address)),
        "no_proxy" => Some("127.0.0.0/8".to_owned()),
        _ => None,
    };
    config.proxies = Proxies::read(variables).unwrap();
    let client = Client::start(config).unwrap();
    assert_eq!(answered(&ask(&client, "GET", &peer.url("/")).await).1, "straight");
    assert_eq!((proxy.connection_count(), peer.arrivals.count()), (0, 1));
}

/// Whatever a proxy does instead of making a tunnel, the request has not left.
#[tokio::test]
async fn without_a_tunnel_nothing_was_sent() {
    for answer in [
        "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
        "garbage\r\n\r\n",
        "",
        "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ] {
        let proxy = Peer::answering(move |_| Answer::raw(answer).then_close()).await;
        let mut config = through(&proxy, grant(&["a.test"]));
        config.resolver = Names::of(&[]);
        let end = ask(&Client::start(config).unwrap(), "POST", "https://a.test/").await;
        assert!(!not_sent(&end).contains("secret"), "{end:?}");
        assert!(proxy.arrivals.one().line().starts_with("CONNECT "));
    }
    // One that says nothing, one whose answer has no end, and one that is not there.
    let silent = Peer::start(|mut stream, _| async move {
        let _ = read_request(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    let endless = Peer::start(|mut stream, _| async move {
        let _ = read_request(&mut stream).await;
        while stream.write_all(b"HTTP/1.1 200 OK\r\n").await.is_ok() {}
    })
    .await;
    let gone = Peer::start(|_, _| async {}).await;
    gone.stop();
    for proxy in [&silent, &endless, &gone] {
        let mut config = through(proxy, grant(&["a.test"]));
        config.resolver = Names::of(&[]);
        let mut attempt = attempt(request("POST", "https://a.test/"));
        attempt.timeout = SHORT;
        not_sent(&end(&Client::start(config).unwrap(), attempt).await);
    }
}
