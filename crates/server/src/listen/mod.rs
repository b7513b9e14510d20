//! Connections: accepted, secured, bounded in number, bytes and time, and ended in good order.
//!
//! It knows HTTP and sockets, and nothing of what is asked: requests go to a [`Service`], and a
//! connection that is to speak something else after one of them to an [`Upgrade`].
//!
//! - [`Server`]: takes connections until it is told to stop. [`Bounds`]: every limit, by name.
//! - [`body`]: reads the body of a request within bounds. [`Tls`]: who the server is.
//! - `connection`, `watch`, `wire`, `sent`, `linger`: one connection, what is under way on it and
//!   since when, its bytes, the body of an answer, and the end.

pub mod body;
mod bounds;
mod connection;
mod descriptors;
mod linger;
mod readings;
mod sent;
mod server;
mod service;
mod tls;
mod watch;
mod wire;

pub use self::bounds::{Bounds, BoundsError};
pub use self::readings::{Reading, Readings};
pub use self::server::{Server, Stopped};
pub use self::service::{Draining, Peer, Service, Upgrade};
pub use self::tls::{Tls, TlsError};
