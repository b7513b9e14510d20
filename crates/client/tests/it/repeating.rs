//! What is sent again, under which name, and when that ends.

use std::sync::{Arc, Mutex};

use indelible_client::api::access::{NewToken, Role};
use indelible_client::api::{Code, Problem};
use indelible_client::{
    CallError, Cause, Client, Error, Identity, Lost, OperationId, Repeat, Retries, StartError,
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket};

use crate::support::{ATTEMPTS_MAX, Act, Peer, answer, problem, quick, raw, refuse, returned};

/// V-4, V-5, V-6, V-69: never sent, arrived and lost, cut in the middle of the answer, refused for
/// now: all attempts carry one id, minted before the first, and the same bytes.
#[tokio::test]
async fn one_operation_id_on_every_attempt() {
    let cut = Act::Write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"exec".to_vec());
    let peer = Peer::start(vec![
        Act::DropBefore,
        Act::DropAfter,
        cut,
        raw(502, "content-type: text/html\r\n", "<h1>Bad Gateway</h1>"),
        refuse(Code::Stopping),
        raw(429, "retry-after: 0\r\n", ""),
        returned(&json!({"number": 7})),
    ])
    .await;
    let result = peer.function().call(&json!({"cents": 1250})).await.unwrap();
    assert_eq!(result, json!({"number": 7}));
    let seen = peer.seen();
    assert_eq!(seen.len(), 6);
    let id = seen[0].header("indelible-operation-id").unwrap();
    id.parse::<OperationId>().unwrap();
    for request in &seen {
        assert_eq!(request, &seen[0]);
    }
    assert_eq!(seen[0].method, "POST");
    assert_eq!(seen[0].body, r#"{"cents":1250}"#);
    assert_eq!(seen[0].header("idempotency-key"), None);
    assert_eq!(seen[0].header("authorization"), None);
}

/// Who waits can say what for: each repetition is told before its wait, and the last word is not one.
#[tokio::test]
async fn repetitions_are_told() {
    let peer = Peer::start(vec![Act::DropAfter, refuse(Code::Stopping), returned(&json!(1))]).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let client = {
        let told = Arc::clone(&told);
        let tell = move |repeat: &Repeat<'_>| {
            told.lock().unwrap().push((repeat.attempts, repeat.cause.to_string()));
        };
        peer.builder().on_repeat(tell).build().unwrap()
    };
    client.function::<Value, Value>("shop", "order").call(&json!(1)).await.unwrap();
    let told = told.lock().unwrap();
    let [(1, lost), (2, stopping)] = &told[..] else { panic!("{told:?}") };
    assert!(lost.contains("broke") && stopping.contains("503"), "{told:?}");
}

/// V-6: a new intention with the same input has another id.
#[tokio::test]
async fn a_new_intention_has_a_new_id() {
    let peer = Peer::start(vec![returned(&json!(1)), returned(&json!(2))]).await;
    let function = peer.function();
    function.call(&json!({})).await.unwrap();
    function.call(&json!({})).await.unwrap();
    let ids: Vec<_> = peer
        .seen()
        .iter()
        .map(|seen| seen.header("indelible-operation-id").unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

/// V-69: a caller's own key is used on every attempt, and nothing beside it.
#[tokio::test]
async fn the_callers_key_on_every_attempt() {
    let peer = Peer::start(vec![Act::DropAfter, refuse(Code::Busy), returned(&json!(null))]).await;
    peer.function().call(&json!([])).idempotency_key("order 7").await.unwrap();
    let seen = peer.seen();
    assert_eq!(seen.len(), 3);
    for request in seen {
        assert_eq!(request.header("idempotency-key"), Some("order 7"));
        assert_eq!(request.header("indelible-operation-id"), None);
    }
}

/// V-69: a caller's own operation id, on a start.
#[tokio::test]
async fn the_callers_operation_id_on_every_attempt() {
    let id = OperationId::mint();
    let started = json!({
        "execution_id": "abab", "operation_id": id.to_string(), "namespace": "default",
        "verdict": "InFlight",
    });
    let peer = Peer::start(vec![Act::DropAfter, answer(202, &started)]).await;
    let handle = peer.function().start(&json!(1)).operation_id(id).await.unwrap();
    assert_eq!(handle.operation_id(), Some(id.to_string().as_str()));
    let seen = peer.seen();
    assert_eq!(seen.len(), 2);
    for request in seen {
        assert_eq!(request.header("indelible-operation-id"), Some(id.to_string().as_str()));
        assert_eq!(request.target, "/v1/start/shop/order");
    }
}

fn lost(error: CallError<Value>) -> Lost {
    match error {
        CallError::Transport(lost) => lost,
        other => panic!("{other:?}"),
    }
}

/// V-73: an answer that never came is an error of its own, which says under which name to ask again;
/// attempts are bounded.
#[tokio::test]
async fn attempts_end() {
    let peer = Peer::start(Vec::new()).await;
    let lost = lost(peer.function().call(&json!(1)).await.unwrap_err());
    assert_eq!(lost.attempts, ATTEMPTS_MAX);
    assert!(matches!(lost.source, Cause::Broken(_)), "{lost:?}");
    let seen = peer.seen();
    assert_eq!(seen.len(), usize::try_from(ATTEMPTS_MAX).unwrap());
    let Some(Identity::Operation(id)) = lost.identity else { panic!("it has an id") };
    assert_eq!(seen[0].header("indelible-operation-id"), Some(id.to_string().as_str()));
    assert!(lost.to_string().contains(&id.to_string()));
}

/// A server that is never free is asked a bounded number of times, and what it said is kept.
#[tokio::test]
async fn a_busy_server() {
    let script = vec![refuse(Code::Busy); 20];
    let peer = Peer::start(script).await;
    let lost = lost(peer.function().call(&json!(1)).await.unwrap_err());
    let Cause::Unavailable { status, problem: Some(problem) } = lost.source else { panic!() };
    assert_eq!((status.as_u16(), problem.code), (503, Code::Busy));
    assert_eq!(peer.seen().len(), usize::try_from(ATTEMPTS_MAX).unwrap());
}

/// No attempt begins after the time for all of them: with none, there is one attempt.
#[tokio::test]
async fn no_time_no_repetition() {
    let peer = Peer::start(Vec::new()).await;
    let retries = Retries { total: std::time::Duration::ZERO, ..quick() };
    let client = peer.builder().retries(retries).build().unwrap();
    let error = client.function::<Value, Value>("shop", "order").call(&json!(1)).await.unwrap_err();
    assert_eq!(lost(error).attempts, 1);
    assert_eq!(peer.seen().len(), 1);
}

/// A `Retry-After` beyond the time for all attempts ends them at once.
#[tokio::test]
async fn retry_after_counts() {
    let late = raw(503, "retry-after: 3600\r\n", "");
    let peer = Peer::start(vec![late, returned(&json!(1))]).await;
    let retries = Retries { total: std::time::Duration::from_secs(30), ..quick() };
    let client = peer.builder().retries(retries).build().unwrap();
    let error = client.function::<Value, Value>("shop", "order").call(&json!(1)).await.unwrap_err();
    assert_eq!(lost(error).attempts, 1);
    assert_eq!(peer.seen().len(), 1);
}

/// Nothing arrives at a port without a listener, and the error says so.
#[tokio::test]
async fn nobody_listens() {
    // Bound, so that no other socket is given the port; it does not listen.
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.local_addr().unwrap();
    let client = Client::builder(format!("http://{address}")).retries(quick()).build().unwrap();
    let error = client.function::<Value, Value>("shop", "order").call(&json!(1)).await.unwrap_err();
    let lost = lost(error);
    assert!(matches!(lost.source, Cause::Connect(_)));
    assert!(!lost.may_have_arrived);
}

/// V-4: a server that is gone after it got the request leaves a riddle, although the last attempts
/// certainly did not arrive.
#[tokio::test]
async fn the_last_attempt_does_not_speak_for_the_first() {
    // Keeps the port when its listener is gone.
    let kept = TcpSocket::new_v4().unwrap();
    kept.set_reuseaddr(true).unwrap();
    kept.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = kept.local_addr().unwrap();
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        drop(listener);
    });
    let client = Client::builder(format!("http://{address}")).retries(quick()).build().unwrap();
    let error = client.function::<Value, Value>("shop", "order").call(&json!(1)).await.unwrap_err();
    let lost = lost(error);
    assert!(matches!(lost.source, Cause::Connect(_)), "{lost:?}");
    assert!(lost.may_have_arrived);
}

/// V-31: how a function failed is its outcome. It is not asked for again, even if a document says
/// that it could be.
#[tokio::test]
async fn a_sealed_outcome_is_the_last_word() {
    let mut failed = Problem::new(Code::FunctionFailed, "it failed");
    failed.retryable = true;
    failed.error = serde_json::from_value(json!({"kind": "UserError", "message": "no"})).unwrap();
    let peer = Peer::start(vec![problem(&failed), returned(&json!(1))]).await;
    let error = peer.function().call(&json!(1)).await.unwrap_err();
    assert!(matches!(error, CallError::Function(_)), "{error:?}");
    assert_eq!(peer.seen().len(), 1);
}

/// V-4: who is refused at the door after an attempt that may have arrived does not learn that nothing
/// happened.
#[tokio::test]
async fn a_refusal_after_a_lost_answer_is_no_refusal() {
    let peer = Peer::start(vec![Act::DropAfter, refuse(Code::Unauthenticated)]).await;
    let lost = lost(peer.function().call(&json!(1)).await.unwrap_err());
    let Cause::Refused(problem) = lost.source else { panic!("{:?}", lost.source) };
    assert_eq!(problem.code, Code::Unauthenticated);
    assert_eq!(lost.attempts, 2);

    // What speaks of the operation is believed.
    let peer = Peer::start(vec![Act::DropAfter, refuse(Code::Expired)]).await;
    let error = peer.function().start(&json!(1)).await.unwrap_err();
    assert!(matches!(error, StartError::Expired(_)), "{error:?}");

    // After attempts that changed nothing, a refusal is one.
    let peer = Peer::start(vec![refuse(Code::Busy), refuse(Code::Forbidden)]).await;
    let error = peer.function().start(&json!(1)).await.unwrap_err();
    assert!(matches!(error, StartError::Refused(_)), "{error:?}");
}

/// What has no name is sent once: the answer to it is a secret.
#[tokio::test]
async fn a_token_is_made_once() {
    let peer = Peer::start(vec![Act::DropAfter, refuse(Code::Busy)]).await;
    let token = NewToken {
        name: "ci".into(),
        roles: vec![Role::Deploy],
        namespaces: vec!["*".into()],
        expires_at: None,
    };
    for count in [1, 2] {
        let error = peer.client().make_token(&token).await.unwrap_err();
        let Error::Transport(lost) = error else { panic!("{error:?}") };
        assert_eq!((lost.attempts, lost.identity), (1, None));
        assert_eq!(peer.seen().len(), count);
    }
    assert_eq!(peer.seen()[0].header("idempotency-key"), None);
}
