//! The commands that speak to a server: the real binary against real server processes, with what
//! people are told when something is wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and make files")]

mod accepted;
mod access;
mod away;
mod contexts;
mod delivery;
mod held;
mod hold;
mod input;
pub(crate) mod kit;
mod ledger;
mod refused;
mod retention;
#[cfg(target_os = "linux")]
mod terminal;
mod work;
