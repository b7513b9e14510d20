//! What delivery promises, on the pure crate.
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod breaker;
mod delivery;
mod endpoint;
mod golden;
mod lane;
mod schedule;
mod signing;
mod support;
