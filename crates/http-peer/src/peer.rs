//! `Peer`: a peer in this process.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::control::Until;
use crate::ledger::{Ledger, State};
use crate::server::{Port, Server};
use crate::{Arrival, Hold};

/// A peer on a thread of its own. Dropping it stops it: its port refuses connections, and open ones
/// are closed.
pub struct Peer {
    /// `None` while it is down.
    server: Mutex<Option<Server>>,
    port: Port,
    ledger: Arc<Ledger>,
}

impl Peer {
    /// Starts a peer on a free port of 127.0.0.1. It takes connections when this returns.
    ///
    /// # Panics
    ///
    /// If there is no free port, or no thread.
    pub fn start() -> Self {
        Self::start_on(0).unwrap_or_else(|error| panic!("no peer on 127.0.0.1: {error}"))
    }

    /// Starts a peer on this port of 127.0.0.1; 0: any that is free.
    pub fn start_on(port: u16) -> io::Result<Self> {
        let peer =
            Self { server: Mutex::default(), port: Port::take(port)?, ledger: Arc::default() };
        peer.up()?;
        Ok(peer)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Stops: connections are closed, arrivals under way end, and new connections are refused. The
    /// port and what the peer knows stay.
    pub fn down(&self) {
        drop(self.server().take());
    }

    /// Takes connections again, on the same port. Does nothing if the peer is up.
    pub fn up(&self) -> io::Result<()> {
        let mut server = self.server();
        if server.is_none() {
            *server = Some(Server::start(&self.port, self.ledger.clone())?);
        }
        Ok(())
    }

    /// The URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// All arrivals, in the order in which they were complete.
    pub fn log(&self) -> Vec<Arrival> {
        self.ledger.look(|state| state.log.clone())
    }

    /// How often a key has arrived.
    pub fn arrivals(&self, key: &str) -> usize {
        self.ledger.look(|state| state.tally(key).arrivals)
    }

    /// How often a key was processed.
    pub fn processed(&self, key: &str) -> usize {
        self.ledger.look(|state| state.tally(key).processed)
    }

    /// How many requests to `/fast` were answered.
    pub fn fast(&self) -> u64 {
        self.ledger.fast()
    }

    /// Waits until the predicate holds for the log. It is called again after each change.
    ///
    /// # Panics
    ///
    /// If it does not hold within a minute. The message has the log.
    pub fn wait_for(&self, mut until: impl FnMut(&[Arrival]) -> bool) {
        self.wait("the log to be so", |state| until(&state.log));
    }

    /// Waits until a key has arrived at least `count` times.
    ///
    /// # Panics
    ///
    /// As [`wait_for`](Self::wait_for) does.
    pub fn wait_for_arrivals(&self, key: &str, count: usize) {
        let until = Until::Arrivals(count, key.to_owned());
        self.wait(&format!("{count} arrivals of {key:?}"), |state| until.holds(state));
    }

    /// Waits until a key was processed at least `count` times.
    ///
    /// # Panics
    ///
    /// As [`wait_for`](Self::wait_for) does.
    pub fn wait_for_processed(&self, key: &str, count: usize) {
        let until = Until::Processed(count, key.to_owned());
        self.wait(&format!("{key:?} to be processed {count} times"), |state| until.holds(state));
    }

    /// Waits until at least `count` arrivals are held.
    ///
    /// # Panics
    ///
    /// As [`wait_for`](Self::wait_for) does.
    pub fn wait_for_held(&self, count: usize) {
        self.wait(&format!("{count} to be held"), |state| Until::Held(count).holds(state));
    }

    /// How many arrivals are held now.
    pub fn held(&self) -> usize {
        self.ledger.look(|state| state.held)
    }

    /// Holds every arrival at this point from now on, until [`release`](Self::release). Those that
    /// are held at the other point go on.
    pub fn hold(&self, hold: Hold) {
        self.ledger.hold(Some(hold));
    }

    /// Releases all arrivals that are held, and holds no more.
    pub fn release(&self) {
        self.ledger.hold(None);
    }

    /// Calls this for each arrival from now on, on the peer's thread: after it is in the log, and
    /// before it is processed. The peer does nothing else meanwhile. The callback may ask the peer
    /// anything, and must not wait for it. A panic in it closes the connection.
    pub fn on_arrival(&self, callback: impl Fn(&Arrival) + Send + Sync + 'static) {
        self.ledger.call(Arc::new(callback));
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        // The value is whole even after a panic.
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, what: &str, until: impl FnMut(&State) -> bool) {
        if let Err(log) = self.ledger.wait(until) {
            panic!("the peer waited in vain for {what}; its log: {log:#?}");
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("address", &self.address()).finish_non_exhaustive()
    }
}
