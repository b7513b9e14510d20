//! Durable functions: whatever crashes, what was begun is carried through.

use indelible_sdk::prelude::*;

/// Charges a card.
#[function]
fn charge(card: &str, cents: u64) -> Result<String, Error> {
    if cents > 100_000 {
        return Err("the limit is 1,000.00".into());
    }
    Ok(format!("{card}-{cents}"))
}

/// Takes an order: charges the card, and waits a minute for the signal `stop`.
#[function]
fn order(card: &str, cents: u64) -> Result<String, Error> {
    let receipt = charge::call(card, cents).wait()?;
    info!("charged"; receipt = receipt);
    match signal::<String>("stop").wait_for(Duration::from_secs(60))? {
        Some(reason) => Err(format!("stopped after {receipt}: {reason}").into()),
        None => Ok(receipt),
    }
}

indelible_sdk::guest!(charge, order);
