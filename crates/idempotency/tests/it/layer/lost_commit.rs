//! The connection breaks around `COMMIT`, through a proxy that knows PostgreSQL's messages: the
//! layer cannot know what became of it, and the repetition finds out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::RETRY_AFTER;
use indelible_idempotency::layer::Scope;
use sqlx::Postgres;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::layer::support::{App, Backend, Call, answer, code, post, settings, text};

/// `COMMIT` as a simple query.
const COMMIT: &[u8] = b"Q\x00\x00\x00\x0bCOMMIT\x00";

/// Where the connection is cut.
#[derive(Clone, Copy)]
enum Cut {
    /// Before the server gets the message.
    Before,
    /// After the server has answered it, before the client gets the answer.
    After,
}

/// Forwards both ways until the first `COMMIT` that is sent while it is armed.
async fn proxy(server: SocketAddr, cut: Cut, armed: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(server).await.unwrap();
            tokio::spawn(forward(client, server, cut, Arc::clone(&armed)));
        }
    });
    address
}

async fn forward(client: TcpStream, server: TcpStream, cut: Cut, armed: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut up = vec![0; 1 << 16];
    let mut down = vec![0; 1 << 16];
    loop {
        tokio::select! {
            read = from_client.read(&mut up) => {
                let message = &up[..read.unwrap_or(0)];
                // The client waits for answers, so that a message of its own comes in one piece.
                let is_commit = message == COMMIT;
                if is_commit && armed.swap(false, Ordering::SeqCst) {
                    if let Cut::After = cut {
                        to_server.write_all(message).await.unwrap();
                        assert_ne!(from_server.read(&mut down).await.unwrap(), 0);
                    }
                    return;
                }
                if message.is_empty() || to_server.write_all(message).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut down) => {
                let message = &down[..read.unwrap_or(0)];
                if message.is_empty() || to_client.write_all(message).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The service reaches its database through the proxy; the test looks past it.
async fn lost(cut: Cut) -> App<Postgres> {
    let db = Postgres::database().await;
    let port = indelible_postgres_fixture::shared().port();
    let server = SocketAddr::from(([127, 0, 0, 1], port));
    let armed = Arc::new(AtomicBool::new(false));
    let through = proxy(server, cut, Arc::clone(&armed)).await;
    let url = db.url.replace(&format!(":{port}/"), &format!(":{}/", through.port()));
    assert_ne!(url, db.url);
    let pool = sqlx::PgPool::connect(&format!("{url}?sslmode=disable")).await.unwrap();
    let db = Arc::new(db.with_pool(pool));
    let handler = move |call: Call<Postgres>| {
        let armed = Arc::clone(&armed);
        async move {
            call.effect("paid").await;
            armed.store(call.number == 0, Ordering::SeqCst);
            answer(200, format!("call {}", call.number))
        }
    };
    let patient = settings().in_flight_wait(std::time::Duration::from_secs(120));
    let app = App::start(db, patient, Scope::Shared, handler, |layer| layer).await;
    let unknown = app.send(post("k", "1")).await;
    assert_eq!(code(&unknown), (503, "outcome-unknown".to_owned()));
    assert_eq!(unknown.headers()[RETRY_AFTER], "1");
    let errors = app.errors();
    assert!(errors.len() == 1 && errors[0].starts_with("Commit(Io("), "{errors:?}");
    app
}

/// I-11: the commit held, its answer was lost: the repetition gets the recorded response.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_commit_is_lost() {
    let app = lost(Cut::After).await;
    let again = app.send(post("k", "1")).await;
    assert_eq!(text(&again), "call 0");
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(app.runs(), 1);
    assert_eq!(app.effects().await, ["paid"]);
}

/// C-4: the commit never arrived: the repetition runs the handler.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_lost() {
    let app = lost(Cut::Before).await;
    let again = app.send(post("k", "1")).await;
    assert_eq!(text(&again), "call 1");
    assert!(!again.headers().contains_key("idempotency-replayed"));
    assert_eq!(app.runs(), 2);
    assert_eq!(app.effects().await, ["paid"]);
}
