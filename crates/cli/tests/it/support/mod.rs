//! What tests of the binary share: servers as processes of their own, and terminals.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and wait for them")]

pub(crate) mod export;
pub(crate) mod process;
#[cfg(target_os = "linux")]
pub(crate) mod pty;
