//! The two acts: the orders with Indelible, and the same orders with a retry loop. Each act has its
//! own payment service with the same faults, and its program is killed at the same points.

use std::sync::Arc;
use std::time::Duration;

use indelible_client::{Client, Error, Filter};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::book::{Book, Count, Progress};
use super::customers::{self, COMPONENT, Customers, FUNCTION};
use super::event::{Event, EventSender, Program};
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
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The end of an act, as its payment service counted.
#[derive(Debug, Clone)]
pub(super) struct Act {
    pub(super) crashes: u32,
    pub(super) count: Count,
    pub(super) progress: Progress,
}

/// The end of the act with Indelible.
#[derive(Debug)]
pub(super) struct Durable {
    pub(super) act: Act,
    /// How many orders are complete, by the server's answers to the customers.
    pub(super) complete: u32,
    pub(super) executions: u32,
    pub(super) held: Vec<HeldOrder>,
}

impl Act {
    /// Waits until the payment service has no request under way, and takes its count: a request of
    /// a killed process may still be charged.
    async fn of(book: &Book, crashes: u32) -> Self {
        // An error means that the book can no longer change.
        _ = book.watch().wait_for(|now| now.in_flight == 0).await;
        Self { crashes, count: book.count(), progress: book.progress() }
    }
}

/// The first act: the orders with Indelible.
pub(super) async fn play_with_server(
    plan: &Plan,
    place: &DemoFolder,
    events: &EventSender,
) -> Result<Durable, Failure> {
    let payments = open_payments(plan, Program::Server, events)?;
    let book = &payments.book;
    _ = events.send(Event::Starting);
    let mut server = Server::start(place, payments.address).await?;
    let client = customers::client(&server.url)?;
    let deployed = client.deploy(COMPONENT, SHOP).await;
    deployed.map_err(|error| Failure::new(format!("cannot deploy the shop: {error}")))?;
    _ = events.send(Event::Up { program: Program::Server, process: server.process.id() });

    let (killed, kills_over) = oneshot::channel();
    let killing = async {
        let crashes = kills::carry_out(Program::Server, &mut server.process, book, events).await?;
        // The other future may have ended, and dropped the receiver.
        _ = killed.send(crashes);
        // A server does not end by itself.
        server.process.ended().await?;
        Err(Failure::new("the demo's server has stopped: another process must have stopped it"))
    };
    let working = async {
        let mut customers = Customers::start(plan, &client, &payments.url());
        wait_until_rest_is_held(&mut customers, &client, events).await?;
        let Ok(crashes) = kills_over.await else { return std::future::pending().await };
        let held = resolve_held(&mut customers, &client, book, events).await?;
        let executions = count_executions(&client).await.map_err(|error| no_response(&error))?;
        let (act, complete) = (Act::of(book, crashes).await, customers.count());
        Ok(Durable { act, complete, executions, held })
    };
    tokio::select! {
        durable = working => durable,
        failure = killing => failure,
    }
}

/// The second act: the same orders with a retry loop.
pub(super) async fn play_with_retry_loop(
    plan: &Plan,
    place: &DemoFolder,
    events: &EventSender,
) -> Result<Act, Failure> {
    let payments = open_payments(plan, Program::RetryLoop, events)?;
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
    _ = events.send(Event::Up { program: Program::RetryLoop, process: process.id() });
    let crashes =
        kills::carry_out(Program::RetryLoop, &mut process, &payments.book, events).await?;
    process.ended().await?;
    Ok(Act::of(&payments.book, crashes).await)
}

fn open_payments(plan: &Plan, program: Program, events: &EventSender) -> Result<Payments, Failure> {
    let payments = Payments::start(Book::new(plan.clone(), events.clone())).map_err(|error| {
        Failure::new(format!("the payment service cannot listen on 127.0.0.1: {error}")).hint(
            "the demo needs two free ports on this machine, for its server and its payment \
                 service",
        )
    })?;
    _ = events.send(Event::Begins { program, book: Arc::clone(&payments.book) });
    Ok(payments)
}

/// Waits until every order is complete or held for a person.
async fn wait_until_rest_is_held(
    customers: &mut Customers,
    client: &Client,
    events: &EventSender,
) -> Result<(), Failure> {
    let mut check = interval(CHECK_INTERVAL);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            next = customers.next(events) => if next.is_none() { return Ok(()) },
            _ = check.tick() => {
                let left = customers.left();
                // With more orders left than run at once, some of them cannot be held yet.
                if usize::try_from(left).is_ok_and(|left| left <= AT_ONCE) {
                    let held = person::held(client).await.map_err(|error| no_response(&error))?;
                    if u32::try_from(held.len()).is_ok_and(|held| held >= left) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Resolves each held order as a person would, until all orders have ended.
async fn resolve_held(
    customers: &mut Customers,
    client: &Client,
    book: &Book,
    events: &EventSender,
) -> Result<Vec<HeldOrder>, Failure> {
    let mut all: Vec<HeldOrder> = Vec::new();
    while customers.left() > 0 {
        for effect in person::held(client).await.map_err(|error| no_response(&error))? {
            all.push(person::resolve(client, effect, book, events).await?);
        }
        // The execution takes a moment to continue after a resolution.
        if timeout(CHECK_INTERVAL, customers.next(events)).await == Ok(None) {
            break;
        }
    }
    for held in &mut all {
        held.completed = customers.completed(held.order);
    }
    Ok(all)
}

/// How many executions of the order function there are: one for each order, however often the
/// customers asked.
async fn count_executions(client: &Client) -> Result<u32, Error> {
    let mut pages = client.executions(&Filter::all().function(FUNCTION).latest_only())?.limit(500);
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        count += page.executions.len();
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn no_response(error: &Error) -> Failure {
    Failure::new(format!("the server does not respond: {error}"))
}
