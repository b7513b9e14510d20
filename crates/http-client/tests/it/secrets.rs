//! Secrets in requests, and nowhere else.

use indelible_http::{End, Header, Part, Request};
use indelible_http_client::{Client, Secret, SecretError, SecretSource, StartError};

use crate::support::*;

const VALUE: &str = "sk_live_9f8e7d6c5b4a";

fn secret(name: &str) -> Part {
    Part::Secret(name.into())
}

fn client_with(peer: &Peer, value: &str) -> Client {
    let mut grant = grant(&[&peer.address.to_string(), "gone.test", "elsewhere.test"]);
    grant.secrets.insert("KEY".into(), vec![]);
    grant.secrets.insert("ELSEWHERE".into(), vec!["elsewhere.test".parse().unwrap()]);
    grant.secrets.insert("UNSET".into(), vec![]);
    let mut config = config(grant);
    for name in ["KEY", "ELSEWHERE", "UNGRANTED"] {
        config.secrets.insert(name.into(), SecretSource::Value(Secret::new(value)));
    }
    config.resolver = Names::of(&[]);
    Client::start(config).unwrap()
}

fn with_key(url: &str, part: Part) -> Request {
    let mut post = request("POST", url);
    let value = vec![text("Bearer "), part.clone()];
    post.headers = vec![Header { name: "Authorization".into(), value }];
    post.body = vec![text("key="), part, text("&x=y")];
    post
}

#[tokio::test]
async fn a_secret_is_in_the_request_and_not_in_the_answer() {
    // It sends everything back.
    let peer = Peer::answering(|seen| {
        let (body, key) =
            (String::from_utf8_lossy(&seen.body), seen.header("authorization").unwrap());
        let head =
            format!("HTTP/1.1 200 OK\r\nX-Key: {key}\r\nContent-Length: {}\r\n\r\n", body.len());
        Answer::raw(head + &body)
    })
    .await;
    let client = client_with(&peer, VALUE);
    let end = end(&client, attempt(with_key(&peer.url("/"), secret("KEY")))).await;
    let seen = peer.arrivals.one();
    assert_eq!(seen.header("authorization"), Some(&*format!("Bearer {VALUE}")));
    assert_eq!(seen.body, format!("key={VALUE}&x=y").as_bytes());
    let End::Answered(response) = end else { panic!("{end:?}") };
    assert_eq!(response.body, "key=[secret KEY]&x=y");
    assert_eq!(response.header("x-key").unwrap(), "Bearer [secret KEY]");
}

/// Names of headers arrive in lower case, and a peer may write the rest as it likes.
#[tokio::test]
async fn a_secret_is_found_in_every_case() {
    const MIXED: &str = "Sk_Live-9F8e7D6c";
    let peer = Peer::answering(|seen| {
        let key = seen.header("authorization").unwrap().strip_prefix("Bearer ").unwrap();
        let (upper, lower) = (key.to_uppercase(), key.to_lowercase());
        let body = format!("{upper} {lower} {key}");
        let head = format!(
            "HTTP/1.1 200 OK\r\nX-{key}: 1\r\nX: {upper}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Answer::raw(head + &body)
    })
    .await;
    let client = client_with(&peer, MIXED);
    let end = end(&client, attempt(with_key(&peer.url("/"), secret("KEY")))).await;
    let shown = format!("{end:?}").to_lowercase();
    assert!(!shown.contains(&MIXED.to_lowercase()), "{shown}");
    let End::Answered(response) = end else { panic!("{end:?}") };
    assert_eq!(response.body, "[secret KEY] [secret KEY] [secret KEY]");
    assert_eq!(response.header("x-[secret KEY]").unwrap(), "1");
    assert_eq!(response.header("x").unwrap(), "[secret KEY]");
}

#[tokio::test]
async fn a_secret_goes_only_where_it_may() {
    let peer = Peer::answering(|_| Answer::text(200, "")).await;
    let client = client_with(&peer, VALUE);
    for name in ["ELSEWHERE", "UNGRANTED", "UNSET", "UNHEARD_OF"] {
        let mut in_header = with_key(&peer.url("/"), secret(name));
        let in_body = Request { headers: vec![], ..in_header.clone() };
        in_header.body = vec![];
        for request in [in_header, in_body] {
            let end = end(&client, attempt(request)).await;
            assert!(refused(&end).contains(&format!("`{name}`")), "{end:?}");
            assert!(!refused(&end).contains(VALUE));
        }
    }
    assert_eq!(peer.arrivals.count(), 0);
}

/// A secret with a line end in it starts no header of its own.
#[tokio::test]
async fn a_secret_does_not_split_headers() {
    let peer = Peer::answering(|_| Answer::text(200, "")).await;
    for value in ["secret-1\r\nX-Evil: 1", "secret-1\n", "secret\0-1", "secret-1\r"] {
        let client = client_with(&peer, value);
        let mut post = with_key(&peer.url("/"), secret("KEY"));
        post.body = vec![];
        let end = end(&client, attempt(post)).await;
        assert!(!refused(&end).contains("secret"), "{end:?}");
    }
    assert_eq!(peer.arrivals.count(), 0);
}

/// Whatever goes wrong, no text of an end has the value in it.
#[tokio::test]
async fn no_end_tells_a_secret() {
    let peer = Peer::answering(|seen| {
        let key = seen.header("authorization").unwrap().to_owned();
        Answer::raw(match seen.line().split(' ').nth(1).unwrap() {
            "/garbage" => format!("{key}\r\n\r\n"),
            "/status" => format!("HTTP/1.1 {key}\r\n\r\n"),
            "/header" => format!("HTTP/1.1 200 X\r\n{key}\r\n\r\n"),
            "/length" => format!("HTTP/1.1 200 X\r\nContent-Length: {key}\r\n\r\n"),
            "/half" => format!("HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\n{key}"),
            "/large" => format!("HTTP/1.1 200 X\r\nX: {key}\r\nContent-Length: 500\r\n\r\n{key}"),
            other => panic!("{other}"),
        })
        .then_close()
    })
    .await;
    let client = client_with(&peer, VALUE);
    let mut urls: Vec<_> = ["/garbage", "/status", "/header", "/length", "/half", "/large"]
        .map(|path| peer.url(path))
        .to_vec();
    urls.extend(["http://gone.test/".to_owned(), format!("http://{VALUE}/"), VALUE.to_owned()]);
    for url in urls {
        let mut attempt = attempt(with_key(&url, secret("KEY")));
        attempt.response_bytes_max = 100;
        let end = end(&client, attempt).await;
        if !url.contains(VALUE) {
            assert!(!format!("{end:?}").contains(VALUE), "{url}: {end:?}");
        }
        assert!(!matches!(end, End::Answered(_)), "{url}: {end:?}");
    }
    assert_eq!(peer.arrivals.count(), 6);
}

#[test]
fn a_client_without_its_secrets_does_not_start() {
    let mut config = config(grant(&[]));
    config.secrets.insert("KEY".into(), SecretSource::File("/no/such/file".into()));
    let error = Client::start(config).unwrap_err();
    assert!(matches!(error, StartError::Secret(_)));
    assert!(error.to_string().contains("`KEY`"), "{error}");
    let mut config = self::config(grant(&[]));
    config.secrets.insert("KEY".into(), SecretSource::Value(Secret::new("hunter2")));
    let error = Client::start(config).unwrap_err();
    assert!(matches!(error, StartError::Secret(SecretError::TooShort { .. })));
}
