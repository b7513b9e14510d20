//! Sends HTTP effects over the network. A [`Client`] is an [`indelible_http::Sender`].
//!
//! - **One attempt is at most one request on the wire** (D5). A request is sent again only if not
//!   one byte of it had left. Redirections are followed for GET and HEAD alone.
//! - **How it ended is never guessed.** *Not sent* is proven: a lookup, a connection, a proxy's
//!   tunnel or a TLS handshake failed or took too long, a connection ended before anything was
//!   written, or HTTP/2 said that the stream was refused. *Answered* is a complete answer.
//!   Everything else is *unknown*.
//! - **Nothing is allowed by itself** (D11). [`Grants`] say where a component may send, also by
//!   address, and which secrets it may send there.
//! - **Secrets** are put in when a request leaves, and taken out of what comes back.
//!
//! No cookies, no caches, no compression, no client certificates.

mod addresses;
mod attempt;
mod client;
mod config;
mod connect;
mod exchange;
mod grants;
mod host_pattern;
mod message;
mod pool;
mod proxy;
mod redirect;
mod resolve;
mod secrets;
mod target;
mod tls;
mod wire;

pub use addresses::{Network, NetworkError};
pub use attempt::TIMEOUT_MAX;
pub use client::Client;
pub use config::{Bounds, Config, Roots, RootsError, StartError};
pub use grants::{Grant, Grants};
pub use host_pattern::{HostPattern, HostPatternError};
pub use message::REQUEST_HEADER_BYTES_MAX;
pub use proxy::{Proxies, Proxy, ProxyError, ProxyException};
pub use resolve::{AddressFuture, Resolve, SystemResolver};
pub use rustls::pki_types::CertificateDer;
pub use secrets::{REDACTED_BYTES_MIN, SECRET_BYTES_MAX, Secret, SecretError, SecretSource};
pub use target::URL_BYTES_MAX;
