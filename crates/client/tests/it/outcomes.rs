//! Waiting for functions, and answers that make no sense.

use std::time::Duration;

use indelible_client::api::call::{Failed, Verdict};
use indelible_client::api::{Code, Problem};
use indelible_client::{CallError, Client, IfInFlight};
use serde_json::{Value, json};

use crate::support::{
    Act, EXECUTION, Peer, answer, goes_on, problem, quick, raw, refuse, returned,
};

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

/// What a start is answered with.
fn started(verdict: Verdict) -> Act {
    let body = json!({
        "execution_id": EXECUTION, "operation_id": "o", "namespace": "eu", "verdict": verdict,
    });
    answer(202, &body)
}

/// V-30, V-31: who is told later how it failed is told what the request met, as with a result; what
/// the server says itself counts.
#[tokio::test]
async fn a_failure_says_what_the_request_met() {
    let error = Failed { kind: "UserError".into(), message: "no".into(), detail: None };
    let ended = |code, error: Option<Failed>| Problem { error, ..Problem::new(code, "because") };
    let function = || ended(Code::FunctionFailed, Some(error.clone()));
    for (met, told) in [
        (Verdict::Fresh, Verdict::Fresh),
        (Verdict::InFlight, Verdict::InFlight),
        (Verdict::PriorResult, Verdict::PriorError),
    ] {
        let said = Problem {
            operation_id: Some("said".into()),
            verdict: Some(Verdict::PriorError),
            ..function()
        };
        let failures = [
            (function(), told, "o"),
            (ended(Code::Cancelled, None), told, "o"),
            (ended(Code::Indeterminate, None), told, "o"),
            (said, Verdict::PriorError, "said"),
        ];
        for (failure, verdict, operation) in failures {
            let peer = Peer::start(vec![started(met), problem(&failure)]).await;
            let handle = peer.function().start(&json!(1)).await.unwrap();
            let (told, named) = match handle.outcome().await.unwrap_err() {
                CallError::Function(failed) => (failed.verdict, failed.operation_id),
                CallError::Cancelled(problem) | CallError::Indeterminate(problem) => {
                    (problem.verdict, problem.operation_id)
                }
                error => panic!("{error:?}"),
            };
            assert_eq!((told, named.as_deref()), (Some(verdict), Some(operation)), "{failure:?}");
        }
    }
    // The client knows nothing of an execution that another one started.
    let peer = Peer::start(vec![problem(&function())]).await;
    let error = peer.client().attach::<u8>(EXECUTION).outcome().await.unwrap_err();
    let CallError::Function(failed) = error else { panic!("{error:?}") };
    assert_eq!((failed.verdict, failed.operation_id), (None, None));
}

/// V-31, C-3: retention has taken the execution while its caller was away. Its outcome is asked for by
/// the name, in the namespace of the start.
#[tokio::test]
async fn an_outcome_outlives_its_execution() {
    let script = vec![
        started(Verdict::Fresh),
        goes_on(),
        refuse(Code::NotFound),
        goes_on(),
        Act::DropAfter,
        returned(&json!(7)),
    ];
    let peer = Peer::start(script).await;
    let client = peer.builder().namespace("eu").build().unwrap();
    let function = client.function::<Value, Value>("shop", "order");
    let handle = function.start(&json!(1)).await.unwrap();
    let reply = handle.reply().await.unwrap();
    assert_eq!((reply.read().unwrap(), reply.verdict), (json!(7), Some(Verdict::Fresh)));
    let seen = peer.seen();
    let targets: Vec<_> = seen[1..].iter().map(|seen| seen.target.as_str()).collect();
    let by_id = format!("/v1/executions/{EXECUTION}/outcome?wait=30");
    let by_name = "/v1/operations/o/outcome?wait=30&namespace=eu";
    assert_eq!(targets, [by_id.as_str(), &by_id, by_name, by_name, by_name]);
}

/// V-59: what the name is answered with counts: that it is too old to be known is not that there is
/// none. If there is nothing under it either, or the server does not know the path, it is not found;
/// who has no name, and what is no answer of the server's, is not asked about twice.
#[tokio::test]
async fn an_execution_that_is_not_found() {
    let outcome = async |then: Act| {
        let peer = Peer::start(vec![started(Verdict::Fresh), refuse(Code::NotFound), then]).await;
        let handle = peer.function().start(&json!(1)).await.unwrap();
        let error = handle.outcome().await.unwrap_err();
        assert_eq!(peer.seen().len(), 3);
        error
    };
    let expired = outcome(refuse(Code::Expired)).await;
    assert!(matches!(expired, CallError::Expired(_)), "{expired:?}");
    let unknown = outcome(refuse(Code::Indeterminate)).await;
    assert!(matches!(unknown, CallError::Indeterminate(_)), "{unknown:?}");
    for code in [Code::NotFound, Code::NoSuchPath] {
        let error = outcome(refuse(code)).await;
        let CallError::Refused(problem) = error else { panic!("{error:?}") };
        assert_eq!(problem.code, Code::NotFound);
    }
    let peer = Peer::start(vec![refuse(Code::NotFound)]).await;
    let error = peer.client().attach::<u8>(EXECUTION).outcome().await.unwrap_err();
    assert!(matches!(error, CallError::Refused(_)), "{error:?}");
    assert_eq!(peer.seen().len(), 1);
    let html = raw(404, "content-type: text/html\r\n", "<h1>Not Found</h1>");
    let peer = Peer::start(vec![started(Verdict::Fresh), html]).await;
    let handle = peer.function().start(&json!(1)).await.unwrap();
    let error = handle.outcome().await.unwrap_err();
    assert!(matches!(error, CallError::Malformed(_)), "{error:?}");
    assert_eq!(peer.seen().len(), 2);
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
