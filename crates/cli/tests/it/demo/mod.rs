//! `indelible demo`, run as people run it: the real binary, which starts, kills and cleans up
//! processes of its own. What it claims is checked against what its payment service counted.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]
#![expect(clippy::disallowed_methods, reason = "tests look at folders, processes and clocks")]

mod arguments;
mod claims;
mod component;
mod endings;
mod house;
mod terminal;
