//! The two acts: the orders with Indelible, and the same orders with a retry loop. Each act has its
//! own payment service, with the same faults, and is killed at the same points.

use std::sync::Arc;
use std::time::Duration;

use indelible_client::{Client, Error, Filter};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::book::{Book, Count, Progress};
use super::customers::{self, COMPONENT, Customers, FUNCTION};
use super::event::{Event, Tell, Who};
use super::payments::Payments;
use super::person::{self, HeldOrder};
use super::place::DemoFolder;
use super::plan::Plan;
use super::process::Process;
use super::retry_loop::{self, Due, Work};
use super::server::Server;
use super::{AS_RETRY_LOOP, AT_ONCE, kills};
use crate::failure::Failure;

/// The shop, `examples/shop`, as `cargo xtask demo-component` has built it, so that the demo needs
/// neither the source tree nor a compiler for WebAssembly.
static SHOP: &[u8] = include_bytes!("../../demo/shop.wasm");

/// How often the demo checks whether all remaining orders are held.
const LOOK: Duration = Duration::from_millis(200);

/// What became of the orders in an act, as its payment service counted.
#[derive(Debug, Clone)]
pub(super) struct Act {
    pub(super) crashes: u32,
    pub(super) count: Count,
    pub(super) progress: Progress,
}

/// What became of the orders with Indelible.
#[derive(Debug)]
pub(super) struct Durable {
    pub(super) act: Act,
    /// How many orders are complete, as the server told the customers.
    pub(super) complete: u32,
    pub(super) executions: u32,
    pub(super) held: Vec<HeldOrder>,
}

impl Act {
    /// Waits until the payment service has no request under way: requests of a killed process may
    /// still be charged.
    async fn of(book: &Book, crashes: u32) -> Self {
        // An error means that the book can no longer change.
        _ = book.watch().wait_for(|now| now.in_flight == 0).await;
        Self { crashes, count: book.count(), progress: book.progress() }
    }
}

/// The first act.
pub(super) async fn durable(
    plan: &Plan,
    place: &DemoFolder,
    tell: &Tell,
) -> Result<Durable, Failure> {
    let payments = open_payments(plan, Who::Server, tell)?;
    let book = &payments.book;
    _ = tell.send(Event::Starting);
    let mut server = Server::start(place, payments.address).await?;
    let client = customers::client(&server.url)?;
    let deployed = client.deploy(COMPONENT, SHOP).await;
    deployed.map_err(|error| Failure::new(format!("the shop cannot be deployed: {error}")))?;
    _ = tell.send(Event::Up { who: Who::Server, process: server.process.id() });

    let (killed, kills_over) = oneshot::channel();
    let killing = async {
        let crashes = kills::carry_out(Who::Server, &mut server.process, book, tell).await?;
        // The other future may have ended, and dropped the receiver.
        _ = killed.send(crashes);
        // A server does not end by itself.
        server.process.ended().await?;
        Err(Failure::new("the demo's server has stopped: another process must have stopped it"))
    };
    let working = async {
        let mut customers = Customers::come(plan, &client, &payments.url());
        only_held_is_left(&mut customers, &client, tell).await?;
        let Ok(crashes) = kills_over.await else { return std::future::pending().await };
        let held = resolved(&mut customers, &client, book, tell).await?;
        let executions = executions(&client).await.map_err(|error| unseen(&error))?;
        let (act, complete) = (Act::of(book, crashes).await, customers.count());
        Ok(Durable { act, complete, executions, held })
    };
    tokio::select! {
        durable = working => durable,
        failure = killing => failure,
    }
}

/// The second act.
pub(super) async fn retried(plan: &Plan, place: &DemoFolder, tell: &Tell) -> Result<Act, Failure> {
    let payments = open_payments(plan, Who::RetryLoop, tell)?;
    let work = Work {
        payments: payments.address.to_string(),
        opened_ms: retry_loop::now_ms(),
        orders: plan.numbers().map(|number| Due::new(plan, number, &payments.url())).collect(),
        done: place.join("retry-loop.done"),
    };
    let work = serde_json::to_string(&work).expect("texts and numbers are JSON");
    let work = place.write("retry-loop.json", &work)?;
    let arguments = ["demo".as_ref(), AS_RETRY_LOOP.as_ref(), work.as_os_str()];
    let mut process = Process::new(arguments, place.join("retry-loop.log"));
    process.start().await?;
    _ = tell.send(Event::Up { who: Who::RetryLoop, process: process.id() });
    let crashes = kills::carry_out(Who::RetryLoop, &mut process, &payments.book, tell).await?;
    process.ended().await?;
    Ok(Act::of(&payments.book, crashes).await)
}

fn open_payments(plan: &Plan, who: Who, tell: &Tell) -> Result<Payments, Failure> {
    let payments = Payments::start(Book::new(plan.clone(), tell.clone())).map_err(|error| {
        Failure::new(format!("the payment service cannot listen on 127.0.0.1: {error}")).hint(
            "the demo needs two free ports on this machine, for its server and its payment \
                 service",
        )
    })?;
    _ = tell.send(Event::Begins { who, book: Arc::clone(&payments.book) });
    Ok(payments)
}

/// Waits until every order is complete or held for a person.
async fn only_held_is_left(
    customers: &mut Customers,
    client: &Client,
    tell: &Tell,
) -> Result<(), Failure> {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            next = customers.next(tell) => if next.is_none() { return Ok(()) },
            _ = look.tick() => {
                let left = customers.left();
                // With more orders left than run at once, some of them cannot be held yet.
                if usize::try_from(left).is_ok_and(|left| left <= AT_ONCE) {
                    let held = person::held(client).await.map_err(|error| unseen(&error))?;
                    if u32::try_from(held.len()).is_ok_and(|held| held >= left) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// A person resolves each held order, until all orders are over.
async fn resolved(
    customers: &mut Customers,
    client: &Client,
    book: &Book,
    tell: &Tell,
) -> Result<Vec<HeldOrder>, Failure> {
    let mut all: Vec<HeldOrder> = Vec::new();
    while customers.left() > 0 {
        for effect in person::held(client).await.map_err(|error| unseen(&error))? {
            all.push(person::resolve(client, effect, book, tell).await?);
        }
        // A resolution takes a moment to be carried out.
        if timeout(LOOK, customers.next(tell)).await == Ok(None) {
            break;
        }
    }
    for held in &mut all {
        held.completed = customers.completed(held.order);
    }
    Ok(all)
}

/// How many executions of the workflow there are, however often each was asked for.
async fn executions(client: &Client) -> Result<u32, Error> {
    let mut pages = client.executions(&Filter::all().function(FUNCTION).latest_only())?.limit(500);
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        count += page.executions.len();
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn unseen(error: &Error) -> Failure {
    Failure::new(format!("the server does not respond: {error}"))
}
