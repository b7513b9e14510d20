//! An order in three steps. If one fails, or the order is cancelled, what was done is undone, in
//! reverse order.

use indelible_sdk::prelude::*;

/// What is ordered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Order {
    id: String,
    item: String,
    quantity: u32,
    cents: u64,
}

/// What there is to undo, in the order in which it was done.
#[derive(Debug)]
enum Done {
    Reserved(String),
    Charged(String),
    Shipped(String),
}

/// Reserves, charges and ships; returns the number of the parcel.
#[function]
fn order(order: Order) -> Result<String, Error> {
    let mut done = Vec::new();
    let shipped = steps(&order, &mut done);
    if let Err(error) = &shipped {
        warn!("undoing {} steps: {error}", done.len(); order = order.id);
        for step in done.iter().rev() {
            match step {
                Done::Reserved(reservation) => release::call(reservation).wait_through()?,
                Done::Charged(receipt) => refund::call(receipt).wait_through()?,
                Done::Shipped(parcel) => recall::call(parcel).wait_through()?,
            }
        }
    }
    shipped
}

fn steps(order: &Order, done: &mut Vec<Done>) -> Result<String, Error> {
    let reserving = reserve::call(&order.item, order.quantity);
    settle(&reserving, done, Done::Reserved)?;
    let charging = charge::call(&order.id, order.cents);
    settle(&charging, done, Done::Charged)?;
    let shipping = ship::call(order);
    settle(&shipping, done, Done::Shipped)
}

/// Waits for a step, and notes that it was done. If the order is cancelled meanwhile, the step
/// itself may still succeed: only waiting for it again tells whether there is something to undo.
fn settle(
    step: &Promise<String>,
    done: &mut Vec<Done>,
    as_done: fn(String) -> Done,
) -> Result<String, Error> {
    let first = step.wait();
    let settled = match &first {
        Err(Error::Cancelled(_)) => step.wait_through().ok(),
        other => other.clone().ok(),
    };
    done.extend(settled.map(as_done));
    first
}

/// Reserves items; there are a hundred of each.
#[function]
fn reserve(item: &str, quantity: u32) -> Result<String, Error> {
    if quantity > 100 {
        return Err(format!("only 100 of {item} are there").into());
    }
    Ok(format!("{quantity} of {item}"))
}

/// Gives a reservation back.
#[function(idem, retries = unbounded)]
fn release(reservation: &str) {
    info!("released"; reservation = reservation);
}

/// Charges the customer; the limit is 1,000.00.
#[function]
fn charge(order_id: &str, cents: u64) -> Result<String, Error> {
    if cents > 100_000 {
        return Err(format!("{cents} cents are above the limit").into());
    }
    Ok(format!("receipt {order_id}-{cents}"))
}

/// Gives the money back.
#[function(idem, retries = unbounded)]
fn refund(receipt: &str) {
    info!("refunded"; receipt = receipt);
}

/// Ships; glass is not taken.
#[function]
fn ship(order: &Order) -> Result<String, Error> {
    if order.item == "glass" {
        return Err("the carrier does not take glass".into());
    }
    Ok(format!("parcel {}", order.id))
}

/// Calls a parcel back.
#[function(idem, retries = unbounded)]
fn recall(parcel: &str) {
    info!("recalled"; parcel = parcel);
}

indelible_sdk::guest!(order, reserve, release, charge, refund, ship, recall);
