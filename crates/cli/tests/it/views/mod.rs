//! Commands that look at a server, against a real one: what people see of executions that run, wait,
//! are held, failed, were cancelled or completed, in a pipe and on a terminal.
//!
//! - `kit`: a server with the project's guests, and the binary beside it. `filter`: what differs from
//!   run to run, taken out. `terminal`: a terminal, and what is on it.
//! - `show`, `waits`: one execution. `ps`, `tree`, `journal`: the others. `watch`: as it goes on.
#![cfg(target_os = "linux")]
#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and wait for them")]

mod filter;
mod journal;
mod kit;
mod ps;
mod show;
mod terminal;
mod tree;
mod waits;
mod watch;
