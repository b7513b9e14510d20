//! HTTP/2: shared connections, streams that are refused, and streams that break.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, SendResponse};
use http::Response;
use indelible_http::End;
use indelible_http_client::Client;
use tokio::sync::Barrier;

use crate::support::*;
use crate::tls_peer::{Authority, tls_peer};

struct Setting {
    authority: Authority,
    peer: Peer,
    client: Client,
}

impl Setting {
    fn url(&self, path: &str) -> String {
        format!("https://a.test:{}{path}", self.peer.address.port())
    }

    async fn ask(&self, path: &str) -> End {
        ask(&self.client, "POST", &self.url(path)).await
    }
}

/// A peer that does this with each request: it gets the path and what to answer with.
async fn setting<F, R>(streams_max: u32, handle: F) -> Setting
where
    F: Fn(String, SendResponse<Bytes>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let authority = Authority::new();
    let peer = tls_peer(&authority, &["a.test"], &["h2"], move |stream, arrivals| {
        let handle = handle.clone();
        async move {
            let mut builder = Builder::new();
            builder.max_concurrent_streams(streams_max);
            let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
            while let Some(Ok((request, answer))) = connection.accept().await {
                let (parts, mut body) = request.into_parts();
                let (handle, arrivals) = (handle.clone(), arrivals.clone());
                if parts.uri.path() == "/goaway" {
                    connection.abrupt_shutdown(Reason::NO_ERROR);
                }
                if parts.uri.path() == "/gone" {
                    arrivals.add(Seen { head: "gone".into(), body: vec![] });
                    return;
                }
                tokio::spawn(async move {
                    let mut seen = Seen {
                        head: format!("{} {} {:?}\r\n", parts.method, parts.uri, parts.version),
                        body: vec![],
                    };
                    for (name, value) in &parts.headers {
                        seen.head += &format!("{name}: {}\r\n", value.to_str().unwrap());
                    }
                    while let Some(Ok(data)) = body.data().await {
                        let _ = body.flow_control().release_capacity(data.len());
                        seen.body.extend_from_slice(&data);
                    }
                    arrivals.add(seen);
                    handle(parts.uri.path().to_owned(), answer).await;
                });
            }
        }
    })
    .await;
    let mut config = config(grant(&[&format!("a.test:{}", peer.address.port())]));
    config.roots.add_pem(authority.pem().as_bytes()).unwrap();
    config.resolver = Names::of(&[("a.test", &["127.0.0.1"])]);
    Setting { client: Client::start(config).unwrap(), authority, peer }
}

/// Answers with the path.
async fn echo(path: String, mut answer: SendResponse<Bytes>) {
    let mut body = answer.send_response(Response::new(()), false).unwrap();
    body.send_data(path.into(), true).unwrap();
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let barrier = Arc::new(Barrier::new(50));
    let setting = setting(100, move |path, answer| {
        let barrier = barrier.clone();
        async move {
            // All of them at once.
            barrier.wait().await;
            echo(path, answer).await;
        }
    })
    .await;
    let told: Vec<_> = (0..50)
        .map(|index| {
            let mut post = request("POST", &setting.url(&format!("/{index}")));
            post.body = vec![text(&index.to_string())];
            (index, send(&setting.client, attempt(post)))
        })
        .collect();
    for (index, mut told) in told {
        assert_eq!(answered(&told.recv().await.unwrap()), (200, format!("/{index}")));
    }
    assert_eq!((setting.peer.connection_count(), setting.peer.arrivals.count()), (1, 50));
    for seen in setting.peer.arrivals.all() {
        let path = String::from_utf8(seen.body.clone()).unwrap();
        assert_eq!(seen.line(), format!("POST {} HTTP/2.0", setting.url(&format!("/{path}"))));
        assert_eq!(seen.header("host"), None);
        assert_eq!(seen.header("idempotency-key"), Some("key-1"));
        assert_eq!(seen.header("content-length"), Some(&*path.len().to_string()));
    }
    drop(setting.authority);
}

#[tokio::test]
async fn a_refused_stream_was_not_sent_and_a_broken_one_is_unknown() {
    let setting = setting(100, |path, mut answer| async move {
        let ok = |answer: &mut SendResponse<Bytes>| answer.send_response(Response::new(()), false);
        match path.as_str() {
            "/refused" => answer.send_reset(Reason::REFUSED_STREAM),
            "/cancel" => answer.send_reset(Reason::CANCEL),
            "/internal" => answer.send_reset(Reason::INTERNAL_ERROR),
            "/dropped" => drop(answer),
            "/refused-late" => {
                let _body = ok(&mut answer).unwrap();
                // Else h2 forgets the head, and the stream is as good as refused at once.
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                answer.send_reset(Reason::REFUSED_STREAM);
            }
            "/half" => {
                let mut body = ok(&mut answer).unwrap();
                body.send_data(Bytes::from_static(b"half"), false).unwrap();
                body.send_reset(Reason::INTERNAL_ERROR);
            }
            "/short" => {
                let head = Response::builder().header("content-length", "9").body(()).unwrap();
                let mut body = answer.send_response(head, false).unwrap();
                body.send_data(Bytes::from_static(b"short"), true).unwrap();
            }
            _ => echo(path, answer).await,
        }
    })
    .await;
    for round in 0..3 {
        not_sent(&setting.ask("/refused").await);
        for path in ["/cancel", "/internal", "/dropped", "/refused-late", "/half", "/short"] {
            let end = setting.ask(path).await;
            assert!(matches!(end, End::Unknown { timed_out: false, .. }), "{path}: {end:?}");
        }
        answered(&setting.ask("/fine").await);
        assert_eq!(setting.peer.arrivals.count(), 8 * (round + 1), "each once");
    }
    assert_eq!(setting.peer.connection_count(), 1);
}

/// What a connection took with it is unknown; the next request gets a new one.
#[tokio::test]
async fn a_connection_that_goes_away_takes_its_streams_with_it() {
    let setting = setting(100, echo).await;
    for round in 1..=5 {
        answered(&setting.ask("/fine").await);
        unknown(&setting.ask("/gone").await);
        assert_eq!(setting.peer.arrivals.count(), 2 * round);
    }
    let before = setting.peer.arrivals.count();
    let end = setting.ask("/goaway").await;
    assert!(matches!(end, End::Unknown { .. } | End::Answered(_)), "{end:?}");
    answered(&setting.ask("/fine").await);
    assert!(setting.peer.arrivals.count() <= before + 2);
}

/// A peer that takes two at a time gets two on each connection.
#[tokio::test]
async fn a_peers_limit_is_kept() {
    let barrier = Arc::new(Barrier::new(10));
    let setting = setting(2, move |path, answer| {
        let barrier = barrier.clone();
        async move {
            if path == "/held" {
                barrier.wait().await;
            }
            echo(path, answer).await;
        }
    })
    .await;
    // From its first answer on, the client knows the limit.
    answered(&setting.ask("/first").await);
    answered(&setting.ask("/second").await);
    let mut config = config(grant(&[&format!("a.test:{}", setting.peer.address.port())]));
    config.bounds.streams_per_connection_max = 2;
    config.roots.add_pem(setting.authority.pem().as_bytes()).unwrap();
    config.resolver = Names::of(&[("a.test", &["127.0.0.1"])]);
    let client = Client::start(config).unwrap();
    let held = || send(&client, attempt(request("POST", &setting.url("/held"))));
    for mut told in (0..10).map(|_| held()).collect::<Vec<_>>() {
        answered(&told.recv().await.unwrap());
    }
    assert_eq!(setting.peer.arrivals.count(), 12);
    assert_eq!(setting.peer.connection_count(), 1 + 5);
}

/// A connection on which an answer did not come may be dead: others get a new one.
#[tokio::test]
async fn a_connection_without_an_answer_is_left() {
    let setting = setting(100, |path, answer| async move {
        match path.as_str() {
            "/never" => std::future::pending::<()>().await,
            _ => echo(path, answer).await,
        }
    })
    .await;
    answered(&setting.ask("/fine").await);
    for idem in [true, false] {
        let mut attempt = attempt(request("POST", &setting.url("/never")));
        attempt.timeout = SHORT;
        attempt.idem = idem;
        let end = end(&setting.client, attempt).await;
        assert!(matches!(end, End::Unknown { timed_out: true, .. }), "{end:?}");
        answered(&setting.ask("/fine").await);
    }
    assert_eq!((setting.peer.connection_count(), setting.peer.arrivals.count()), (3, 5));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_not_read() {
    let setting = setting(100, |path, mut answer| async move {
        if path != "/large" {
            return echo(path, answer).await;
        }
        let mut body = answer.send_response(Response::new(()), false).unwrap();
        while body.send_data(Bytes::from_static(&[0; 1024]), false).is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let end = setting.ask("/large").await;
    assert!(matches!(end, End::TooLarge(_)), "{end:?}");
    answered(&setting.ask("/fine").await);
    assert_eq!((setting.peer.connection_count(), setting.peer.arrivals.count()), (1, 2));
}
