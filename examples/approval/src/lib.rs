//! A person decides, or the time runs out.

use indelible_sdk::prelude::*;

/// What an employee wants to spend.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Expense {
    who: String,
    cents: u64,
    /// For how long to wait for a decision.
    seconds: u64,
}

/// What the signal `decision` carries.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Decision {
    by: String,
    approved: bool,
}

/// Waits for the decision about an expense. Small ones need none.
#[function]
fn approve(expense: Expense) -> Result<String, Error> {
    if expense.cents < 5_000 {
        return Ok("approved: small enough".to_owned());
    }
    info!("waiting for a decision"; who = expense.who, cents = expense.cents);
    let time = Duration::from_secs(expense.seconds);
    match signal::<Decision>("decision").wait_for(time)? {
        Some(Decision { by, approved: true }) => Ok(format!("approved by {by}")),
        Some(Decision { by, .. }) => Ok(format!("refused by {by}")),
        None => Ok("refused: nobody decided in time".to_owned()),
    }
}

indelible_sdk::guest!(approve);
