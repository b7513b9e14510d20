//! The middleware for axum and hyper: a service that gets `Idempotency-Key` runs its handler once
//! for each key.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use indelible_idempotency::ConsumerNamespace;
//! use indelible_idempotency::layer::{IdempotencyLayer, IdempotentTx, Scope};
//! use indelible_idempotency::store::{PostgresStoreFactory, Settings};
//! use sqlx::{PgPool, Postgres};
//!
//! /// The caller, as authenticated by an outer layer.
//! #[derive(Clone)]
//! struct User(String);
//!
//! async fn pay(Extension(tx): Extension<IdempotentTx<Postgres>>) -> Result<String, String> {
//!     let mut connection = tx.lock().await.map_err(|error| error.to_string())?;
//!     sqlx::query("INSERT INTO payment (cents) VALUES (100)")
//!         .execute(&mut *connection)
//!         .await
//!         .map_err(|_| "no".to_owned())?;
//!     Ok("paid".to_owned())
//! }
//!
//! # async fn router() -> Result<Router, Box<dyn std::error::Error>> {
//! let pool = PgPool::connect("postgres://localhost/shop").await?;
//! let day = Duration::from_secs(24 * 60 * 60);
//! let settings = Settings::new(ConsumerNamespace::new("payments")?, 2 * day, day)?;
//! let factory = PostgresStoreFactory::new(settings);
//! factory.check(&mut *pool.acquire().await?).await?;
//!
//! let scope = Scope::by(|parts| Some(parts.extensions.get::<User>()?.0.clone()));
//! let layer = IdempotencyLayer::new(pool, factory, scope).required();
//! let router = Router::new().route("/payments", post(pay)).layer(layer);
//! # Ok(router)
//! # }
//! ```
//!
//! # What a handler gets
//!
//! For a request with a key the layer opens a transaction, begins the request in it, and hands it to
//! the handler as [`IdempotentTx`], in the request's extensions. When the handler has returned, the
//! layer records the response in the same transaction and commits it.
//!
//! - A handler that does its work **in that transaction** does it exactly once: the work and the
//!   recorded response become durable together.
//! - What a handler does **elsewhere** (another connection, another service) is not undone with the
//!   transaction. Such a handler is run by one request at a time and not again once its response is
//!   recorded; after a crash in between it runs once more. For calls to others, mint a key from
//!   [`IdempotentTx::key`].
//!
//! # Which requests
//!
//! - `POST`, `PUT`, `PATCH` and `DELETE` with the header `Idempotency-Key`. Others pass untouched,
//!   without a transaction; without the header too, unless it is
//!   [required](IdempotencyLayer::required).
//! - The key is bare or a quoted string: `abc` and `"abc"` are one key. It is text in UTF-8, not
//!   blank, at most 255 characters, without control characters, and there once (see I-6).
//! - [`Scope`] says whose key it is. Put the layer inside of what authenticates.
//! - A repetition is the same request if method, path, query and body are the same. A body that says
//!   it is JSON, and is, is compared by its value; any other by its bytes and its content type. Other
//!   headers are not compared.
//! - The path is the one that the layer sees. Under axum's `nest` that is without the prefix: give
//!   the layer a namespace of its own there, or put it around the whole. The host is not compared:
//!   where it matters, it belongs into the scope.
//! - The body is read whole before the transaction is opened. Trailers are dropped.
//!
//! # Which responses
//!
//! [`Recording::by_status`] says what becomes of each, unless
//! [set otherwise](IdempotencyLayer::recording):
//!
//! | status | recorded | what the handler did |
//! |---|---|---|
//! | 2xx, 3xx | yes | kept |
//! | 4xx | yes | undone |
//! | 401, 403, 408, 409, 425, 429, 5xx | no: the key is fresh again | undone |
//!
//! Recorded are the status, the body, and the headers but for those of a connection, `date`,
//! `content-length` and `set-cookie`: a session that was opened for the first response is not handed
//! out again. The form is in `docs/formats/idempotency-response.md`. Trailers are dropped. Layers
//! that depend on the request, such as compression, belong outside of this one. A replay has the
//! header `idempotency-replayed: true`.
//!
//! A response that is recorded without effects is recorded in a second transaction. Where another
//! request with the key comes in between, that one counts, and this one is answered unrecorded.
//!
//! A handler that panics, a caller that goes away, and a time-out outside of the layer leave nothing:
//! the transaction rolls back, and the key is fresh. A statement that is running by then is waited
//! for first; until then the key is in flight.
//!
//! # What the layer itself answers
//!
//! A problem document (RFC 9457, `application/problem+json`), with the member `code`. Nothing of a
//! recorded request, of the database or of its errors is in it; those go to
//! [`on_error`](IdempotencyLayer::on_error).
//!
//! | status | `code` after `idempotency.` | |
//! |---|---|---|
//! | 400 | `key-required`, `key-invalid`, `request-unreadable` | |
//! | 403 | `scope-unknown` | the scope's function says none |
//! | 409 | `in-progress` | with `Retry-After` |
//! | 409 | `indeterminate` | begun by other code, in two transactions, and never ended (see C-34) |
//! | 413 | `request-too-large` | nothing was begun |
//! | 422 | `mismatch` | the key stands for another request (see I-12) |
//! | 500 | `recorded-failure` | other code has recorded an error under the key |
//! | 500 | `incompatible-state` | what is recorded is no response of a known version (see I-17) |
//! | 500 | `response-too-large`, `response-unreadable`, `transaction-held` | nothing is recorded, what the handler did is undone |
//! | 500 | `attempt-lost` | the handler ended the transaction itself |
//! | 500 | `internal` | the database refuses: the handler ignored an error in its transaction, or a constraint does not hold |
//! | 503 | `unavailable` | no connection, or too many collisions; nothing was done; with `Retry-After` |
//! | 503 | `outcome-unknown` | the answer to `COMMIT` was lost; with `Retry-After`: the same request finds out |
//!
//! A `begin` that collides with other transactions is tried again in a new one, three times in all.
//! A handler is never run twice for one request.
//!
//! # What to mind
//!
//! - **Connections.** A guarded request holds one of the pool's for as long as its handler runs. A
//!   handler that takes another one from the same pool can wait for ever for those that wait for it:
//!   use the handle, or two pools.
//! - **SQLite** has one writer. Guarded requests queue, for as long as the connections' busy time-out
//!   says, and are then refused with 503; a repetition waits for the first and gets its response.
//!   A handler that writes on another connection waits for its own request.
//! - **`COMMIT` by a statement of the handler's own** makes its work durable before the response is
//!   recorded. The work is still not done twice; after a crash in between, or a response that is not
//!   to be recorded, the key is `in-progress` and, when its lease is over, `indeterminate`. It is
//!   not looked for: that would cost every request a round trip. After a `ROLLBACK` the attempt is
//!   lost.
//! - **Guards** of the handle end with the handler. One that is alive when the handler has returned
//!   fails the request; its transaction rolls back when the guard goes.
//! - **Bodies given on.** The inner service gets [`GuardedBody`] as its request's body. axum's routes
//!   take any; a service that insists on one type needs the body mapped.
//! - **Expired records** are replayed until the service
//!   [purges](crate::store::RawIdempotencyStore::purge_expired) them (see I-19).

mod body;
mod config;
mod database;
mod encoded;
mod error;
mod flow;
mod header;
mod problem;
mod request;
mod response;
mod service;
mod tx;

pub use body::GuardedBody;
pub use config::{Recording, Scope, Whose};
pub use database::LayerDatabase;
pub use error::LayerError;
pub use header::KEY_HEADER;
pub use response::REPLAYED_HEADER;
pub use service::{IdempotencyLayer, IdempotencyService};
pub use tx::{Ended, IdempotentTx, IdempotentTxGuard};
