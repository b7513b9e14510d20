//! Customers: each places an order, and soon places it again under the same key, because the answer
//! takes too long. They repeat their requests until they have an answer, even while the server is
//! down.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use indelible_client::{CallError, Client, Function, Retries, Timeouts};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::AT_ONCE;
use super::event::{Event, EventSender};
use super::plan::{Number, Order, Plan};
use crate::failure::Failure;

/// The name under which the shop is deployed.
pub(super) const COMPONENT: &str = "shop";
/// The function that customers call.
pub(super) const FUNCTION: &str = "order";

/// All customers, each in a task of its own.
pub(super) struct Customers {
    set: JoinSet<(Number, Result<(), String>)>,
    orders: u32,
    complete: BTreeSet<Number>,
    failed: BTreeSet<Number>,
}

/// A client that does not give up before the demo does.
pub(super) fn client(url: &str) -> Result<Client, Failure> {
    const PATIENCE: Duration = Duration::from_secs(3_600);
    let retries = Retries {
        total: PATIENCE,
        attempts_max: u32::MAX,
        delay_min: Duration::from_millis(20),
        delay_max: Duration::from_millis(200),
    };
    let timeouts = Timeouts { call: PATIENCE, ..Timeouts::default() };
    let client = Client::builder(url).retries(retries).timeouts(timeouts).build();
    client.map_err(|error| Failure::new(format!("cannot make a client: {error}")))
}

impl Customers {
    /// Starts the customers. Each comes at the time of the plan, and [`AT_ONCE`] of them order at
    /// the same time.
    pub(super) fn start(plan: &Plan, client: &Client, payments: &str) -> Self {
        let function = client.function::<Order, String>(COMPONENT, FUNCTION);
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut set = JoinSet::new();
        for number in plan.numbers() {
            let order = plan.order(number, payments);
            let (due, patience) = (plan.due(number), plan.patience(number));
            let (function, permits) = (function.clone(), Arc::clone(&permits));
            set.spawn(async move {
                sleep(due).await;
                let _permit = permits.acquire().await;
                (number, place_twice(&function, &order, patience).await)
            });
        }
        Self { set, orders: plan.orders, complete: BTreeSet::new(), failed: BTreeSet::new() }
    }

    /// Waits until another customer is done; `None` if all are.
    pub(super) async fn next(&mut self, events: &EventSender) -> Option<()> {
        let ended = self.set.join_next().await?;
        match ended {
            Ok((order, Ok(()))) => {
                self.complete.insert(order);
                _ = events.send(Event::Complete);
            }
            Ok((order, Err(why))) => {
                self.failed.insert(order);
                _ = events.send(Event::Failed { order, why });
            }
            // No task cancels another, so this one panicked; the missing order shows in the count.
            Err(_) => {}
        }
        Some(())
    }

    /// How many customers are not done yet.
    pub(super) fn left(&self) -> u32 {
        self.orders - count(&self.complete) - count(&self.failed)
    }

    pub(super) fn count(&self) -> u32 {
        count(&self.complete)
    }

    /// Whether this order is complete.
    pub(super) fn completed(&self, order: Number) -> bool {
        self.complete.contains(&order)
    }
}

fn count(orders: &BTreeSet<Number>) -> u32 {
    u32::try_from(orders.len()).expect("there are a thousand at most")
}

/// Places an order twice. Fails with the order's error, or if the two answers differ.
async fn place_twice(
    function: &Function<Order, String>,
    order: &Order,
    patience: Duration,
) -> Result<(), String> {
    let key = format!("{} of the demo", order.id);
    let first = function.call(order).idempotency_key(&key);
    let second = async {
        sleep(patience).await;
        function.call(order).idempotency_key(&key).await
    };
    let (first, second) = tokio::join!(first, second);
    let first = first.map_err(|error| with_causes(&error))?;
    let second = second.map_err(|error| with_causes(&error))?;
    if first == second {
        return Ok(());
    }
    Err(format!("one order has two outcomes: {first:?} and {second:?}"))
}

/// An error followed by its causes.
fn with_causes(error: &CallError<String>) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
