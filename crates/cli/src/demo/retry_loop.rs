//! The worker that Indelible is compared with, as found everywhere. It posts each charge, retries
//! on any error, marks finished orders in a file, and goes on with the rest when it is started
//! again. It runs as a process of its own, so that it can be killed.
#![expect(clippy::disallowed_methods, reason = "it reads its work, and marks what is done")]

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::AT_ONCE;
use super::plan::{Number, Order, Plan};
use crate::failure::Failure;

/// How often a charge is retried.
const RETRIES: u32 = 5;

/// The wait before the first retry; twice that before the second, and so on.
const BACKOFF: Duration = Duration::from_millis(50);

/// How long one attempt may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// The orders to charge.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Work {
    /// The address of the payment service, as `127.0.0.1:4000`.
    pub(super) payments: String,
    /// When the shop opened, in milliseconds since 1970.
    pub(super) opened_ms: u64,
    pub(super) orders: Vec<Due>,
    /// The file that marks finished orders: `done ORDER`, a line each.
    pub(super) done: PathBuf,
}

/// An order, and when it is placed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Due {
    /// In milliseconds since the shop opened.
    after_ms: u64,
    order: Order,
}

impl Due {
    pub(super) fn new(plan: &Plan, number: Number, payments: &str) -> Self {
        let after_ms = u64::try_from(plan.due(number).as_millis()).unwrap_or_default();
        Self { after_ms, order: plan.order(number, payments) }
    }
}

/// The time, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}

/// Does the work that a file describes, except what is marked as done.
pub(super) fn run(file: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot do the work in {}: {error}", file.display()))
    };
    let text = fs::read_to_string(file).map_err(|error| failed(&error))?;
    let work: Work = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let marked = fs::read_to_string(&work.done).unwrap_or_default();
    let marked: HashSet<&str> =
        marked.lines().filter_map(|line| line.strip_prefix("done ")).collect();
    let left = work.orders.into_iter().filter(|order| !marked.contains(order.order.id.as_str()));
    // Reversed, because workers take orders from the end.
    let left: Vec<Due> = left.rev().collect();
    let done = OpenOptions::new().create(true).append(true).open(&work.done);
    let shared = Arc::new(Shared {
        payments: work.payments,
        opened_ms: work.opened_ms,
        left: Mutex::new(left),
        done: done.map_err(|error| failed(&error))?,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    writeln!(out, "ready").and_then(|()| out.flush()).map_err(|error| Failure::output(&error))?;
    runtime.block_on(async {
        let mut workers = JoinSet::new();
        for _ in 0..AT_ONCE {
            workers.spawn(worker(Arc::clone(&shared)));
        }
        while let Some(ended) = workers.join_next().await {
            ended.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        }
        Ok(())
    })
}

struct Shared {
    payments: String,
    opened_ms: u64,
    left: Mutex<Vec<Due>>,
    done: File,
}

async fn worker(shared: Arc<Shared>) -> io::Result<()> {
    loop {
        let order = shared.left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(Due { after_ms, order }) = order else { return Ok(()) };
        let left = (shared.opened_ms + after_ms).saturating_sub(now_ms());
        // The wait is bounded, in case the clock was set back meanwhile.
        sleep(Duration::from_millis(left.min(after_ms))).await;
        if charge(&shared.payments, &order).await {
            (&shared.done).write_all(format!("done {}\n", order.id).as_bytes())?;
            shared.done.sync_data()?;
        }
    }
}

/// Whether a charge succeeded in the end.
async fn charge(payments: &str, order: &Order) -> bool {
    for attempt in 0..=RETRIES {
        sleep(BACKOFF * attempt).await;
        let sent = timeout(ATTEMPT_MAX, post(payments, order)).await;
        if matches!(sent, Ok(Ok(status)) if status.is_success()) {
            return true;
        }
    }
    false
}

/// One request, on a connection of its own.
async fn post(
    payments: &str,
    order: &Order,
) -> Result<StatusCode, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(payments).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // If the connection ends, the request returns the error.
    tokio::spawn(async move { drop(connection.await) });
    let body = serde_json::json!({ "order": order.id, "cents": order.cents }).to_string();
    let request = Request::post("/charges")
        .header("host", payments)
        .header("content-type", "application/json")
        // The loop does send a key, always the same for an order.
        .header("idempotency-key", &order.id)
        .body(Full::new(Bytes::from(body)))?;
    Ok(sender.send_request(request).await?.status())
}
