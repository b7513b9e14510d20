//! Which responses are recorded, and what becomes of the handler's work.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use indelible_idempotency::layer::{Recording, Scope};
use sqlx::Postgres;
use tokio::task::JoinHandle;

use crate::layer::support::{
    App, Backend, Call, Chunks, answer, code, on_both, post, serve, settings, text,
};

/// Does its work, and answers with the status that the body asks for.
async fn asked_for<B: Backend>(call: Call<B>) -> http::Response<Body> {
    call.effect(&format!("effect-{}", call.number)).await;
    let status: u16 = std::str::from_utf8(&call.body).unwrap().parse().unwrap();
    answer(status, format!("call {}", call.number))
}

async fn kept<B: Backend>() {
    let app = serve::<B, _>(asked_for, |layer| layer).await;
    for (number, status) in [200, 201, 202, 206, 301, 303, 307].into_iter().enumerate() {
        for _ in 0..2 {
            let answer = app.send(post(&status.to_string(), &status.to_string())).await;
            assert_eq!(answer.status(), status);
            assert_eq!(text(&answer), format!("call {number}"));
        }
    }
    assert_eq!(app.effects().await.len(), 7);
}

/// I-10: a success is recorded together with what the handler did.
#[tokio::test(flavor = "multi_thread")]
async fn successes_and_redirections_are_kept() {
    on_both!(kept);
}

async fn refusals<B: Backend>() {
    let app = serve::<B, _>(asked_for, |layer| layer).await;
    for (number, status) in [400, 402, 404, 410, 415, 422].into_iter().enumerate() {
        for is_replay in [false, true] {
            let answer = app.send(post(&status.to_string(), &status.to_string())).await;
            assert_eq!(answer.status(), status);
            assert_eq!(text(&answer), format!("call {number}"));
            assert_eq!(answer.headers().contains_key("idempotency-replayed"), is_replay);
        }
    }
    assert_eq!(app.effects().await, Vec::<String>::new());
    assert_eq!(app.records().await.len(), 6);
    assert_eq!(app.errors(), Vec::<String>::new());
    // What was refused under the key is refused for ever: another request is not it.
    assert_eq!(code(&app.send(post("400", "200")).await), (422, "mismatch".to_owned()));
}

/// I-10, I-11: a refusal is replayed, and leaves nothing of what the handler did.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_recorded_without_effects() {
    on_both!(refusals);
}

async fn transient<B: Backend>() {
    let app = serve::<B, _>(asked_for, |layer| layer).await;
    let mut number = 0;
    for status in [401, 403, 408, 409, 425, 429, 500, 502, 503, 504] {
        for _ in 0..2 {
            let answer = app.send(post("k", &status.to_string())).await;
            assert_eq!(answer.status(), status);
            assert_eq!(text(&answer), format!("call {number}"));
            assert!(!answer.headers().contains_key("idempotency-replayed"));
            number += 1;
        }
    }
    assert_eq!(app.effects().await, Vec::<String>::new());
    assert_eq!(app.records().await, Vec::<String>::new());
    // The key is as fresh as ever, for another request too.
    assert_eq!(app.send(post("k", "200")).await.status(), 200);
    assert_eq!(app.effects().await, ["effect-20"]);
    assert_eq!(app.errors(), Vec::<String>::new());
}

/// C-4: what failed for now leaves neither a record nor effects; the next request runs.
#[tokio::test(flavor = "multi_thread")]
async fn what_failed_for_now_is_fresh_again() {
    on_both!(transient);
}

async fn chosen<B: Backend>() {
    let recording = |status: http::StatusCode| match status.as_u16() {
        200 => Recording::Not,
        500 => Recording::WithEffects,
        _ => Recording::WithoutEffects,
    };
    let app = serve::<B, _>(asked_for, |layer| layer.recording(recording)).await;
    for (key, calls) in
        [("200", ["call 0", "call 1"]), ("500", ["call 2"; 2]), ("201", ["call 3"; 2])]
    {
        for call in calls {
            assert_eq!(text(&app.send(post(key, key)).await), call);
        }
    }
    assert_eq!(app.effects().await, ["effect-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_choose() {
    on_both!(chosen);
}

async fn too_large<B: Backend>() {
    let handler = |call: Call<B>| async move {
        call.effect("work").await;
        let status = if call.body.starts_with(b"fail") { 500 } else { 200 };
        match (call.number, call.body.ends_with(b"stream")) {
            (0, false) => answer(status, vec![b'x'; 1_001]),
            (0, true) => answer(status, Body::new(Chunks::unsized_of(&[b'x'; 1_001], 10))),
            _ => answer(status, vec![b'x'; 1_000]),
        }
    };
    for body in ["", "stream"] {
        let app = serve::<B, _>(handler, |layer| layer.response_bytes_max(1_000)).await;
        let refused = app.send(post("k", body)).await;
        assert_eq!(code(&refused), (500, "response-too-large".to_owned()));
        assert_eq!(app.effects().await, Vec::<String>::new());
        assert_eq!(app.records().await, Vec::<String>::new());
        assert_eq!(app.errors(), ["ResponseTooLarge { bytes_max: 1000 }"]);
        let fits = app.send(post("k", body)).await;
        assert_eq!((fits.status().as_u16(), fits.body().len()), (200, 1_000));
        assert_eq!(app.effects().await, ["work"]);
    }
    // What is not recorded is not bounded.
    for body in ["fail", "fail-stream"] {
        let app = serve::<B, _>(handler, |layer| layer.response_bytes_max(1_000)).await;
        let passed = app.send(post("k", body)).await;
        assert_eq!((passed.status().as_u16(), passed.body().len()), (500, 1_001));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_are_bounded_with_and_without_a_length() {
    on_both!(too_large);
}

/// A body that gives a piece and breaks.
struct Broken(bool);

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let piece = if self.0 {
            Err(std::io::Error::other("the disk is on fire"))
        } else {
            Ok(Frame::data(Bytes::from_static(b"piece")))
        };
        self.0 = true;
        Poll::Ready(Some(piece))
    }
}

async fn broken<B: Backend>() {
    let handler = |call: Call<B>| async move {
        call.effect("work").await;
        if call.number == 0 { answer(200, Body::new(Broken(false))) } else { answer(200, "whole") }
    };
    let app = serve::<B, _>(handler, |layer| layer).await;
    let refused = app.send(post("k", "1")).await;
    assert_eq!(code(&refused), (500, "response-unreadable".to_owned()));
    assert!(!text(&refused).contains("fire"));
    assert!(app.errors()[0].contains("the disk is on fire"));
    assert_eq!(app.effects().await, Vec::<String>::new());
    assert_eq!(text(&app.send(post("k", "1")).await), "whole");
}

/// Half a response is never recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_breaks_off_undoes_everything() {
    on_both!(broken);
}

/// The number of the advisory lock that the transaction of a `begin` holds.
const LOCK: &str = "SELECT ((classid::bigint << 32) | objid::bigint)::text FROM pg_locks
                    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database
                                                               WHERE datname = current_database())";

/// Between the two transactions of a refusal another transaction takes the key: that one counts,
/// and the refusal goes to its caller unrecorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_is_overtaken_is_not_recorded() {
    let db = Arc::new(Postgres::database().await);
    let others = sqlx::PgPool::connect(&db.url).await.unwrap();
    let overtaking: Arc<Mutex<Option<JoinHandle<_>>>> = Arc::default();
    let overtakes = Arc::clone(&overtaking);
    let pool = others.clone();
    let handler = move |call: Call<Postgres>| {
        let (pool, overtakes) = (pool.clone(), Arc::clone(&overtakes));
        async move {
            call.effect("work").await;
            if call.number == 0 {
                // Queues for the lock of this very key, and so gets it before the layer's second
                // transaction.
                let lock = Postgres::texts(&pool, LOCK).await.pop().unwrap();
                let mut other = pool.begin().await.unwrap();
                *overtakes.lock().unwrap() = Some(tokio::spawn(async move {
                    let sql = format!("SELECT pg_advisory_xact_lock({lock})");
                    Postgres::run(&mut other, &sql).await.unwrap();
                    other
                }));
                let waiting = "SELECT 'it waits' FROM pg_locks
                               WHERE locktype = 'advisory' AND NOT granted";
                let mut looks = 0;
                while Postgres::texts(&pool, waiting).await.is_empty() {
                    looks += 1;
                    assert!(looks < 100_000, "nobody waits for the lock");
                }
            }
            answer(404, format!("call {}", call.number))
        }
    };
    let app = App::start(db, settings(), Scope::Shared, handler, |layer| layer).await;
    let refused = app.send(post("k", "1")).await;
    assert_eq!((refused.status().as_u16(), text(&refused)), (404, "call 0"));
    assert_eq!(app.records().await, Vec::<String>::new());
    assert_eq!(app.errors(), Vec::<String>::new());
    let other = overtaking.lock().unwrap().take().unwrap();
    assert_eq!(code(&app.send(post("k", "1")).await), (409, "in-progress".to_owned()));
    other.await.unwrap().rollback().await.unwrap();
    for _ in 0..2 {
        assert_eq!(text(&app.send(post("k", "1")).await), "call 1");
    }
    assert_eq!(app.effects().await, Vec::<String>::new());
}
