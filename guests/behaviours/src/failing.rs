//! Functions that fail, in every way.

use std::fmt;

use indelible_sdk::prelude::*;

/// Fails for good.
#[function]
pub fn fail(message: &str) -> Result<(), Error> {
    Err(message.into())
}

/// An error with a value.
#[derive(Debug, Serialize, Deserialize)]
pub struct Declined {
    /// What the bank said.
    pub code: u16,
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "declined with code {}", self.code)
    }
}

/// Fails with a value of its own.
#[function]
pub fn fail_typed(code: u16) -> Result<(), Declined> {
    Err(Declined { code })
}

/// Fails each time, as if it might pass: four attempts.
#[function(idem, retries = 3, backoff = "1ms..1ms")]
pub fn fail_transient(message: &str) -> Result<(), Error> {
    Err(Error::transient(message))
}

/// Fails as if it might pass until the attempt that it is given, and returns that.
#[function(idem, retries = unbounded, backoff = "1ms..4ms")]
pub fn flaky(succeeds_at: u32) -> Result<u32, Error> {
    let attempt = context().attempt;
    if attempt < succeeds_at {
        return Err(Error::transient(format!("attempt {attempt} of {succeeds_at}")));
    }
    Ok(attempt)
}

/// Panics.
#[function]
pub fn trap(message: &str) {
    panic!("{message}");
}

/// Panics in its first attempt, and returns the number of a later one.
#[function(idem, retries = 3, backoff = "1ms..1ms")]
pub fn panic_once() -> u32 {
    let attempt = context().attempt;
    assert!(attempt > 1, "the first attempt panics");
    attempt
}
