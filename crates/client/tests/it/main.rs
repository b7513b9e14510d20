//! The client against real listeners that drop, cut, refuse and stall, with every arrival counted.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod building;
mod commands;
mod delivery;
mod ledger;
mod outcomes;
mod reading;
mod refusals;
mod repeating;
mod secure;
mod sequenced;
mod support;
mod watching;
