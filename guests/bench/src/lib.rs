//! What `indelible bench` calls.

use indelible_sdk::Payload;
use indelible_sdk::prelude::*;

/// Returns its input.
#[function]
fn echo(input: Payload) -> Payload {
    input
}

/// Calls `echo` so many times, one call after the other.
#[function]
fn steps(n: u32) -> Result<u32, Error> {
    for _ in 0..n {
        echo::call(Payload::raw(*b"step")).wait()?;
    }
    Ok(n)
}

indelible_sdk::guest!(echo, steps);
