//! Waiting for functions, and answers that make no sense.

use std::time::Duration;

use indelible_client::api::call::Verdict;
use indelible_client::{CallError, Client, IfInFlight};
use serde_json::{Value, json};

use crate::support::{Act, EXECUTION, Peer, answer, goes_on, quick, raw, returned};

/// A function that takes longer than the server waits is waited for, by asking for its outcome; a
/// broken connection does not matter (V-30).
#[tokio::test]
async fn a_long_call() {
    let peer = Peer::start(vec![
        goes_on(),
        goes_on(),
        Act::DropAfter,
        goes_on(),
        returned(&json!("done")),
    ])
    .await;
    let client = peer.builder().namespace("eu").build().unwrap();
    let function = client.function::<Value, String>("shop", "order");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = function.call(&json!(1)).trace_parent(trace).if_in_flight(IfInFlight::Attach);
    assert_eq!(call.wait(Duration::from_secs(20)).await.unwrap(), "done");
    let seen = peer.seen();
    assert_eq!(seen.len(), 5);
    assert_eq!(seen[0].target, "/v1/call/shop/order?namespace=eu&wait=20");
    assert_eq!(seen[0].header("traceparent"), Some(trace));
    assert_eq!(seen[0].header("indelible-if-in-flight"), Some("attach"));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    for poll in &seen[1..] {
        assert_eq!(poll.method, "GET");
        assert!(poll.target.starts_with(&format!("/v1/executions/{EXECUTION}/outcome?wait=")));
        assert_eq!(poll.header("indelible-operation-id"), None);
    }
}

/// When the caller's own wait is over, the call is not lost: a handle goes on with it.
#[tokio::test]
async fn still_running() {
    let peer = Peer::start(vec![goes_on(), goes_on(), returned(&json!([1, 2]))]).await;
    let function = peer.client().function::<Value, Vec<u32>>("shop", "order");
    let error = function.call(&json!(1)).wait(Duration::ZERO).await.unwrap_err();
    let CallError::StillRunning(handle) = error else { panic!("{error:?}") };
    assert_eq!(handle.execution_id(), EXECUTION);
    assert_eq!(handle.operation_id(), Some("o"));
    assert_eq!(peer.seen()[0].target, "/v1/call/shop/order?wait=0");
    let error = handle.outcome_within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, CallError::StillRunning(_)), "{error:?}");
    assert_eq!(handle.outcome().await.unwrap(), [1, 2]);
    assert_eq!(peer.seen().len(), 3);
}

/// A start says what it met (V-29 to V-31), and its handle waits.
#[tokio::test]
async fn a_start_and_its_outcome() {
    let started = json!({
        "execution_id": EXECUTION, "operation_id": "o", "namespace": "default",
        "verdict": "PriorResult",
    });
    let peer = Peer::start(vec![answer(202, &started), returned(&json!(7))]).await;
    let handle = peer.function().start(&json!(1)).idempotency_key("k").await.unwrap();
    assert_eq!(handle.verdict(), Some(Verdict::PriorResult));
    assert_eq!(handle.outcome().await.unwrap(), json!(7));
    let attached = peer.client().attach::<u8>(EXECUTION);
    assert_eq!((attached.operation_id(), attached.verdict()), (None, None));
}

/// Who wants to know is told what the request met, also if the answer came later, and gets the result
/// as it is on the wire (V-30, V-31).
#[tokio::test]
async fn a_reply_says_what_the_request_met() {
    let body = r#"{"execution_id":"abab","operation_id":"o","result":{"b": 1.50}}"#;
    let json = "content-type: application/json\r\n";
    let prior = format!("{json}indelible-verdict: PriorResult\r\n");
    let in_flight = format!("{json}indelible-verdict: InFlight\r\n");
    let script = vec![
        raw(200, &prior, body),
        raw(202, &in_flight, r#"{"execution_id":"abab","operation_id":"o"}"#),
        raw(200, json, body),
        raw(200, json, body),
    ];
    let peer = Peer::start(script).await;
    let call = || peer.function().call(&json!(1)).idempotency_key("k");
    for verdict in [Verdict::PriorResult, Verdict::InFlight] {
        let reply = call().reply().await.unwrap();
        assert_eq!(reply.verdict, Some(verdict));
        assert_eq!(
            (reply.execution_id.as_str(), reply.operation_id.as_deref()),
            ("abab", Some("o"))
        );
        assert_eq!(reply.result.as_ref().unwrap().get(), r#"{"b": 1.50}"#);
        assert_eq!(reply.read::<Value>().unwrap(), json!({"b": 1.5}));
        assert!(reply.read::<u8>().is_err());
    }
    let attached = peer.client().attach::<Value>("abab").reply().await.unwrap();
    assert_eq!(attached.verdict, None);
    let payload = json!({"codec": "cbor", "base64": "AA=="});
    let peer =
        Peer::start(vec![answer(200, &json!({"execution_id": "a", "result_payload": payload}))]);
    let reply = peer.await.function().call(&json!(1)).reply().await.unwrap();
    assert_eq!(reply.payload.as_ref().unwrap().base64, "AA==");
    assert!(reply.read::<Value>().is_err());
}

/// Nothing, JSON's null, something else, and what is not JSON.
#[tokio::test]
async fn what_is_returned() {
    let call = async |body: Value| {
        let peer = Peer::start(vec![answer(200, &body)]).await;
        peer.client().function::<(), Option<u8>>("shop", "order").call(&()).await
    };
    assert_eq!(call(json!({"execution_id": "a"})).await.unwrap(), None);
    assert_eq!(call(json!({"execution_id": "a", "result": null})).await.unwrap(), None);
    assert_eq!(call(json!({"execution_id": "a", "result": 3})).await.unwrap(), Some(3));
    let text = call(json!({"execution_id": "a", "result": "text"})).await.unwrap_err();
    assert!(matches!(text, CallError::Output(_)), "{text:?}");
    let payload = json!({"codec": "cbor", "base64": "AA=="});
    let payload = call(json!({"execution_id": "a", "result_payload": payload})).await.unwrap_err();
    assert!(matches!(payload, CallError::Output(_)), "{payload:?}");
}

/// Whatever answers instead of the server is not believed, and not asked again.
#[tokio::test]
async fn answers_that_make_no_sense() {
    let large = format!("\"{}\"", "x".repeat(2000));
    for act in [
        raw(200, "content-type: text/html\r\n", "<p>hello</p>"),
        raw(200, "content-type: application/json\r\n", "{"),
        raw(200, "content-type: application/json\r\n", &large),
        raw(202, "content-type: application/json\r\n", "[]"),
        raw(404, "content-type: text/html\r\n", "<h1>Not Found</h1>"),
        raw(418, "content-type: application/problem+json\r\n", "{}"),
        raw(424, "content-type: application/json\r\n", "{}"),
        raw(204, "", ""),
    ] {
        let peer = Peer::start(vec![act.clone()]).await;
        let client = peer.builder().answer_bytes_max(1000).build().unwrap();
        let call = client.function::<(), Value>("shop", "order").call(&());
        let error = call.idempotency_key("k").await.unwrap_err();
        assert!(matches!(error, CallError::Malformed(_)), "{act:?}: {error:?}");
        assert_eq!(peer.seen().len(), 1, "{act:?}");
    }
}

/// A redirection is not followed: the token goes nowhere else.
#[tokio::test]
async fn redirections_are_not_followed() {
    let other = Peer::start(vec![returned(&json!(1))]).await;
    for status in [301, 302, 307, 308] {
        let location = format!("location: http://{}/v1/call/shop/order\r\n", other.address);
        let peer = Peer::start(vec![raw(status, &location, "")]).await;
        let client = peer.builder().token("secret-7").build().unwrap();
        let error = client.function::<(), Value>("shop", "order").call(&()).await.unwrap_err();
        assert!(matches!(error, CallError::Malformed(_)), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("secret-7"));
        assert_eq!(peer.seen()[0].header("authorization"), Some("Bearer secret-7"));
    }
    assert_eq!(other.seen(), []);
}

/// What cannot be sent is refused before anything is.
#[tokio::test]
async fn requests_that_cannot_be_made() {
    let peer = Peer::start(Vec::new()).await;
    let client = peer.client();
    let function = client.function::<(), Value>("shop", "order");
    let nameless = client.function::<(), Value>("..", "order");
    let keys = std::collections::BTreeMap::from([(vec![1_u8], 1_u8)]);
    let input = client.function::<_, Value>("shop", "order").call(&keys);
    for error in [
        nameless.call(&()).await.unwrap_err(),
        function.call(&()).idempotency_key("a\nb").await.unwrap_err(),
        function.call(&()).idempotency_key("").await.unwrap_err(),
        function.call(&()).trace_parent("\0").await.unwrap_err(),
        input.await.unwrap_err(),
        client.attach::<Value>("").outcome().await.unwrap_err(),
    ] {
        assert!(matches!(error, CallError::Invalid(_)), "{error:?}");
    }
    assert_eq!(peer.seen(), []);
}

/// An answer that does not come in time is not waited for for ever.
#[tokio::test]
async fn no_answer_in_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let timeouts = indelible_client::Timeouts {
        answer: Duration::from_millis(20),
        ..indelible_client::Timeouts::default()
    };
    let retries = indelible_client::Retries { attempts_max: 2, ..quick() };
    let client = Client::builder(format!("http://{address}")).retries(retries).timeouts(timeouts);
    let error = client.build().unwrap().whoami().await.unwrap_err();
    let indelible_client::Error::Transport(lost) = error else { panic!("{error:?}") };
    assert_eq!(lost.attempts, 2);
    assert!(matches!(lost.source, indelible_client::Cause::TimedOut(_)), "{lost:?}");
}
