//! A real PostgreSQL of its own for tests and benchmarks, thrown away when they end.
//!
//! ```no_run
//! use indelible_postgres_fixture::{Cluster, Options, shared};
//!
//! # fn main() -> Result<(), indelible_postgres_fixture::Error> {
//! // One server for all tests of a process, a database for each.
//! let database = shared().create_database("orders");
//! let url = shared().url(&database);
//!
//! // A server that a test may stop, with settings of its own.
//! let cluster = Cluster::start(Options {
//!     settings: vec![("deadlock_timeout".to_owned(), "100ms".to_owned())],
//!     ..Options::default()
//! })?;
//! cluster.sql("postgres", "CREATE TABLE note (text text NOT NULL)")?;
//! cluster.restart_in_the_middle()?;
//! # Ok(())
//! # }
//! ```
//!
//! **What it needs.** The programs `initdb`, `postgres` and `psql` of one version in one folder: on
//! `PATH`, or in `/usr/lib/postgresql/*/bin`, where Debian has them and the newest is taken. Where
//! there are none, `cargo xtask setup` installs Debian's package `postgresql`. PostgreSQL does not
//! run as root: for root the server runs as `postgres`, or as the system's user without rights.
//!
//! **What a server is like.** It listens on a port of 127.0.0.1 and on a unix socket in its folder.
//! Clients connect as the superuser `postgres`; the port needs a password that is made for each
//! server. A superuser may run programs as the server's account, so port and socket are open to
//! this process only. Databases are UTF-8 and sort by code point, times are UTC. `fsync` is off, so
//! what is committed survives [`Cluster::crash`], but not a loss of power.
//!
//! **How it ends.** Dropping a [`Cluster`] stops the server and removes its folder. So does the end
//! of the process, whatever ends it, `kill -9` too: a supervisor, a child with a process group of
//! its own, waits on a pipe that the end of the process closes. It cleans up a moment after the
//! process has ended.

mod account;
mod cluster;
mod error;
mod options;
mod port;
mod programs;
mod psql;
mod supervisor;

use std::sync::OnceLock;

pub use cluster::Cluster;
pub use error::Error;
pub use options::Options;

/// Whether the programs of a server are there.
#[must_use]
pub fn is_installed() -> bool {
    programs::Programs::find().is_ok()
}

/// The one server of this process, with default options, started on first use. Tests that share it
/// take a database each ([`Cluster::create_database`]) and leave the server running: a test that
/// crashes a server starts its own.
///
/// # Panics
///
/// If the server does not start.
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| {
        Cluster::start(Options::default())
            .unwrap_or_else(|error| panic!("no PostgreSQL for this process: {error}"))
    })
}
