//! Streams of events that break, lie and end.

use indelible_client::api::Code;
use indelible_client::{Cause, Error, Watch};

use crate::support::{ATTEMPTS_MAX, Act, Peer, raw, refuse};

/// A stream that ends, or breaks off, after this text.
fn stream(text: &str) -> Act {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
    Act::Write(format!("{head}{text}").into_bytes())
}

fn event(number: u32) -> String {
    format!("id: 1:{number}\nevent: e{number}\ndata: {{\"n\":{number}}}\n\n")
}

/// The names of all events.
async fn all(watch: &mut Watch) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(event) = watch.next().await {
        let event = event.unwrap();
        let number = event.name.strip_prefix('e').unwrap();
        assert_eq!(event.id.as_deref(), Some(format!("1:{number}").as_str()));
        assert_eq!(event.data.get(), format!("{{\"n\":{number}}}"));
        names.push(event.name);
    }
    names
}

/// A stream that breaks, also in the middle of an event, goes on after the last event that was
/// whole: none is missing and none comes twice.
#[tokio::test]
async fn a_broken_stream_goes_on() {
    let peer = Peer::start(vec![
        Act::DropAfter,
        stream(&format!(": hello\n\n{}{}id: 1:2\nevent: e2\ndata: {{", event(0), event(1))),
        refuse(Code::Stopping),
        stream(""),
        stream(&event(2)),
        stream(&format!("{}event: over\ndata: {{}}\n\n{}", event(3), event(4))),
    ])
    .await;
    let mut watch = peer.client().watch("abab").unwrap();
    assert_eq!(all(&mut watch).await, ["e0", "e1", "e2", "e3"]);
    assert_eq!(watch.last_id(), Some("1:3"));
    assert!(watch.next().await.is_none());
    let seen = peer.seen();
    let from: Vec<_> = seen.iter().map(|seen| seen.header("last-event-id")).collect();
    assert_eq!(from, [None, None, Some("1:1"), Some("1:1"), Some("1:1"), Some("1:2")]);
    assert!(seen.iter().all(|seen| seen.target == "/v1/executions/abab/events"));
    assert!(seen.iter().all(|seen| seen.header("accept") == Some("text/event-stream")));
}

/// Who asks after the end is told that it is over.
#[tokio::test]
async fn over_already() {
    let peer = Peer::start(vec![raw(204, "", "")]).await;
    let mut watch = peer.client().watch("abab").unwrap().starting_after("1:9");
    assert!(watch.next().await.is_none());
    assert!(watch.next().await.is_none());
    assert_eq!(peer.seen().len(), 1);
    assert_eq!(peer.seen()[0].header("last-event-id"), Some("1:9"));
}

/// A stream that never says a word is asked for a bounded number of times.
#[tokio::test]
async fn a_stream_that_never_begins() {
    let most = usize::try_from(ATTEMPTS_MAX).unwrap();
    let mut script = vec![stream(""); most];
    script.push(stream(&format!("{}event: over\ndata: {{}}\n\n", event(0))));
    let peer = Peer::start(script).await;
    let mut watch = peer.client().watch("abab").unwrap();
    let error = watch.next().await.unwrap().unwrap_err();
    let Error::Transport(lost) = error else { panic!("{error:?}") };
    assert!(matches!(lost.source, Cause::Ended), "{lost:?}");
    assert_eq!(peer.seen().len(), most);
    // Who insists goes on.
    assert_eq!(all(&mut watch).await, ["e0"]);
}

/// What is refused, or makes no sense, ends the stream.
#[tokio::test]
async fn streams_that_make_no_sense() {
    let html = raw(200, "content-type: text/html\r\n", "data: 1\n\n");
    let large = format!("data: \"{}\"\n\n", "x".repeat(2000));
    for act in [html, stream("data: {\n\n"), stream(&large), stream("id: 1\ndata: oh\n\n")] {
        let peer = Peer::start(vec![act]).await;
        let client = peer.builder().answer_bytes_max(1000).build().unwrap();
        let mut watch = client.watch("abab").unwrap();
        let error = watch.next().await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Malformed(_)), "{error:?}");
        assert!(watch.next().await.is_none());
        assert_eq!(peer.seen().len(), 1);
    }
    let peer = Peer::start(vec![refuse(Code::NotFound)]).await;
    let mut watch = peer.client().watch("abab").unwrap();
    assert!(matches!(watch.next().await.unwrap().unwrap_err(), Error::Refused(_)));
    assert!(watch.next().await.is_none());
}
