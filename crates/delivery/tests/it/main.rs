//! What delivery promises, on the pure crate.
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod breaker;
mod dead;
mod delivery;
mod endpoint;
mod envelope;
mod golden;
mod inbox;
mod lane;
mod oip;
mod schedule;
mod signing;
mod support;
