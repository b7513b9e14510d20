//! A PostgreSQL of a test's own: what it offers, and that it goes with the test.

mod cluster;
mod killed;
