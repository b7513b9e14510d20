//! What the database refuses, and what callers hear of it: nothing but that.

use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use indelible_idempotency::layer::Scope;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Postgres, Sqlite};

use crate::layer::support::{
    App, Backend, Call, answer, code, on_both, post, serve, settings, text,
};

async fn pay<B: Backend>(call: Call<B>) -> http::Response<axum::body::Body> {
    call.effect("paid").await;
    answer(200, format!("call {}", call.number))
}

async fn no_connection<B: Backend>() {
    let app = serve::<B, _>(pay, |layer| layer).await;
    app.db.pool.close().await;
    let refused = app.send(post("k", "1")).await;
    assert_eq!(code(&refused), (503, "unavailable".to_owned()));
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    assert_eq!(app.errors(), ["Open(PoolClosed)"]);
    assert_eq!(app.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_connection_nothing_runs() {
    on_both!(no_connection);
}

async fn no_table<B: Backend>() {
    let app = serve::<B, _>(pay, |layer| layer).await;
    app.sql("ALTER TABLE idempotency_record RENAME TO elsewhere").await;
    let refused = app.send(post("k", "1")).await;
    assert_eq!(code(&refused), (500, "internal".to_owned()));
    for leak in ["idempotency_record", "SELECT", "table", "relation"] {
        assert!(!text(&refused).contains(leak), "{}", text(&refused));
    }
    let errors = app.errors();
    assert!(errors.len() == 1 && errors[0].contains("idempotency_record"), "{errors:?}");
    assert_eq!(app.runs(), 0);
    app.sql("ALTER TABLE elsewhere RENAME TO idempotency_record").await;
    assert_eq!(app.send(post("k", "1")).await.status(), 200);
}

/// The caller sees nothing of the database; the hook sees everything.
#[tokio::test(flavor = "multi_thread")]
async fn reasons_stay_on_this_side() {
    on_both!(no_table);
}

/// The database gives up the first two inserts: a sequence counts them, which no rollback takes
/// back.
const COLLIDING: &str = "
CREATE SEQUENCE inserts;
CREATE FUNCTION collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('inserts') <= TRIES THEN RAISE EXCEPTION 'collision' USING ERRCODE = '40001'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER collide BEFORE INSERT ON idempotency_record
FOR EACH ROW EXECUTE FUNCTION collide();
";

/// A `begin` that collides is tried again in a new transaction, and the handler runs once.
#[tokio::test(flavor = "multi_thread")]
async fn a_begin_that_collides_is_tried_again() {
    let app = serve::<Postgres, _>(pay, |layer| layer).await;
    app.sql(&COLLIDING.replace("TRIES", "2")).await;
    let response = app.send(post("k", "1")).await;
    assert_eq!((response.status().as_u16(), text(&response)), (200, "call 0"));
    assert_eq!(app.errors(), Vec::<String>::new());
    assert_eq!(app.effects().await, ["paid"]);
}

/// Three collisions are enough: nothing has run, and the caller may come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_begin_that_keeps_colliding_is_given_up() {
    let app = serve::<Postgres, _>(pay, |layer| layer).await;
    app.sql(&COLLIDING.replace("TRIES", "3")).await;
    let refused = app.send(post("k", "1")).await;
    assert_eq!(code(&refused), (503, "unavailable".to_owned()));
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    assert!(!text(&refused).contains("collision"));
    assert!(app.errors()[0].starts_with("Begin(RetryTransaction("));
    assert_eq!(app.runs(), 0);
    assert_eq!(app.send(post("k", "1")).await.status(), 200);
}

/// SQLite has one writer: a caller that waits too long for it is told to come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_database_is_unavailable() {
    let db = Sqlite::database().await;
    let options: SqliteConnectOptions = db.url.parse().unwrap();
    let pool = SqlitePoolOptions::new().max_connections(2);
    let pool = pool.connect_with(options.busy_timeout(Duration::ZERO)).await.unwrap();
    let hasty = Arc::new(db.with_pool(pool));
    let app = App::start(hasty, settings(), Scope::Shared, pay, |layer| layer).await;
    let writer = db.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let refused = app.send(post("k", "1")).await;
    assert_eq!(code(&refused), (503, "unavailable".to_owned()));
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    assert_eq!(app.runs(), 0);
    writer.rollback().await.unwrap();
    assert_eq!(app.send(post("k", "1")).await.status(), 200);
}

async fn refused_at_the_end<B: Backend>() {
    let handler = |call: Call<B>| async move {
        let parent = if call.number == 0 { "'nobody'" } else { "NULL" };
        call.run(&format!("INSERT INTO effect VALUES ('child', {parent})")).await.unwrap();
        answer(200, format!("call {}", call.number))
    };
    let app = serve::<B, _>(handler, |layer| layer).await;
    let refused = app.send(post("k", "1")).await;
    assert_eq!(code(&refused), (500, "internal".to_owned()));
    assert!(!refused.headers().contains_key(RETRY_AFTER));
    assert!(app.errors()[0].starts_with("Commit("));
    assert_eq!(app.effects().await, Vec::<String>::new());
    assert_eq!(app.records().await, Vec::<String>::new());
    for _ in 0..20 {
        // Every connection of the pool is as good as before.
        assert_eq!(text(&app.send(post("k", "1")).await), "call 1");
    }
    assert_eq!(app.effects().await, ["child"]);
}

/// A constraint that is checked at the end undoes the work and the record of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_refused_keeps_nothing() {
    on_both!(refused_at_the_end);
}

/// In PostgreSQL an error ends the transaction; a handler that does not care has done nothing, and
/// cannot be recorded as if it had.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_the_handler_ignores() {
    let handler = |call: Call<Postgres>| async move {
        call.effect("paid").await;
        if call.number == 0 {
            call.run("SELECT 1 / 0").await.unwrap_err();
        }
        answer(200, "fine")
    };
    let app = serve(handler, |layer| layer).await;
    assert_eq!(code(&app.send(post("k", "1")).await), (500, "internal".to_owned()));
    assert!(app.errors()[0].starts_with("Record(Database("));
    assert_eq!(app.effects().await, Vec::<String>::new());
    assert_eq!(text(&app.send(post("k", "1")).await), "fine");
    assert_eq!(app.effects().await, ["paid"]);
}

/// A refusal, on the other hand, is recorded after an error too: its transaction is rolled back
/// anyway.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_the_handler_answers_for() {
    let handler = |call: Call<Postgres>| async move {
        call.run("INSERT INTO effect VALUES (NULL)").await.unwrap_err();
        answer(422, "no name")
    };
    let app = serve(handler, |layer| layer).await;
    for _ in 0..2 {
        let refused = app.send(post("k", "1")).await;
        assert_eq!((refused.status().as_u16(), text(&refused)), (422, "no name"));
    }
    assert_eq!(app.runs(), 1);
}

async fn refusal_unrecorded<B: Backend>() {
    let handler = |call: Call<B>| async move {
        // Takes the table away from under the second transaction, where it cannot be undone.
        if call.number == 0 {
            let tx = call.tx.as_ref().unwrap();
            let mut connection = tx.lock().await.unwrap();
            let sql = "ALTER TABLE idempotency_record RENAME TO elsewhere";
            B::run(&mut connection, sql).await.unwrap();
            B::run(&mut connection, "COMMIT").await.unwrap();
        }
        answer(404, format!("call {}", call.number))
    };
    let app = serve::<B, _>(handler, |layer| layer).await;
    let refused = app.send(post("k", "1")).await;
    assert_eq!((refused.status().as_u16(), text(&refused)), (404, "call 0"));
    assert!(!app.errors().is_empty());
}

/// A refusal that cannot be recorded is the caller's all the same: nothing was done.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_answered_unrecorded_if_need_be() {
    on_both!(refusal_unrecorded);
}
