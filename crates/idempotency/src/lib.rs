//! Idempotency keys inside a service's own database transaction, and stable keys for its calls to
//! other services.
//!
//! A service that may get a request twice *begins* it under the key that the caller sent, does its
//! work and *commits* the result, all in one transaction of its own database: the work and the
//! record of it become durable together or not at all. A repeated request finds the record and
//! gets the recorded answer. No server is involved.
//!
//! Three layers, each usable without the next:
//!
//! - **Pure**: [`ConsumerNamespace`], [`IdempotencyKey`] from [`parse_key`] or a [`KeyMinter`],
//!   [`Json`] with its canonical form, [`Request`], [`Outcome`], [`Reply`].
//! - **Stores** ([`store`]): `begin`, `commit`, `fail_permanent`, `fail_transient` on the caller's
//!   connection. Features `postgres` and `sqlite` bring clients for sqlx; implement
//!   [`store::Client`] for another one.
//! - **Middleware** (feature `tower`): a layer for axum and hyper.
//!
//! This library knows nothing of Indelible's engine.

mod canonical;
mod error;
mod json;
mod key;
#[cfg(feature = "tower")]
pub mod layer;
mod minter;
mod namespace;
mod outcome;
mod reply;
mod request;
pub mod store;
mod text;

pub use canonical::{canonical_utf8, canonicalize};
pub use error::{AppError, ReplayableError, StoredError};
pub use json::{Json, JsonError, Limits};
pub use key::{IdempotencyKey, KEY_CHARS_MAX, KeyError, parse_key};
pub use minter::{KeyMinter, MintError};
pub use namespace::{ConsumerNamespace, NAMESPACE_CHARS_MAX, NamespaceError};
pub use outcome::{Attempt, DecodeError, InFlight, Mismatch, Outcome, OwnerToken, OwnerTokenError};
pub use reply::Reply;
pub use request::{Request, RequestHash};

/// The README's programs, compiled with the documentation's own.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
