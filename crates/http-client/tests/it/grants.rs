//! What components may do, with real connections: by name, by address, and by who asks.

use indelible_http_client::{Client, Grant, Grants};

use crate::support::*;

async fn peer() -> Peer {
    Peer::answering(|seen| Answer::text(200, seen.header("host").unwrap())).await
}

#[tokio::test]
async fn who_is_granted_nothing_sends_nothing() {
    let peer = peer().await;
    let own = peer.address.to_string();
    let client = client_for(&peer);
    let with = |names: &[&str]| {
        let mut attempt = attempt(request("GET", &peer.url("/")));
        attempt.components = names.iter().map(|name| (*name).to_owned()).collect();
        attempt
    };
    for names in [&[][..], &["stranger"], &[COMPONENT, "stranger"], &[""]] {
        refused(&end(&client, with(names)).await);
    }
    answered(&end(&client, with(&[COMPONENT, COMPONENT])).await);
    // Another host, another port, TLS where it was not named so.
    let port = peer.address.port();
    for url in [
        format!("http://localhost:{port}/"),
        "http://127.0.0.1/".to_owned(),
        format!("http://127.0.0.1:{}/", port ^ 1),
        format!("http://127.0.0.2:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
    ] {
        refused(&ask(&client, "GET", &url).await);
    }
    let strict = Grant { plain_http: false, ..grant(&[&own]) };
    let client = Client::start(config(strict)).unwrap();
    assert!(refused(&ask(&client, "GET", &peer.url("/")).await).contains("TLS"));
    assert_eq!(peer.arrivals.count(), 1);
}

#[tokio::test]
async fn grants_can_change() {
    let peer = peer().await;
    let client = client(&[]);
    refused(&ask(&client, "GET", &peer.url("/")).await);
    client.set_grants(Grants::from_iter([(COMPONENT, grant(&[&peer.address.to_string()]))]));
    answered(&ask(&client, "GET", &peer.url("/")).await);
    client.set_grants(Grants::default());
    refused(&ask(&client, "GET", &peer.url("/")).await);
    peer.arrivals.one();
}

/// However an address is written, it is the address that counts.
#[tokio::test]
async fn addresses_that_are_not_public_must_be_granted() {
    let peer = peer().await;
    let port = peer.address.port();
    let hosts = [
        "127.0.0.1",
        "[::1]",
        "0.0.0.0",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[fe80::1]",
        "[fd00::1]",
        "loop.test",
    ];
    let patterns: Vec<_> = hosts.iter().map(|host| format!("{host}:{port}")).collect();
    let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
    let mut config = config(Grant { networks: vec![], ..grant(&patterns) });
    config.resolver = Names::of(&[("loop.test", &["127.0.0.1", "::1", "169.254.169.254"])]);
    let client = Client::start(config).unwrap();
    for host in hosts {
        let url = format!("http://{host}:{port}/");
        let end = ask(&client, "GET", &url).await;
        assert!(refused(&end).contains("address"), "{host}: {end:?}");
    }
    for spelled in ["2130706433", "0x7f.1", "127.1", "0177.0.0.1", "LOOP.test"] {
        refused(&ask(&client, "GET", &format!("http://{spelled}:{port}/")).await);
    }
    assert_eq!((peer.connection_count(), peer.arrivals.count()), (0, 0));
}

#[tokio::test]
async fn forbidden_addresses_are_passed_over() {
    let peer = peer().await;
    let port = peer.address.port();
    let mut config = config(grant(&[&format!("some.test:{port}"), &format!("none.test:{port}")]));
    config.grants = Grants::from_iter([(COMPONENT, {
        let networks = vec!["127.0.0.1".parse().unwrap()];
        Grant { networks, ..grant(&[&format!("*.test:{port}")]) }
    })]);
    let forbidden = ["10.0.0.1", "169.254.169.254", "127.0.0.2"];
    let some = [forbidden[0], forbidden[1], "127.0.0.1", forbidden[2]];
    config.resolver =
        Names::of(&[("some.test", &some), ("none.test", &forbidden), ("no.test", &[])]);
    let client = Client::start(config).unwrap();
    let end = ask(&client, "GET", &format!("http://some.test:{port}/")).await;
    assert_eq!(answered(&end).1, format!("some.test:{port}"));
    refused(&ask(&client, "GET", &format!("http://none.test:{port}/")).await);
    not_sent(&ask(&client, "GET", &format!("http://no.test:{port}/")).await);
    peer.arrivals.one();
}

/// An address that does not accept is no reason to give up on the next.
#[tokio::test]
async fn addresses_are_tried_in_turn() {
    let peer = peer().await;
    let port = peer.address.port();
    let mut config = config(grant(&[&format!("two.test:{port}")]));
    config.resolver = Names::of(&[("two.test", &["127.0.0.9", "::1", "127.0.0.1"])]);
    let client = Client::start(config).unwrap();
    answered(&ask(&client, "GET", &format!("http://two.test:{port}/")).await);
    peer.arrivals.one();
}

/// A connection that one component may use is not open to another that may not reach where it
/// leads.
#[tokio::test]
async fn an_open_connection_is_checked_for_everyone() {
    let peer = peer().await;
    let host = format!("in.test:{}", peer.address.port());
    let mut config = config(grant(&[&host]));
    config.grants.insert("outside", Grant { networks: vec![], ..grant(&[&host]) });
    config.resolver = Names::of(&[("in.test", &["127.0.0.1"])]);
    let client = Client::start(config).unwrap();
    let url = format!("http://{host}/");
    let mut outside = attempt(request("GET", &url));
    outside.components = ["outside".to_owned()].into();
    for _ in 0..10 {
        answered(&ask(&client, "GET", &url).await);
        refused(&end(&client, outside.clone()).await);
    }
    assert_eq!(peer.arrivals.count(), 10);
}
