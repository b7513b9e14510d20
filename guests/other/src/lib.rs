//! A second component, for calls between components.

use indelible_sdk::prelude::*;

/// Greets by name.
#[function(idem)]
fn greet(name: &str) -> String {
    format!("hello, {name}")
}

/// Has an outcome, and it is an error.
#[function]
fn refuse(why: &str) -> Result<(), Error> {
    Err(why.into())
}

indelible_sdk::guest!(greet, refuse);
