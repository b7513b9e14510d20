//! The person who is asked about a held effect: looks into the payment service's book, and resolves
//! the effect.

use std::time::Duration;

use indelible_client::UnresolvedFilter;
use indelible_client::api::unresolved::{Resolution, Unresolved, UnresolvedState};
use indelible_client::{Client, Error};
use serde::{Serialize, Serializer};
use tokio::time::sleep;

use super::book::Book;
use super::event::{Event, EventSender};
use super::plan::{Number, Order};
use crate::failure::Failure;

/// The status with which the payment service answers a charge.
const CREATED: u16 = 201;

/// A person takes a moment, and the audience should see it.
const LOOKING_UP: Duration = Duration::from_millis(1_500);

/// An order that was held, and how it was resolved.
#[derive(Debug, Clone, Serialize)]
pub(super) struct HeldOrder {
    #[serde(serialize_with = "shown")]
    pub(super) order: Number,
    pub(super) promise: String,
    /// Why the outcome was unknown.
    pub(super) why: String,
    /// Whether the book says that the card was charged.
    pub(super) in_the_book: bool,
    /// The resolution: `happened` or `run-again`.
    pub(super) resolution: &'static str,
    pub(super) reason: &'static str,
    /// The command that a person would type.
    pub(super) command: String,
    /// Whether the order is complete in the end.
    pub(super) completed: bool,
}

fn shown<S: Serializer>(order: &Number, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(order)
}

/// The effects that are held for a person now.
pub(super) async fn held(client: &Client) -> Result<Vec<Unresolved>, Error> {
    let filter = UnresolvedFilter::open().state(UnresolvedState::Held);
    let mut pages = client.unresolved(&filter)?;
    let mut held = Vec::new();
    while let Some(page) = pages.next().await? {
        held.extend(page.unresolved);
    }
    Ok(held)
}

/// Looks an order up, and resolves its effect.
pub(super) async fn resolve(
    client: &Client,
    effect: Unresolved,
    book: &Book,
    events: &EventSender,
) -> Result<HeldOrder, Failure> {
    let order = ordered(client, &effect.execution_id).await?;
    _ = events.send(Event::Held { order });
    sleep(LOOKING_UP).await;
    let receipt = book.look_up(order);
    let (resolution, said, how, reason) = match &receipt {
        Some(receipt) => {
            let body = receipt.clone();
            let how = format!("happened --status {CREATED} --body '{receipt}'");
            let resolution = Resolution::Happened { status: CREATED, headers: Vec::new(), body };
            (resolution, "happened", how, "it is in their book")
        }
        None => {
            let how = "run-again".to_owned();
            (Resolution::RunAgain {}, "run-again", how, "it is not in their book")
        }
    };
    let resolved = client.resolve(&effect.promise_id, resolution, reason).await;
    resolved.map_err(|error| Failure::new(format!("{order} cannot be resolved: {error}")))?;
    book.resolved(order);
    _ = events.send(Event::Resolved { order, how: said });
    let Unresolved { promise_id: promise, why, .. } = effect;
    Ok(HeldOrder {
        order,
        command: format!("indelible resolve {promise} {how} --reason '{reason}'"),
        promise,
        why,
        in_the_book: receipt.is_some(),
        resolution: said,
        reason,
        completed: false,
    })
}

/// The order that an execution is about, from its input.
async fn ordered(client: &Client, execution: &str) -> Result<Number, Failure> {
    let unclear = |why: &dyn std::fmt::Display| {
        Failure::new(format!("cannot tell which order {execution} is about: {why}"))
    };
    let detail = client.execution(execution).await.map_err(|error| unclear(&error))?;
    let input = detail.input.ok_or_else(|| unclear(&"it has no input"))?;
    let order: Order = serde_json::from_str(input.get()).map_err(|error| unclear(&error))?;
    order.id.parse().map_err(|()| unclear(&order.id))
}
