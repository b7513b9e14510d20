//! Functions that are cancelled, and what they do about it.

use indelible_sdk::prelude::*;

use crate::note;
use crate::waiting::sleep_ms;

/// Waits for a sleeping call. When cancelled, it waits for the call again to learn how it ended,
/// notes that, and returns it.
#[function]
pub fn cleanup(milliseconds: u64) -> Result<String, Error> {
    let sleeping = sleep_ms::call(milliseconds);
    let reason = match sleeping.wait() {
        Ok(()) => return Ok("slept".to_owned()),
        Err(Error::Cancelled(reason)) => reason,
        Err(failed) => return Err(failed),
    };
    let ended = match sleeping.wait() {
        Ok(()) => "slept".to_owned(),
        Err(error) => error.to_string(),
    };
    let text = format!("cleaned up ({reason}): {ended}");
    note::call(&text).wait()
}

/// Sleeps for ever, whatever it is told.
#[function]
pub fn stubborn() {
    loop {
        _ = sleep(Duration::from_secs(1));
    }
}

/// Starts a sleeping call and returns without waiting for it.
#[function]
pub fn leaves_running(milliseconds: u64) -> String {
    _ = sleep_ms::call(milliseconds);
    "left".to_owned()
}
