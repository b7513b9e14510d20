//! The transaction in the handler's hands: when it is there, when it is over, and what becomes of
//! it where the handler does not return.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use indelible_idempotency::layer::{Ended, IdempotentTx, Scope};
use sqlx::Connection as _;
use tokio::sync::{Notify, oneshot};

use crate::layer::support::{
    App, Backend, Call, answer, code, on_both, post, send, serve, settings, text,
};

/// Where a transaction is still being rolled back, `begin` waits for it instead of saying 409.
fn patient() -> indelible_idempotency::store::Settings {
    settings().in_flight_wait(Duration::from_secs(120))
}

async fn panics<B: Backend>() {
    let handler = |call: Call<B>| async move {
        call.effect("work").await;
        assert!(call.number > 0, "on purpose, the first time");
        answer(200, "done")
    };
    let db = Arc::new(B::database().await);
    let app = App::start(db, patient(), Scope::Shared, handler, |layer| layer).await;
    assert!(send(app.address, post("k", "1")).await.is_err(), "the connection ends");
    let response = app.send(post("k", "1")).await;
    assert_eq!((response.status().as_u16(), text(&response)), (200, "done"));
    assert_eq!(app.effects().await, ["work"]);
    assert_eq!(app.runs(), 2);
}

/// C-4: a handler that panics leaves nothing, and the key is fresh.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_leaves_nothing() {
    on_both!(panics);
}

/// Says when it goes.
struct Gone(Option<oneshot::Sender<()>>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

async fn disconnects<B: Backend>() {
    let started = Arc::new(Notify::new());
    let (gone, is_gone) = oneshot::channel();
    let gone = Arc::new(Mutex::new(Some(Gone(Some(gone)))));
    let starts = Arc::clone(&started);
    let handler = move |call: Call<B>| {
        let gone = gone.lock().unwrap().take();
        let started = Arc::clone(&starts);
        async move {
            call.effect("work").await;
            if let Some(_gone) = gone {
                started.notify_one();
                std::future::pending::<()>().await;
            }
            answer(200, "done")
        }
    };
    let db = Arc::new(B::database().await);
    let app = App::start(db, patient(), Scope::Shared, handler, |layer| layer).await;
    let caller = tokio::spawn(send(app.address, post("k", "1")));
    started.notified().await;
    // The connection goes with the task that has it: the request is dropped where it waits.
    caller.abort();
    let _ = caller.await;
    is_gone.await.unwrap();
    let response = app.send(post("k", "1")).await;
    assert_eq!((response.status().as_u16(), text(&response)), (200, "done"));
    assert!(!response.headers().contains_key("idempotency-replayed"));
    assert_eq!(app.effects().await, ["work"]);
    assert_eq!(app.runs(), 2);
}

/// C-4: a caller that goes away while the handler runs leaves nothing, and the key is fresh.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_leaves_nothing() {
    on_both!(disconnects);
}

async fn over<B: Backend>() {
    let kept: Arc<Mutex<Vec<IdempotentTx<B>>>> = Arc::default();
    let keeps = Arc::clone(&kept);
    let handler = move |call: Call<B>| {
        keeps.lock().unwrap().push(call.tx.clone().unwrap());
        async move {
            call.effect(&format!("work-{}", call.number)).await;
            let status: u16 = std::str::from_utf8(&call.body).unwrap().parse().unwrap();
            answer(status, "")
        }
    };
    let app = serve::<B, _>(handler, |layer| layer).await;
    for status in ["200", "422", "500"] {
        app.send(post(status, status)).await;
        let tx = kept.lock().unwrap().pop().unwrap();
        assert_eq!(tx.lock().await.map(drop), Err(Ended), "{status}");
        assert_eq!(tx.key().value(), status);
    }
    assert_eq!(app.effects().await, ["work-0"]);
}

/// I-14: the layer owns the transaction; a handle that is kept is good for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_handler_the_transaction_is_over() {
    on_both!(over);
}

async fn savepoints<B: Backend>() {
    let handler = |call: Call<B>| async move {
        let mut connection = call.tx.as_ref().unwrap().lock().await.unwrap();
        let mut inner = connection.begin().await.unwrap();
        B::effect(&mut inner, "undone").await;
        inner.rollback().await.unwrap();
        let mut inner = connection.begin().await.unwrap();
        B::effect(&mut inner, "done").await;
        inner.commit().await.unwrap();
        // Forgotten, and so undone.
        let mut inner = connection.begin().await.unwrap();
        B::effect(&mut inner, "forgotten").await;
        drop(inner);
        drop(connection);
        answer(200, "done")
    };
    let app = serve::<B, _>(handler, |layer| layer).await;
    for _ in 0..2 {
        assert_eq!(text(&app.send(post("k", "1")).await), "done");
    }
    assert_eq!(app.effects().await, ["done"]);
    assert_eq!(app.errors(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_within_is_a_savepoint() {
    on_both!(savepoints);
}

async fn held<B: Backend>() {
    let release = Arc::new(Notify::new());
    let (done, is_done) = oneshot::channel();
    let (releases, done) = (Arc::clone(&release), Arc::new(Mutex::new(Some(done))));
    let handler = move |call: Call<B>| {
        let (release, done) = (Arc::clone(&releases), done.lock().unwrap().take());
        async move {
            call.effect("work").await;
            let Some(done) = done else { return answer(200, "done") };
            let (locked, is_locked) = oneshot::channel();
            tokio::spawn(async move {
                let tx = call.tx.unwrap();
                let guard = tx.lock().await.unwrap();
                locked.send(()).unwrap();
                release.notified().await;
                drop(guard);
                // The handle lives on, and the transaction does not.
                done.send(tx.lock().await.map(drop)).unwrap();
                std::future::pending::<()>().await;
            });
            is_locked.await.unwrap();
            answer(200, "too early")
        }
    };
    let db = Arc::new(B::database().await);
    let app = App::start(db, patient(), Scope::Shared, handler, |layer| layer).await;
    let refused = app.send(post("k", "1")).await;
    assert_eq!(code(&refused), (500, "transaction-held".to_owned()));
    assert_eq!(app.errors(), ["TransactionHeld"]);
    release.notify_one();
    assert_eq!(is_done.await.unwrap(), Err(Ended));
    assert_eq!(text(&app.send(post("k", "1")).await), "done");
    assert_eq!(app.effects().await, ["work"]);
}

/// A guard that outlives the handler fails the request: the layer does not wait for it, and nothing
/// it did stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_outlives_the_handler() {
    on_both!(held);
}

async fn own_commit<B: Backend>() {
    let handler = |call: Call<B>| async move {
        call.effect(&format!("work-{}", call.number)).await;
        call.run("COMMIT").await.unwrap();
        answer(200, format!("call {}", call.number))
    };
    let app = serve::<B, _>(handler, |layer| layer).await;
    for number in 0..20 {
        // The response is recorded, and every connection of the pool is as good as before.
        let key = number.to_string();
        for _ in 0..2 {
            assert_eq!(text(&app.send(post(&key, "1")).await), format!("call {number}"));
        }
    }
    assert_eq!(app.effects().await.len(), 20);
    assert_eq!(app.errors(), Vec::<String>::new());
}

async fn own_commit_and_panic<B: Backend>() {
    let handler = |call: Call<B>| async move {
        call.effect(&format!("work-{}", call.number)).await;
        call.run("COMMIT").await.unwrap();
        assert!(call.number > 2, "on purpose, a few times");
        answer(200, format!("call {}", call.number))
    };
    let app = serve::<B, _>(handler, |layer| layer).await;
    for number in 0..3 {
        assert!(send(app.address, post(&number.to_string(), "1")).await.is_err());
    }
    for number in 0..3 {
        // The work is committed and its response is lost: it is not done again. A connection that a
        // panic left may not be ready yet: then the caller is told to repeat, and nothing was done.
        let mut refused = app.send(post(&number.to_string(), "1")).await;
        for _ in 0..100 {
            if code(&refused) == (503, "unavailable".to_owned()) {
                refused = app.send(post(&number.to_string(), "1")).await;
            }
        }
        assert_eq!(code(&refused), (409, "in-progress".to_owned()));
    }
    for number in 3..30 {
        let response = app.send(post(&number.to_string(), "1")).await;
        assert_eq!(text(&response), format!("call {number}"));
    }
    let others: Vec<_> =
        app.errors().into_iter().filter(|error| !error.starts_with("Open")).collect();
    assert_eq!(others, Vec::<String>::new());
}

async fn own_rollback<B: Backend>() {
    let handler = |call: Call<B>| async move {
        call.effect("work").await;
        if call.number == 0 {
            call.run("ROLLBACK").await.unwrap();
        }
        answer(200, format!("call {}", call.number))
    };
    let app = serve::<B, _>(handler, |layer| layer).await;
    let lost = app.send(post("k", "1")).await;
    assert_eq!(code(&lost), (500, "attempt-lost".to_owned()));
    assert_eq!(app.effects().await, Vec::<String>::new());
    for _ in 0..20 {
        assert_eq!(text(&app.send(post("k", "1")).await), "call 1");
    }
    assert_eq!(app.effects().await, ["work"]);
}

/// A handler that ends the transaction by a statement of its own does no work twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_commits_by_itself() {
    on_both!(own_commit);
}

/// C-34: where it does not return either, the work is not done again; and the pool's connections
/// are as good as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_commits_by_itself_and_panics() {
    on_both!(own_commit_and_panic);
}

/// A handler that rolls back behind the layer's back has nothing recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_rolls_back_by_itself() {
    on_both!(own_rollback);
}
