//! Redirections: followed for GET and HEAD alone, and each hop checked like the first.

use indelible_http::{Header, Part};
use indelible_http_client::{Client, Secret, SecretSource};

use crate::support::*;

/// Leads from `/n` to `/n-1`, and answers at `/0`.
async fn chain(status: u16) -> Peer {
    Peer::answering(move |seen| {
        match seen.line().split(['/', ' ']).nth(2).unwrap().parse::<u32>().unwrap() {
            0 => Answer::text(200, "there"),
            left => Answer::redirect(status, &format!("/{}", left - 1)),
        }
    })
    .await
}

#[tokio::test]
async fn get_and_head_are_led_on() {
    for status in [301, 302, 303, 307, 308] {
        let peer = chain(status).await;
        let client = client_for(&peer);
        assert_eq!(
            answered(&ask(&client, "GET", &peer.url("/2")).await),
            (200, "there".to_owned())
        );
        assert_eq!(peer.arrivals.count(), 3);
        assert!(peer.arrivals.all().iter().all(|seen| seen.header("idempotency-key").is_some()));
    }
    let peer = Peer::answering(|seen| match seen.line() {
        "HEAD /a HTTP/1.1" => Answer::raw("HTTP/1.1 302 X\r\nLocation: b\r\n\r\n"),
        "HEAD /b HTTP/1.1" => Answer::raw("HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n"),
        other => panic!("{other}"),
    })
    .await;
    assert_eq!(answered(&ask(&client_for(&peer), "HEAD", &peer.url("/a")).await).0, 200);
    assert_eq!(peer.arrivals.count(), 2);
}

#[tokio::test]
async fn what_may_change_something_is_not_led_on() {
    for status in [301, 302, 303, 307, 308] {
        let peer = chain(status).await;
        let client = client_for(&peer);
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let end = ask(&client, method, &peer.url("/1")).await;
            assert_eq!(answered(&end), (status, "moved".to_owned()), "{method}");
        }
        assert_eq!(peer.arrivals.count(), 5);
    }
    let peer = chain(307).await;
    let mut get = request("GET", &peer.url("/1"));
    get.body = vec![text("a query in a body")];
    assert_eq!(answered(&end(&client_for(&peer), attempt(get)).await).0, 307);
    peer.arrivals.one();
}

#[tokio::test]
async fn other_statuses_lead_nowhere() {
    for status in [300, 304, 305, 306, 309, 200, 400] {
        let peer = chain(status).await;
        assert_eq!(answered(&ask(&client_for(&peer), "GET", &peer.url("/1")).await).0, status);
        peer.arrivals.one();
    }
    let peer =
        Peer::answering(|_| Answer::raw("HTTP/1.1 302 X\r\nContent-Length: 0\r\n\r\n")).await;
    assert_eq!(answered(&ask(&client_for(&peer), "GET", &peer.url("/")).await).0, 302);
}

#[tokio::test]
async fn ten_hops_and_no_more() {
    let peer = chain(302).await;
    let client = client_for(&peer);
    assert_eq!(answered(&ask(&client, "GET", &peer.url("/10")).await).0, 200);
    assert_eq!(peer.arrivals.count(), 11);
    assert_eq!(answered(&ask(&client, "GET", &peer.url("/11")).await).0, 302);
    assert_eq!(peer.arrivals.count(), 22);
}

/// A hop that is not allowed is not made; the guest sees the redirection.
#[tokio::test]
async fn each_hop_is_checked() {
    let inner = Peer::answering(|_| Answer::text(200, "secrets of the house")).await;
    let inside = inner.address.to_string();
    let port = inner.address.port();
    let locations = [
        format!("http://{inside}/"),
        format!("//{inside}/"),
        format!("http://inside.test:{port}/"),
        format!("http://localhost:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        format!("http://u:p@front.test:{port}/"),
        format!("ftp://front.test:{port}/"),
        "file:///etc/passwd".to_owned(),
        "http://front.test./".to_owned(),
        "http://".to_owned(),
    ];
    for location in locations {
        let told = location.clone();
        let peer = Peer::answering(move |_| Answer::redirect(302, &told)).await;
        let front = format!("front.test:{}", peer.address.port());
        // The name inside is among the hosts, and its address is not among the networks.
        let mut grant = grant(&[&front, &format!("inside.test:{port}")]);
        grant.networks = vec!["127.0.0.1".parse().unwrap()];
        let mut config = config(grant);
        config.resolver =
            Names::of(&[("front.test", &["127.0.0.1"]), ("inside.test", &["127.0.0.2", "::1"])]);
        let client = Client::start(config).unwrap();
        let end = ask(&client, "GET", &format!("http://{front}/")).await;
        assert_eq!(answered(&end), (302, "moved".to_owned()), "{location}");
        peer.arrivals.one();
    }
    assert_eq!((inner.connection_count(), inner.arrivals.count()), (0, 0));
}

/// What was meant for the first origin stays there.
#[tokio::test]
async fn another_origin_gets_no_secrets() {
    let second = Peer::answering(|_| Answer::text(200, "second")).await;
    let to = second.url("/landed");
    let first = Peer::answering(move |seen| match seen.line().contains("/start") {
        true => Answer::redirect(307, "/again"),
        false => Answer::redirect(307, &to),
    })
    .await;
    let hosts = [first.address.to_string(), second.address.to_string()];
    let mut grant = grant(&[&hosts[0], &hosts[1]]);
    grant.secrets.insert("KEY".into(), vec![]);
    let mut config = config(grant);
    config.secrets.insert("KEY".into(), SecretSource::Value(Secret::new("hunter22hunter22")));
    let client = Client::start(config).unwrap();
    let mut get = request("GET", &first.url("/start"));
    let value = vec![text("k="), Part::Secret("KEY".into())];
    get.headers = vec![
        header("Authorization", "Basic abc"),
        header("Cookie", "session=1"),
        Header { name: "X-Api-Key".into(), value },
        header("X-Plain", "stays"),
    ];
    let end = end(&client, attempt(get)).await;
    assert_eq!(answered(&end), (200, "second".to_owned()));
    for seen in first.arrivals.all() {
        assert_eq!(seen.header("x-api-key"), Some("k=hunter22hunter22"));
        assert_eq!(seen.header("authorization"), Some("Basic abc"));
        assert_eq!(seen.header("cookie"), Some("session=1"));
        assert_eq!(seen.header("idempotency-key"), Some("key-1"));
    }
    assert_eq!(first.arrivals.count(), 2);
    let seen = second.arrivals.one();
    for name in ["x-api-key", "authorization", "cookie", "idempotency-key"] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(seen.header("x-plain"), Some("stays"));
    assert_eq!(seen.header("host"), Some(&*hosts[1]));
}

/// The first hop was sent: that the second cannot be is no proof that nothing was.
#[tokio::test]
async fn a_hop_that_fails_is_not_unsent() {
    let peer = Peer::answering(|_| Answer::redirect(302, "http://gone.test/")).await;
    let mut config = config(grant(&[&peer.address.to_string(), "gone.test"]));
    config.resolver = Names::of(&[]);
    let client = Client::start(config).unwrap();
    unknown(&ask(&client, "GET", &peer.url("/")).await);
    peer.arrivals.one();
}
