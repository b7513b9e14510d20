//! The middleware on a real listener, a real client and real databases. Most cases run on SQLite
//! and on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a case that goes wrong says where")]

mod bodies;
mod failures;
mod handle;
mod keys;
mod lost_commit;
mod outcomes;
mod races;
mod recording;
mod services;
mod support;
