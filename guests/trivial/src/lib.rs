//! The smallest guest: one function that returns its input.

use indelible_sdk::Payload;
use indelible_sdk::prelude::*;

/// Returns its input, whatever it is.
#[function]
fn echo(input: Payload) -> Payload {
    input
}

indelible_sdk::guest!(echo);
