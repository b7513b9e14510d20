//! Many callers at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use indelible_idempotency::layer::Scope;
use sqlx::Postgres;
use tokio::sync::Barrier;

use crate::layer::support::{App, Backend, Call, answer, code, on_both, post, send, settings};

const CALLERS: usize = 64;

async fn pay<B: Backend>(call: Call<B>) -> http::Response<axum::body::Body> {
    let order = std::str::from_utf8(&call.body).unwrap().to_owned();
    call.effect(&order).await;
    answer(201, format!("receipt {} of {order}", call.number))
}

/// All callers at once; returns the distinct receipts, and how many callers were told to come back.
async fn rush<B: Backend>(app: &App<B>, key: &str, order: &str) -> (BTreeSet<Vec<u8>>, usize) {
    let barrier = Arc::new(Barrier::new(CALLERS));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (barrier, address) = (Arc::clone(&barrier), app.address);
            let request = post(key, order);
            tokio::spawn(async move {
                barrier.wait().await;
                send(address, request).await.unwrap()
            })
        })
        .collect();
    let (mut receipts, mut sent_away) = (BTreeSet::new(), 0);
    for caller in callers {
        let response = caller.await.unwrap();
        if response.status() == 201 {
            receipts.insert(response.body().to_vec());
        } else {
            assert_eq!(code(&response), (409, "in-progress".to_owned()));
            sent_away += 1;
        }
    }
    (receipts, sent_away)
}

async fn stampede<B: Backend>() {
    let db = Arc::new(B::database().await);
    let app = App::start(db, settings(), Scope::Shared, pay, |layer| layer).await;
    let orders = ["1", "2", "3", "4"];
    for (number, order) in orders.into_iter().enumerate() {
        let (receipts, sent_away) = rush::<B>(&app, order, order).await;
        assert_eq!(receipts.len(), 1, "{sent_away} were sent away");
        assert_eq!(app.runs(), number + 1);
        let again = app.send(post(order, order)).await;
        assert_eq!(BTreeSet::from([again.body().to_vec()]), receipts);
    }
    assert_eq!(app.effects().await, orders);
    assert_eq!(app.errors(), Vec::<String>::new());
}

/// I-13: of 64 callers at once with one key, one runs; the others get its response, or are told to
/// come back.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_callers_one_runs() {
    on_both!(stampede);
}

/// The same with stricter isolation, where PostgreSQL gives up transactions that it cannot order:
/// the layer begins again.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_callers_one_runs_when_serializable() {
    let db = Postgres::database().await;
    let name = db.url.rsplit('/').next().unwrap();
    let strict =
        format!("ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'");
    let mut connection = db.pool.acquire().await.unwrap();
    Postgres::run(&mut connection, &strict).await.unwrap();
    drop(connection);
    let pool = sqlx::PgPool::connect(&db.url).await.unwrap();
    let isolation = Postgres::texts(&pool, "SHOW transaction_isolation").await;
    assert_eq!(isolation, ["repeatable read"]);
    let db = Arc::new(db.with_pool(pool));
    let app = App::start(db, settings(), Scope::Shared, pay, |layer| layer).await;
    for order in ["1", "2", "3", "4"] {
        let (receipts, _) = rush(&app, order, order).await;
        assert_eq!(receipts.len(), 1);
    }
    assert_eq!(app.effects().await, ["1", "2", "3", "4"]);
}
