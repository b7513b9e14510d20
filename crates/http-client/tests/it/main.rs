//! The client against real listeners: what leaves, what comes back, and what is never sent twice.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod closing;
mod cuts;
mod grants;
mod hostile;
mod http2;
mod idle;
mod paused;
mod plain;
mod proxies;
mod redirects;
mod secrets;
mod support;
mod time;
mod tls;
mod tls_peer;
