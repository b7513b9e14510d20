//! The stores against real databases: every test that can runs on PostgreSQL and on SQLite, each
//! with a clean table (I-24).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[macro_use]
mod support;

mod attempts;
mod bindings;
mod concurrency;
mod edges;
mod leases;
mod outcomes;
mod purge;
mod shape;
mod typed;
