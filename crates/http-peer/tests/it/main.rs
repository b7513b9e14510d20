//! The peer, driven by a client that writes and reads bytes.
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod behaviours;
mod client;
mod counts;
mod endings;
mod fast;
mod garbage;
mod holds;
mod process;
