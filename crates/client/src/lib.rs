//! The typed client of an Indelible server.
//!
//! ```no_run
//! use indelible_client::{CallError, Client};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize)]
//! struct Order {
//!     id: String,
//!     cents: u64,
//! }
//!
//! #[derive(Deserialize)]
//! struct Receipt {
//!     number: String,
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("http://127.0.0.1:7070").namespace("eu").build()?;
//! let order = client.function::<Order, Receipt>("shop", "order");
//!
//! let input = Order { id: "A-7".into(), cents: 1250 };
//! match order.call(&input).idempotency_key("order A-7").await {
//!     Ok(receipt) => println!("{}", receipt.number),
//!     Err(CallError::Function(error)) => println!("it failed, for good: {error}"),
//!     Err(CallError::StillRunning(handle)) => println!("{} goes on", handle.execution_id()),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - **A lost answer never leads to a second execution** (V-69). Every call has a name: the caller's
//!   idempotency key or operation id, or an operation id that the client mints before the first
//!   attempt. Every attempt carries it and the same bytes.
//! - **Only safe requests are sent again** (V-3): those that have a name, and those that only read.
//!   They are repeated after a connection that failed or broke, a time-out, 408, 429, 502, 503,
//!   504, and problems that the server calls retryable; with growing waits, spread at random,
//!   `Retry-After` respected, all within [`Retries`]. A function's result or failure is final
//!   (V-31).
//! - **Outcomes that a program must tell apart are separate** (V-73): [`CallError`] has a variant
//!   each for failed, cancelled, Indeterminate, conflict, mismatch, expired, and an answer that
//!   never came.
//! - **Transactions of the ledger** are sent under a name in the same way. A [`Sequenced`] writer
//!   numbers them, and keeps the number in a file: none is applied twice and none is lost, also if the
//!   program itself crashes.
//! - **Messages to endpoints** are sent under a key in the same way. What the server answers once, a
//!   new secret, and what is decided once, a dead letter, is asked for once.
//! - **Everything is bounded**: answers, events, attempts, waits.
//! - **The token stays a secret**: it is in no error, in no `Debug`, follows no redirection, and is
//!   not sent over plain http to another machine unless the program insists.
//!
//! The guide is `docs/guides/client.md`. The crate knows the types of the wire
//! ([`api`]) and nothing of what is behind the server. It runs on tokio.

mod builder;
mod call;
mod client;
mod command;
mod connect;
mod delivery;
mod download;
mod error;
mod handle;
mod id;
mod ledger;
mod ledger_watch;
mod logs;
mod pages;
mod reply;
mod request;
mod retry;
mod send;
mod sequenced;
mod sse;
mod watch;

pub use builder::{ANSWER_BYTES_MAX, Builder, Timeouts};
pub use call::{Function, IfInFlight, Invocation, ToCall, ToStart};
pub use client::Client;
pub use command::{Command, IfBreaking};
pub use delivery::ToSend;
pub use download::{Backup, Export};
pub use error::{
    BuildError, CallError, Cause, Error, FunctionError, InFlight, Invalid, Lost, Malformed,
    StartError,
};
pub use handle::Handle;
pub use id::{Identity, NoOperationId, OperationId};
pub use indelible_api as api;
pub use ledger::{Ledger, Transaction};
pub use ledger_watch::LedgerWatch;
pub use logs::Logs;
pub use pages::{Filter, Page, Pages, UnresolvedFilter};
pub use reply::Reply;
pub use retry::{RETRY_AFTER_MAX, RETRY_HORIZON, Repeat, Retries};
pub use rustls::pki_types::CertificateDer;
#[doc(hidden)]
pub use sequenced::WriterStep;
pub use sequenced::{
    IfMissing, OpenSequenced, Operations, RunEnd, Sequenced, SequencedError, StateFileError,
    StopReason, StreamName, Unfinished,
};
pub use watch::{Event, Watch};

/// The guide's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/client.md")]
mod guide {}
