//! What the caller gets for each outcome of `begin`.

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, LOCATION, RETRY_AFTER, SET_COOKIE};
use indelible_idempotency::layer::Scope;
use sqlx::Postgres;
use tokio::sync::Notify;

use crate::layer::support::{
    App, Backend, Call, Chunks, answer, code, on_both, post, request, serve, settings, text,
};

async fn pay<B: Backend>(call: Call<B>) -> http::Response<axum::body::Body> {
    call.effect("paid").await;
    let mut response = answer(201, format!("receipt {}", call.number));
    let headers = response.headers_mut();
    headers.insert(LOCATION, "/payments/1".parse().unwrap());
    headers.insert(SET_COOKIE, "session=secret".parse().unwrap());
    headers.append("x-two", "a".parse().unwrap());
    headers.append("x-two", "b".parse().unwrap());
    headers.insert("x-raw", http::HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    response
}

async fn replay<B: Backend>() {
    let app = serve::<B, _>(pay, |layer| layer).await;
    let first = app.send(post("k", r#"{"cents": 100}"#)).await;
    assert_eq!(first.status(), 201);
    assert_eq!(text(&first), "receipt 0");
    assert_eq!(first.headers()[SET_COOKIE], "session=secret");
    assert!(!first.headers().contains_key("idempotency-replayed"));
    for _ in 0..3 {
        let again = app.send(post("k", r#"{"cents": 100}"#)).await;
        assert_eq!(again.status(), first.status());
        assert_eq!(again.body(), first.body());
        assert_eq!(again.headers()["idempotency-replayed"], "true");
        assert_eq!(again.headers()[LOCATION], "/payments/1");
        assert_eq!(again.headers()["x-raw"].as_bytes(), b"\xff\xfe");
        assert_eq!(again.headers()[CONTENT_LENGTH], "9");
        let two: Vec<_> = again.headers().get_all("x-two").iter().collect();
        assert_eq!(two, ["a", "b"]);
        assert!(!again.headers().contains_key(SET_COOKIE));
    }
    assert_eq!(app.runs(), 1);
    assert_eq!(app.effects().await, ["paid"]);
    assert_eq!(app.records().await, ["committed"]);
    assert_eq!(app.errors(), Vec::<String>::new());

    // Another process of the same service knows it too.
    let other = App::start(Arc::clone(&app.db), settings(), Scope::Shared, pay, |layer| layer);
    let other: App<B> = other.await;
    let again = other.send(post("k", r#"{"cents": 100}"#)).await;
    assert_eq!((again.status(), again.body()), (first.status(), first.body()));
    assert_eq!(other.runs(), 0);
}

/// I-11: once the response is recorded, it is replayed byte by byte, and the handler runs no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_gets_the_same_response() {
    on_both!(replay);
}

async fn mismatch<B: Backend>() {
    let app = serve::<B, _>(pay, |layer| layer).await;
    let secret = r#"{"card":"4242"}"#;
    assert_eq!(app.send(post("k", secret)).await.status(), 201);
    for other in [
        post("k", r#"{"card":"4243"}"#),
        request("PUT", "/", b"k", "application/json", Chunks::sized(secret)),
        request("POST", "/other", b"k", "application/json", Chunks::sized(secret)),
        request("POST", "/?a=1", b"k", "application/json", Chunks::sized(secret)),
        request("POST", "/", b"k", "text/plain", Chunks::sized(secret)),
        request("POST", "/", b"k", "application/json", Chunks::sized("")),
    ] {
        let refused = app.send(other).await;
        assert_eq!(code(&refused), (422, "mismatch".to_owned()));
        assert!(!refused.headers().contains_key(RETRY_AFTER));
        for leak in ["4242", "receipt", "card"] {
            assert!(!text(&refused).contains(leak), "{}", text(&refused));
        }
    }
    assert_eq!(app.runs(), 1);
    assert_eq!(app.effects().await, ["paid"]);
    // What was recorded stands.
    assert_eq!(text(&app.send(post("k", secret)).await), "receipt 0");
}

/// I-12, I-23: another request under the key is refused, and learns nothing of the first.
#[tokio::test(flavor = "multi_thread")]
async fn another_request_under_the_key_is_refused() {
    on_both!(mismatch);
}

/// I-13: while one request is at it, others are told to come back, and do not run.
#[tokio::test(flavor = "multi_thread")]
async fn while_one_is_at_it_others_are_told_to_come_back() {
    let (started, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (starts, goes) = (Arc::clone(&started), Arc::clone(&go));
    let handler = move |call: Call<Postgres>| {
        let (started, go) = (Arc::clone(&starts), Arc::clone(&goes));
        async move {
            call.effect("paid").await;
            started.notify_one();
            go.notified().await;
            answer(200, "done")
        }
    };
    let app = Arc::new(serve(handler, |layer| layer).await);
    let first = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.send(post("k", "1")).await }
    });
    started.notified().await;
    for body in ["1", "2"] {
        // What is not committed is not to be seen: not even whether it is the same request.
        let refused = app.send(post("k", body)).await;
        assert_eq!(code(&refused), (409, "in-progress".to_owned()));
        assert_eq!(refused.headers()[RETRY_AFTER], "1");
    }
    go.notify_one();
    assert_eq!(text(&first.await.unwrap()), "done");
    assert_eq!(text(&app.send(post("k", "1")).await), "done");
    assert_eq!(code(&app.send(post("k", "2")).await), (422, "mismatch".to_owned()));
    assert_eq!(app.runs(), 1);
}

/// The handler commits by itself and fails: what it began is to be seen, and not ended.
async fn leave_in_progress<B: Backend>(call: Call<B>) -> http::Response<axum::body::Body> {
    call.run("COMMIT").await.unwrap();
    answer(500, "")
}

async fn indeterminate<B: Backend>() {
    let app = serve::<B, _>(leave_in_progress, |layer| layer).await;
    assert_eq!(app.send(post("k", "1")).await.status(), 500);
    assert_eq!(app.records().await, ["in_progress"]);
    let leased = app.send(post("k", "1")).await;
    assert_eq!(code(&leased), (409, "in-progress".to_owned()));
    assert_eq!(leased.headers()[RETRY_AFTER], "1");
    app.sql(B::LAPSE).await;
    let lapsed = app.send(post("k", "1")).await;
    assert_eq!(code(&lapsed), (409, "indeterminate".to_owned()));
    assert!(!lapsed.headers().contains_key(RETRY_AFTER));
    assert_eq!(app.runs(), 1);
}

/// C-34: an attempt that its owner never ended is not run again by itself, and the caller is not
/// told to come back.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_ended_is_indeterminate() {
    on_both!(indeterminate);
}

async fn recorded_failure<B: Backend>() {
    let app = serve::<B, _>(leave_in_progress, |layer| layer).await;
    assert_eq!(app.send(post("k", "1")).await.status(), 500);
    app.errors();
    app.sql(
        r#"UPDATE idempotency_record SET status = 'failed',
           error_payload = '{"classTag":"Shop.Secret","message":"hidden"}'"#,
    )
    .await;
    let failed = app.send(post("k", "1")).await;
    assert_eq!(code(&failed), (500, "recorded-failure".to_owned()));
    assert!(!text(&failed).contains("hidden") && !text(&failed).contains("Secret"));
    let errors = app.errors();
    assert!(errors.len() == 1 && errors[0].contains("Shop.Secret"), "{errors:?}");
    assert_eq!(app.runs(), 1);
}

/// I-8: an error that other code has recorded is final, and its text stays on this side.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_other_code_is_final() {
    on_both!(recorded_failure);
}

async fn incompatible<B: Backend>() {
    let app = serve::<B, _>(pay, |layer| layer).await;
    assert_eq!(app.send(post("k", "1")).await.status(), 201);
    for result in [r#"{"version":2,"status":201,"headers":[],"body":{"text":""}}"#, "7", "{"] {
        app.sql(&format!("UPDATE idempotency_record SET result_payload = '{result}'")).await;
        let refused = app.send(post("k", "1")).await;
        assert_eq!(code(&refused), (500, "incompatible-state".to_owned()));
        assert_eq!(app.errors().len(), 1);
    }
    assert_eq!(app.runs(), 1);
}

/// I-17: a recorded response of a version that is not known, or of other code, is not replayed.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_cannot_be_read_is_not_replayed() {
    on_both!(incompatible);
}
