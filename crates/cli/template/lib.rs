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

#[cfg(test)]
mod tests {
    use indelible_sdk::testing::TestHost;

    use super::*;

    #[test]
    fn an_order_is_charged() {
        let mut host = TestHost::new();
        let receipt = host.run(|| order::call("card 1", 500)).unwrap();
        assert_eq!(receipt, "card 1-500");
        assert_eq!(host.calls()[0].function, "charge");
    }

    #[test]
    fn an_order_is_stopped() {
        let half = Duration::from_secs(30);
        let mut host = TestHost::new().signal_after(half, "stop", "enough");
        let error = host.run(|| order::call("card 1", 500)).unwrap_err();
        assert_eq!(error.to_string(), "stopped after card 1-500: enough");
    }
}
