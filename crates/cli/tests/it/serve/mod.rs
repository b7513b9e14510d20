//! `indelible serve` as a process: started, called over HTTP, killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "tests start processes and wait for them")]

mod damage;
mod edges;
mod finding;
mod fixture;
mod folder;
mod ledger;
mod logs;
mod metrics;
mod readers;
mod smoke;
