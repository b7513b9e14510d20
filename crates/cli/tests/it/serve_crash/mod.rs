//! `indelible serve` as a process that is killed, stopped and started again over the same folder:
//! what was answered and shown holds, and nothing happens twice.
//!
//! - `kit`: the server in its many lives, and callers who find it. `sse`: a reader of events.
//! - `duplicates`: keys. `operations`: operation ids. `commands`: keys of everything but calls.
//! - `shown`: nothing that was shown is taken back. `stop`: stop signals, and callers who go.
//! - `ledger`: vaults that many clients write to.
#![cfg(target_os = "linux")]
#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and wait for them")]

mod commands;
mod duplicates;
pub(crate) mod kit;
mod ledger;
mod operations;
mod shown;
mod sse;
mod stop;
