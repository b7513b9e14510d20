//! Indelible as programs meet it: an HTTP API over the engine.
//!
//! It knows the engine and the wire, and neither SQL nor wasmtime. Whatever an answer shows is
//! durable (D2), everything is bounded, and who did what is derived from the credential.
//!
//! - [`auth`]: who asks, and what they may. [`listen`]: connections, within bounds.
//! - [`routes`]: the paths, as one table. `dispatch`: from a request to its answer.
//! - `request`, `answer`, `wire`, `refusal`: what is read, what is said, and how the engine's words
//!   become the API's.
//! - `seal`: what callers carry and must not read. `metrics`: numbers. [`traces`]: what executions did,
//!   told to a collector. [`logs`]: what functions log, in files. [`options`]: bounds.

mod answer;
pub mod auth;
mod dispatch;
pub mod listen;
pub mod logs;
mod metrics;
pub mod options;
mod refusal;
mod request;
pub mod routes;
mod seal;
mod server;
mod state;
pub mod traces;
pub mod unresolved;
mod wire;

pub use self::options::Options;
pub use self::routes::ROUTES;
pub use self::server::{AccessPolicy, Config, ServeError, Server, Stopped};

/// The OpenAPI document, as the server shows it.
pub fn openapi() -> bytes::Bytes {
    routes::openapi::text()
}
