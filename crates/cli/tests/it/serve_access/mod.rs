//! Who may do what, and what comes of hostile input, against a server process.
//!
//! - `table`: every credential against every path. `sessions`: people. `pages`: web pages.
//! - `hostile`: requests that mean harm. `crowd`: connections that do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and read their files")]
#![allow(clippy::print_stderr, reason = "what a server says belongs to a test's output")]

mod crowd;
mod hostile;
mod pages;
mod sessions;
mod support;
mod table;
