//! Connections over real sockets: both protocols, TLS, hostile peers, many of them, and the end.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]
#![allow(clippy::disallowed_methods, reason = "tests have children, files and a clock")]

mod bodies;
mod descriptors;
mod hostile;
mod idle;
mod lingering;
mod plain;
mod stalled;
mod stopping;
mod support;
mod tls;
mod upgraded;
