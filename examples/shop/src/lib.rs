//! An order: stock is reserved, the card is charged, the parcel is shipped. The card is charged
//! once, whatever crashes and whichever answer gets lost. `indelible demo` runs it.

use indelible_sdk::http::{Question, Reconciled};
use indelible_sdk::prelude::*;

/// For how long "it was not charged" is not believed: the request may still be on its way. Short,
/// because a person watches the demo; a real shop takes a minute or more.
const SETTLE: Duration = Duration::from_secs(1);
/// The wait before the next question, at first and at most. A real shop: seconds, and minutes.
const FIRST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_millis(300);

/// What is ordered, and who takes the money.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Order {
    id: String,
    item: String,
    cents: u64,
    /// The payment service, as `https://payments.example.com`.
    payments: String,
}

/// What the payment service is asked for.
#[derive(Debug, Serialize, JsonSchema)]
struct Charge<'a> {
    order: &'a str,
    cents: u64,
}

/// Reserves, charges and ships; returns the number of the parcel.
#[function]
fn order(order: Order) -> Result<String, Error> {
    reserve::call(&order.item).wait()?;

    let charged = http::post(format!("{}/charges", order.payments))
        .json(&Charge { order: &order.id, cents: order.cents })
        .timeout(Duration::from_secs(10))
        .reconciler::<was_it_charged>() // asked first, if it is unknown whether it happened
        .settle(SETTLE)
        .hold_if_unknown() // and if that cannot say either, a person is
        .backoff(FIRST, MOST)
        .deadline(Duration::from_secs(600))
        .send()
        .wait()?;
    if !charged.is_success() {
        // `order-saga` shows how to give the stock back.
        return Err(format!("the card was refused: {}", charged.status).into());
    }
    info!("charged"; order = order.id, cents = order.cents);

    ship::call(&order.id).wait()
}

/// Whether a charge went through: the payment service can be asked by the key that it came with.
#[function]
fn was_it_charged(question: Question) -> Result<Reconciled, Error> {
    let Question { url, idempotency_key, .. } = question;
    let found = http::get(format!("{url}/{idempotency_key}")).retries(0).send().wait()?;
    Ok(match found.status {
        200 => Reconciled::Happened(found),
        404 => Reconciled::DidNotHappen,
        _ => Reconciled::NotKnownYet,
    })
}

/// Takes one from the shelf.
#[function]
fn reserve(item: &str) {
    info!("reserved"; item = item);
}

/// Hands the parcel over; returns its number.
#[function]
fn ship(order_id: &str) -> String {
    info!("shipped"; order = order_id);
    format!("parcel of {order_id}")
}

indelible_sdk::guest!(order, was_it_charged, reserve, ship);
