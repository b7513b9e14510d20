//! Bodies of requests: their size, their time, and the memory of all of them.

use std::time::Duration;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use indelible_server::listen::body::{BodyError, Budget, read};
use indelible_server::listen::{Bounds, Peer, Service};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, watch};

use crate::listen::support::{Running, SHORT, text, within};

const LONG: Duration = Duration::from_secs(600);

/// Reads a body and says what came of it; holds it until it is told.
fn reader(
    bytes_max: usize,
    time_max: Duration,
    budget: Budget,
    came: mpsc::UnboundedSender<()>,
    go_on: watch::Receiver<bool>,
) -> impl Service {
    move |request: Request<Incoming>, _: Peer| {
        let (budget, came, mut go_on) = (budget.clone(), came.clone(), go_on.clone());
        async move {
            let body = read(request.into_body(), bytes_max, time_max, &budget).await;
            let (status, shown) = match &body {
                Ok((bytes, _)) => (200, format!("{}", bytes.len())),
                Err(BodyError::TooLarge) => (413, String::new()),
                Err(BodyError::TooSlow) => (408, String::new()),
                Err(BodyError::Broken) => (400, String::new()),
                Err(BodyError::Busy) => (503, String::new()),
            };
            came.send(()).unwrap();
            if body.is_ok() {
                go_on.wait_for(|go_on| *go_on).await.unwrap();
            }
            let mut response = text(shown);
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response
        }
    }
}

struct Setup {
    server: Running,
    budget: Budget,
    came: mpsc::UnboundedReceiver<()>,
    go_on: watch::Sender<bool>,
}

async fn setup(bytes_max: usize, time_max: Duration, budget: Budget) -> Setup {
    let (come, came) = mpsc::unbounded_channel();
    let (go_on, wait) = watch::channel(true);
    let service = reader(bytes_max, time_max, budget.clone(), come, wait);
    Setup { server: Running::new(Bounds::default(), service).await, budget, came, go_on }
}

fn post(length: usize) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")
}

#[tokio::test]
async fn bodies_have_a_size() {
    let setup = setup(10, LONG, Budget::new(100)).await;
    let mut client = setup.server.client().await;
    client.send(format!("{}0123456789", post(10))).await;
    assert_eq!(client.ok().await, "10");
    client.send("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n").await;
    assert_eq!(client.ok().await, "7");
    client.send(post(0)).await;
    assert_eq!(client.ok().await, "0");
    // One that says so is refused before a byte of it came.
    client.send(post(11)).await;
    assert_eq!(client.answer().await.0, 413);
    let mut client = setup.server.client().await;
    client
        .send("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n")
        .await;
    assert_eq!(client.answer().await.0, 413);
    assert_eq!(setup.budget.free_bytes(), 100);
}

#[tokio::test]
async fn a_body_that_stops_is_too_slow() {
    let mut setup = setup(usize::MAX, LONG, Budget::new(100).chunk_time_max(SHORT)).await;
    let mut client = setup.server.client().await;
    client.send(format!("{}abc", post(50))).await;
    assert_eq!(client.answer().await.0, 408);
    assert_eq!(client.rest().await, "");
    assert_eq!(setup.budget.free_bytes(), 100);
    // A body whose client goes away needs no clock; and there is no client left to answer.
    let mut client = setup.server.client().await;
    setup.came.recv().await.unwrap();
    client.send(format!("{}abc", post(50))).await;
    client.0.shutdown().await.unwrap();
    client.rest().await;
    assert_eq!(setup.budget.free_bytes(), 100);
}

#[tokio::test]
async fn a_body_that_never_stops_is_too_slow() {
    let budget = Budget::default();
    let all = budget.free_bytes();
    let mut setup = setup(usize::MAX, SHORT, budget).await;
    let mut client = setup.server.client().await;
    client.send(post(1 << 40)).await;
    let ended = async {
        while setup.came.try_recv().is_err() {
            client.send("x").await;
            tokio::task::yield_now().await;
        }
    };
    within("it is too slow", ended).await;
    assert_eq!(client.answer().await.0, 408);
    assert_eq!(setup.budget.free_bytes(), all);
}

/// What one holds, another cannot have; what is given back, it can.
#[tokio::test]
async fn all_bodies_share_a_budget() {
    let mut setup = setup(60, LONG, Budget::new(100)).await;
    setup.go_on.send_replace(false);
    let body = "x".repeat(60);
    let mut first = setup.server.client().await;
    first.send(format!("{}{body}", post(60))).await;
    setup.came.recv().await.unwrap();
    assert_eq!(setup.budget.free_bytes(), 40);
    let mut second = setup.server.client().await;
    second.send(format!("{}{body}", post(60))).await;
    assert_eq!(second.answer().await.0, 503);
    setup.go_on.send_replace(true);
    assert_eq!(first.ok().await, "60");
    let mut third = setup.server.client().await;
    third.send(format!("{}{body}", post(60))).await;
    assert_eq!(third.ok().await, "60");
    assert_eq!(setup.budget.free_bytes(), 100);
}

/// A body of many pieces takes what it has, and not twice that.
#[tokio::test]
async fn a_large_body_fits_the_budget_exactly() {
    let bytes = 1 << 20;
    let setup = setup(bytes, LONG, Budget::new(bytes)).await;
    let mut client = setup.server.client().await;
    client.send(post(bytes)).await;
    client.send("x".repeat(bytes)).await;
    assert_eq!(client.ok().await, bytes.to_string());
}
